"""From cells to tasks: what trains together, what waits for what, and what is there already."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from timex.bench.cells import Cell
from timex.bench.store import Store
from timex.method.explainer import TimeX
from timex.method.objective import structure_of
from timex.reference import load_reference
from timex.registry import REFERENCES

log = logging.getLogger(__name__)

TOGETHER = 10
"""Most explainers fitted as one program: enough to fill a GPU, few enough to finish before a time limit."""
SECONDS = "seconds.json"
"""File beside a fitted TimeX: its share of the seconds of the program that fitted it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A piece of work that one process does.

    Attributes:
        kind: Train the models of all folds, fit TimeX on all folds, or fit another explainer, explain and score.
        cells: All cells that wait for a training, or one explainer on one fold.
        inputs: Folders it reads, under the run directory.
        outputs: Folders it writes there.
    """

    kind: Literal["reference", "fit", "measure"]
    cells: tuple[Cell, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A line for the progress of a run."""
        e, n = self.cells[0].experiment, len(self.outputs)
        if self.kind == "reference":
            return f"{e.dataset}: train {n} {e.arch}{'s' if n > 1 else ''}"
        if self.kind == "fit":
            return f"{e.dataset}, {e.arch}: fit {n} TimeX"
        return f"{e.dataset}, {e.arch}, fold {self.cells[0].fold}: {e.method}{' (' + e.arm + ')' if e.arm else ''}"


def plan(cells: Sequence[Cell], root: Path) -> list[Task]:
    """What is left to do, everything after its inputs. A model or explainer that cannot be read is made again.

    Data sets come one after another, and so do the folds of models that cannot be stacked: a run that is cut short then has
    finished cells to show.
    """
    store = Store(root)
    pending = [cell for cell in cells if not store.done(cell.key)]
    tasks = []
    for group in _groups(pending, lambda c: (c.experiment.dataset, c.experiment.arch, None if _stackable(c) else c.fold)):
        folders = {c.reference_folder for c in group}
        broken = {folder for folder in folders if not _readable(root / folder, load_reference)}
        tasks += _programs("reference", [c for c in group if c.reference_folder in broken], lambda c: c.reference_folder)
        first = {c.explainer_folder: c for c in group if c.explainer_folder and c.reference_folder not in broken}
        whole = {None, *(folder for folder, c in first.items() if _fitted(c, root))}
        for alike in _groups([c for c in group if c.explainer_folder not in whole], lambda c: structure_of(c.config)):
            tasks += _programs("fit", alike, lambda c: c.explainer_folder)
        for one in _groups(group, lambda c: (c.reference_folder, c.experiment.method, c.explainer_folder)):
            inputs = (one[0].reference_folder, *([one[0].explainer_folder] if one[0].explainer_folder else []))
            tasks.append(Task(kind="measure", cells=tuple(one), inputs=inputs))
    return tasks


def _programs(kind: Literal["reference", "fit"], cells: list[Cell], folder: Callable[[Cell], Any]) -> list[Task]:
    """Trainings in as few tasks as possible; stacking does not help models that cannot be stacked, so each is a task."""
    each = _groups(cells, folder)
    size = TOGETHER if cells and _stackable(cells[0]) else 1
    tasks = []
    for start in range(0, len(each), size):
        some = each[start : start + size]
        own = tuple(cell for one in some for cell in one)
        inputs = tuple(dict.fromkeys(c.reference_folder for c in own)) if kind == "fit" else ()
        tasks.append(Task(kind=kind, cells=own, inputs=inputs, outputs=tuple(folder(one[0]) for one in some)))
    return tasks


def _fitted(cell: Cell, root: Path) -> bool:
    """Whether the cell's TimeX is there, can be read, and belongs to the model that is there."""

    def load(folder: Path) -> None:
        json.loads((folder / SECONDS).read_text())
        TimeX.load(folder, load_reference(root / cell.reference_folder), device="cpu")

    return _readable(root / str(cell.explainer_folder), load)


def _readable(folder: Path, load: Callable[[Path], Any]) -> bool:
    if not folder.is_dir():
        return False
    try:
        load(folder)
    except Exception as error:  # however it was damaged
        log.warning("%s cannot be read and is made again: %s", folder, error)
        return False
    return True


def _stackable(cell: Cell) -> bool:
    return getattr(REFERENCES.get(cell.experiment.arch), "stackable", False)


def _groups(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> list[list[Cell]]:
    """Cells of equal key together, groups in the order in which they first appear."""
    order: dict[Any, int] = {}
    for cell in cells:
        order.setdefault(key(cell), len(order))
    ordered = sorted(cells, key=lambda c: order[key(c)])
    return [list(group) for _, group in groupby(ordered, key=key)]
