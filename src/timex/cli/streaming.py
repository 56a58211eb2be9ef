"""How `timex explain` goes through a source: chunk after chunk, here or on Ray, with parts to go on from after a stop."""

from __future__ import annotations

import glob
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timex.cli.resuming import INTERRUPTED, alone
from timex.io.atomic import clear_leftovers

if TYPE_CHECKING:
    from timex import Explanation, TimeX
    from timex.explainers.base import Explainer
    from timex.io.parts import Parts
    from timex.io.sources import Chunk
    from timex.scale.job import Job

log = logging.getLogger(__name__)

SUFFIX = ".parts"
"""Ends the name of the folder beside --out that holds the parts until all are there."""


def parts_of(out: Path | None) -> Parts | None:
    """The place of the parts: --out itself if it is a folder, else beside it; None if nothing is written in parts."""
    from timex.io.parts import Parts

    if out is None or out.suffix == ".npz":
        return None
    return Parts(out.absolute().parent / f"{out.name}{SUFFIX}" if out.suffix else out)


@contextmanager
def begun(out: Path | None, parts: Parts | None, facts: dict[str, Any], resume: bool) -> Iterator[None]:
    """Take up the parts of a stopped run of the same work, or start with none; meanwhile no other process writes to `out`."""
    from timex.io.parts import BEGUN

    if out is None:
        yield
        return
    written = (out if out.suffix else out / BEGUN).absolute()  # locked in the folder itself: its parent may be read-only
    with alone(written):
        clear_leftovers(written.parent, glob.escape(written.name))
        if parts is not None:
            _take_up(parts, facts, resume)
        yield


def _take_up(parts: Parts, facts: dict[str, Any], resume: bool) -> None:
    if resume:
        parts.clear_leftovers()
    else:
        if parts.done:
            log.warning("the %d parts in %s are replaced; --resume would have gone on from them", len(parts.done), parts.folder)
        parts.clear()
    parts.expect(facts)


def explainer_hash(folder: Path) -> str:
    """A hash of a saved explainer: its description holds one of its weights."""
    return hashlib.sha256((folder / "explainer.json").read_bytes()).hexdigest()


def opened(fit: Callable[[], TimeX], method: str, known: Callable[[], Any]) -> Explainer[Any]:
    """The explainer of a method: the fitted one, or another one of the same model, fitted to `known` if it needs a fit."""
    from timex.reference.student import without_student
    from timex.registry import EXPLAINERS

    fitted = fit()
    if method == fitted.name:
        return fitted
    other = EXPLAINERS[method](without_student(fitted.fitted.reference), device=fitted.device)
    return other.fit(known(), progress=False) if other.needs_fit else other


def results(
    job: Job, explainer: Explainer[Any], wanted: Callable[[Chunk], bool]
) -> Iterator[tuple[Chunk, Explanation | None, dict[str, int]]]:
    """Every chunk with its explanations and facts, in order. Parts that were there before are read only if they are wanted."""
    done = set() if job.parts is None else set(job.parts.done)
    fresh = job.explain(explainer, [chunk for chunk in job.source.chunks if chunk.number not in done])
    for chunk in job.source.chunks:
        if job.parts is not None and chunk.number in done:
            yield chunk, job.parts.read(chunk.number) if wanted(chunk) else None, job.parts.facts(chunk.number)
        else:
            yield chunk, *next(fresh)


def spread(job: Job, explainer: Explainer[Any], address: str | None) -> None:
    """Write the parts of a job on Ray."""
    from timex.progress import counting_bar
    from timex.scale.ray import explain_on_ray

    if explainer.needs_fit and explainer.name != "timex":
        raise ValueError(
            f"Expected timex or a method without a fit with --engine ray, got {explainer.name}: every actor would fit."
        )
    n = sum(chunk.samples for chunk in job.source.chunks)
    with counting_bar(f"explaining {n:,} series on Ray", total=n) as update, interruptible(job):
        explain_on_ray(job, address, progress=update)


def check_longest(job: Job, totals: Counter[str]) -> None:
    """Refuse series that are all shorter than those of the fit: padding each of them would hide a mistake."""
    if totals["longest"] < job.n_steps:
        raise ValueError(f"Expected series of {job.n_steps} steps as in fit, got {totals['longest']} in the longest of them.")


@contextmanager
def interruptible(job: Job) -> Iterator[None]:
    """Ctrl-C names what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if job.parts is None:
            log.warning("interrupted: nothing was written")
        else:
            kept = f"{len(job.parts.done)} of {len(job.source.chunks)} parts"
            log.warning("interrupted. Kept in %s: %s. Run the same command with --resume to go on", job.parts.folder, kept)
        raise typer.Exit(INTERRUPTED) from None
