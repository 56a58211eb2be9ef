"""Cells of a table taken together: means over folds with their errors, paired differences, and the paper's claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from timex.bench.cells import outdated
from timex.bench.experiments import CENTRE, CONTROLS, RESIDUAL, Claim, Experiment, Table, swaps
from timex.bench.measures import WITHOUT_FIRST
from timex.bench.names import method_name
from timex.bench.store import Result, Score
from timex.bench.tables import TABLES

LOWER_IS_BETTER = ("dtw", "fit_seconds", "explain_seconds", "mse", "change_kept")


@dataclass(frozen=True)
class Stat:
    """A metric over the folds.

    Attributes:
        folds: The score of every fold, by its number.
        models: The model explained on every fold, where it is known.
    """

    folds: Mapping[int, Score]
    models: Mapping[int, str | None] = field(default_factory=dict)

    @cached_property
    def mean(self) -> float:
        """The mean over the samples of all folds; where folds have one value each, over folds."""
        n = np.array([s.n for s in self.folds.values()], dtype=float)
        value = np.array([s.value for s in self.folds.values()])
        return float((n * value)[n > 0].sum() / n.sum()) if n.sum() else math.nan

    @cached_property
    def se_folds(self) -> float:
        """The standard error with every fold as one observation."""
        values = np.array([s.value for s in self.folds.values()])
        return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan

    @cached_property
    def se_pooled(self) -> float:
        """The standard error with the samples of all folds in one pool, as the paper has it."""
        n = sum(s.n for s in self.folds.values())
        if n <= len(self.folds):
            return math.nan
        squares = sum(s.sum_squares for s in self.folds.values())
        return math.sqrt(max(squares - n * self.mean**2, 0.0) / (n - 1) / n)


@dataclass(frozen=True)
class Difference:
    """A difference paired over folds: its mean, a 95 % interval and a p-value (Student's t), and how many folds there were."""

    mean: float
    low: float
    high: float
    p: float
    folds: int


def difference(a: Stat, b: Stat) -> Difference | None:
    """The mean of a - b over the folds in which both explain the same model; None with fewer than two.

    >>> stats = [Stat({k: Score(v) for k, v in enumerate(values)}) for values in ([3.0, 5.0], [1.0, 2.0])]
    >>> d = difference(*stats)
    >>> d.mean, round(d.low, 2), round(d.high, 2)
    (2.5, -3.85, 8.85)
    """
    from scipy import stats

    common = [k for k in a.folds if k in b.folds and a.models.get(k) == b.models.get(k)]
    gaps = np.array([a.folds[k].value - b.folds[k].value for k in common])
    n = len(gaps)
    if n < 2 or np.isnan(gaps).any():
        return None
    error = gaps.std(ddof=1) / math.sqrt(n)
    mean = float(gaps.mean())
    reach = float(stats.t.ppf(0.975, n - 1) * error)
    if error == 0:
        return Difference(mean, mean, mean, 0.0 if mean else 1.0, n)
    return Difference(mean, mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean / error), n - 1)), n)


SAME = 0.05
"""The largest difference of a score that a claim of no difference allows."""


def verdict(claim: Claim, d: Difference | None) -> str:
    """Whether our folds support a claim. A claim of no difference holds only if the interval lies within `SAME`."""
    if d is None:
        return "not measured"
    if claim.higher is None:
        return "holds" if max(-d.low, d.high) <= SAME else "contradicted" if d.low > 0 or d.high < 0 else "undecided"
    low, high = (d.low, d.high) if claim.higher else (-d.high, -d.low)
    return "holds" if low > 0 else "contradicted" if high < 0 else "undecided"


@dataclass(frozen=True)
class Row:
    """A method in a block: its metrics over folds, the paper's values, and its errors.

    Attributes:
        label: The method, or a group that a measure compares (landmark, kmeans, random).
        stats: Our metrics.
        paper: The paper's values, where it has any.
        fit_seconds: Mean seconds to fit.
        explain_seconds: Mean seconds to explain the samples of a fold.
        errors: Why folds failed, by fold.
        device: Where it was measured.
    """

    label: str
    stats: Mapping[str, Stat]
    paper: Mapping[str, float]
    fit_seconds: float = math.nan
    explain_seconds: float = math.nan
    errors: Mapping[int, str] = field(default_factory=dict)
    device: str = ""

    @property
    def control(self) -> bool:
        """Whether it sees no model."""
        return self.label in (*CONTROLS, CENTRE)


