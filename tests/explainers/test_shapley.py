"""Sampled Shapley values against exact enumeration of subsets."""

import itertools

import numpy as np
import pytest
import torch
from loops import shapley_by_enumeration
from torch import nn

from timex.explainers import ShapleySampling, ShapleySamplingConfig
from timex.explainers.shapley import random_ranks, shapley_values


class Tiny(nn.Module):
    """A small net over (T, D) = (3, 2) with interactions between cells."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
        self.body[1].weight.data *= 3

    def forward(self, x):
        return self.body(x)


def series(n, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(n, 3, 2)).astype(np.float32))


def of_copies(model):
    return lambda copies: model(copies.flatten(0, 1)).unflatten(0, copies.shape[:2])


@pytest.mark.parametrize("rows", [1, 64, 100_000])
def test_over_all_permutations_it_is_exact(rows):
    model, x = Tiny(), series(2)
    every = torch.tensor(list(itertools.permutations(range(6)))).expand(2, -1, -1)  # (2, 720, 6)
    out = shapley_values(of_copies(model), x, every, rows)
    with torch.no_grad():
        for i in range(2):
            exact = shapley_by_enumeration(lambda cells: model(cells[None])[0], x[i])
            torch.testing.assert_close(out[i], exact, atol=1e-5, rtol=1e-4)


def test_sampled_permutations_come_near():
    model, x = Tiny(), series(4)
    out = shapley_values(of_copies(model), x, random_ranks(0, torch.arange(4), 400, 6))
    with torch.no_grad():
        exact = torch.stack([shapley_by_enumeration(lambda cells: model(cells[None])[0], v) for v in x])
    assert (out - exact).abs().max() < 0.08
    assert exact.abs().max() > 0.4


def test_ranks_are_permutations_in_opposite_pairs():
    rank = random_ranks(1, torch.arange(3), 5, 7)
    assert rank.shape == (3, 5, 7)
    assert (rank.sort(-1).values == torch.arange(7)).all()
    assert (rank[:, 0] + rank[:, 1] == 6).all()
    assert not torch.equal(rank[0], rank[1])


def test_the_explainer_sums_to_the_gain_and_takes_targets():
    model, x = Tiny(), series(5)
    explainer = ShapleySampling(model, ShapleySamplingConfig(permutations=4), device="cpu")
    with torch.no_grad():
        gain = (model(x) - model(torch.zeros_like(x))).numpy()
    for target in (None, [2, 0, 1, 1, 0]):
        e = explainer.explain(x, target=target)
        np.testing.assert_allclose(e.attribution.sum((1, 2)), gain[np.arange(5), e.prediction], atol=1e-5)
    assert e.signed
