"""Dynamask against a loop over samples, its blur and regulator by hand, and what it says when a mask does not move."""

import itertools
import logging

import numpy as np
import pytest
import torch
from loops import blur_by_loop, blur_of_sample, dynamask_by_loop
from torch import nn

from timex.explainers import Dynamask, DynamaskConfig, DynamaskDeletion
from timex.explainers.dynamask import Blur, Choice, size_regulator, size_target
from timex.reference import CNN, LSTM, Transformer

N, T, D, C = 5, 13, 2, 3
ONE = DynamaskConfig(keep_ratio=(0.2,), size_growth=(1e3,), sigma_max=(2.0,), steps=12)


def series(n=N, t=T, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def model_of(make):
    """Random weights, logits of mean 0 and deviation 3: far enough from indifference for gradients to matter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = make().eval()
    with torch.no_grad():
        logits = model(torch.as_tensor(series(200, seed=9)))
        mean, std = logits.mean(0), logits.std(0) / 3
        model.head[-1].weight /= std[:, None]
        model.head[-1].bias.sub_(mean).div_(std)
    return model


MODELS = {
    "transformer": lambda: Transformer(D, C, T, d_hidden=5),
    "cnn": lambda: CNN(D, C, T, width=8),
    "lstm": lambda: LSTM(D, C, T, hidden=3, n_layers=1),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("time_weight", [0.0, 0.5])
def test_a_chunk_is_the_loop_over_its_samples(name, time_weight):
    model, x = model_of(MODELS[name]), series()
    config = DynamaskConfig(keep_ratio=(0.2,), size_growth=(1e3,), sigma_max=(2.0,), steps=12, time_weight=time_weight)
    e = Dynamask(model, config, device="cpu").explain(x)
    for i in range(N):
        mask = dynamask_by_loop(model, torch.as_tensor(x[i]), torch.tensor(e.prediction[i]), config)
        np.testing.assert_allclose(e.attribution[i], mask, atol=2e-4)
    assert e.attribution.std() > 0.05


def test_deletion_masks_are_those_of_a_loop():
    model, x = model_of(MODELS["cnn"]), series()
    explainer = DynamaskDeletion(model, ONE, device="cpu")
    e = explainer.explain(x)
    for i in range(N):
        mask = dynamask_by_loop(model, torch.as_tensor(x[i]), torch.tensor(e.prediction[i]), ONE, delete=True)
        np.testing.assert_allclose(e.attribution[i], mask, atol=2e-4)
    assert explainer.report.error_last > explainer.report.error_first > 0


def test_blur_is_the_gaussian_mean_of_every_cell():
    x = torch.as_tensor(series(3, 17, 2))
    mask = torch.rand(3, 17, 2, generator=torch.Generator().manual_seed(0))
    mask[0, 3] = 1.0
    mask[1, :, 0] = 0.0
    seen = torch.ones_like(x, dtype=torch.bool)
    out = Blur(x, seen, 2.0)(mask)
    for i in range(3):
        torch.testing.assert_close(out[i], blur_by_loop(x[i], mask[i], 2.0), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(out[i], blur_of_sample(x[i], mask[i], 2.0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(out[0, 3], x[0, 3])  # a cell that is kept is itself


def test_blur_has_finite_slopes_everywhere():
    x, seen = torch.as_tensor(series(2)), torch.ones(2, T, D, dtype=torch.bool)
    seen[0, 4:] = False
    mask = torch.tensor([0.0, 1.0]).repeat(T)[: T * D].view(1, T, D).repeat(2, 1, 1).requires_grad_()
    Blur(x, seen, 2.0)(mask).square().sum().backward()
    assert mask.grad.isfinite().all()


def test_blur_by_hand():
    """Mask .5 of sigma_max 2 is width 1: weights e^-.5 : 1 : e^-.5 for a unit spike and its neighbours."""
    x = torch.zeros(1, 30, 1)
    x[0, 15] = 1.0
    out = Blur(x, torch.ones_like(x, dtype=torch.bool), 2.0)(torch.full_like(x, 0.5))
    total = sum(np.exp(-(k**2) / 2) for k in range(-14, 15))
    assert out[0, 15, 0].item() == pytest.approx(1 / total, rel=1e-5)
    assert out[0, 14, 0].item() == pytest.approx(np.exp(-0.5) / total, rel=1e-5)


def test_blur_takes_nothing_from_cells_that_do_not_exist():
    x = torch.tensor([[[1.0], [3.0], [100.0]]])
    seen = torch.tensor([[[True], [True], [False]]])
    out = Blur(x, seen, 2.0)(torch.zeros(1, 3, 1))
    weight = np.exp(-1 / 8)
    assert out[0, 0, 0].item() == pytest.approx((1 + 3 * weight) / (1 + weight), rel=1e-4)
    assert out[0, 2, 0].item() == 100.0


def test_size_regulator_by_hand():
    """Half of four cells: the sorted mask (.9, .5, .4, 0) against (1, 1, 0, 0)."""
    mask = torch.tensor([[[0.5], [0.0], [0.9], [0.4]]])
    seen = torch.ones_like(mask, dtype=torch.bool)
    value = size_regulator(mask, seen, size_target(seen, 0.5))
    assert value.item() == pytest.approx((0.01 + 0.25 + 0.16 + 0) / 4)
    seen[0, 2] = False  # (.5, .4, 0) against (1, 1, 0): 1.5 of three cells rounds to 2
    value = size_regulator(mask, seen, size_target(seen, 0.5))
    assert value.item() == pytest.approx((0.25 + 0.36 + 0) / 3)


class FirstStep(nn.Module):
    """Only the first step counts: class 1 if it is large."""

    def forward(self, x):
        score = 8 * (x[:, 0].sum(-1) - 0.8)
        return torch.stack([-score, score], 1)


def test_it_finds_the_only_cell_that_counts():
    x = np.zeros((2, 20, 1), dtype=np.float32)
    x[:, 0] = 1.0
    x[1, 12] = 1.0  # of no consequence
    e = Dynamask(FirstStep(), DynamaskConfig(keep_ratio=(0.05,), size_growth=(1e3,), sigma_max=(2.0,)), device="cpu").explain(x)
    assert e.attribution[:, 0, 0].min() > 0.9
    assert e.attribution[:, 1:].max() < 0.5


class Certain(nn.Module):
    """So sure of class 1 that its probability is exactly 1, whatever the series."""

    def forward(self, x):
        level = x.mean((1, 2))
        return torch.stack([level, 200 - level], dim=1)


@pytest.mark.parametrize(("weight", "growth"), [(1e-9, 1.0), (0.001, 1e5)])
def test_a_mask_that_the_prediction_does_not_move_is_reported(caplog, weight, growth):
    """Also where the regulator moves it: then it is the first cells that are kept, whatever the series."""
    config = DynamaskConfig(keep_ratio=(0.5,), size_weight=weight, size_growth=(growth,), sigma_max=(2.0,))
    explainer = Dynamask(Certain(), config, device="cpu")
    with caplog.at_level(logging.WARNING):
        e = explainer.explain(series())
    expected = np.full(T * D, 0.5) if growth == 1 else np.arange(T * D) < T * D // 2
    np.testing.assert_allclose(e.attribution, np.broadcast_to(expected.reshape(T, D), (N, T, D)), atol=0.05)
    assert explainer.report.still == 1.0
    assert "prediction never moved the mask of 100 % of the samples" in caplog.text


def test_report():
    model, x = model_of(MODELS["cnn"]), series()
    explainer = Dynamask(model, ONE, device="cpu")
    assert explainer.report is None
    e = explainer.explain(x, chunk=2)
    report = explainer.report
    assert report.chosen == (0.2, 1e3, 2.0)
    assert report.still == 0
    wanted = np.zeros(T * D)
    wanted[: round(0.2 * T * D)] = 1
    sizes = [np.mean((np.sort(m.ravel())[::-1] - wanted) ** 2) for m in e.attribution]
    assert report.size_last == pytest.approx(np.mean(sizes), abs=1e-5)
    blurred = Blur(torch.as_tensor(x), torch.ones(N, T, D, dtype=torch.bool), 2.0)(torch.as_tensor(e.attribution))
    with torch.no_grad():
        logits = model(blurred)
    error = nn.functional.cross_entropy(logits, torch.as_tensor(e.prediction)).item()
    assert report.error_last == pytest.approx(error, abs=1e-5)
    assert report.loss_last == pytest.approx(error + 0.001 * 1e3 * np.mean(sizes), abs=1e-4)
    assert report.preserved == pytest.approx((logits.argmax(-1).numpy() == e.prediction).mean())


def test_fit_chooses_the_settings_whose_cells_say_most():
    model, x = model_of(MODELS["cnn"]), series(30)
    config = DynamaskConfig(keep_ratio=(0.02, 0.9), size_growth=(1e2, 1e4), sigma_max=(0.5, 4.0), steps=15)
    explainer = Dynamask(model, config, device="cpu")
    with pytest.raises(RuntimeError, match="has not been fitted: call fit"):
        explainer.explain(x)
    explainer.fit(x, x_val=x[:10])
    score = {}
    for choice in itertools.starmap(Choice, itertools.product(config.keep_ratio, config.size_growth, config.sigma_max)):
        score[choice] = explainer._faithfulness({"x": torch.as_tensor(x[:10])}, choice)
    assert len({round(v, 4) for v in score.values()}) > 3
    sigma = min(config.sigma_max, key=lambda v: score[Choice(0.02, 1e2, v)])
    growth = min(config.size_growth, key=lambda v: score[Choice(0.02, v, sigma)])
    ratio = min(config.keep_ratio, key=lambda v: score[Choice(v, growth, sigma)])
    assert explainer.chosen == (ratio, growth, sigma)
    assert explainer.explain(x[:3]).attribution.shape == (3, T, D)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"Expected keep_ratio as shares in \(0, 1\], got \(0.0,\)"):
        DynamaskConfig(keep_ratio=(0.0,))
    with pytest.raises(ValueError, match="Expected size_growth as positive numbers"):
        DynamaskConfig(size_growth=(-1.0,))
    with pytest.raises(ValueError, match="Expected a DynamaskConfig for Dynamask, got dict"):
        Dynamask(Certain(), {"steps": 3})