@dataclass(frozen=True)
class Block:
    """The part of a table on one data set and architecture.

    Attributes:
        title: Data set and architecture; the method, if a block has one; "smoke" for a smoke run.
        metrics: Columns.
        rows: One per method.
        claims: What the paper concludes, with our paired difference.
        weak: Folds whose model stayed under the gate.
        mixed: Folds in which the rows do not all explain the same model.
        missing: Methods of the table that were not measured.
        results: The cells behind it.
        residual: Whether the models have residuals around self-attention where the paper's have none.
    """

    title: str
    metrics: Sequence[str]
    rows: Sequence[Row]
    claims: Sequence[tuple[Claim, Difference | None]]
    weak: Sequence[int]
    mixed: Sequence[int]
    missing: Sequence[str]
    results: Sequence[Result]
    residual: bool = False

    @property
    def outdated(self) -> list[str]:
        """The labels of rows of which a cell was measured before its settings, recipes or code were changed."""
        old = {label_of(r) for r in self.results if r.error is None and outdated(r)}
        return [row.label for row in self.rows if row.label in old]

    def ranking(self, metric: str) -> list[str]:
        """The labels of explainers that have a value, the best first; none where there is only one. Controls do not compete."""
        ranked = [r for r in self.rows if not r.control and metric in r.stats and not math.isnan(r.stats[metric].mean)]
        sign = 1 if metric in LOWER_IS_BETTER else -1
        return [r.label for r in sorted(ranked, key=lambda r: sign * r.stats[metric].mean)] if len(ranked) > 1 else []

    def against_best(self, metric: str, own: str = "timex") -> tuple[str, Difference] | None:
        """The difference of an arm of TimeX and the best other explainer, with the latter's name; None if either is missing."""
        rows = {r.label: r for r in self.rows if metric in r.stats}
        others = [r for r in rows.values() if not r.control and not r.label.startswith("timex")]
        if own not in rows or not others or metric in LOWER_IS_BETTER:
            return None
        rival = max(others, key=lambda r: r.stats[metric].mean)
        d = difference(rows[own].stats[metric], rival.stats[metric])
        return None if d is None else (rival.label, d)


def blocks(
    table: Table,
    results: Iterable[Result],
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    every: bool = False,
) -> list[Block]:
    """The measured part of a table: one block per data set and architecture that has cells.

    A table that compares groups inside a measure (metrics written `landmark/nmi`) has a block per method.

    Args:
        table: The table.
        results: All cells of a store. Of several configurations of a method the newest counts; smoke runs count only where
            nothing else was measured.
        datasets: Data sets instead of the table's own.
        methods: Methods instead of the table's own, which are joined by methods of no table.
        every: All metrics of a cell instead of the table's.
    """
    measured = [r for r in results if r.cell["measure"] == table.measure]
    grouped = any("/" in metric for metric in table.metrics)
    found = []
    shown = [(dataset, arch) for dataset in datasets or table.datasets for arch in table.shown_archs(dataset)]
    for dataset, arch in shown:
        own = [r for r in measured if (r.cell["dataset"], r.cell["arch"]) == (dataset, arch)]
        smoke = all(r.cell.get("smoke") for r in own)
        here = _latest(r for r in own if smoke or not r.cell.get("smoke"))
        wanted = list(methods or [*table.labels(dataset), *_newcomers(table, here)])
        cells = {label: here[label] for label in wanted if label in here}
        if not methods and table.compares_arms and not any(swaps(label) for label in cells):
            continue  # TimeX and the controls were measured for another table
        missing = [label for label in wanted if label not in here]
        word = "smoke" if smoke else ""
        for labels in [[label] for label in cells] if grouped else [list(cells)]:
            name = method_name(labels[0]) if grouped else ""
            title = ", ".join(part for part in (dataset, arch, name) if part)
            some = {label: cells[label] for label in labels}
            found += _blocks(table, title, word, some, missing, every) if some else []
    return found


def _newcomers(table: Table, labels: Iterable[str]) -> list[str]:
    """Measured methods of no table: they join tables that compare methods."""
    if table.only_timex:
        return []
    known = {label for t in TABLES.values() for label in t.methods}
    return [label for label in labels if ":" not in label and label not in known]


