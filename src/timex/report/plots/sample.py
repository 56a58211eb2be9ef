"""One sample as figures draw it.

Shapes: T time steps, S the steps that are drawn, D channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.samples import Clock, channel_names, clock, drawn_steps


@dataclass(frozen=True)
class Sample:
    """The steps of one sample that can be drawn, in the order of time.

    Attributes:
        times: (S,), increasing, in the unit of the axis.
        clock: The time axis.
        x: (S, D), NaN where not observed.
        attribution: (S, D), 0 where not observed.
        observed: (S, D).
        mask: (S, D) or None.
        truth: (S, D) or None.
        channels: D names.
    """

    times: NDArray[np.float64]
    clock: Clock
    x: NDArray[np.float64]
    attribution: NDArray[np.float64]
    observed: NDArray[np.bool_]
    mask: NDArray[np.bool_] | None
    truth: NDArray[np.bool_] | None
    channels: tuple[str, ...]

    @classmethod
    def of(cls, e: Explanation, i: int) -> Sample:
        """Sample `i` of an explanation."""
        check_index(e, i)
        times, observed = e.times[i].astype(np.float64), e.observed[i]
        order = drawn_steps(times, observed)
        axis = clock(e.series, times[order])
        truth = e.series.truth
        return cls(
            times=axis.at(times[order]),
            clock=axis,
            x=np.where(observed, e.x[i], np.nan)[order],
            attribution=np.where(observed, e.attribution[i], 0.0)[order],
            observed=observed[order],
            mask=None if e.mask is None else (e.mask[i] & observed)[order],
            truth=None if truth is None else (truth[i] & observed)[order],
            channels=channel_names(e),
        )

    def between(self, first: float, last: float) -> Sample:
        """The steps from time `first` to time `last` of the series, both included."""
        low, high = self.clock.at(np.array([first, last]))
        inside = (self.times >= low) & (self.times <= high)
        if not inside.any():
            low, high = self.times[[0, -1]] / self.clock.factor + self.clock.origin
            raise ValueError(f"Expected time=(first, last) that overlaps {low:g} to {high:g}, got {(first, last)}.")
        of_step = ("times", "x", "attribution", "observed", "mask", "truth")
        cut = {name: value[inside] for name in of_step if (value := getattr(self, name)) is not None}
        return replace(self, **cut)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Where the coloured cell of every step begins and ends, half way between steps, (S + 1,)."""
        if len(self.times) == 1:
            return self.times[0] + np.array([-0.5, 0.5])
        middle = (self.times[1:] + self.times[:-1]) / 2
        return np.concatenate([[2 * self.times[0] - middle[0]], middle, [2 * self.times[-1] - middle[-1]]])


def check_index(e: Explanation, i: int) -> None:
    """Refuse an index that names no sample."""
    if not 0 <= i < len(e):
        raise ValueError(f"Expected a sample index 0..{len(e) - 1}, got {i}.")


def largest(total: NDArray[np.floating], limit: int) -> NDArray[np.int64]:
    """The `limit` channels with the largest totals, in their own order."""
    return np.sort(np.argsort(-total, kind="stable")[:limit])


def min_max(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Values scaled so that the observed ones span 0..1; zero where not observed, or where all are the same."""
    if not observed.any():
        return np.zeros_like(values)
    low, high = values[observed].min(), values[observed].max()
    return np.where(observed, (values - low) / (high - low), 0.0) if high > low else np.zeros_like(values)
