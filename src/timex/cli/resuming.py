"""Checkpoints beside `--out`, and what Ctrl-C does to a training."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timex.cli.files import check_folder

if TYPE_CHECKING:
    from timex.engine import Checkpoint

try:
    import fcntl
except ImportError:  # Windows: two writers at the same time are not kept apart there
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

SUFFIX = ".checkpoint"
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as in a shell."""

Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints that a stopped run left beside --out.")]
KeepPartial = Annotated[
    bool, typer.Option("--keep-partial", help="Let Ctrl-C end the training early and keep the best epoch so far.")
]


@contextmanager
def checkpoint_of(out: Path, resume: bool, keep_partial: bool) -> Iterator[Checkpoint]:
    """The checkpoint beside an output folder, removed after the block unless the training was cut short.

    Ctrl-C leaves the checkpoints and names the option that goes on from them. With `keep_partial` it ends the training instead,
    and the block goes on with the best epoch so far; a second Ctrl-C ends the command.
    """
    absolute = out.absolute()
    folder = absolute.parent / f"{absolute.name}{SUFFIX}"
    check_folder(folder)
    with alone(folder), _checkpoint_in(folder, resume, keep_partial) as checkpoint:
        yield checkpoint


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Refuse to begin while another process writes to the same place. The lock ends with the process, also a killed one."""
    if fcntl is None or os.environ.get("RANK", "0") != "0":  # of the processes of one training, the first one writes
        yield
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    path = place.parent / f".{place.name}.lock"
    handle = _locked(path, place)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _locked(path: Path, place: Path) -> int:
    """An open handle of the file `path`, locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle, place)
            if _is_at(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the process before removed the file after it was opened here


def _lock(handle: int, place: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"Another process is writing {place}: wait until it ends, or choose another --out.") from None
    except OSError as error:  # some network file systems have no locks
        log.debug("no lock for %s: %s", place, error)


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def _checkpoint_in(folder: Path, resume: bool, keep_partial: bool) -> Iterator[Checkpoint]:
    """The checkpoint in a folder that no other process writes."""
    from timex.engine import Checkpoint

    interrupted = threading.Event()
    checkpoint = Checkpoint(folder, stop=interrupted.is_set)
    if not resume:
        if checkpoint.holds:
            log.warning("the checkpoints in %s are replaced; --resume would have gone on from them", folder)
        checkpoint.clear()
    try:
        with _first_interrupt(interrupted) if keep_partial else nullcontext():
            yield checkpoint
    except KeyboardInterrupt:
        held = ", ".join(checkpoint.holds) or "nothing yet"
        log.warning("interrupted. Kept in %s: %s. Run the same command with --resume to go on", folder, held)
        raise typer.Exit(INTERRUPTED) from None
    except Exception:
        if not checkpoint.holds:
            checkpoint.clear()
        raise
    if interrupted.is_set():
        log.warning("the training was cut short: the same command with --resume goes on with it from %s", folder)
    else:
        checkpoint.clear()


@contextmanager
def shared_checkpoint_of(out: Path, resume: bool, keep_partial: bool) -> Iterator[tuple[Checkpoint, bool]]:
    """As `checkpoint_of`, and whether this is the process that writes: the first of those that `torchrun` started.

    The first process takes up the checkpoints before the others read them, and all leave together.
    """
    from timex.engine import own_part, wait

    part = own_part()
    first = part.rank == 0
    if part.size > 1 and keep_partial:
        raise ValueError("Expected no --keep-partial under torchrun: only one of the processes would stop.")
    if not first:
        logging.getLogger().setLevel(logging.ERROR)  # the first one says it
        wait()
    with checkpoint_of(out, resume or not first, keep_partial) as checkpoint:
        if first:
            wait()
        yield checkpoint, first
        wait()


@contextmanager
def _first_interrupt(interrupted: threading.Event) -> Iterator[None]:
    """The first Ctrl-C sets the event; the next one interrupts as usual."""

    def handle(number: int, frame: Any) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)
        log.warning("stopping: the best epoch so far will be kept. Ctrl-C again ends the command at once")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
