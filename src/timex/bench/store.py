"""Finished cells on disk: one small file each, renamed into place, so that a killed run loses none and leaves no half one.

A cell is one (data set, fold, architecture, method, measure) with all its settings; its file holds every metric of it. `rows`
spreads them out, one row per metric; `export` packs them into one file per data set, which reads like the folder it came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from timex.types import atomic_path

if TYPE_CHECKING:
    import pandas as pd

CONFIGS = "configs.json"
"""The settings of exported cells, by their hash."""


@dataclass(frozen=True)
class Score:
    """The mean of a metric over the samples of a fold, with what is needed to pool folds.

    Attributes:
        value: The mean, or the value itself where there are no samples behind it.
        n: Samples it is the mean of; 1 for a plain value.
        sum_squares: The sum of their squares.
    """

    value: float
    n: int = 1
    sum_squares: float = float("nan")

    @classmethod
    def of(cls, samples: ArrayLike) -> Score:
        """The score of per-sample values; undefined (NaN) ones are left out.

        >>> Score.of([1.0, 3.0, float("nan")])
        Score(value=2.0, n=2, sum_squares=10.0)
        """
        values = np.asarray(samples, dtype=np.float64)
        values = values[~np.isnan(values)]
        return cls(float(values.mean()) if len(values) else float("nan"), len(values), float((values**2).sum()))


@dataclass(frozen=True, kw_only=True)
class Result:
    """What is kept of a cell.

    Attributes:
        cell: What was measured: data set, fold, architecture, method, arm, measure, seed, smoke.
        key: The cell's file name: readable, ends in a hash of all settings.
        config_hash: Hash of the settings that the folds and measures of one arm share.
        scores: The metrics; empty if it failed.
        detail: Anything a figure needs beyond them, small.
        error: Why it failed, or None.
        facts: Settings, versions, code, device, seconds, which model was explained and its own score.
    """

    cell: Mapping[str, Any]
    key: str
    config_hash: str
    scores: Mapping[str, Score] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> str | None:
        """The folder of the model that was explained; None if unknown."""
        if "reference" in self.facts or self.facts.get("config") is None:
            return self.facts.get("reference")
        # cells of before the folder was noted: their settings say it
        model = {name: self.cell[name] for name in ("dataset", "arch", "seed", "smoke")}
        return reference_folder({**model, "train": self.facts["config"]["reference"]}, self.cell["fold"])

    @property
    def model(self) -> str | None:
        """The model that was explained, equal for all that explain the same one; None if unknown.

        Its folder says how it was trained, not where: on another machine the same recipe ends in other weights. Cells of before
        weights were noted are taken to explain the same model as each other, and no other cell's.
        """
        weights = self.facts.get("weights")
        return self.reference if weights is None else f"{self.reference}:{weights}"


def reference_folder(model: Mapping[str, Any], fold: int) -> str:
    """Where a model lies in a run directory, by all that it depends on."""
    return f"references/{model['dataset']}-{model['arch']}-f{fold}-{short_hash(model)}"


def short_hash(value: Any) -> str:
    """Ten digits that are others for other values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:10]


class Store:
    """The cells in a run directory.

    Args:
        folder: The run directory; made when the first cell is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder) / "cells"

    def write(self, result: Result) -> None:
        """Keep a cell, at once and whole; a failed one never replaces a finished one."""
        if result.error is not None and self.done(result.key):
            return
        with atomic_path(self.folder / f"{result.key}.json") as beside:
            beside.write_text(json.dumps(_dump(result), indent=1) + "\n")

    def read(self, key: str) -> Result | None:
        """A cell by its key, or None if there is none."""
        path = self.folder / f"{key}.json"
        return _read(path) if path.is_file() else None

    def done(self, key: str) -> bool:
        """Whether the cell is finished; a failed one is not."""
        result = self.read(key)
        return result is not None and result.error is None

    def results(self) -> Iterator[Result]:
        """Every cell, in the order of their files."""
        for path in sorted(self.folder.glob("*.json")):
            yield _read(path)
        packed = sorted(self.folder.glob("*.jsonl"))
        configs = json.loads((self.folder.parent / CONFIGS).read_text()) if packed else {}
        for path in packed:
            for result in map(_parse, path.read_text().splitlines()):
                yield replace(result, facts={**result.facts, "config": configs.get(result.config_hash)})

    @property
    def exported(self) -> bool:
        """Whether the folder was written by `export`: it can be shown, but holds nothing to go on from."""
        return any(self.folder.glob("*.jsonl"))

    def export(self, folder: str | Path) -> list[Path]:
        """Pack the finished cells into a run directory of their own: a file of lines per data set, every configuration once.

        Args:
            folder: The directory to write; `timex bench show` reads it like the one it came from, models and figures apart. No
                run can go on in it.
        """
        if any((Path(folder) / "cells").glob("*.json")):
            raise ValueError(f"{folder} is a run directory, where every cell would then be twice: export to another folder.")
        lines: dict[str, list[str]] = {}
        configs = {}
        for result in (r for r in self.results() if r.error is None):
            facts = {**result.facts, "reference": result.reference}
            configs[result.config_hash] = _without_seed(facts.pop("config", None))
            slim = _dump(replace(result, facts=facts), digits=6)
            lines.setdefault(result.cell["dataset"], []).append(json.dumps(slim, separators=(",", ":")))
        written = []
        for dataset, own in lines.items():
            written.append(Path(folder) / "cells" / f"{dataset}.jsonl")
            with atomic_path(written[-1]) as beside:
                beside.write_text("\n".join(own) + "\n")
        written.append(Path(folder) / CONFIGS)
        with atomic_path(written[-1]) as beside:
            beside.write_text(json.dumps(configs, indent=1) + "\n")
        return written

    def rows(self) -> pd.DataFrame:
        """One row per data set, fold, architecture, method, arm and metric, with settings' hash, versions, seconds, device."""
        import pandas as pd

        rows = []
        for r in self.results():
            shared = {**r.cell, "config_hash": r.config_hash, "error": r.error}
            shared |= {k: v for k, v in r.facts.items() if not isinstance(v, Mapping)}
            for name, score in r.scores.items() or {None: Score(float("nan"), 0)}.items():
                rows.append({**shared, "metric": name, **vars(score)})
        return pd.DataFrame(rows)


def _without_seed(config: dict[str, Any] | None) -> dict[str, Any] | None:
    """The settings that the folds share: an explainer's seed is that of the cell plus its fold."""
    if config is None or not config.get("explainer"):
        return config
    return {**config, "explainer": {name: v for name, v in config["explainer"].items() if name != "seed"}}


def _dump(result: Result, digits: int = 17) -> dict[str, Any]:
    """A result as JSON has it: NaN and infinity are none of its numbers."""

    def number(value: float) -> float | None:
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None

    scores = {name: [number(s.value), s.n, number(s.sum_squares)] for name, s in result.scores.items()}
    facts = {name: number(v) if isinstance(v, float) else v for name, v in result.facts.items()}
    return {**vars(result), "scores": scores, "facts": facts}


def _read(path: Path) -> Result:
    return _parse(path.read_text())


def _parse(text: str) -> Result:
    content = json.loads(text)
    scores = {name: Score(_or_nan(value), n, _or_nan(squares)) for name, (value, n, squares) in content.pop("scores").items()}
    return Result(**content, scores=scores)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
