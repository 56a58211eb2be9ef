"""The Captum methods by hand on a linear model, GradientSHAP against its definition, and foreign recurrent models."""

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers import (
    DeepLift,
    GradientShap,
    GradientShapConfig,
    GradientXInput,
    IntegratedGradients,
    Occlusion,
    OcclusionConfig,
    Saliency,
)
from timex.explainers.batch import uniform_per_sample
from timex.reference import CNN, LSTM

N, T, D, C = 4, 9, 2, 3


def series(n=N, t=T, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


class Linear(nn.Module):
    """Logits w x."""

    def __init__(self):
        super().__init__()
        weight = np.random.default_rng(5).normal(size=(C, T, D)).astype(np.float32)
        self.register_buffer("w", torch.as_tensor(weight))

    def forward(self, x):
        return torch.einsum("btd,ctd->bc", x, self.w)


def chosen_weight(e):
    return Linear().w.numpy()[e.prediction]


def test_of_a_linear_model_all_are_known():
    x, model = series(), Linear()
    e = Saliency(model, device="cpu").explain(x)
    np.testing.assert_allclose(e.attribution, np.abs(chosen_weight(e)), atol=1e-6)
    for method in (GradientXInput, IntegratedGradients, DeepLift):
        e = method(model, device="cpu").explain(x)
        np.testing.assert_allclose(e.attribution, chosen_weight(e) * x, atol=1e-5)
    e = Occlusion(model, OcclusionConfig(width=1), device="cpu").explain(x)
    np.testing.assert_allclose(e.attribution, chosen_weight(e) * x, atol=1e-5)


def test_occlusion_is_the_mean_over_the_windows_of_a_cell():
    x, model = series(), Linear()
    e = Occlusion(model, OcclusionConfig(width=3), device="cpu").explain(x)
    effect = chosen_weight(e) * x
    for t in range(T):
        starts = [s for s in range(T - 2) if s <= t < s + 3]
        expected = np.mean([effect[:, s : s + 3].sum(1) for s in starts], axis=0)
        np.testing.assert_allclose(e.attribution[:, t], expected, atol=1e-5)


def test_gradient_shap_is_the_mean_over_points():
    """Against a loop over samples and points of the same draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = CNN(D, C, T, width=5).eval()
    x, train = series(), series(15, seed=1)
    config = GradientShapConfig(n_samples=6, n_background=4, seed=2)
    explainer = GradientShap(model, config, device="cpu").fit(train)
    assert explainer.fitted.x.shape == (4, T, D)
    e = explainer.explain(x, chunk=3)
    along, which = uniform_per_sample(2, torch.arange(N), 2, 6).unbind(1)
    for i in range(N):
        total = torch.zeros(T, D)
        for s in range(6):
            start = explainer.fitted.x[int(which[i, s] * 4)]
            change = torch.as_tensor(x[i]) - start
            point = (start + along[i, s] * change).requires_grad_()
            (gradient,) = torch.autograd.grad(model(point[None])[0, e.prediction[i]], point)
            total += gradient * change / 6
        np.testing.assert_allclose(e.attribution[i], total, atol=1e-5)


def test_gradient_shap_shows_the_model_nothing_where_nothing_was_measured():
    seen = []

    class Watched(Linear):
        def forward(self, x):
            seen.append(x.detach())
            return super().forward(x)

    observed = np.random.default_rng(0).random((N, T, D)) > 0.3
    explainer = GradientShap(Watched(), GradientShapConfig(n_samples=6), device="cpu").fit(series(15, seed=1) + 5)
    seen.clear()
    explainer.explain(series(), observed=observed)
    for x in seen:
        copies = len(x) // N
        assert (x[~torch.as_tensor(observed).repeat_interleave(copies, 0)] == 0).all()


def test_gradient_shap_needs_a_background():
    with pytest.raises(RuntimeError, match="This GradientShap has not been fitted"):
        GradientShap(Linear()).explain(series())


def test_deeplift_is_complete_where_activations_are_modules():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(T * D, 8), nn.ReLU(), nn.Linear(8, C)).eval()
    x = series()
    e = DeepLift(model, device="cpu").explain(x)
    with torch.no_grad():
        gain = (model(torch.as_tensor(x)) - model(torch.zeros(N, T, D))).numpy()
    np.testing.assert_allclose(e.attribution.sum((1, 2)), gain[np.arange(N), e.prediction], atol=1e-5)
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recurrent_models_on_a_gpu():
    """cuDNN refuses the backward of a recurrent layer in evaluation mode; the baselines must not run into it."""

    class Foreign(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.head = nn.GRU(D, 5, batch_first=True), nn.Linear(5, C)

        def forward(self, x):
            return self.head(self.gru(x)[0].mean(1))

    for model in (Foreign(), LSTM(D, C, T, hidden=3)):
        on_cpu, on_gpu = (IntegratedGradients(model, device=device).explain(series()) for device in ("cpu", "cuda"))
        np.testing.assert_allclose(on_gpu.attribution, on_cpu.attribution, atol=1e-4)
