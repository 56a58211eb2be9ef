"""Progress bars: on standard error if it is a terminal, as HTML in a notebook, and nowhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timex.engine import Progress


REDRAWN = 0.2
"""Seconds between two drawings of a bar in a notebook, at least."""


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
    """A function that updates a bar with elapsed and remaining time. It does nothing without a terminal or a notebook."""
    if show and in_notebook():
        with _notebook_bar(label) as update:
            yield update
        return
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


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _notebook_bar(label: str) -> Iterator[Callable[..., None]]:
    """A bar as HTML that replaces itself. It needs IPython alone; the bars of rich need ipywidgets as well."""
    from IPython.display import HTML, display

    started, fields = time.perf_counter(), {"total": None, "completed": 0, "state": "starting"}
    shown = display(HTML(bar_html(label, fields, 0.0)), display_id=True)
    last = started

    def update(**changes: Any) -> None:
        nonlocal last
        fields.update(changes)
        now = time.perf_counter()
        if now - last >= REDRAWN:
            last = now
            shown.update(HTML(bar_html(label, fields, now - started)))

    try:
        yield update
    finally:
        shown.update(HTML(bar_html(label, fields, time.perf_counter() - started)))


def bar_html(label: str, fields: Mapping[str, Any], seconds: float) -> str:
    """One bar: what is done, how far, the seconds it took, and an estimate of those left.

    >>> bar_html("fit", {"total": 4, "completed": 1, "state": "epoch 1/4"}, 2.0)
    "<div>fit <progress max='4' value='1'></progress> epoch 1/4 · 2 s, about 6 s left</div>"
    """
    total, done = fields["total"], fields["completed"]
    amount = f" max='{total}' value='{done}'" if total else ""
    left = f", about {seconds / done * (total - done):.0f} s left" if total and 0 < done < total else ""
    words = f"{escape(str(fields['state']))} · {seconds:.0f} s{left}"
    return f"<div>{escape(label)} <progress{amount}></progress> {words}</div>"
