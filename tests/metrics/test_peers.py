"""Faithfulness scores against other packages: captum.metrics always; time_interpret and Quantus where they are installed.

pip install --no-deps time_interpret==0.3.0
pip install quantus==0.6.0
"""

import warnings

import numpy as np
import pytest
import torch
from captum.metrics import infidelity as captum_infidelity
from captum.metrics import sensitivity_max as captum_sensitivity
from torch import nn

from timex import Series
from timex.metrics import faithfulness as f
from timex.metrics.agreement import deviations, max_sensitivity
from timex.metrics.hiding import Probe
from timex.reference.predict import model_predict

N, T, D, C = 5, 10, 2, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, T, D)).astype(np.float32)
TRAIN = Series(RNG.normal(0.3, 1.2, size=(9, T, D)))
A = RNG.normal(size=(N, T, D)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 6), nn.Tanh(), nn.Linear(6, C)).eval()


def probe(model, fill="mean"):
    return Probe(model_predict(model), Series(X), TRAIN, fill)


@pytest.mark.parametrize("normalise", [True, False])
def test_infidelity_is_captums(model, normalise):
    p = probe(model)
    rng = np.random.default_rng(p.seed)
    draws = iter([rng.random(X.shape) < f.HIDDEN for _ in range(10)])

    def perturb(x):
        hidden = next(draws)
        return torch.tensor(hidden, dtype=torch.float32), torch.tensor(p.hidden(~hidden))

    options = {"n_perturb_samples": 10, "max_examples_per_batch": N, "normalize": normalise}
    target = torch.tensor(p.classes)
    x, a = torch.tensor(X), torch.tensor(A)
    theirs = captum_infidelity(lambda x: model(x).softmax(-1), perturb, x, a, target=target, **options)
    np.testing.assert_allclose(f.infidelity(p, A, normalise=normalise), theirs.detach(), rtol=1e-4, atol=1e-7)


def test_infidelity_of_what_adds_up_is_zero():
    """A linear score, and what each cell adds to it."""
    weight = RNG.uniform(0.001, 0.01, size=(T, D))
    own = lambda x: 0.5 + (weight * x).sum((1, 2))  # noqa: E731
    p = Probe(lambda x, kept: np.stack([own(x), 1 - own(x)], axis=1), Series(X), TRAIN, target=np.zeros(N, int))
    adds = weight * (X - TRAIN.baseline().mean)
    for a in (adds, 7 * adds):  # the scale is fitted
        np.testing.assert_allclose(f.infidelity(p, a), 0, atol=1e-12)
    assert (f.infidelity(p, A) > 1e-6).all()


def test_max_sensitivity_is_captums(model):
    def explain(x):
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            return torch.autograd.grad(model(x).softmax(-1)[:, 0].sum(), x)[0].detach()

    def as_tuple(x):  # Captum hands over a tuple of x, and the perturbed rows as they are
        return (explain(x[0] if isinstance(x, tuple) else x),)

    rng = np.random.default_rng(0)
    scale = 0.3 * deviations(Series(X))
    moved = np.stack([X + scale * rng.uniform(-1, 1, X.shape) for _ in range(4)], axis=1)  # (N, 4, T, D), as Captum repeats x
    rows = torch.tensor(moved.reshape(4 * N, T, D), dtype=torch.float32)
    theirs = captum_sensitivity(as_tuple, torch.tensor(X), perturb_func=lambda x: rows, n_perturb_samples=4)
    ours = max_sensitivity(lambda s: explain(torch.tensor(s.x)).numpy(), Series(X), radius=0.3, draws=4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("fill", ["zero", "mean"])
@pytest.mark.parametrize("name", ["comprehensiveness", "sufficiency", "log_odds"])
def test_scores_are_those_of_time_interpret(model, name, fill):
    theirs = pytest.importorskip("tint.metrics", reason="time_interpret is not installed")
    p, a = probe(model, fill), np.abs(A)  # it orders by the signed value
    ours = f.log_odds(p, a) if name == "log_odds" else getattr(f, name)(p, a, (0.2,))
    filling = torch.tensor(p.hidden(np.zeros(X.shape, bool)))
    found = getattr(theirs, name)(model, torch.tensor(X), torch.tensor(a), baselines=filling, topk=0.2)
    assert ours.mean() == pytest.approx(found, rel=1e-4)


def test_paths_of_hidden_cells_are_those_of_quantus(model):
    quantus = pytest.importorskip("quantus", reason="Quantus is not installed")

    class ChannelsFirst(nn.Module):
        def forward(self, x):
            return model(x.transpose(1, 2))

    p, a = probe(model, "zero"), np.abs(A)
    flipping = quantus.PixelFlipping(features_in_step=1, normalise=False, perturb_baseline=0.0, disable_warnings=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, order = (np.ascontiguousarray(v.transpose(0, 2, 1)) for v in (X, a))
        curves = flipping(ChannelsFirst().eval(), x, p.classes, a_batch=order, channel_first=True, softmax=True)
    ours = np.stack([p.own(view) for view in f.path(p, a, 1.0)][1:], axis=1)  # (N, T * D)
    np.testing.assert_allclose(ours, np.asarray(curves), rtol=1e-4)
