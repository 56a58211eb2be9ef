"""Whether series look like other series: can a simple classifier tell them apart?

Shapes: N samples, T time steps, D channels, F traits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.records import Series

Floats = NDArray[np.float64]

LAGS = (1, 2, 4, 8)
"""Steps between the cells whose correlation counts as a trait."""
LEAST = 20
"""Series on each side below which nothing is said."""
MOST = 256
"""Series of each side that are compared, at most."""
FOLDS = 5
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


def _mean(x: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Mean over the measured steps, (N, D); 0 where there are none."""
    return np.where(seen, x, 0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)


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
