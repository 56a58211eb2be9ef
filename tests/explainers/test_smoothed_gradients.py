"""The explainer `gradients`: its attribution by hand, for other targets and missing cells, and the choice of its width.

Shapes: N samples, T steps, D channels, C classes.
"""

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers import Gradients, GradientsConfig
from timex.explainers.splitting import split
from timex.records import Series
from timex.reference import CNN
from timex.reference.evidence import WIDTHS, gap, log_odds, path_gradients, smoothed

N, T, D, C = 30, 14, 2, 3


def series(n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, T, D)).astype(np.float32)


def cnn():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return CNN(D, C, T, width=5).eval()


def by_hand(model, x, mean, width, points, target=None, observed=None):
    """|Integrated gradients| of the log-odds from the training mean, smoothed over time."""
    x, seen = torch.as_tensor(x), None if observed is None else torch.as_tensor(observed)
    target = model(x, None, seen).argmax(-1) if target is None else torch.as_tensor(target)
    start = torch.as_tensor(mean).expand(x.shape) * (1 if seen is None else seen)
    found = path_gradients(lambda point: log_odds(model(point, None, seen), target), x, start, points)
    found = smoothed(found.abs(), width, seen)
    return found if seen is None else torch.where(seen, found, 0.0)


@pytest.mark.parametrize("width", [0, 2])
def test_attribution_by_hand(width):
    model, x = cnn(), series()
    explainer = Gradients(model, GradientsConfig(width=width, n_points=6), device="cpu").fit(x, x_val=series(5, 1))
    assert (explainer.fitted.width, explainer.fitted.gaps) == (width, {})
    e = explainer.explain(series(7, 2))
    expected = by_hand(model, series(7, 2), x.mean(0), width, 6)
    np.testing.assert_allclose(e.attribution, expected.detach(), atol=1e-5)
    other = (e.prediction + 1) % C
    expected = by_hand(model, series(7, 2), x.mean(0), width, 6, other)
    np.testing.assert_allclose(explainer.explain(series(7, 2), target=other).attribution, expected.detach(), atol=1e-5)


def test_attribution_of_missing_cells():
    model, x = cnn(), series()
    observed = np.random.default_rng(3).random(x.shape) > 0.2
    x = np.where(observed, x, 0).astype(np.float32)
    explainer = Gradients(model, GradientsConfig(width=1, n_points=4), device="cpu").fit(
        x, observed=observed, x_val=series(5, 1)
    )
    mean = (x.sum(0) / observed.sum(0)).astype(np.float32)
    expected = by_hand(model, x[:6], mean, 1, 4, observed=observed[:6])
    np.testing.assert_allclose(explainer.explain(x[:6], observed=observed[:6]).attribution, expected.detach(), atol=1e-5)


@pytest.mark.parametrize("given", [False, True])
def test_the_width_has_the_largest_gap_on_held_out_series(given, monkeypatch):
    """Whatever the chunks."""
    model, x = cnn(), series()
    val = series(9, 1) if given else None
    explainer = Gradients(model, GradientsConfig(n_points=4), device="cpu").fit(x, x_val=val)
    kept, held, _ = split(Series(x), None if val is None else Series(val), 0, 256)
    mean = torch.as_tensor(kept.x.mean(0))
    views = torch.as_tensor(held.x)
    expected = {}
    for width in WIDTHS:
        found = by_hand(model, held.x, mean, width, 4)
        with torch.no_grad():
            expected[width] = float(gap(model, views, found, mean).mean())
    assert explainer.fitted.gaps == pytest.approx(expected, abs=1e-4)
    assert explainer.fitted.width == max(expected, key=expected.get)
    monkeypatch.setattr(Gradients, "_rows", lambda self, shape: 4)
    chunked = Gradients(model, GradientsConfig(n_points=4), device="cpu").fit(x, x_val=val)
    assert chunked.fitted.gaps == pytest.approx(explainer.fitted.gaps, abs=1e-5)


class Linear(nn.Module):
    """Reads every other step of the first channel."""

    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.zeros(T, D))
        self.w[2:10:2, 0] = 2.0

    def forward(self, x):
        y = (x * self.w).sum((1, 2))
        return torch.stack([y, -y], dim=1)


def test_of_a_linear_model_all_is_known():
    """The log-odds are 2 y, so that the attribution of a cell is 2 |w (x - mean)|."""
    x = series()
    explainer = Gradients(Linear(), GradientsConfig(width=0), device="cpu").fit(x, x_val=series(5, 1))
    expected = 2 * np.abs(Linear().w.numpy() * (x[:4] - x.mean(0)))
    np.testing.assert_allclose(explainer.explain(x[:4]).attribution, expected, atol=1e-4)
