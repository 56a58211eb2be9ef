import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from timex.metrics import classification_scores

N, C = 90, 4


def draw() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, N)
    p = rng.random((N, C)) + 0.7 * np.eye(C)[y]
    return p / p.sum(axis=1, keepdims=True), y


def test_equals_scikit_learn_on_many_classes() -> None:
    p, y = draw()
    assert classification_scores(p, y) == pytest.approx(
        {
            "f1": f1_score(y, p.argmax(axis=1), average="macro"),
            "auprc": average_precision_score(np.eye(C)[y], p, average="macro"),
            "auroc": roc_auc_score(y, p, average="macro", multi_class="ovr"),
            "accuracy": (p.argmax(axis=1) == y).mean(),
        }
    )


def test_two_classes_by_hand() -> None:
    # Class 1 by score: 1 0 1 0 0, class 0 the other way round: 0 0 1 0 1.
    p1 = np.array([0.9, 0.6, 0.4, 0.2, 0.1])
    y = np.array([1, 0, 1, 0, 0])
    scores = classification_scores(np.stack([1 - p1, p1], axis=1), y)
    assert scores == pytest.approx(
        {
            "f1": (2 / 3 + 1 / 2) / 2,  # class 0: two of three found, one wrong; class 1: one of two found, one wrong
            "auprc": ((1 + 2 / 3) / 2 + (1 + 1 + 3 / 4) / 3) / 2,
            "auroc": 5 / 6,
            "accuracy": 3 / 5,
        }
    )


def test_takes_half_precision_tensors() -> None:
    p, y = draw()
    tensor = torch.tensor(p, dtype=torch.bfloat16, requires_grad=True)
    assert classification_scores(tensor, torch.tensor(y)) == pytest.approx(classification_scores(p, y), abs=0.02)


def test_class_absent_from_y_is_left_out() -> None:
    p, y = draw()
    keep = y != 2
    p, y = p[keep], y[keep]
    scores = classification_scores(p, y)
    present = [0, 1, 3]
    assert scores["auprc"] == pytest.approx(np.mean([average_precision_score(y == c, p[:, c]) for c in present]))
    assert scores["auroc"] == pytest.approx(np.mean([roc_auc_score(y == c, p[:, c]) for c in present]))
    # It was predicted at times, so it costs F1 a zero.
    of_class = f1_score(y, p.argmax(axis=1), average=None, labels=[0, 1, 3])
    assert (p.argmax(axis=1) == 2).any()
    assert scores["f1"] == pytest.approx(of_class.sum() / 4)


def test_errors_say_what_came() -> None:
    p, y = draw()
    with pytest.raises(ValueError, match=r"at least two classes in y, got only \[1\]"):
        classification_scores(p, np.ones(N, dtype=int))
    with pytest.raises(ValueError, match=r"shape \(N, C\) with C at least 2, got \(90,\)"):
        classification_scores(p[:, 0], y)
    with pytest.raises(ValueError, match=r"rows of at least 0 summing to 1, got \[.*\] in sample 3: apply softmax"):
        classification_scores(np.where(np.arange(N)[:, None] == 3, 2.5, p), y)
    with pytest.raises(ValueError, match=r"got \[nan, .* in sample 0"):
        classification_scores(p * np.nan, y)
    with pytest.raises(ValueError, match=r"one label per sample, shape \(90,\), got \(89,\)"):
        classification_scores(p, y[1:])
    with pytest.raises(ValueError, match=r"labels 0\.\.2, got 0\.\.3"):
        classification_scores(p[:, :3] / p[:, :3].sum(axis=1, keepdims=True), y)
