"""What the page says of scores: the direction and definition of every metric, and which methods are controls."""

from __future__ import annotations

from typing import NamedTuple

CONTROLS = ("random", "amplitude", "centre")
"""Methods that never see the model: what they score, the data gives away."""


class Metric(NamedTuple):
    """How to read a column of the table of scores."""

    label: str
    better: str  # "higher" or "lower"
    definition: str


METRIC_TITLES = {
    "auprc": Metric("AUPRC", "higher", "Area under precision over recall for the cells known to decide the class."),
    "auprc_trapezoid": Metric("AUPRC, trapezoid", "higher", "AUPRC with straight lines between the points of the curve."),
    "aup": Metric("AUP", "higher", "Area under precision as a function of the threshold; depends on the spread of the scores."),
    "aur": Metric("AUR", "higher", "Area under recall as a function of the threshold; depends on the spread of the scores."),
    "aup_rank": Metric("AUP of ranks", "higher", "AUP after every score is replaced by its rank."),
    "aur_rank": Metric("AUR of ranks", "higher", "AUR after every score is replaced by its rank."),
    "iou": Metric("IoU", "higher", "Overlap of the known cells with the top tenth of the scores, divided by their union."),
    "f1": Metric("F1", "higher", "Macro F1 of the explained model's predictions."),
    "auroc": Metric(
        "AUROC", "higher", "Area under the receiver operating characteristic of the explained model, mean of classes."
    ),
    "accuracy": Metric("Accuracy", "higher", "Share of samples whose class the explained model predicts."),
}
"""Every metric that `timex evaluate` and `timex demo` write, by its key in scores.json."""
