"""SmoothGrad and TIMING against loops over their points, and step-by-step gradients against what they sum to."""

import numpy as np
import pytest
import torch
from torch import nn

from timex.engine import normal_from_uniform
from timex.explainers import (
    IntegratedGradients,
    IntegratedGradientsConfig,
    SequentialIG,
    SmoothGrad,
    SmoothGradConfig,
    StepGradientsConfig,
    TemporalIG,
    Timing,
    TimingConfig,
)
from timex.explainers.batch import uniform_per_sample
from timex.explainers.random_gradients import held_cells
from timex.testing import check_explainer

N, T, D, C = 4, 11, 2, 3


def series(n=N, t=T, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 8), nn.Tanh(), nn.Linear(8, C)).eval().requires_grad_(False)


def gradient_of(model, point, target):
    """Of one logit at one series (T, D)."""
    point = point.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(point[None])[0, int(target)], point)
    return gradient


@pytest.mark.parametrize("statistic", ["mean", "square", "variance"])
def test_smoothgrad_is_the_loop_over_noisy_copies(model, statistic):
    x, config = series(), SmoothGradConfig(n_samples=5, noise=0.2, statistic=statistic, seed=3)
    e = SmoothGrad(model, config, device="cpu").explain(x)
    noise = normal_from_uniform(uniform_per_sample(3, torch.arange(N), 5, T, D))
    for i in range(N):
        size = 0.2 * (x[i].max(0) - x[i].min(0))  # of every channel
        found = [gradient_of(model, torch.tensor(x[i] + size * noise[i, s].numpy()), e.prediction[i]) for s in range(5)]
        gradients = torch.stack(found).numpy()
        expected = {"mean": np.abs(gradients.mean(0)), "square": (gradients**2).mean(0), "variance": gradients.var(0)}
        np.testing.assert_allclose(e.attribution[i], expected[statistic], rtol=1e-4, atol=1e-6)


STATISTICS = {"mean": "smoothgrad", "square": "smoothgrad_sq", "variance": "vargrad"}
"""The names of the statistics in Captum."""


@pytest.mark.parametrize(
    ("averaged", "statistic", "error"),
    [("saliency", "mean", 0.005), ("ig", "mean", 0.005), ("ig", "square", 0.002), ("ig", "variance", 0.00018)],
)
def test_smoothgrad_is_captums_noise_tunnel(model, averaged, statistic, error):
    """On noise of the same size in every channel, with so many draws that their randomness hardly shows."""
    from captum.attr import IntegratedGradients as CaptumIG
    from captum.attr import NoiseTunnel, Saliency

    x = np.clip(series(2), -1, 1)
    x[:, 0], x[:, 1] = -1, 1
    config = SmoothGradConfig(n_samples=4000, noise=0.15, averaged=averaged, statistic=statistic)
    e = SmoothGrad(model, config, device="cpu").explain(x)
    tunnel = NoiseTunnel(Saliency(model) if averaged == "saliency" else CaptumIG(model))
    options = {"abs": False} if averaged == "saliency" else {"n_steps": 10, "method": "riemann_middle"}
    expected = tunnel.attribute(
        torch.tensor(x),
        nt_type=STATISTICS[statistic],
        nt_samples=4000,
        nt_samples_batch_size=100,
        stdevs=0.3,
        target=torch.tensor(e.prediction),
        **options,
    ).abs()
    np.testing.assert_allclose(e.attribution, expected.detach(), atol=error)
    assert e.attribution.max() > 20 * error


def test_smoothgrad_of_integrated_gradients_is_the_loop_over_noisy_copies(model):
    x, config = series(), SmoothGradConfig(n_samples=5, noise=0.2, averaged="ig", n_points=4, seed=3)
    e = SmoothGrad(model, config, device="cpu").explain(x)
    noise = normal_from_uniform(uniform_per_sample(3, torch.arange(N), 5, T, D))
    for i in range(N):
        total = torch.zeros(T, D)
        for s in range(5):
            copy = torch.tensor(x[i] + 0.2 * (x[i].max(0) - x[i].min(0)) * noise[i, s].numpy())
            total += copy * sum(gradient_of(model, (k + 0.5) / 4 * copy, e.prediction[i]) for k in range(4)) / 4
        np.testing.assert_allclose(e.attribution[i], (total / 5).abs(), rtol=1e-4, atol=1e-6)


