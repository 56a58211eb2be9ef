"""Explanations in words: the stretches of time that matter most, channel by channel.

Shapes: n samples, T time steps, D channels, R runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.samples import channel_names, drawn_steps

TOP = 0.9
"""Quantile of the attribution that takes the place of the mask for methods without one."""


class Span(NamedTuple):
    """A run of important steps of one channel, with the times of its first and last and its total attribution."""

    channel: str
    start: float
    end: float
    weight: float

    def __str__(self) -> str:
        """The span in words.

        >>> print(Span("hr", 41.0, 57.0, 9.5))
        t = 41 to 57, hr
        """
        when = f"{self.start:g}" if self.start == self.end else f"{self.start:g} to {self.end:g}"
        return f"t = {when}, {self.channel}"


class Runs(NamedTuple):
    """Runs of true cells along the first axis: the line of cells (channel) of each, its first step, the step after its last."""

    line: NDArray[np.int64]
    first: NDArray[np.int64]
    after: NDArray[np.int64]


def runs(cells: NDArray[np.bool_]) -> Runs:
    """Every run of true cells (S, D) along time, channel by channel.

    >>> runs(np.array([[True, False], [True, True], [False, True]]))
    Runs(line=array([0, 1]), first=array([0, 1]), after=array([2, 3]))
    """
    padded = np.pad(cells.T.astype(np.int8), ((0, 0), (1, 1)))  # (D, S + 2)
    line, edge = np.nonzero(np.diff(padded, axis=1))
    return Runs(line[::2], edge[::2], edge[1::2])


def important_spans(explanation: Explanation, i: int, n: int = 3) -> list[Span]:
    """The `n` heaviest runs of cells that sample `i`'s mask keeps.

    If a method has no mask, or the mask keeps nothing, the strongest tenth of the cells takes its place.

    Args:
        explanation: Explanations of N samples.
        i: Which of them.
        n: How many runs at most.

    Returns:
        Runs by falling total |attribution|; none if all cells are alike.
    """
    times, observed = explanation.times[i], explanation.observed[i]
    steps = drawn_steps(times, observed)
    times, seen = times[steps].astype(np.float64), observed[steps]
    weight = np.where(seen, np.abs(explanation.attribution[i][steps]), 0.0)  # (S, D)
    kept = np.zeros_like(seen) if explanation.mask is None else explanation.mask[i][steps] & seen
    line, first, after = runs(kept if kept.any() else _strongest(weight, seen))
    names = channel_names(explanation)
    total = np.pad(weight.cumsum(axis=0, dtype=np.float64), ((1, 0), (0, 0)))  # (S + 1, D)
    weights = total[after, line] - total[first, line]
    order = np.argsort(-weights, kind="stable")[:n]
    return [Span(names[line[r]], float(times[first[r]]), float(times[after[r] - 1]), float(weights[r])) for r in order]


def _strongest(weight: NDArray[np.float64], seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The cells at or above the TOP quantile of the observed ones; none if these are all alike."""
    values = weight[seen]
    if len(values) == 0 or values.min() == values.max():
        return np.zeros_like(seen)
    return seen & (weight >= np.quantile(values, TOP, method="higher"))
