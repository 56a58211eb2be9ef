"""Series and attributions made small: columns to draw, few bits to store.

Shapes: n samples, T time steps, S columns, D channels. What is packed is channel by channel, (n, D, S): a lane to draw is one
contiguous run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.report.geometry import drawn_steps
from timex.types import Explanation

COLUMNS = 1_000
"""Values a lane is drawn from at most: a longer series becomes the minimum and the maximum of each of half as many spans."""
LEVELS = 254
"""Steps of a quantised attribution: an even number, so that zero is among them when the scale is symmetric."""
FINE = 4_095
"""Steps of a quantised value: finer than any screen, and 12 bits are a quarter less to store than 16."""


@dataclass(frozen=True)
class Columns:
    """How the steps of the chosen samples become columns to draw: in order of time, padding last, `width` steps to a column.

    Attributes:
        order: Steps in the order of drawing, (n, T), or None where that is their own order in every sample.
        cells: Measured cells in that order, (n, T, D).
        observed: Columns with a measured cell, (n, D, S).
        times: Their times, (S,) where all samples share them, else (n, S).
        length: Columns in use, (n,).
        width: Steps to a column.
        time_name: What the time axis is called.
    """

    order: NDArray[np.int64] | None
    cells: NDArray[np.bool_]
    observed: NDArray[np.bool_]
    times: NDArray[np.float64]
    length: NDArray[np.int64]
    width: int
    time_name: str

    @classmethod
    def of(cls, e: Explanation, chosen: NDArray[np.int64]) -> Columns:
        """Those of the samples `chosen` of an explanation."""
        n, (_, t, d) = len(chosen), e.x.shape
        width = 1 if t <= COLUMNS else math.ceil(t / (COLUMNS // 2))
        steps = np.arange(1, t + 1, dtype=np.float64)
        times = np.broadcast_to(steps, (n, t)) if e.times is None else e.times[chosen].astype(np.float64)
        cells = np.ones((n, t, d), dtype=bool) if e.observed is None else e.observed[chosen]
        shared = bool((times == times[0]).all()) and bool((np.diff(times[0]) > 0).all())
        order, length = None, np.full(n, t)
        if not shared:
            order = np.empty((n, t), dtype=np.int64)
            for i in range(n):
                kept = drawn_steps(times[i], cells[i])
                order[i] = np.concatenate([kept, np.setdiff1d(np.arange(t), kept)])
                length[i] = len(kept)
            inside = np.arange(t) < length[:, None]  # (n, T)
            cells = np.take_along_axis(cells, order[..., None], axis=1) & inside[..., None]
            times = np.take_along_axis(times, order, axis=1)
            times = np.where(inside, times, np.take_along_axis(times, length[:, None] - 1, axis=1))
        starts = np.arange(0, t, width)
        middle = np.add.reduceat(times, starts, axis=1) / np.diff(np.append(starts, t))  # (n, S)
        return cls(
            order=order,
            cells=cells,
            observed=np.asarray(_grouped(cells, width, False).any(axis=3)),
            times=middle[0] if shared else middle,
            length=-(-length // width),
            width=width,
            time_name="step" if shared and np.array_equal(times[0], steps) else "time",
        )

    def _grouped(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """(n, T, D) in the order of drawing as (n, D, S, width), `fill` where nothing was measured."""
        ordered = values if self.order is None else np.take_along_axis(values, self.order[..., None], axis=1)
        return _grouped(np.where(self.cells, ordered, fill), self.width, fill)

    def envelope(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest measured value of every column, (n, D, S) each; zero where nothing was measured."""
        v = values.astype(np.float64)
        low, high = self._grouped(v, np.inf).min(axis=3), self._grouped(v, -np.inf).max(axis=3)
        return np.where(self.observed, low, 0.0), np.where(self.observed, high, 0.0)

    def strongest(self, attribution: NDArray[Any]) -> NDArray[np.float64]:
        """The attribution farthest from zero in every column, (n, D, S)."""
        v = self._grouped(attribution.astype(np.float64), 0.0)
        return np.take_along_axis(v, np.abs(v).argmax(axis=3)[..., None], axis=3)[..., 0]

    def any(self, cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Columns with a measured cell that is set, (n, D, S)."""
        return np.asarray(self._grouped(cells, False).any(axis=3))


def _grouped(values: NDArray[Any], width: int, fill: Any) -> NDArray[Any]:
    """(n, T, D) as (n, D, S, width), the last column filled up."""
    n, t, d = values.shape
    s = math.ceil(t / width)
    padded = np.pad(values, ((0, 0), (0, s * width - t), (0, 0)), constant_values=fill)
    return padded.transpose(0, 2, 1).reshape(n, d, s, width)


def colour_scale(e: Explanation, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The colour scale of every sample: 0..1 for probabilities, symmetric for signed attributions, else from 0 up."""
    low, high = values.min(axis=(1, 2)), values.max(axis=(1, 2))
    if e.signed:
        top = np.maximum(np.abs(low), np.abs(high))
        top = np.where(top > 0, top, 1.0)
        return -top, top
    if e.method in ("", "timex") and low.min() >= 0 and high.max() <= 1:
        return np.zeros_like(low), np.ones_like(high)
    low = np.minimum(low, 0.0)
    return low, np.where(high > low, high, low + 1.0)


def quantise(values: NDArray[Any], low: NDArray[Any], high: NDArray[Any], levels: int, dtype: Any) -> NDArray[Any]:
    """Values as whole numbers, 0 at `low` to `levels` at `high`."""
    span = np.where(high > low, high - low, 1.0)
    return np.clip(np.rint((values - low) / span * levels), 0, levels).astype(dtype)


def bits(cells: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Truth values, eight to a byte, the first in the lowest bit."""
    return np.packbits(cells.reshape(-1), bitorder="little")