def test_smoothgrad_of_integrated_gradients_keeps_the_contract(model):
    config = SmoothGradConfig(n_samples=3, averaged="ig", n_points=2)
    check_explainer(lambda given: SmoothGrad(given, config), model, series(24))
    assert eval(SmoothGrad.cost, {"n_samples": 3, "averaged": "ig", "n_points": 2}) == 6


def test_timing_is_the_loop_over_points_and_their_segments(model):
    x, config = series(), TimingConfig(n_points=7, held=0.4, max_length=4, seed=2)
    e = Timing(model, config, device="cpu").explain(x)
    held = held_cells(config, torch.arange(N), (T, D))
    for i in range(N):
        total, count = torch.zeros(T, D), torch.zeros(T, D)
        for k in range(7):
            point = torch.tensor(x[i]).clone()
            point[~held[i, k]] *= (k + 0.5) / 7
            gradient = gradient_of(model, point, e.prediction[i])
            total[~held[i, k]] += gradient[~held[i, k]]
            count[~held[i, k]] += 1
        np.testing.assert_allclose(e.attribution[i], x[i] * (total / count.clamp(min=1)).numpy(), rtol=1e-4, atol=1e-6)


def test_timing_without_segments_is_integrated_gradients(model):
    x = series()
    e = Timing(model, TimingConfig(n_points=200, held=0.0), device="cpu").explain(x)
    ig = IntegratedGradients(model, IntegratedGradientsConfig(n_steps=200), device="cpu").explain(x)
    np.testing.assert_allclose(e.attribution, ig.attribution, atol=1e-3)


@pytest.mark.parametrize("held", [0.2, 0.5, 0.8])
def test_segments_hold_the_expected_share(held):
    config = TimingConfig(n_points=400, held=held, min_length=3, max_length=6)
    cells = held_cells(config, torch.arange(5), (60, 3))
    assert cells.float().mean().item() == pytest.approx(held, abs=0.04)
    runs = torch.diff(cells.int(), dim=2, prepend=torch.zeros(5, 400, 1, 3, dtype=torch.int32))
    starts = (runs == 1).sum().item()
    assert cells.sum().item() / starts >= 3  # no segment is shorter


def test_segments_of_the_whole_series_are_allowed(model):
    config = TimingConfig(n_points=5, held=0.5, min_length=50, max_length=100)
    assert np.isfinite(Timing(model, config, device="cpu").explain(series()).attribution).all()


def test_steps_sum_to_what_the_logit_loses_without_them(model):
    x = series()
    e = SequentialIG(model, StepGradientsConfig(n_points=100), device="cpu").explain(x)
    whole = model(torch.tensor(x)).numpy()
    for t in range(T):
        without = x.copy()
        without[:, t] = 0
        loss = (whole - model(torch.tensor(without)).numpy())[np.arange(N), e.prediction]
        np.testing.assert_allclose(e.attribution[:, t].sum(-1), loss, atol=1e-4)


def test_steps_sum_to_what_the_logit_gains_as_they_come_in(model):
    x = series()
    e = TemporalIG(model, StepGradientsConfig(n_points=100), device="cpu").explain(x)
    before = model(torch.zeros(N, T, D)).numpy()
    for t in range(T):
        known = x.copy()
        known[:, t + 1 :] = 0
        now = model(torch.tensor(known)).numpy()
        gain = (now - before)[np.arange(N), e.prediction]
        np.testing.assert_allclose(e.attribution[:, t].sum(-1), gain, atol=1e-4)
        before = now
