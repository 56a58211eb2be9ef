"""Series and attributions made small: columns to draw, few bits each, base64 text.

Shapes: n samples, T time steps, S columns, D channels. Packed arrays are channel by channel, (n, D, S): a lane to draw is
one contiguous run.
"""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.samples import Clock, channel_names, clock, drawn_steps
from timex.report.spans import important_spans
from timex.report.style import colour_scale, is_probability

COLUMNS = 1_000
"""Columns in a lane at most. A longer series is drawn as the minimum and maximum of each of half as many intervals."""
LEVELS = 254
"""Levels of a quantised attribution: an even number, so that a symmetric scale has zero among them."""
FINE = 4_095
"""Levels of a quantised value: 12 bits, finer than a screen."""
SPANS = 6
"""Important spans kept for every sample."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Columns:
    """How the steps of the chosen samples become columns to draw: in order of time, padding last, `width` steps per column.

    Attributes:
        order: Steps in the order of drawing, (n, T), or None if that is their own order in every sample.
        cells: Measured cells in that order, (n, T, D).
        observed: Columns with a measured cell, (n, D, S).
        times: Their times on the axis, (S,) if all samples share them, else (n, S).
        length: Columns in use, (n,).
        width: Steps per column.
        clock: The time axis.
    """

    order: NDArray[np.int64] | None
    cells: NDArray[np.bool_]
    observed: NDArray[np.bool_]
    times: NDArray[np.float64]
    length: NDArray[np.int64]
    width: int
    clock: Clock

    @classmethod
    def of(cls, e: Explanation, chosen: NDArray[np.int64], limit: int = COLUMNS) -> Columns:
        """The columns of the samples `chosen` of an explanation, at most `limit`."""
        n, (_, t, _) = len(chosen), e.x.shape
        width = 1 if t <= limit else math.ceil(t / (limit // 2))
        times, cells = e.times[chosen].astype(np.float64), e.observed[chosen]
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
        axis = clock(e.series, times[0]) if shared else Clock("time")
        starts = np.arange(0, t, width)
        middle = np.add.reduceat(times, starts, axis=1) / np.diff(np.append(starts, t))  # (n, S)
        return cls(
            order=order,
            cells=cells,
            observed=np.asarray(_grouped(cells, width, False).any(axis=3)),
            times=axis.at(middle[0]) if shared else middle,
            length=-(-length // width),
            width=width,
            clock=axis,
        )

    def _ordered(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """(n, T, D) in the order of drawing as (n, D, S, width), `fill` where nothing was measured."""
        ordered = values if self.order is None else np.take_along_axis(values, self.order[..., None], axis=1)
        return _grouped(np.where(self.cells, ordered, fill), self.width, fill)

    def envelope(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest measured value of every column, (n, D, S) each; zero where nothing was measured."""
        v = values.astype(np.float64)
        low, high = self._ordered(v, np.inf).min(axis=3), self._ordered(v, -np.inf).max(axis=3)
        return np.where(self.observed, low, 0.0), np.where(self.observed, high, 0.0)

    def strongest(self, attribution: NDArray[Any]) -> NDArray[np.float64]:
        """The attribution farthest from zero in every column, (n, D, S)."""
        v = self._ordered(attribution.astype(np.float64), 0.0)
        return np.take_along_axis(v, np.abs(v).argmax(axis=3)[..., None], axis=3)[..., 0]

    def any(self, cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Columns with a measured cell that is set, (n, D, S)."""
        return np.asarray(self._ordered(cells, False).any(axis=3))


def _grouped(values: NDArray[Any], width: int, fill: Any) -> NDArray[Any]:
    """(n, T, D) as (n, D, S, width), the last column filled up."""
    n, t, d = values.shape
    s = math.ceil(t / width)
    padded = np.pad(values, ((0, 0), (0, s * width - t), (0, 0)), constant_values=fill)
    return padded.transpose(0, 2, 1).reshape(n, d, s, width)


# --------------------------------------------------------------------------------------------------------------- packing


def pack_series(e: Explanation, columns: Columns, chosen: NDArray[np.int64]) -> Arrays:
    """The chosen series and their truth, quantised to the range of every channel of every sample."""
    arrays: Arrays = {}
    low, high = columns.envelope(e.x[chosen])  # (n, D, S) each
    seen = columns.observed
    bottom = np.where(seen, low, np.inf).min(axis=2)
    top = np.where(seen, high, -np.inf).max(axis=2)
    empty = ~seen.any(axis=2)
    bottom, top = np.where(empty, 0.0, bottom), np.where(empty, 1.0, top)  # (n, D)
    arrays["range"] = np.stack([bottom, top], axis=2).astype(np.float32)
    arrays["low"] = quantise(low, bottom[..., None], top[..., None], FINE, np.uint16)
    if columns.width > 1:
        arrays["high"] = quantise(high, bottom[..., None], top[..., None], FINE, np.uint16)
    if not seen.all():
        arrays["observed"] = bits(seen)
    if columns.times.ndim == 2:
        arrays["times"] = columns.times.astype(np.float32)
        arrays["length"] = columns.length.astype(np.uint16)
    if e.series.truth is not None:
        arrays["truth"] = bits(columns.any(e.series.truth[chosen]))
    return arrays


def pack_method(
    e: Explanation, columns: Columns, chosen: NDArray[np.int64], name: str, number: int
) -> tuple[Arrays, dict[str, Any]]:
    """The chosen attributions, masks and important spans of one method, and the facts needed to read them."""
    attribution = columns.strongest(e.attribution[chosen])
    low, high = colour_scale(e, attribution)  # (n,) each
    arrays = {
        f"attribution-{number}": quantise(attribution, low[:, None, None], high[:, None, None], LEVELS, np.uint8),
        f"scale-{number}": np.stack([low, high], axis=1).astype(np.float32),
    }
    if e.mask is not None:
        arrays[f"mask-{number}"] = bits(columns.any(e.mask[chosen]))
    if e.direction is not None:
        against = columns.strongest(e.attribution[chosen] * e.direction[chosen]) < 0
        arrays[f"against-{number}"] = bits(against)
    arrays |= {f"span-{part}-{number}": values for part, values in _pack_spans(e, chosen).items()}
    facts = {"name": name, "signed": e.signed, "mask": e.mask is not None, "probability": is_probability(e)}
    return arrays, {**facts, "directed": e.direction is not None}


def _pack_spans(e: Explanation, chosen: NDArray[np.int64]) -> Arrays:
    """The heaviest spans of every chosen sample: their number, and channel, start and end of the first SPANS."""
    place = {name: k for k, name in enumerate(channel_names(e))}
    count = np.zeros(len(chosen), dtype=np.uint32)
    channel = np.zeros((len(chosen), SPANS), dtype=np.uint16)
    ends = np.zeros((len(chosen), SPANS, 2), dtype=np.float32)
    for row, i in enumerate(chosen):
        found = important_spans(e, int(i), n=e.x[i].size)
        count[row] = len(found)
        for r, span in enumerate(found[:SPANS]):
            channel[row, r] = place[span.channel]
            ends[row, r] = span.start, span.end
    return {"count": count, "channel": channel, "ends": ends}


def quantise(values: NDArray[Any], low: NDArray[Any], high: NDArray[Any], levels: int, dtype: Any) -> NDArray[Any]:
    """Values as whole numbers, 0 at `low` to `levels` at `high`."""
    span = np.where(high > low, high - low, 1.0)
    return np.clip(np.rint((values - low) / span * levels), 0, levels).astype(dtype)


def bits(cells: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Truth values, eight to a byte, the first in the lowest bit."""
    return np.packbits(cells.reshape(-1), bitorder="little")


def encode(array: NDArray[Any]) -> str:
    """The array as base64 of deflated little-endian bytes. Two-byte numbers are split: all low bytes, then all high bytes."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    if little.itemsize == 2:  # low bytes are noise and high bytes repeat, so apart they deflate better
        little = np.ascontiguousarray(little.reshape(-1).view(np.uint8).reshape(-1, 2).T)
    return base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()
