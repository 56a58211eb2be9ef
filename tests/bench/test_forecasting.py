"""Scores of explanations of a forecaster, on a model whose reasons are known."""

import numpy as np
import pytest
import torch
from torch import nn

from timex.bench import forecasting
from timex.records import Baseline

T, H = 40, 2


class LastFour(nn.Module):
    """Forecasts the mean of the last four hours."""

    def forward(self, x):
        return x[:, -4:, 0].mean(dim=1, keepdim=True).expand(-1, H)


X = np.random.default_rng(0).normal(size=(6, T, 1)).astype(np.float32)


def examine(attribution):
    baseline = Baseline(np.zeros((T, 1), np.float32), np.ones((T, 1), np.float32))
    return forecasting.examine(X, attribution.astype(np.float32), LastFour(), baseline, "cpu", seed=0)


def test_the_cells_a_forecast_rests_on_keep_it():
    right = np.zeros((6, T, 1))
    right[:, -4:] = 1
    scores, shown, detail = examine(right)
    assert scores["change_kept"].value == pytest.approx(0, abs=1e-12)  # a tenth of 40 cells is those four
    assert scores["change_random"].value > 0.01
    assert scores["late_share"].value == 1.0
    assert scores["late_share"].n == 6
    assert shown.shape == (2,)
    assert detail["forecast"] == LastFour()(torch.as_tensor(X))[shown].tolist()


def test_early_attribution_loses_the_forecast():
    wrong = np.zeros((6, T, 1))
    wrong[:, :4] = 1
    scores, *_ = examine(wrong)
    plain = LastFour()(torch.as_tensor(X)).numpy()
    assert scores["change_kept"].value == pytest.approx(float(np.square(plain).mean()), rel=1e-5)  # nothing is left but zeros
    assert scores["late_share"].value == 0.0


def test_equal_attributions_keep_a_tenth_all_the_same():
    kept = forecasting._top(np.ones((3, T, 1)))
    assert kept.sum(axis=(1, 2)).tolist() == [4, 4, 4]
