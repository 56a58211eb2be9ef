"""The mean of a score over samples, and how surely it is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Z = 1.96
"""Standard errors on each side of a mean that make an interval of 95 %."""


def plain(value: Any) -> Any:
    """A value that JSON can hold: None in the place of NaN and infinity, at any depth.

    >>> plain({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


class Interval(NamedTuple):
    """A mean and its interval of 95 %, from the standard error over samples."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: ArrayLike) -> Interval:
        """The interval of the mean of values, undefined ones (NaN) ignored; one value alone has an infinite interval.

        >>> Interval.of([1.0, 3.0, 2.0, 2.0]).mean
        2.0
        """
        v = np.asarray(values, dtype=np.float64)
        v = v[~np.isnan(v)]
        mean = float(v.mean()) if len(v) else float("nan")
        half = Z * float(v.std(ddof=1)) / len(v) ** 0.5 if len(v) > 1 else float("inf")
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
