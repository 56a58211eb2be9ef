"""From experiments to cells, and from cells to pieces of work: what is trained together, and what waits for what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from timex.bench.store import Store, reference_folder, short_hash
from timex.bench.tables import ARMS, REFERENCE, Experiment, Table
from timex.data import ORIGINS
from timex.method.config import PAPER, TimeXConfig
from timex.method.objective import structure_of
from timex.reference.forecaster import Forecaster
from timex.reference.train import TrainConfig, preset
from timex.registry import DATASETS, EXPLAINERS, REFERENCES, find
from timex.types import Dataset, Part

TIMEX = "timex"
SMOKE_SIZES = (96, 48, 16)
"""Samples of train, val and test that `smoke` keeps."""
SMOKE_EPOCHS = 2
SMOKE: dict[str, Any] = {
    "epochs": SMOKE_EPOCHS,
    "judged": "draw",  # fits this short fail, and would all be tried again
    "pretrain_epochs": 1,
    "permutations": 1,
    "draws": 1,
    "window": 2,
    "steps": 3,
    "n_steps": 5,
}
"""What `smoke` sets in the settings of an explainer that has such a field."""
EPOCHS = {
    "ecg": 3,
    "ecg_five": 3,
    "ecg_by_patient": 4,
    "epilepsy": 28,
    "epilepsy_by_recording": 30,
    "boiler": 8,
    "boiler_plain": 10,
}
"""Epochs of TimeX on larger data sets: about as many steps as the default takes on the 5,000 samples of a synthetic one."""
REFERENCE_EPOCHS = {"ecg": 8, "ecg_five": 8, "ecg_by_patient": 8}
"""Ceilings on the epochs of models where the paper's would take hours."""
REVISIONS: dict[str, int] = {
    "model/forecaster": 1,
    "measure/landmarks_clusters": 1,
    # finely sampled: what is new is that their explanations are blurred
    "explainer/timex/ecg": 1,
    "explainer/timex/ecg_five": 1,
    "explainer/timex/ecg_by_patient": 1,
    "explainer/timex/epilepsy": 1,
    "explainer/timex/epilepsy_by_recording": 1,
    "explainer/timex/pam": 1,
}
"""How often a name came to mean other values; 0 if not listed. Names are `data/NAME`, `model/ARCH`, `measure/NAME`,
`explainer/NAME`, and `explainer/NAME/DATA` for what changed on one data set alone.

Raise it by hand when a change of code changes what is measured under that name and no setting says so: cells of before then
count as those of another configuration, and are measured again.
"""
LATER = {"landmark_spread": 1.0, "resolution": None, "judged": "auto"}
"""Settings that came after cells had been measured, and at which value these stay as they are: there no part of a hash.

Where such a value means something new on some data sets, `REVISIONS` has those.
"""
TOGETHER = 10
"""Explainers fitted as one program at most: enough to fill a GPU, few enough to be done before a time limit."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is done with, beyond its tables."""

    folds: int = 5
    """Draws or splits of every data set, from 0."""
    seed: int = 0
    """Seed of weights, masks and data order; fold k trains with seed + k."""
    smoke: bool = False
    """Few samples and epochs: every step of the way in seconds, and figures that mean nothing."""
    preset: Literal["default", "paper"] = "default"
    """Settings of TimeX: the defaults for every data set, or the paper's tables."""

    def __post_init__(self) -> None:
        if self.folds < 1:
            raise ValueError(f"Expected at least one fold, got {self.folds}.")
        if self.preset not in ("default", "paper"):
            raise ValueError(f"Expected the preset default or paper, got {self.preset!r}.")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One experiment on one fold, with every setting that its values depend on."""

    experiment: Experiment
    fold: int
    seed: int
    smoke: bool
    reference: TrainConfig
    config: Any
    """Settings of the explainer, a dataclass, or None if it has none."""
    data: str | None = None
    """Digest of the files that real data was prepared from; None where it is not at hand, or drawn from the seed."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the cell is called in tables."""
        own = {"fold": self.fold, "seed": self.seed, "smoke": self.smoke}
        return {**asdict(self.experiment), **own}

    @property
    def model(self) -> dict[str, Any]:
        """What the model that is explained depends on, but for the fold."""
        e = self.experiment
        own = {"dataset": e.dataset, "arch": e.arch, "seed": self.seed, "smoke": self.smoke, "train": asdict(self.reference)}
        digest = {} if self.data is None else {"data": self.data}
        return {**own, **digest, **_revised(f"data/{e.dataset}", f"model/{e.arch}")}

    @property
    def settings(self) -> dict[str, Any]:
        """What the explainer depends on, but for the fold."""
        config = None
        if self.config is not None:
            config = {name: v for name, v in asdict(self.config).items() if name not in LATER or v != LATER[name]}
            config["seed"] = self.seed  # that of the fold follows from it
        method = self.experiment.method
        own = f"explainer/{method}"
        revised = _revised(own, f"{own}/{self.experiment.dataset}")
        return {"model": self.model, "method": method, "config": config, **revised}

    @cached_property
    def config_hash(self) -> str:
        """Equal for the folds of one arm, and for its measures while they are as they first were (`REVISIONS`)."""
        e = self.experiment
        return short_hash({**self.settings, "arm": e.arm, **_revised(f"measure/{e.measure}")})

    @cached_property
    def key(self) -> str:
        """The name of the cell's file."""
        e = self.experiment
        parts = [e.dataset, e.arch, e.method, *([e.arm] if e.arm else []), e.measure, f"f{self.fold}", self.config_hash]
        return "-".join(parts)

    @cached_property
    def reference_folder(self) -> str:
        """Where the model that is explained is kept, under the run directory."""
        return reference_folder(self.model, self.fold)

    @cached_property
    def explainer_folder(self) -> str | None:
        """Where the fitted TimeX is kept; arms that name the same settings share it. None for other explainers."""
        e = self.experiment
        if e.method != TIMEX:
            return None
        return f"explainers/{e.dataset}-{e.arch}-{e.method}-f{self.fold}-{short_hash(self.settings)}"

    @property
    def panel(self) -> str:
        """Where a figure's explanations are kept, under the run directory."""
        return f"panels/{self.key}.npz"


