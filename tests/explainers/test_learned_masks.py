"""Learned masks against a loop over samples, and against models whose deciding cells are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from timex.explainers import ContraLSP, ContraLSPConfig, ExtremalMask, ExtremalMaskConfig
from timex.explainers.learned_masks import clipped, open_probability, triplet
from timex.metrics import ground_truth_scores

T, D = 10, 2


class FirstSteps(nn.Module):
    """The class is the sign of the sum of the first three steps of channel 1."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        z = self.scale * x[:, :3, 1].sum(1)
        return torch.stack([-z, z], dim=1)


def series(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, T, D)).astype(np.float32)


def test_extremal_masks_are_those_of_a_loop_over_samples():
    model, x = FirstSteps(), series(40)
    config = ExtremalMaskConfig(steps=12, fit_steps=5, hidden=3, size_weight=0.7)
    explainer = ExtremalMask(model, config).fit(x, progress=False)
    e = explainer.explain(x[:6])
    network = explainer.fitted.networks["perturbation"]
    for i in range(6):
        sample = torch.as_tensor(x[i : i + 1])
        r = network(sample).detach()
        mask = torch.full_like(sample, 0.5, requires_grad=True)
        optimiser = torch.optim.Adam([mask], lr=config.lr)
        for _ in range(config.steps):
            optimiser.zero_grad()
            m = clipped(mask)
            error = F.cross_entropy(model(m * sample + (1 - m) * r), torch.as_tensor(e.prediction[i : i + 1]))
            (error + 0.7 * m.abs().mean()).backward()
            optimiser.step()
        np.testing.assert_allclose(e.attribution[i], mask.detach().clamp(0, 1)[0], atol=1e-4)


@pytest.mark.parametrize(("method", "config"), [(ExtremalMask, ExtremalMaskConfig()), (ContraLSP, ContraLSPConfig())])
def test_cells_that_decide_are_kept(method, config):
    x = series(80)
    e = method(FirstSteps(), replace(config, steps=60, fit_steps=40)).fit(x, progress=False).explain(x[:30])
    truth = np.zeros(e.x.shape, dtype=bool)
    truth[:, :3, 1] = np.sign(e.x[:, :3, 1]) == np.where(e.prediction == 1, 1, -1)[:, None]  # those that speak for the class
    assert ground_truth_scores(e.attribution, truth)["auprc"].mean() > 0.6  # a random order has about .2
    assert (e.attribution >= 0).all()
    assert (e.attribution <= 1).all()


def test_the_perturbation_is_trained():
    x, model = series(40), FirstSteps()
    explainers = [ExtremalMask(model, ExtremalMaskConfig(fit_steps=n, hidden=3)) for n in (1, 30)]
    first, second = (e.fit(x, progress=False).fitted.networks["perturbation"](torch.as_tensor(x)) for e in explainers)
    assert second.abs().mean() < first.abs().mean()  # its size has a price


def test_open_probability_is_that_of_the_noise():
    gate, noise = torch.tensor([-0.4, 0.0, 0.3]), 0.5
    draws = gate + noise * torch.randn(200_000, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(open_probability(gate, noise), (draws > 0).float().mean(0), atol=5e-3, rtol=0)


def test_clipped_lets_a_cell_come_back():
    raw = torch.tensor([-0.5, 0.3, 1.5], requires_grad=True)
    clipped(raw).sum().backward()
    assert clipped(raw).tolist() == pytest.approx([0, 0.3, 1])
    assert raw.grad.tolist() == [1, 1, 1]


def test_triplet_by_a_loop():
    rng = torch.Generator().manual_seed(0)
    r, x = torch.randn(5, T, D, generator=rng), torch.randn(5, T, D, generator=rng)
    classes = torch.tensor([0, 1, 0, 2, 1])
    total = 0.0
    for i in range(5):
        own = torch.stack([(r[i] - x[j]).abs().mean() for j in range(5) if classes[j] == classes[i]]).mean()
        other = torch.stack([(r[i] - x[j]).abs().mean() for j in range(5) if classes[j] != classes[i]]).mean()
        total += max(0.0, float(other - own + 0.1)) / 5
    assert float(triplet(r, x, classes, 0.1)) == pytest.approx(total, rel=1e-5)
    assert float(triplet(r, x, torch.zeros(5, dtype=torch.int64), 0.1)) == 0