def _latest(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The cells of every method, of one configuration: that of the newest finished cell, else that of the newest failure.

    Later failures of other configurations are added: they replace no value, but the reader should know of them.
    """
    groups: dict[str, dict[str, list[Result]]] = {}
    for r in results:
        groups.setdefault(label_of(r), {}).setdefault(r.config_hash, []).append(r)
    latest = {}
    for label, configs in groups.items():
        own = max(configs.values(), key=lambda rs: (_newest(r for r in rs if r.error is None), _newest(rs)))
        since = _newest(r for r in own if r.error is None) or _newest(own)
        others = [r for rs in configs.values() if rs is not own for r in rs]
        later = [r for r in others if r.error is not None and r.facts["finished"] > since]
        latest[label] = sorted(own, key=lambda r: r.cell["fold"]) + later
    return latest


def label_of(result: Result) -> str:
    """The method of a cell as tables write it: `ig`, `timex:paper`."""
    return f"{result.cell['method']}:{result.cell['arm']}" if result.cell["arm"] else result.cell["method"]


def _newest(results: Iterable[Result]) -> str:
    return max((r.facts["finished"] for r in results), default="")


def _blocks(
    table: Table, title: str, word: str, cells: Mapping[str, list[Result]], missing: Sequence[str], every: bool
) -> list[Block]:
    names = list(dict.fromkeys(name for rs in cells.values() for r in rs for name in r.scores))
    plain = [name for name in names if not name.startswith(WITHOUT_FIRST)]
    wanted = [n for n in plain if n != "agreement"] if every else list(table.metrics)
    variants = {"": ""} if len(plain) == len(names) else {"all classes": "", "without class 0": WITHOUT_FIRST}
    flat = [r for rs in cells.values() for r in rs]
    weak = sorted({r.cell["fold"] for r in flat if r.facts.get("reference_passed") is False})
    models: dict[int, set[str | None]] = {}
    for r in flat:
        if r.error is None:
            models.setdefault(r.cell["fold"], set()).add(r.model)
    mixed = sorted(fold for fold, own in models.items() if len(own) > 1)
    found = []
    for variant, prefix in variants.items():
        rows = [row for label, rs in cells.items() for row in _rows(table, label, rs, wanted, prefix)]
        stats = {label: _stats(rs, wanted, prefix) for label, rs in cells.items()}
        claims = [(c, _claimed(c, stats)) for c in table.claims if c.better[0] in cells or c.worse[0] in cells]
        metrics = list(dict.fromkeys(m.split("/")[-1] for m in wanted))
        whole = ", ".join(part for part in (title, variant, word) if part)
        residual = flat[0].cell["arch"].endswith(RESIDUAL) and not table.arch_of
        found.append(Block(whole, metrics, rows, claims, weak, mixed, missing, flat, residual))
    return found


def _claimed(claim: Claim, stats: Mapping[str, Mapping[str, Stat]]) -> Difference | None:
    sides = [stats.get(label, {}).get(metric) for label, metric in (claim.better, claim.worse)]
    return None if sides[0] is None or sides[1] is None else difference(sides[0], sides[1])


def _stats(results: Sequence[Result], metrics: Sequence[str], prefix: str) -> dict[str, Stat]:
    stats = {}
    for metric in metrics:
        own = {r.cell["fold"]: r for r in results if prefix + metric in r.scores}
        if own:
            folds = {fold: r.scores[prefix + metric] for fold, r in own.items()}
            stats[metric] = Stat(folds, {fold: r.model for fold, r in own.items()})
    return stats


def _rows(table: Table, label: str, results: Sequence[Result], metrics: Sequence[str], prefix: str) -> list[Row]:
    """One row, or one for each group inside the measure (metrics written `landmark/nmi`)."""
    method, _, arm = label.partition(":")
    cell = results[0].cell
    experiment = Experiment(dataset=cell["dataset"], arch=cell["arch"], method=method, arm=arm, measure=table.measure)
    stats = _stats(results, metrics, prefix)
    paper = {m: v for m in metrics if (v := table.paper(experiment, m)) is not None}
    errors = {r.cell["fold"]: r.error for r in results if r.error is not None}
    if not any("/" in m for m in metrics):
        seconds = (_mean(results, "fit_seconds"), _mean(results, "explain_seconds"))
        device = " and ".join(sorted({r.facts["device"] for r in results if r.error is None}))
        return [Row(label, stats, paper, *seconds, errors, device)]
    rows = []
    for name in dict.fromkeys(m.split("/")[0] for m in metrics):
        own = [m for m in metrics if m.startswith(f"{name}/")]
        inner = {m.split("/")[1]: stats[m] for m in own if m in stats}
        label = "random groups" if name == "random" else name  # not the control of that name
        rows.append(Row(label, inner, {m.split("/")[1]: paper[m] for m in own if m in paper}, errors=errors))
    return rows


def _mean(results: Sequence[Result], fact: str) -> float:
    values = [r.facts[fact] for r in results if r.facts.get(fact) is not None]
    return float(np.mean(values)) if values else math.nan
