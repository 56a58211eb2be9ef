"""Predictions of occluded series, by our models and by foreign ones."""

import numpy as np
import pytest
import torch

from timex.reference.base import initialised
from timex.reference.predict import model_predict

N, T, D = 24, 11, 3


@pytest.fixture
def series():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, T, D)).astype(np.float32), rng.random((N, T, D))


def test_model_predict_masks_attention_where_there_is_some(series):
    x, attribution = series
    shape = {"n_channels": D, "n_classes": 2, "n_steps": T}
    model = initialised("transformer", {**shape, "n_layers": 1, "d_hidden": 8, "dropout": 0.1, "normalise": False}, 0)
    kept = attribution > 0.7
    got = model_predict(model, chunk=5)(x, kept)
    with torch.no_grad():
        steps = torch.tensor(kept.any(axis=2)).float()
        expected = model.eval()(torch.tensor(x), None, None, steps).double().softmax(-1).numpy()
        bare = model(torch.tensor(x)).double().softmax(-1).numpy()
    assert got == pytest.approx(expected, abs=1e-6)
    assert model_predict(model, attention=False)(x, kept) == pytest.approx(bare, abs=1e-6)
    assert np.abs(expected - bare).max() > 1e-4


def test_model_predict_of_a_foreign_module(series):
    x, attribution = series

    class Foreign(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.Linear(T * D, 4)  # by the name of a flag of our models

        def forward(self, x):
            return self.attention(x.flatten(1))

    model = Foreign()
    with torch.no_grad():
        expected = model(torch.tensor(x)).double().softmax(-1).numpy()
    assert model_predict(model, chunk=7)(x, attribution > 0.5) == pytest.approx(expected, abs=1e-6)
