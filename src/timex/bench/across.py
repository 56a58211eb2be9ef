"""Means over a group of data sets, and on how many of them one method is above another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from timex.bench.experiments import Table
from timex.bench.recipes import TIMEX
from timex.bench.summary import Block, Row

RIVAL = "gradients"
"""The method that TimeX is compared with, set by set."""


@dataclass(frozen=True)
class Mean:
    """A method over the data sets on which it was measured.

    Attributes:
        label: The method.
        sets: Number of data sets.
        values: Mean of every metric.
        fit_seconds: Mean seconds to fit.
        explain_seconds: Mean seconds to explain.
    """

    label: str
    sets: int
    values: Mapping[str, float]
    fit_seconds: float
    explain_seconds: float


@dataclass(frozen=True)
class Comparison:
    """TimeX and `RIVAL`, set by set, on the sets that have both.

    Attributes:
        metric: What is compared.
        difference: Mean of TimeX less the rival.
        ahead: Number of sets on which TimeX is above.
        sets: Number of sets.
        ratio: The smallest quotient; NaN if the rival is not positive on some set.
        where: The block of the smallest quotient.
    """

    metric: str
    difference: float
    ahead: int
    sets: int
    ratio: float
    where: str


@dataclass(frozen=True)
class Group:
    """A group of data sets: means by method, and TimeX beside `RIVAL`."""

    title: str
    metrics: Sequence[str]
    rows: Sequence[Mean]
    comparisons: Sequence[Comparison]


def across(table: Table, blocks: Sequence[Block]) -> Iterator[Group]:
    """The groups of a table that have measured sets."""
    for title, datasets in table.groups.items():
        own = [b for b in blocks if b.results[0].cell["dataset"] in datasets]
        if own:
            rows = [row for label in table.methods if (row := _mean(label, own, table.metrics)) is not None]
            compared = [c for metric in table.metrics if (c := _compared(metric, own)) is not None]
            yield Group(f"{title}, {len(own)} of {len(datasets)} sets", table.metrics, rows, compared)


def _mean(label: str, blocks: Sequence[Block], metrics: Sequence[str]) -> Mean | None:
    rows = [row for block in blocks for row in block.rows if row.label == label and row.stats]
    if not rows:
        return None
    values = {m: _average([row.stats[m].mean for row in rows if m in row.stats]) for m in metrics}
    seconds = (_average([r.fit_seconds for r in rows]), _average([r.explain_seconds for r in rows]))
    return Mean(label, len(rows), values, *seconds)


def _compared(metric: str, blocks: Sequence[Block]) -> Comparison | None:
    pairs = {}
    for block in blocks:
        rows: dict[str, Row] = {row.label: row for row in block.rows if metric in row.stats}
        if TIMEX in rows and RIVAL in rows:
            pairs[block.title] = (rows[TIMEX].stats[metric].mean, rows[RIVAL].stats[metric].mean)
    if not pairs:
        return None
    positive = all(rival > 0 for _, rival in pairs.values())
    ratios = {title: own / rival if positive else math.nan for title, (own, rival) in pairs.items()}
    least = min(ratios, key=lambda title: ratios[title])
    ahead = sum(own > rival for own, rival in pairs.values())
    return Comparison(metric, _average([a - b for a, b in pairs.values()]), ahead, len(pairs), ratios[least], least)


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
