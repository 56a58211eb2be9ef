"""From tables to cells: one experiment on one fold, with every setting that its values depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from typing import Any

from timex.bench.experiments import Experiment, Table
from timex.bench.recipes import REFERENCE, TIMEX, explainer_config, reference_config
from timex.bench.store import Result, safe_name, short_hash
from timex.data import ORIGINS
from timex.reference.forecaster import Forecaster
from timex.reference.train import TrainConfig
from timex.registry import DATASETS, EXPLAINERS, REFERENCES, find
from timex.settings import Settings, setting

REVISIONS: dict[str, int] = {"objective/evidence": 3, "objective/paper": 1}
"""Revision of a component; raise it to invalidate cached results.

Names: data/NAME, model/ARCH, explainer/NAME, objective/NAME (of TimeX), measure/NAME.

Raise it when a change of code changes what is measured under that name and no setting shows it.
"""


@dataclass(frozen=True, kw_only=True)
class Grid(Settings):
    """What is run of every table."""

    folds: int = setting(5, "Draws or splits of every data set, from 0.", least=1)
    seed: int = setting(0, "Seed of weights, masks and data order; fold k trains with seed + k.")
    smoke: bool = setting(False, "Few samples and epochs: every step runs in seconds, and the scores mean nothing.")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One experiment on one fold.

    Attributes:
        experiment: What is measured.
        fold: On which draw or split.
        seed: The seed of the grid.
        smoke: Whether the data are cut to a few samples.
        reference: How the model is trained.
        config: Settings of the explainer, a dataclass, or None if it has none.
        data: Digest of the files that real data was prepared from; None for synthetic data, and where it is not prepared.
    """

    experiment: Experiment
    fold: int
    seed: int
    smoke: bool
    reference: TrainConfig
    config: Any
    data: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What names the cell in tables."""
        return {**asdict(self.experiment), "fold": self.fold, "seed": self.seed, "smoke": self.smoke}

    @property
    def model(self) -> dict[str, Any]:
        """What the model depends on, but for the fold."""
        e = self.experiment
        own = {"dataset": e.dataset, "arch": e.arch, "seed": self.seed, "smoke": self.smoke, "data": self.data}
        return {**own, "train": asdict(self.reference), **_revisions(f"data/{e.dataset}", f"model/{e.arch}")}

    @property
    def settings(self) -> dict[str, Any]:
        """What the explainer depends on, but for the fold."""
        config = None if self.config is None else {**asdict(self.config), "seed": self.seed}  # the fold's follows from it
        method, objective = self.experiment.method, getattr(self.config, "objective", None)
        revised = _revisions(f"explainer/{method}", f"objective/{objective}")
        return {"model": self.model, "method": method, "config": config, **revised}

    @cached_property
    def config_hash(self) -> str:
        """Cache key of an arm: equal for its folds, and for its measures as long as none was revised."""
        e = self.experiment
        return short_hash({**self.settings, "arm": e.arm, **_revisions(f"measure/{e.measure}")})

    @cached_property
    def key(self) -> str:
        """The name of the cell's file."""
        e = self.experiment
        parts = [e.dataset, e.arch, e.method, *([e.arm] if e.arm else []), e.measure, f"f{self.fold}", self.config_hash]
        return "-".join(parts)

    @cached_property
    def reference_folder(self) -> str:
        """Where the model is kept, under the run directory."""
        e = self.experiment
        return f"references/{e.dataset}-{e.arch}-f{self.fold}-{short_hash(self.model)}"

    @cached_property
    def explainer_folder(self) -> str | None:
        """Where a fitted TimeX is kept; arms with equal settings share it. None for other explainers."""
        e = self.experiment
        if e.method != TIMEX:
            return None
        return f"explainers/{e.dataset}-{e.arch}-{e.method}-f{self.fold}-{short_hash(self.settings)}"

    @property
    def panel(self) -> str:
        """Where a figure's explanations are kept, under the run directory."""
        return f"panels/{self.key}.npz"


def cells_of(
    tables: Iterable[Table],
    grid: Grid,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    archs: Sequence[str] = (),
) -> list[Cell]:
    """Every experiment of some tables on every fold, once, with other data sets, methods or architectures if given."""
    cells: dict[str, Cell] = {}
    digest = cache(data_digest)  # of this call: data may be prepared anew before the next
    for table in tables:
        for e in table.experiments(datasets, methods, archs):
            _check_names(e)
            for fold in range(min(grid.folds, table.folds or grid.folds)):
                cell = _cell(e, fold, grid, digest(e.dataset))
                cells.setdefault(cell.key, cell)
    return list(cells.values())


def data_digest(dataset: str) -> str | None:
    """The digest of the files that a real data set was prepared from; None for others, and where it is not prepared."""
    origin = getattr(DATASETS.get(dataset), "origin", ORIGINS.get(dataset))
    facts = None if origin is None else origin.facts()
    return None if facts is None else facts["digest"]


def _cell(e: Experiment, fold: int, grid: Grid, data: str | None) -> Cell:
    reference = reference_config(e.dataset, e.arch, grid.seed, grid.smoke)
    config = explainer_config(e.dataset, e.arch, e.method, e.arm, grid.seed + fold, grid.smoke)
    return Cell(experiment=e, fold=fold, seed=grid.seed, smoke=grid.smoke, reference=reference, config=config, data=data)


def outdated(result: Result) -> bool:
    """Whether settings, recipes or code of a measured cell were changed since; False where that is unknown.

    A run measures such a cell again. Cells without a seed, and those of plugins that are not loaded, are unknown.
    """
    cell = result.cell
    if "seed" not in cell:
        return False
    e = Experiment(**{f.name: cell[f.name] for f in fields(Experiment) if f.name in cell})
    try:
        now = _cell(e, cell["fold"], Grid(seed=cell["seed"], smoke=cell["smoke"]), result.facts.get("data"))
    except (KeyError, ValueError):
        return False
    return now.config_hash != result.config_hash


def _check_names(e: Experiment) -> None:
    """Refuse unknown names before any model is trained, and names of data sets that would leave the run directory."""
    forecasts = e.arch == Forecaster.arch
    datasets: dict[str, Any] = {"ett": ORIGINS["ett"]} if forecasts else DATASETS
    find(datasets, safe_name(e.dataset), f"data set of a {e.arch}")
    if not forecasts:
        find(REFERENCES, e.arch, "architecture")
    if e.method != REFERENCE:
        find(EXPLAINERS, e.method, "explainer")


def _revisions(*names: str) -> dict[str, int]:
    return {f"revision of {name}": REVISIONS[name] for name in names if name in REVISIONS}
