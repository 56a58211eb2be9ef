"""How well a model classifies: the reference before it is explained, and again after cells are taken away."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.checks import check_labels


def classification_scores(probability: ArrayLike | Tensor, y: ArrayLike | Tensor) -> dict[str, float]:
    """Macro F1, macro one-vs-rest AUPRC and AUROC, and accuracy of predicted class probabilities.

    Two classes are no special case: AUPRC and AUROC are the mean over both columns, each against the other. The two
    AUROCs are equal; the two AUPRCs are not, so this is not the AUPRC of a "positive" class.

    A class with no sample in `y` has neither recall nor AUROC and is left out of the macro AUPRC and AUROC. In F1 it
    counts as 0 if it was ever predicted (those predictions are wrong) and is left out if not, as in scikit-learn.

    Args:
        probability: Class probabilities, (N, C), rows summing to 1. The prediction is the largest, the first in a tie.
        y: Labels 0..C-1, (N,).

    Returns:
        `f1`, `auprc`, `auroc` and `accuracy`.

    Raises:
        ValueError: If `probability` holds no probabilities, `y` does not fit it, or `y` has a single class, which
            leaves AUROC undefined.

    >>> scores = classification_scores([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2]], [0, 0, 1, 1])
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'f1': 0.733, 'auprc': 0.833, 'auroc': 0.75, 'accuracy': 0.75}
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    p = _check_probability(probability)
    labels = check_labels(y, len(p), p.shape[1])
    present = np.unique(labels)
    if len(present) < 2:
        raise ValueError(f"Expected at least two classes in y, got only {present.tolist()}: AUROC is undefined.")
    predicted = p.argmax(axis=1)
    return {
        "f1": float(f1_score(labels, predicted, average="macro")),
        "auprc": float(np.mean([average_precision_score(labels == c, p[:, c]) for c in present])),
        "auroc": float(np.mean([roc_auc_score(labels == c, p[:, c]) for c in present])),
        "accuracy": float((predicted == labels).mean()),
    }


def _check_probability(probability: ArrayLike | Tensor) -> NDArray[np.float64]:
    array = probability.detach().cpu().double().numpy() if isinstance(probability, Tensor) else probability
    p = np.asarray(array, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"Expected probability of shape (N, C) with C at least 2, got {p.shape}.")
    # Logits would give wrong AUPRC and AUROC without an error; 1e-2 accepts half-precision softmax.
    bad = ~((p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) < 1e-2))
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f"Expected probabilities, rows of at least 0 summing to 1, got {p[i].tolist()} in sample {i}: "
            "apply softmax to logits."
        )
    return p
