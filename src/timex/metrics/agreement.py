"""How alike two attributions are, and whether one changes under small noise.

Shapes: N samples, T time steps, D channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def disagreement(attributions: Sequence[ArrayLike], observed: ArrayLike | None = None) -> Floats:
    """Where methods disagree, (N, T, D): the standard deviation over methods of a cell's rank among its sample's cells.

    Ranks of |attribution| go from 0 to 1; equal values share their mean rank. Cells that were not measured have 0.

    >>> disagreement([[[[1.0], [2.0], [4.0]]], [[[9.0], [5.0], [3.0]]]]).ravel()
    array([0.5, 0. , 0.5])
    """
    from scipy.stats import rankdata

    shape = np.shape(attributions[0])
    seen = np.ones(shape, dtype=bool) if observed is None else np.broadcast_to(np.asarray(observed, dtype=bool), shape)
    rows = seen.reshape(shape[0], -1)
    n = rows.sum(axis=1, keepdims=True)
    ranks = []
    for a in attributions:
        values = np.where(rows, np.abs(np.asarray(a, dtype=np.float64)).reshape(rows.shape), np.nan)
        ranks.append((rankdata(values, axis=1, nan_policy="omit") - 1) / np.maximum(n - 1, 1))
    return np.where(rows, np.std(ranks, axis=0), 0).reshape(shape)


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
    scale = noise * deviations(series)
    before = explain(series)
    found = []
    for _ in range(draws):
        moved = series.x + scale * rng.standard_normal(series.shape)
        after = explain(replace(series, x=moved.astype(np.float32)))
        found.append(rank_correlation(before, after, series.observed))
    return np.mean(found, axis=0)


def max_sensitivity(
    explain: Callable[[Series], NDArray[np.float32]], series: Series, radius: float = 0.02, draws: int = 10, seed: int = 0
) -> Floats:
    """The largest relative change of attributions under small uniform noise, (N,) (Yeh et al., 2019). Lower is better.

    The maximum over draws of ||a(x + noise) - a(x)|| / ||a(x)||; the norm takes all cells of a sample together.

    Args:
        explain: Attributions (N, T, D) of series.
        series: Series to explain.
        radius: Largest noise of a cell, in standard deviations of its channel.
        draws: Draws of the noise.
        seed: Seed of the noise.
    """
    rng = np.random.default_rng(seed)
    scale = radius * deviations(series)
    before = np.asarray(explain(series), dtype=np.float64)
    size = np.sqrt((before**2).sum(axis=(1, 2)))
    largest = np.zeros(len(series))
    for _ in range(draws):
        moved = series.x + scale * rng.uniform(-1, 1, series.shape)
        change = explain(replace(series, x=moved.astype(np.float32))) - before
        largest = np.maximum(largest, np.sqrt((change**2).sum(axis=(1, 2))))
    return largest / np.where(size > 0, size, 1)


def deviations(series: Series) -> Floats:
    """The standard deviation of every channel over its measured cells, (D,)."""
    return np.array([series.x[..., k][series.observed[..., k]].std() for k in range(series.shape[2])])
