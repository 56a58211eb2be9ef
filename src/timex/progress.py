"""A progress bar for trainings: members, epoch, best validation value, remaining time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from timex.engine import Progress


@contextmanager
def training_bar(label: str, show: bool = True) -> Iterator[Callable[[Progress], None]]:
    """A callback for `engine.train` that draws a bar on standard error while the block runs; a silent one if not `show`."""
    if not show:
        yield lambda report: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, state="starting", total=None)

        def update(report: Progress) -> None:
            who = "" if report.members == 1 else f"{report.active}/{report.members} members, "
            state = f"{who}epoch {report.epoch}/{report.epochs}, best {report.best:.4f}"
            bar.update(task, total=report.epochs, completed=report.epoch, state=state)

        yield update
