"""Occlusion: keep only the cells an explanation calls important, and see whether the model still classifies.

Shapes: N samples, T time steps, D channels, C classes, P thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.checks import check_labels, check_series
from timex.metrics.classification import classification_scores
from timex.metrics.hiding import Predict, places
from timex.records import Baseline

THRESHOLDS = (0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
"""The paper's: the share of cells taken away."""


def occlusion_curve(
    predict: Predict,
    x: ArrayLike,
    y: ArrayLike,
    attribution: ArrayLike | None,
    baseline: Baseline,
    thresholds: Sequence[float] = THRESHOLDS,
    fill: str = "draw",
    observed: ArrayLike | None = None,
    seed: int = 0,
) -> dict[str, NDArray[np.float64]]:
    """Scores of a model that sees only the cells above a quantile of their attribution, by quantile.

    Cells taken away become a draw from the baseline distribution or zero. The draw is the same for every threshold, and for
    every explainer scored with the same seed, so that curves differ by what is kept alone. Missing cells stay as they are.

    Args:
        predict: The model: see `model_predict` for one of torch.
        x: Series, (N, T, D).
        y: Labels, (N,).
        attribution: Importance of every cell, (N, T, D); None for random importance, the control to read a curve against.
        baseline: Mean and standard deviation of every cell, from the training part: `Dataset.baseline`.
        thresholds: Quantiles of a sample's attribution to keep above, (P,).
        fill: draw, or zero.
        observed: Measured cells, (N, T, D) or (N, T).
        seed: Of the draw, of random importance, and of the order of equal attributions.

    Returns:
        `threshold`, and at each the macro `auroc`, `auprc` and `f1` and the `accuracy`, each (P,).

    Example:
        >>> x, y = np.array([[[0.0], [9.0]], [[0.0], [-9.0]], [[1.0], [9.0]], [[1.0], [-9.0]]]), [1, 0, 1, 0]
        >>> predict = lambda x, kept: np.stack([x[:, 1, 0] <= 0, x[:, 1, 0] > 0], axis=1).astype(float)
        >>> nothing = Baseline(np.zeros((2, 1)), np.zeros((2, 1)))
        >>> right = occlusion_curve(predict, x, y, [[[0], [1]]] * 4, nothing, thresholds=[0.5])
        >>> wrong = occlusion_curve(predict, x, y, [[[1], [0]]] * 4, nothing, thresholds=[0.5])
        >>> float(right["auroc"][0]), float(wrong["auroc"][0])
        (1.0, 0.5)
    """
    values, _, seen = check_series(x, None, observed)
    labels = check_labels(y, len(values))
    if fill not in ("draw", "zero"):
        raise ValueError(f"Expected fill as draw or zero, got {fill!r}.")
    if not all(0 <= p < 1 for p in thresholds):
        raise ValueError(f"Expected thresholds of at least 0 and below 1, got {list(thresholds)}.")
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(values.shape, dtype=np.float32)
    tie = rng.random(values.shape)
    score = tie if attribution is None else np.asarray(attribution, dtype=np.float64)
    if score.shape != values.shape or not np.isfinite(score[seen]).all():
        raise ValueError(f"Expected a finite attribution of the shape of x, {values.shape}, got {score.shape}.")
    filling = np.float32(0) if fill == "zero" else (baseline.mean + baseline.std * noise).astype(np.float32)
    place, n_seen = places(score, tie, seen)
    rows = []
    for p in thresholds:
        # As many as lie above the quantile when no two are equal, and always one.
        n_kept = np.maximum(n_seen - 1 - np.floor(p * (n_seen - 1)).astype(np.int64), 1)
        kept = place < n_kept[:, None, None]
        occluded = np.where(kept | ~seen, values, filling)
        rows.append(classification_scores(predict(occluded, kept), labels))
    columns = {name: np.array([row[name] for row in rows]) for name in ("auroc", "auprc", "f1", "accuracy")}
    return {"threshold": np.asarray(thresholds, dtype=np.float64), **columns}
