"""The samples that are drawn: which steps of one, in what order, and whether several explanations are of the same ones.

Shapes: N samples, T time steps, D channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation, Series


def drawn_steps(times: NDArray[Any], observed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The steps of one sample to draw, in the order of time. Gaps inside the series stay, the padding around it goes.

    Padding may have any time, usually zero. A step without an observed cell therefore counts as a gap only if both its place
    and its time lie among the observed steps.

    Args:
        times: (T,).
        observed: (T, D).

    Returns:
        Indices of steps.
    """
    seen = observed.any(axis=1)
    if not seen.any():
        return np.arange(len(times))
    first, last = np.flatnonzero(seen)[[0, -1]]
    place = np.arange(len(times))
    inside = (place > first) & (place < last) & (times > times[seen].min()) & (times < times[seen].max())
    kept = np.flatnonzero(seen | inside)
    return kept[np.argsort(times[kept], kind="stable")]


class Clock(NamedTuple):
    """How times are written on an axis: (time - origin) * factor, in `unit`; the label names the axis."""

    label: str
    unit: str = ""
    factor: float = 1.0
    origin: float = 0.0

    def at(self, times: NDArray[Any]) -> NDArray[np.float64]:
        """Times of the series in the unit of the axis."""
        return (np.asarray(times, dtype=np.float64) - self.origin) * self.factor


UNITS = {
    "ms": (0.001, 5.0),
    "s": (1.0, 600.0),
    "min": (60.0, 3 * 3600.0),
    "h": (3600.0, 10 * 86_400.0),
    "days": (86_400.0, float("inf")),
}
"""Units of a time axis: the seconds of one, and the longest series in seconds that is drawn with it."""


def clock(series: Series, times: NDArray[Any]) -> Clock:
    """The axis of some drawn times (..., S).

    Numbered steps 1..S become milliseconds to days since the first one if the sampling rate is known. Times that the user gave
    stay as they are.

    >>> clock(Series(np.zeros((1, 3, 1)), sampling_rate=250.0), np.arange(1, 4)).label
    'time in ms (250 steps per second)'
    >>> clock(Series(np.zeros((1, 24, 1)), sampling_rate=1 / 3600), np.arange(1, 25)).label
    'time in h (one step = 1 h)'
    """
    if not np.array_equal(np.broadcast_to(np.arange(1, times.shape[-1] + 1), times.shape), times):
        return Clock("time")
    rate = series.sampling_rate
    if rate is None:
        return Clock("step")
    unit = next(u for u, (_, longest) in UNITS.items() if times.shape[-1] / rate <= longest)
    return Clock(f"time in {unit} ({_sampling(rate)})", unit, 1 / (rate * UNITS[unit][0]), 1.0)


def _sampling(rate: float) -> str:
    """Fast sampling as a rate, slow sampling as an interval in the largest unit of which it has one.

    >>> _sampling(1 / 900), _sampling(1 / 86_400)
    ('one step = 15 min', 'one step = 1 day')
    """
    if rate > 1:
        return f"{rate:g} steps per second"
    interval = round(1 / rate, 6)  # 1 / (1 / 900) may miss 900
    unit, (seconds, _) = [(u, v) for u, v in UNITS.items() if v[0] <= interval][-1]
    number = f"{interval / seconds:g}"
    return f"one step = {number} {'day' if (number, unit) == ('1', 'days') else unit}"


def channel_names(e: Explanation) -> tuple[str, ...]:
    """Channel names with their units, or numbers where there are none."""
    return e.channels or tuple(f"channel {k}" for k in range(e.x.shape[2]))


def channel_indices(e: Explanation, wanted: Sequence[str | int]) -> NDArray[np.int64]:
    """The numbers of some channels, given by number or by name, with or without the unit."""
    names, bare = channel_names(e), e.series.channels
    found = []
    for channel in wanted:
        known = [k for k in range(len(names)) if channel == k or channel == names[k] or (bare and channel == bare[k])]
        if not known:
            raise ValueError(f"Expected channels among {', '.join(names)} or 0..{len(names) - 1}, got {channel!r}.")
        found.append(known[0])
    if not found:
        raise ValueError("Expected at least one channel, got none.")
    return np.array(found)


def class_name(e: Explanation, c: int) -> str:
    """The name of class `c`, or its number; "all" for a model of numbers, whose series make one group."""
    if e.numbers is not None:
        return "all"
    return e.classes[c] if c < len(e.classes) else f"class {c}"


def numbers_in_words(numbers: NDArray[np.float32]) -> str:
    """The first of some numbers, (H,).

    >>> numbers_in_words(np.array([88.9976, 1.0, 2.0, 3.0, 4.0]))
    '89, 1, 2, 3, …'
    """
    return ", ".join(f"{v:.4g}" for v in numbers[:4]) + (", …" if len(numbers) > 4 else "")


def sample_name(e: Explanation, i: int) -> str:
    """The sample's own name, or its number."""
    return e.series.ids[i] if e.series.ids else str(i)


def caption(e: Explanation, i: int) -> str:
    """The sample's name and its explained class, both classes of a contrast, or the model's numbers."""
    if e.numbers is not None:
        return f"sample {sample_name(e, i)}: {numbers_in_words(e.numbers[i])}"
    against = "" if e.contrast is None else f", not {class_name(e, int(e.contrast[i]))}"
    return f"sample {sample_name(e, i)}: {class_name(e, int(e.prediction[i]))}{against}"


def check_same_samples(methods: Mapping[str, Explanation]) -> Explanation:
    """The first of several explanations, or a `ValueError` if they are not of the same samples."""
    if not methods:
        raise ValueError("Expected the explanations of at least one method, got none.")
    name, first = next(iter(methods.items()))
    for other, e in list(methods.items())[1:]:
        if e.x.shape != first.x.shape:
            raise ValueError(
                f"Expected explanations of the same samples, got x of {first.x.shape} in {name}, {e.x.shape} in {other}."
            )
        differs = ~np.isclose(e.x, first.x).all(axis=(1, 2))
        if differs.any():
            raise ValueError(
                f"Expected explanations of the same samples, got different series at {int(differs.argmax())} in {name} and "
                f"in {other}."
            )
    return first
