"""How alike two attributions are, and whether one changes under small noise.

Shapes: N samples, T time steps, D channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.records import Series

Floats = NDArray[np.float64]


def rank_correlation(a: ArrayLike, b: ArrayLike, observed: ArrayLike | None = None) -> Floats:
    """Spearman's correlation of two attributions (N, T, D), sample by sample over measured cells, (N,).

    Equal values share their mean rank. Undefined (NaN) where either is constant.

    >>> rank_correlation([[[1.0], [2.0], [4.0]]], [[[3.0], [5.0], [9.0]]])
    array([1.])
    """
    from scipy.stats import rankdata

    first, second = (np.array(v, dtype=np.float64).reshape(len(v), -1) for v in (np.asarray(a), np.asarray(b)))
    if observed is not None:
        missing = ~np.asarray(observed, dtype=bool).reshape(first.shape)
        first[missing] = second[missing] = np.nan
    ranks = [rankdata(v, axis=1, nan_policy="omit") for v in (first, second)]
    x, y = (r - np.nanmean(r, axis=1, keepdims=True) for r in ranks)
    scale = np.sqrt(np.nansum(x**2, axis=1) * np.nansum(y**2, axis=1))
    return np.where(scale > 0, np.nansum(x * y, axis=1) / np.where(scale > 0, scale, 1), np.nan)


def stability(
    explain: Callable[[Series], NDArray[np.float32]], series: Series, noise: float = 0.05, draws: int = 3, seed: int = 0
) -> Floats:
    """Mean rank correlation of attributions before and after small normal noise, (N,). Higher is better.

    Args:
        explain: Attributions (N, T, D) of series.
        series: Series to explain.
        noise: Standard deviation of the noise, in standard deviations of each channel.
        draws: Draws of the noise.
        seed: Seed of the noise.
    """
    rng = np.random.default_rng(seed)
    scale = noise * np.array([series.x[..., k][series.observed[..., k]].std() for k in range(series.shape[2])])
    before = explain(series)
    found = []
    for _ in range(draws):
        moved = series.x + scale * rng.standard_normal(series.shape)
        after = explain(replace(series, x=moved.astype(np.float32)))
        found.append(rank_correlation(before, after, series.observed))
    return np.mean(found, axis=0)
