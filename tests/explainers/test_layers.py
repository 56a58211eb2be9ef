"""Guided Grad-CAM against Captum's own, attention roll-out against a loop, and what both refuse."""

import numpy as np
import pytest
import torch
from captum.attr import GuidedGradCam
from torch import nn

from timex.explainers import AttentionRollout, GuidedGradCAM
from timex.reference import CNN, Transformer

N, T, D, C = 4, 12, 3, 2


class Convolutions(nn.Module):
    """Two convolutions without pooling, channel first or, as ours, time first."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(D, 5, 3, padding=1), nn.ReLU(), nn.Conv1d(5, 4, 3, padding=1))
        self.relu, self.head = nn.ReLU(), nn.Linear(4, C)
        self.time_first = True

    def forward(self, x):
        return self.head(self.relu(self.body(x.mT if self.time_first else x)).mean(2))


def series():
    return np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)


@pytest.mark.filterwarnings("ignore:Setting .*hooks")
def test_guided_gradcam_is_captums():
    torch.manual_seed(3)
    model, x = Convolutions(), series()
    e = GuidedGradCAM(model, device="cpu").explain(x)
    model.time_first = False
    captum = GuidedGradCam(model, model.body[2])
    expected = captum.attribute(torch.as_tensor(x).mT.contiguous().requires_grad_(), torch.as_tensor(e.prediction))
    assert expected.abs().max() > 1e-4
    np.testing.assert_allclose(e.attribution, expected.detach().mT, atol=1e-6)


def test_roll_out_is_that_of_a_loop():
    for residual in (False, True):
        torch.manual_seed(0)
        model = Transformer(D, C, T, n_layers=2, d_hidden=8, residual=residual).eval()
        x = series()
        observed = np.ones(x.shape, dtype=bool)
        observed[0, 9:] = False
        e = AttentionRollout(model, device="cpu").explain(x, observed=observed)
        for i in range(N):
            n = 9 if i == 0 else T  # steps that are there
            sample = torch.as_tensor(x[i : i + 1, :n])
            h = torch.cat([with_time(sample)], -1)
            rolled = torch.eye(n)
            for layer in model.encoder.layers:
                q, k = layer.attention.q_proj(h)[0], layer.attention.k_proj(h)[0]
                weights = torch.stack([torch.softmax(row @ k.T / k.shape[1] ** 0.5, 0) for row in q])
                rolled = ((weights + torch.eye(n)) / 2 if residual else weights) @ rolled
                h = layer(h, None, None, None)
            expected = rolled.mean(0).detach().numpy()
            np.testing.assert_allclose(e.attribution[i, :n], np.repeat(expected[:, None], D, 1), atol=1e-5)
            assert expected.sum() == pytest.approx(1, abs=1e-5)


def with_time(x):
    """[time encoding ; x] of times 1..T, written out."""
    k, t = torch.arange(8.0), torch.arange(1.0, x.shape[1] + 1)
    angle = t[:, None] * float(T) ** (-k / 7)
    return torch.cat([torch.cat([angle.sin(), angle.cos()], -1)[None], x], -1)


def test_models_without_the_layer_are_refused():
    with pytest.raises(ValueError, match=r"Expected a model with a torch\.nn\.Conv1d for GuidedGradCAM, got Transformer"):
        GuidedGradCAM(Transformer(D, C, T))
    with pytest.raises(ValueError, match=r"Expected a transformer of timex\.reference for AttentionRollout, got CNN"):
        AttentionRollout(CNN(D, C, T))
