"""Methods, arms and metrics as readers know them."""

from __future__ import annotations

from timex.bench.recipes import PAPER, TIMEX, split_arm

METHODS = {
    "timex_plus": "TimeX++ objective (ours)",
    "ig": "IG",
    "ig:absolute": "|IG|",
    "dynamask": "Dynamask",
    "winit": "WinIT",
    "cortx": "CoRTX",
    "sgt_grad": "SGT + Grad",
    "gradients": "smoothed IG (ours)",
    "random": "random (control)",
    "amplitude": "amplitude (control)",
    "centre": "centre (control)",
    "reference": "model",
    "landmark": "landmarks",
    "kmeans": "K-means",
    "kmeans_as_many": "K-means (as many as landmarks in use)",
}
SWAPS = {
    "no_ste": "without STE",
    "simclr": "SimCLR for MBC",
    "mbc_only": "MBC alone",
    "lc_only": "LC alone",
    "as_occluded": "cells hidden as in the experiment",
    "forecast": "forecasts",
    "no_gradients": "without the model's gradients",
    "sampled": "sampled masks only",
    "blended": "blended masks only",
    "one_price": "one price",
    "mean_fill": "the mean for hidden cells",
    "unsmoothed": "not smoothed",
}
METRIC_TITLES = {
    "auprc_trapezoid": "AUPRC, trapezoid",
    "aup_rank": "AUP, ranks",
    "aur_rank": "AUR, ranks",
    "iou": "IoU",
    "gap": "gap",
    "fit_seconds": "fit, s",
    "explain_seconds": "explain, s",
    "f1": "F1",
}


def method_name(label: str) -> str:
    """A method, written `name` or `name:arm`, for a table.

    >>> method_name("timex"), method_name("timex:paper_no_ste"), method_name("timex:paper_r0.1")
    ('TimeX (ours)', "TimeX (paper's objective, without STE)", "TimeX (paper's objective, r = 0.1)")
    """
    method, _, arm = label.partition(":")
    if method == TIMEX:
        objective, swap = split_arm(arm)
        words = ["paper's objective" if objective == PAPER else "ours"]
        if swap:
            words.append(SWAPS.get(swap) or (f"r = {swap[1:]}" if swap.startswith("r") else swap))
        return f"TimeX ({', '.join(words)})"
    if label in METHODS or not arm:
        return METHODS.get(label, label)
    return f"{METHODS.get(method, method)} ({arm})"


def metric_name(metric: str) -> str:
    """A metric for the head of a column.

    >>> metric_name("auprc"), metric_name("late_share")
    ('AUPRC', 'late share')
    """
    return METRIC_TITLES.get(metric, metric.upper() if metric.isalpha() and len(metric) < 6 else metric.replace("_", " "))
