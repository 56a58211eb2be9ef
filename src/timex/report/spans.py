"""Explanations in words: the stretches of time that matter most, channel by channel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.report.geometry import drawn_steps
from timex.types import Explanation

TOP = 0.9
"""Quantile of the attribution that stands in for the mask of methods that have none."""


class Span(NamedTuple):
    """A run of important steps of one channel, with the times of its first and last and its total attribution."""

    channel: str
    start: float
    end: float
    weight: float

    def __str__(self) -> str:
        """As a person would say it.

        >>> print(Span("hr", 41.0, 57.0, 9.5))
        t = 41 to 57, hr
        """
        when = f"{self.start:g}" if self.start == self.end else f"{self.start:g} to {self.end:g}"
        return f"t = {when}, {self.channel}"


def important_spans(explanation: Explanation, i: int, n: int = 3) -> list[Span]:
    """The `n` heaviest runs of cells that sample `i`'s mask keeps.

    Where a method has no mask, or keeps nothing, the strongest tenth of the cells takes its place.

    Args:
        explanation: Explanations of N samples.
        i: Which of them.
        n: How many runs at most.

    Returns:
        Runs by falling total |attribution|; none if all cells are alike.
    """
    t, d = explanation.x.shape[1:]
    times = np.arange(1.0, t + 1) if explanation.times is None else explanation.times[i].astype(np.float64)
    seen = np.ones((t, d), dtype=bool) if explanation.observed is None else explanation.observed[i]
    steps = drawn_steps(times, seen)
    times, seen = times[steps], seen[steps]
    weight = np.where(seen, np.abs(explanation.attribution[i][steps]), 0.0)  # (S, D)
    kept = np.zeros_like(seen) if explanation.mask is None else explanation.mask[i][steps] & seen
    if not kept.any():
        kept = _strongest(weight, seen)
    names = explanation.channels or tuple(f"channel {k}" for k in range(d))
    found = []
    for k in range(d):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], kept[:, k].astype(np.int8), [0]]))).reshape(-1, 2)
        for first, after in edges:
            total = float(weight[first:after, k].sum())
            found.append(Span(names[k], float(times[first]), float(times[after - 1]), total))
    return sorted(found, key=lambda span: -span.weight)[:n]


def _strongest(weight: NDArray[np.float64], seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The cells at or above the TOP quantile of the observed ones; none if these are all alike."""
    values = weight[seen]
    if len(values) == 0 or values.min() == values.max():
        return np.zeros_like(seen)
    return seen & (weight >= np.quantile(values, TOP, method="higher"))