def cells_of(
    tables: Iterable[Table], settings: Settings, datasets: Sequence[str] = (), methods: Sequence[str] = ()
) -> list[Cell]:
    """Every experiment of some tables on every fold, once; with other data sets or methods if given, of names that exist."""
    cells: dict[str, Cell] = {}
    digest = cache(data_digest)  # of this call: data may be prepared anew before the next
    for table in tables:
        for e in table.experiments(datasets, methods):
            _check_names(e)
            for fold in range(min(settings.folds, table.folds or settings.folds)):
                cell = _cell(e, fold, settings, digest(e.dataset))
                cells.setdefault(cell.key, cell)
    return list(cells.values())


def _check_names(e: Experiment) -> None:
    """Refuse what nobody registered before any model is trained for it."""
    known: dict[str, Any] = {"ett": ORIGINS["ett"]} if e.arch == Forecaster.arch else DATASETS
    find(known, e.dataset, f"data set of a {e.arch}")
    if e.method != REFERENCE:
        find(EXPLAINERS, e.method, "explainer")


def data_digest(dataset: str) -> str | None:
    """The digest of the files that a real data set was prepared from; None for others, and where it is not prepared."""
    origin = getattr(DATASETS.get(dataset), "origin", ORIGINS.get(dataset))
    facts = None if origin is None else origin.facts()
    return None if facts is None else facts["digest"]


def _revised(*names: str) -> dict[str, int]:
    """The revisions of some names, those that have none left out: their hashes stay what they were before there were any."""
    return {f"revision of {name}": REVISIONS[name] for name in names if REVISIONS.get(name)}


def _cell(e: Experiment, fold: int, settings: Settings, data: str | None) -> Cell:
    reference = preset(e.dataset, e.arch)
    ceiling = REFERENCE_EPOCHS.get(e.dataset, reference.epochs)
    reference = replace(reference, seed=settings.seed, epochs=min(reference.epochs, ceiling))
    if settings.smoke:
        reference = replace(reference, epochs=SMOKE_EPOCHS, attempts=1)
    config = replace(_base(e.dataset, settings), **_swapped(e)) if e.method == TIMEX else _own_config(e)
    if config is not None:
        changed = {"seed": settings.seed + fold, **(SMOKE if settings.smoke else {})}
        config = replace(config, **{f.name: changed[f.name] for f in fields(config) if f.name in changed})
    if settings.preset == "paper" and e.method == TIMEX:
        e = replace(e, arm=f"paper_{e.arm}" if e.arm else "paper")
    own: dict[str, Any] = {"seed": settings.seed, "smoke": settings.smoke, "data": data}
    return Cell(experiment=e, fold=fold, reference=reference, config=config, **own)


def _own_config(e: Experiment) -> Any:
    """The default settings of another explainer, for those that have any (`config_class`)."""
    if e.arm not in ("", "absolute"):
        raise ValueError(f"Expected {e.method} alone or {e.method}:absolute, got {e.label}.")
    config_class: Any = getattr(EXPLAINERS.get(e.method), "config_class", type(None))  # the model itself is no explainer
    return config_class()


