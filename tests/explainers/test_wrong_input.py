"""What `explain` and `attribute` refuse: NaN from the model or the method, tensors of whole numbers, odd options."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers.gradients import IntegratedGradients
from timex.method.explainer import TimeX

N, T, D, C = 5, 6, 2, 3


class Overflows(nn.Module):
    """Gives NaN for series with a value above 100."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(T * D, C)

    def forward(self, x):
        logits = self.head(x.flatten(1))
        return torch.where(x.amax((1, 2))[:, None] > 100, torch.nan, logits)


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)


def test_a_model_without_an_answer_is_no_class(x):
    x[3, 1, 0] = 1234
    with pytest.raises(
        ValueError,
        match=r"got NaN or inf as the model's answer for 1 of 5 samples, first for sample 3, whose largest value is 1\.23e\+03",
    ):
        IntegratedGradients(Overflows()).explain(x)
    with pytest.raises(ValueError, match="for 1 of 1 samples, first for sample 3"):
        IntegratedGradients(Overflows()).explain(x, chunk=1)


def test_an_attribution_that_is_not_finite(x):
    explainer = IntegratedGradients(nn.Sequential(nn.Flatten(), nn.Linear(T * D, C)))
    explainer._explain = lambda batch: {"attribution": batch.x * torch.inf}
    with pytest.raises(ValueError, match="got NaN or inf as the attribution for 5 of 5 samples, first for sample 0"):
        explainer.explain(x)


@pytest.mark.parametrize("inputs", [torch.ones(N, T, D).int(), torch.ones(N, T, D) > 0, np.ones((N, T, D))])
def test_attribute_takes_floating_point_tensors(inputs):
    explainer = IntegratedGradients(nn.Sequential(nn.Flatten(), nn.Linear(T * D, C)))
    with pytest.raises(ValueError, match=r"Expected inputs as a tensor of floating-point numbers, got (torch\.|ndarray)"):
        explainer.attribute(inputs)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, "2", True])
def test_chunks_are_whole_numbers(x, chunk):
    explainer = IntegratedGradients(nn.Sequential(nn.Flatten(), nn.Linear(T * D, C)))
    with pytest.raises(ValueError, match="Expected chunk as a whole number of at least 1 sample, got"):
        explainer.explain(x, chunk=chunk)


def test_devices_are_checked_at_once(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    model = nn.Sequential(nn.Flatten(), nn.Linear(T * D, C))
    for device, words in (("cuda", "torch finds 0 on this machine"), ("gpu", "got 'gpu'"), ("meta", "that holds values")):
        with pytest.raises(ValueError, match=words):
            TimeX(model, device=device)
