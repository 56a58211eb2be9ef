"""Whether series look like other series: can a simple classifier tell them apart?

Shapes: N samples, T time steps, D channels, F traits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.records import Baseline, Series

Floats = NDArray[np.float64]

LAGS = (1, 2, 4, 8)
"""Steps between the cells whose correlation counts as a trait."""
LEAST = 20
"""Series on each side below which nothing is said."""
MOST = 256
"""Series of each side that are compared, at most."""
FOLDS = 5
LEAST_WIDTH = (0.25, 0.25, *[0.1] * len(LAGS))
"""Least widths of a range: of means in deviations, of logarithms of deviations, and of correlations. Training series that were
scaled one by one have equal means and deviations."""
TOLERANCE = 0.25
"""Tolerance, in widths of the training range (256 series). It grows when fewer series are known."""
FARTHEST = 100.0
"""Largest distance of a cell that counts, in training deviations: a channel that was constant in training has none."""
PENALTY = 10.0
"""Weight of the squared coefficients of the classifier, which sees standardised traits."""


def traits(series: Series) -> Floats:
    """What a series is like, whatever the moment: (N, F), six numbers per channel.

    They are mean, deviation, and correlation with the same channel 1, 2, 4 and 8 steps later, all over measured cells.
    The values of constant channels are 0, and so are those of lags that are too long.

    >>> traits(Series([[[1.0], [-1.0], [1.0], [-1.0]]])).round(2).tolist()
    [[0.0, 1.0, -1.0, 1.0, 0.0, 0.0]]
    """
    x, seen = series.x.astype(np.float64), series.observed
    mean = _mean(x, seen)
    z = np.where(seen, x - mean[:, None], 0)
    variance = _mean(z**2, seen)
    found = [mean, np.sqrt(variance)]
    for lag in LAGS:
        product, both = z[:, lag:] * z[:, :-lag], seen[:, lag:] & seen[:, :-lag]
        found.append(np.divide(_mean(product, both), variance, out=np.zeros_like(variance), where=variance > 1e-12))
    return np.concatenate(found, axis=1)


def distances_outside(known: ArrayLike, other: ArrayLike) -> Floats:
    """How far traits (N, F) lie outside the range of known ones (M, F), in widths of that range; 0 inside.

    Deviations are compared by their logarithms, so that a flat series is as far away as a wild one.

    >>> known = traits(Series(np.random.default_rng(0).normal(size=(90, 50, 1))))
    >>> flat, alike = traits(Series(np.zeros((1, 50, 1)))), traits(Series(np.random.default_rng(1).normal(size=(1, 50, 1))))
    >>> [bool(distances_outside(known, v).max() > 0.5) for v in (flat, alike)]
    [True, False]
    """
    a, b = (_comparable(np.asarray(v, dtype=np.float64)) for v in (known, other))
    low, high = a.min(axis=0), a.max(axis=0)
    kinds = 2 + len(LAGS)
    deviation = np.exp(np.median(np.split(a, kinds, axis=1)[1], axis=0))  # (D,)
    least = np.concatenate([LEAST_WIDTH[0] * deviation, *(np.full(len(deviation), w) for w in LEAST_WIDTH[1:])])
    return np.maximum(np.maximum(low - b, b - high), 0) / np.maximum(high - low, least)


class Unfamiliar(NamedTuple):
    """Which series lie outside the range of known ones, (N,) bool, and the trait by which the first of them does."""

    flags: NDArray[np.bool_]
    reason: str


def unfamiliar(known: ArrayLike, series: Series) -> Unfamiliar:
    """The series with a trait that lies too far outside the range of known traits (M, F); fewer known ones show less of it."""
    distance = distances_outside(known, traits(series))
    flags = distance.max(axis=1) > TOLERANCE * (MOST / len(np.asarray(known))) ** 0.4
    kind, channel = divmod(int(distance[flags.argmax()].argmax()), series.shape[2])
    names = ("mean", "deviation", *(f"correlation over {lag} step{'s' if lag > 1 else ''}" for lag in LAGS))
    of = series.channels[channel] if series.channels else f"channel {channel}"
    return Unfamiliar(flags, f"{names[kind]} of {of}")


def _comparable(found: Floats) -> Floats:
    """Traits with the logarithms of deviations."""
    d = found.shape[1] // (2 + len(LAGS))
    scale = np.maximum(found[:, d : 2 * d], np.finfo(np.float32).tiny)
    return np.concatenate([found[:, :d], np.log(scale), found[:, 2 * d :]], axis=1)


def _mean(x: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Mean over the measured steps, (N, D); 0 where there are none."""
    return np.where(seen, x, 0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)


def distance_from(baseline: Baseline, series: Series) -> Floats:
    """Root mean squared distance of measured cells from the baseline's mean, in its deviations, (N,).

    Cells with next to no deviation in training take a hundredth of the channel's: a constant cell would count without bound.
    """
    mean, std = (v.astype(np.float64) for v in baseline)
    least = 0.01 * np.sqrt((std**2).mean(axis=0) + mean.var(axis=0)) + np.finfo(np.float32).tiny
    z = np.where(series.observed, (series.x - mean) / np.maximum(std, least), 0).clip(-FARTHEST, FARTHEST)
    return np.sqrt((z**2).sum((1, 2)) / np.maximum(series.observed.sum((1, 2)), 1))


def distinction(known: ArrayLike, other: ArrayLike, seed: int = 0) -> float:
    """The AUROC at which a logistic regression tells two sets of traits (N, F) apart: about .5 if they are alike.

    The regression is cross-validated on equal numbers of both. Undefined (NaN) with fewer than `LEAST` of one.

    >>> rng = np.random.default_rng(0)
    >>> distinction(rng.normal(size=(90, 3)), rng.normal(4, size=(60, 3)))
    1.0
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    a, b = np.asarray(known, dtype=np.float64), np.asarray(other, dtype=np.float64)
    n = min(len(a), len(b), MOST)
    if n < LEAST:
        return float("nan")
    rng = np.random.default_rng(seed)
    x = np.concatenate([v[rng.permutation(len(v))[:n]] for v in (a, b)])
    y = np.repeat([0, 1], n)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / PENALTY, max_iter=1000))
    p = cross_val_predict(model, x, y, cv=StratifiedKFold(FOLDS, shuffle=True, random_state=seed), method="predict_proba")
    return float(roc_auc_score(y, p[:, 1]))
