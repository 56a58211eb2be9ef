"""Cells on disk: one small file each, renamed into place, so that a killed run loses none.

A cell is one (data set, fold, architecture, method, measure) with all its settings; its file holds all its metrics. `rows`
gives one row per metric. `export` packs the cells into one file per data set, beside those exported before. A file that cannot
be read is reported and counts as not measured.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from timex.io.atomic import atomic_path

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

CONFIGS = "configs.json"
"""The settings of exported cells, by their hash."""
IDENTITY = ("dataset", "arch", "method", "arm", "measure", "fold")
NOTED = ("finished", "device", "torch", "timex")
"""What every cell and its facts hold; without one of them a file counts as damaged."""


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
    def model(self) -> str | None:
        """The model that was explained, equal for all cells that explain the same one; None if unknown.

        Its folder names the training recipe. On another machine the same recipe gives other weights, so their hash counts too.
        Cells without that hash count as explaining one model among themselves, and another than all other cells.
        """
        folder, weights = self.facts.get("reference"), self.facts.get("weights")
        return folder if weights is None else f"{folder}:{weights}"


def short_hash(value: Any) -> str:
    """First 10 hex digits of the SHA-256 of the value as JSON."""
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
        with atomic_path(self.folder / f"{safe_name(result.key)}.json") as beside:
            beside.write_text(json.dumps(_dump(result), indent=1) + "\n")

    def read(self, key: str) -> Result | None:
        """A cell by its key, or None if there is none that can be read."""
        path = self.folder / f"{key}.json"
        return _parsed(path.read_bytes(), str(path)) if path.is_file() else None

    def done(self, key: str) -> bool:
        """Whether the cell is finished; a failed one is not."""
        result = self.read(key)
        return result is not None and result.error is None

    def results(self) -> Iterator[Result]:
        """Every cell that can be read, in the order of their files."""
        for path in sorted(self.folder.glob("*.json")):
            if (result := _parsed(path.read_bytes(), str(path))) is not None:
                yield result
        configs = self._configs() if self.exported else {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                if (result := _parsed(line, f"{path}, line {number}")) is not None:
                    yield replace(result, facts={**result.facts, "config": configs.get(result.config_hash)})

    @property
    def exported(self) -> bool:
        """Whether the folder was written by `export`: it can be shown, but no run can continue in it."""
        return any(self.folder.glob("*.jsonl"))

    def export(self, folder: str | Path) -> list[Path]:
        """Pack the finished cells into a folder: one file of lines per data set, and every configuration once.

        Cells that the folder holds already stay, unless a cell of the same identity (data set, architecture, method, arm,
        measure, fold, seed) was finished later. So several runs can be exported into one folder, in any order.

        Args:
            folder: The folder to write. `timex bench show` reads it like a run directory, without models and figures.
        """
        if any((Path(folder) / "cells").glob("*.json")):
            raise ValueError(f"{folder} is a run directory, which would then hold every cell twice: export to another folder.")
        newest: dict[str, Result] = {}
        for result in (*Store(folder).results(), *self.results()):
            name = json.dumps(result.cell, sort_keys=True)
            if result.error is None and (name not in newest or result.facts["finished"] >= newest[name].facts["finished"]):
                newest[name] = result
        lines: dict[str, list[str]] = {}
        configs = {}
        for result in sorted(newest.values(), key=lambda r: r.key):
            facts = dict(result.facts)
            configs[result.config_hash] = _without_seed(facts.pop("config", None))
            slim = _dump(replace(result, facts=facts), digits=6)
            own = lines.setdefault(safe_name(result.cell["dataset"]), [])
            own.append(json.dumps(slim, separators=(",", ":")))
        texts = {Path(folder) / "cells" / f"{dataset}.jsonl": "\n".join(own) for dataset, own in lines.items()}
        texts[Path(folder) / CONFIGS] = json.dumps(configs, indent=1)
        for path, text in texts.items():
            with atomic_path(path) as beside:
                beside.write_text(text + "\n")
        return list(texts)

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

    def _configs(self) -> dict[str, Any]:
        path = self.folder.parent / CONFIGS
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s cannot be read, so the settings of its cells are unknown: %s", path, error)
            return {}


def safe_name(name: str) -> str:
    """The name of a file, or a `ValueError` for a path.

    >>> safe_name("../elsewhere")
    Traceback (most recent call last):
    ...
    ValueError: Expected a name that is no path, since a file is called by it, got '../elsewhere'.
    """
    if name in ("", ".", "..") or any(separator in name for separator in "/\\\0"):
        raise ValueError(f"Expected a name that is no path, since a file is called by it, got {name!r}.")
    return name


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


def _parsed(text: bytes, where: str) -> Result | None:
    """The cell in a text; None, with a warning that names the place, if there is no whole one."""
    try:
        content = json.loads(text)
        scores = {name: Score(_or_nan(v), int(n), _or_nan(squares)) for name, (v, n, squares) in content.pop("scores").items()}
        result = Result(**content, scores=scores)
        missing = [name for name in IDENTITY if name not in result.cell] + [name for name in NOTED if name not in result.facts]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s holds no cell that can be read, and counts as not measured: %s", where, error)
        return None
    return result


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
