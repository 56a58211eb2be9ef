"""The scores of `timex.metrics.ground_truth`, sample by sample with scikit-learn: slow, and plain enough to believe."""

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import auc, average_precision_score, precision_recall_curve


def scores_by_loop(attribution, truth, observed=None):
    """`ground_truth_scores` for numpy arrays (N, T, D)."""
    rows = []
    for i in range(len(attribution)):
        cells = np.ones(attribution[i].shape, bool) if observed is None else observed[i]
        rows.append(_sample_scores(attribution[i][cells].astype(np.float64), truth[i][cells].astype(bool)))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _sample_scores(values, truth):
    names = ("auprc", "auprc_trapezoid", "aup", "aur", "iou", "aup_rank", "aur_rank")
    if not truth.any():
        return dict.fromkeys(names, np.nan)
    score = _normalise(values)
    precision, recall, thresholds = precision_recall_curve(truth, score)
    kept = score >= np.quantile(score, 0.9)
    rank_precision, rank_recall, ranks = precision_recall_curve(truth, _normalise(rankdata(values)))
    return {
        "auprc": average_precision_score(truth, score),
        "auprc_trapezoid": auc(recall, precision),
        "aup": _area(thresholds, precision),
        "aur": _area(thresholds, recall),
        "iou": (kept & truth).sum() / (kept | truth).sum(),
        "aup_rank": _area(ranks, rank_precision),
        "aur_rank": _area(ranks, rank_recall),
    }


def _normalise(values):
    span = values.max() - values.min()
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)


def _area(thresholds, values):
    return auc(thresholds, values[:-1]) if len(thresholds) > 1 else 0.0  # auc refuses fewer than two points