def _base(dataset: str, settings: Settings) -> TimeXConfig:
    if settings.preset == "default":
        default = TimeXConfig()
        return replace(default, epochs=min(default.epochs, EPOCHS.get(dataset, default.epochs)))
    if dataset not in PAPER:
        raise ValueError(
            f"The paper's settings of TimeX are known for {', '.join(PAPER)}, not for {dataset}: use the defaults."
        )
    return PAPER[dataset]


def _swapped(e: Experiment) -> dict[str, Any]:
    if e.arm and e.arm not in ARMS:
        raise ValueError(f"Unknown arm {e.arm!r} of TimeX; known: {', '.join(ARMS)}.")
    return ARMS[e.arm] if e.arm else {}


def shrunk(data: Dataset) -> Dataset:
    """A few samples of every part."""
    train, val, test = (few(part, n) for part, n in zip((data.train, data.val, data.test), SMOKE_SIZES, strict=True))
    return replace(data, train=train, val=val, test=test)


def few(part: Part, n: int) -> Part:
    """At most `n` samples of a part, the classes in turn: the parts of real data may be sorted by class."""
    turn = np.empty(len(part), dtype=np.int64)
    for c in np.unique(part.y):
        members = np.flatnonzero(part.y == c)
        turn[members] = np.arange(len(members))
    return part.take(np.sort(np.argsort(turn, kind="stable")[:n]))


# ------------------------------------------------------------------------------------------------------- pieces of work


@dataclass(frozen=True, kw_only=True)
class Task:
    """A piece of work that a process does in one go.

    Attributes:
        kind: Train the models of all folds, fit TimeX on all folds, or fit another explainer if need be, explain and score.
        cells: The cells it is for: all those that wait for a training, or one explainer on one fold.
        inputs: Folders it reads, under the run directory.
        outputs: Folders it writes there.
    """

    kind: Literal["reference", "fit", "measure"]
    cells: tuple[Cell, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is, for a line of progress."""
        e, n = self.cells[0].experiment, len(self.outputs)
        if self.kind == "reference":
            return f"{e.dataset}: train {n} {e.arch}{'s' if n > 1 else ''}"
        if self.kind == "fit":
            return f"{e.dataset}, {e.arch}: fit {n} TimeX"
        return f"{e.dataset}, {e.arch}, fold {self.cells[0].fold}: {e.method}{' (' + e.arm + ')' if e.arm else ''}"


def plan(cells: Sequence[Cell], root: Path) -> list[Task]:
    """What is left to do, in an order in which everything comes after what it needs.

    A data set is finished before the next; with models that cannot be stacked a fold is: a run cut off then has cells to show.
    """
    store = Store(root)
    pending = [cell for cell in cells if not store.done(cell.key)]
    tasks = []
    for group in _groups(pending, lambda c: (c.experiment.dataset, c.experiment.arch, None if _stackable(c) else c.fold)):
        missing = [c for c in group if not (root / c.reference_folder / "reference.json").is_file()]
        tasks += _programs("reference", missing, lambda c: c.reference_folder)
        fits = [c for c in group if c.explainer_folder and not (root / c.explainer_folder / "explainer.json").is_file()]
        for alike in _groups(fits, lambda c: structure_of(c.config)):
            tasks += _programs("fit", alike, lambda c: c.explainer_folder)
        for one in _groups(group, lambda c: (c.reference_folder, c.experiment.method, c.explainer_folder)):
            inputs = (one[0].reference_folder, *([one[0].explainer_folder] if one[0].explainer_folder else []))
            tasks.append(Task(kind="measure", cells=tuple(one), inputs=inputs))
    return tasks


def _programs(kind: Literal["reference", "fit"], cells: list[Cell], folder: Callable[[Cell], Any]) -> list[Task]:
    """Trainings in as few tasks as possible; models that cannot be stacked gain nothing by it, and are tasks of their own."""
    each = _groups(cells, folder)
    size = TOGETHER if cells and _stackable(cells[0]) else 1
    tasks = []
    for start in range(0, len(each), size):
        some = each[start : start + size]
        own = tuple(cell for one in some for cell in one)
        inputs = tuple(dict.fromkeys(c.reference_folder for c in own)) if kind == "fit" else ()
        tasks.append(Task(kind=kind, cells=own, inputs=inputs, outputs=tuple(folder(one[0]) for one in some)))
    return tasks


def _stackable(cell: Cell) -> bool:
    return getattr(REFERENCES.get(cell.experiment.arch), "stackable", False)


def _groups(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> list[list[Cell]]:
    """Cells of equal key together, groups in the order in which they first appear."""
    order: dict[Any, int] = {}
    for cell in cells:
        order.setdefault(key(cell), len(order))
    ordered = sorted(cells, key=lambda c: order[key(c)])
    return [list(group) for _, group in groupby(ordered, key=key)]
