"""CoRTX: its labels are Shapley values, its positives are the closest copies, and its two trainings learn."""

import numpy as np
import pytest
import torch
from loops import shapley_by_enumeration
from torch import nn

from timex.engine import Noise
from timex.explainers import CoRTX, CoRTXConfig
from timex.explainers.cortx import info_nce
from timex.records import Series


class Pair(nn.Module):
    """(T, D) = (3, 2): class 1 where two certain cells are large together."""

    def forward(self, x):
        score = 3 * x[:, 0, 0] * x[:, 2, 1] + x[:, 1, 0]
        return torch.stack([-score, score], 1)


def series(n, t=3, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def test_labels_are_shapley_values_of_the_probabilities():
    x = torch.as_tensor(series(3))
    explainer = CoRTX(Pair(), CoRTXConfig(permutations=300), device="cpu")
    explainer._try_model(Series(x))
    labels = explainer._shapley(next(explainer.batches({"x": x})))
    model = Pair()
    for i in range(3):
        exact = shapley_by_enumeration(lambda cells: model(cells[None]).softmax(-1)[0], x[i])
        torch.testing.assert_close(labels[i], exact, atol=0.03, rtol=0)
        torch.testing.assert_close(labels[i].sum((0, 1)), model(x[i : i + 1]).softmax(-1)[0] - 0.5, atol=1e-5, rtol=0)


def test_the_positive_is_the_copy_whose_prediction_stays_closest():
    x = torch.as_tensor(series(6))
    explainer = CoRTX(Pair(), CoRTXConfig(copies=5), device="cpu")
    explainer._try_model(Series(x))
    positive = explainer._positives({"x": x}, Noise(torch.tensor(3)))
    noise, model = Noise(torch.tensor(3)), Pair()
    share = noise.uniform(6, 5, 1, 1)
    copies = x[:, None] * (noise.uniform(6, 5, 3, 2) < share)
    for i in range(6):
        change = [(model(c[None]).softmax(-1) - model(x[i : i + 1]).softmax(-1)).abs().sum().item() for c in copies[i]]
        assert torch.equal(positive[i], copies[i, int(np.argmin(change))])


def test_info_nce_by_hand():
    """Two orthogonal samples, each its own positive: share e / (e + 1)."""
    h = torch.eye(2)
    assert info_nce(h, h, 1.0).item() == pytest.approx(-np.log(np.e / (np.e + 1)), rel=1e-5)
    assert info_nce(h, h.flip(0), 0.5).item() == pytest.approx(np.log(2), rel=1e-5)


class Spike(nn.Module):
    """Class 1 where the sum of positive parts is large: every cell's Shapley value is a function of its own value."""

    def forward(self, x):
        score = x.clamp(min=0).sum((1, 2)) - 3.0
        return torch.stack([-score, score], 1)


def test_both_trainings_learn():
    x = series(400, 6, 2, seed=1)
    config = CoRTXConfig(label_share=0.25, pretrain_epochs=4, epochs=60, lr=3e-3, copies=4, layers=1)
    explainer = CoRTX(Spike(), config, device="cpu").fit(x, progress=False)
    report = explainer.fitted.report
    assert report.contrast_last < report.contrast_first - 0.1
    assert report.explained > 0.6
    assert report.labels == 90 + 18
    new = series(20, 6, 2, seed=2)
    e = explainer.explain(new, target=np.ones(20, dtype=int))
    exact = explainer._shapley(next(explainer.batches({"x": torch.as_tensor(new)})))
    assert np.corrcoef(e.attribution.ravel(), exact[..., 1].numpy().ravel())[0, 1] > 0.75
    other = explainer.explain(new, target=np.zeros(20, dtype=int))
    assert np.corrcoef(e.attribution.ravel(), other.attribution.ravel())[0, 1] < -0.7


def test_a_head_that_learned_nothing_is_logged(caplog):
    class Hash(nn.Module):  # nobody can predict this from a few samples
        def forward(self, x):
            score = torch.sin(1e4 * x.prod(1).sum(1))
            return torch.stack([-score, score], 1)

    config = CoRTXConfig(pretrain_epochs=1, epochs=1, permutations=2)
    CoRTX(Hash(), config, device="cpu").fit(series(60), progress=False)
    assert "more labels (label_share) or permutations are needed" in caplog.text


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="Expected label_share > 0, got 0"):
        CoRTXConfig(label_share=0)
