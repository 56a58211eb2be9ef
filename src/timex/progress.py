"""Progress bars on standard error. Nothing is drawn if standard error is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timex.engine import Progress


@contextmanager
def training_bar(label: str, show: bool = True) -> Iterator[Callable[[Progress], None]]:
    """A callback for `engine.train` that draws a bar while the block runs: members, epoch, best validation value."""
    with _bar(label, show) as update:

        def report(progress: Progress) -> None:
            members = "" if progress.members == 1 else f"{progress.active}/{progress.members} members, "
            state = f"{members}epoch {progress.epoch}/{progress.epochs}, best {progress.best:.4f}"
            update(total=progress.epochs, completed=progress.epoch, state=state)

        yield report


@contextmanager
def counting_bar(label: str, total: int | None = None, show: bool = True) -> Iterator[Callable[[int], None]]:
    """A callback that takes how many of `total` are done. Without a total the bar only shows that work goes on."""
    with _bar(label, show) as update:
        update(total=total)
        yield lambda done: update(completed=done, state=f"{done:,}" if total is None else f"{done:,}/{total:,}")


@contextmanager
def _bar(label: str, show: bool) -> Iterator[Callable[..., None]]:
    """A function that updates a bar with elapsed and remaining time, or does nothing if there is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (show and console.is_terminal):
        yield lambda **_: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(label, state="starting", total=None)

        def update(**fields: Any) -> None:
            bar.update(task, **fields)

        yield update
