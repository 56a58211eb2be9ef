"""TimeSHAP's pruning against a loop, and its values against exact Shapley values of the players."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers import TimeShap, TimeShapConfig

T, D = 9, 2


class Recent(nn.Module):
    """Reads the last three steps, and their product."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0], [0.5, 1.5], [2.0, 1.0]]))

    def forward(self, x):
        z = (x[:, -3:] * self.weight).sum((1, 2)) + x[:, -1, 0] * x[:, -2, 1]
        return torch.stack([-z, z], dim=1)


def series(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, T, D)).astype(np.float32)


def answer(model, x, target):
    with torch.no_grad():
        return float(model(torch.as_tensor(x[None]))[0, target])


@pytest.mark.parametrize("tolerance", [0.0, 0.2, 0.6])
def test_the_pruned_past_is_that_of_a_loop(tolerance):
    model, x = Recent(), series(6)
    explainer = TimeShap(model, TimeShapConfig(n_segments=3, tolerance=tolerance))
    e = explainer.explain(x)
    for i, target in enumerate(e.prediction):
        nothing, whole = answer(model, 0 * x[i], target), answer(model, x[i], target)
        start = 0
        for s in range(1, T):
            past, recent = x[i].copy(), x[i].copy()
            past[s:], recent[:s] = 0, 0
            value = (answer(model, past, target) - nothing + whole - answer(model, recent, target)) / 2
            if abs(value) <= tolerance * abs(whole - nothing) + 1e-7:
                start = s
        assert start >= T - 3  # no step before the last three is read
        assert len(np.unique(e.attribution[i, :start])) <= 1  # one player


def test_values_are_exact_shapley_values_of_the_players():
    model, x = Recent(), series(4)
    e = TimeShap(model, TimeShapConfig(n_segments=3, tolerance=0.0)).explain(x)
    for i, target in enumerate(e.prediction):
        start = T - 3  # the last three steps of each channel are players of their own, and the past is the seventh
        players = [[(t, d)] for t in range(start, T) for d in range(D)] + [[(t, d) for t in range(start) for d in range(D)]]

        def value(chosen, i=i, target=target, players=players):
            kept = np.zeros_like(x[i])
            for player in chosen:
                for cell in players[player]:
                    kept[cell] = x[i][cell]
            return answer(model, kept, target)

        n = len(players)
        for player in range(n):
            others = [p for p in range(n) if p != player]
            exact = sum(
                math.factorial(k) * math.factorial(n - k - 1) / math.factorial(n) * (value((*s, player)) - value(s))
                for k in range(n)
                for s in itertools.combinations(others, k)
            )
            assert e.attribution[i][players[player][0]] == pytest.approx(exact, abs=1e-3)


def test_nothing_is_pruned_where_the_first_step_counts():
    class First(nn.Module):
        def forward(self, x):
            return torch.stack([-x[:, 0, 0], x[:, 0, 0]], dim=1)

    e = TimeShap(First(), TimeShapConfig(n_segments=T)).explain(series(3))
    np.testing.assert_allclose(np.abs(e.attribution[:, 0, 0]), np.abs(e.x[:, 0, 0]), atol=1e-3)
    assert np.abs(e.attribution[:, 1:]).max() < 1e-2
