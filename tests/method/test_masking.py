"""Draws against their probabilities, fills by hand, and the gradients of both."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from timex.engine import Noise, normal_from_uniform
from timex.method.masking import (
    baseline_draw,
    bernoulli_soft,
    bernoulli_straight_through,
    direct_value,
    filled,
    step_mask,
    time_shifted,
)

B, T, D, K = 5, 7, 3, 3


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- Bernoulli draws -------------------------------------------------------------------------------------------------


def test_soft_sample_by_hand():
    # p = 3/4 has odds 3, u = 1/4 odds 1/3, u = 1/2 odds 1: at tau 1 the sample's odds are their product, 1 and 3; at
    # tau 1/2 the square of it, 1 and 9.
    p, u = torch.tensor([0.75, 0.75]), torch.tensor([0.25, 0.5])
    torch.testing.assert_close(bernoulli_soft(p, u, 1.0), torch.tensor([0.5, 0.75]))
    torch.testing.assert_close(bernoulli_soft(p, u, 0.5), torch.tensor([0.5, 0.9]))


def test_draws_are_exactly_0_or_1_and_have_mean_p():
    n = 40_000
    p = torch.tensor([0.0, 0.01, 0.3, 0.5, 0.9, 1.0]).expand(n, 6)
    u = uniform(n, 6).float()
    draws = bernoulli_straight_through(p.clone().requires_grad_(), u)
    assert set(draws.unique().tolist()) == {0.0, 1.0}
    standard_error = (p[0] * (1 - p[0]) / n).sqrt()
    assert ((draws.mean(0) - p[0]).abs() <= 4 * standard_error).all()  # exact at 0 and 1


def test_a_draw_is_the_rounded_soft_sample_at_every_temperature():
    p, u = uniform(B, T, D, seed=1), uniform(B, T, D, seed=2)
    for tau in (0.1, 1.0, 3.0):
        assert torch.equal(bernoulli_straight_through(p, u, tau), (bernoulli_soft(p, u, tau) > 0.5).double())


def test_straight_through_gradient_is_that_of_the_soft_sample():
    p, u = uniform(B, T, D, seed=1).requires_grad_(), uniform(B, T, D, seed=2)
    weights = noise(B, T, D)
    hard = torch.autograd.grad((bernoulli_straight_through(p, u, 0.7) * weights).sum(), p)[0]
    soft = torch.autograd.grad((bernoulli_soft(p, u, 0.7) * weights).sum(), p)[0]
    torch.testing.assert_close(hard, soft)
    assert (hard != 0).all()


def test_soft_gradient_is_right():
    p, u = uniform(2, T, seed=1) * 0.9 + 0.05, uniform(2, T, seed=2)
    assert gradcheck(lambda p: bernoulli_soft(p, u, 0.7), p.requires_grad_())


@pytest.mark.parametrize("draw", [bernoulli_soft, bernoulli_straight_through])
def test_certain_cells_and_noise_at_its_ends_are_finite(draw):
    p = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 1e-9]).requires_grad_()
    u = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.5])
    sample = draw(p, u, 0.1)
    gradient = torch.autograd.grad(sample.sum(), p)[0]
    assert sample.isfinite().all()
    assert gradient.isfinite().all()


def test_vmapped_draws_equal_a_loop_with_one_temperature_per_member():
    p, u, tau = uniform(K, B, T, D, seed=1), uniform(K, B, T, D, seed=2), torch.tensor([0.5, 1.0, 2.0])

    def loss(p: Tensor, u: Tensor, tau: Tensor) -> Tensor:
        return (bernoulli_straight_through(p, u, tau) * torch.arange(D)).sum()

    gradients, values = torch.vmap(torch.func.grad_and_value(loss))(p, u, tau)
    for k in range(K):
        gradient, value = torch.func.grad_and_value(loss)(p[k], u[k], tau[k])
        torch.testing.assert_close(values[k], value)
        torch.testing.assert_close(gradients[k], gradient)


# ---- direct-value masking --------------------------------------------------------------------------------------------


def test_direct_value_keeps_or_replaces_cell_by_cell():
    x, mask, mean = noise(B, T, D), (uniform(B, T, D) > 0.4).double(), noise(T, D, seed=1)
    got = direct_value(x, mask, mean)
    assert got.shape == (B, T, D)
    for i in range(B):
        assert torch.equal(got[i], torch.where(mask[i] == 1, x[i], mean))


def test_direct_value_tells_the_mask_how_far_a_cell_is_from_its_baseline():
    x, b = noise(B, T, D), noise(B, T, D, seed=1)
    mask = torch.ones(B, T, D, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(direct_value(x, mask, b).sum(), mask)[0], x - b)


def test_baseline_draws_have_the_mean_and_spread_of_their_cell():
    n = 4_000
    mean, std = noise(T, D), uniform(T, D, seed=1) + 0.1
    draws = baseline_draw(mean, std, normal_from_uniform(uniform(n, T, D, seed=2)))
    assert ((draws.mean(0) - mean).abs() < 4.5 * std / math.sqrt(n)).all()
    assert ((draws.std(0) / std - 1).abs() < 0.06).all()
    assert torch.equal(baseline_draw(mean, std, torch.zeros(n, T, D)), mean.expand(n, T, D))


# ---- fills -----------------------------------------------------------------------------------------------------------


def test_time_shifted_goes_around_the_ends():
    x = noise(B, T, D)
    for steps in (0, 2, T - 1):
        assert torch.equal(time_shifted(x, steps), torch.roll(x, -steps, dims=1))
    each = torch.tensor([0, 1, 5, 6, 3])
    moved = time_shifted(x, each)
    for i in range(B):
        assert torch.equal(moved[i], torch.roll(x[i], -int(each[i]), dims=0))


def test_fills_without_a_source_are_fixed():
    x, mean, std = noise(B, T, D), noise(T, D, seed=1), uniform(T, D, seed=2)
    assert torch.equal(filled("mean", x, mean, std, None), mean)
    assert torch.equal(filled("draw", x, mean, std, None), mean)
    assert torch.equal(filled("shift", x, mean, std, None), torch.roll(x, -(T // 2), dims=1))


def test_fills_from_a_source():
    x, mean, std = noise(200, 8, D).float(), noise(8, D, seed=1).float(), uniform(8, D, seed=2).float()
    assert torch.equal(filled("mean", x, mean, std, Noise(torch.tensor(3))), mean)
    u = Noise(torch.tensor(3)).uniform(200, 8, D)
    torch.testing.assert_close(filled("draw", x, mean, std, Noise(torch.tensor(3))), mean + std * normal_from_uniform(u))
    moved = filled("shift", x, mean, std, Noise(torch.tensor(3)))
    steps = [next(k for k in range(8) if torch.equal(moved[i], torch.roll(x[i], -k, dims=0))) for i in range(200)]
    assert set(steps) == {2, 3, 4, 5}  # a quarter to three quarters of 8 steps


# ---- steps -----------------------------------------------------------------------------------------------------------


def test_a_step_is_kept_if_any_channel_is():
    mask = (uniform(B, T, D) > 0.7).double()
    assert 0 < step_mask(mask).mean() < 1
    assert torch.equal(step_mask(mask), mask.bool().any(-1).double())


def test_the_gradient_of_a_step_goes_to_the_channels_that_kept_it():
    # Two kept: half each. None kept: a third each.
    mask = torch.tensor([[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]], requires_grad=True)
    gradient = torch.autograd.grad(step_mask(mask).sum(), mask)[0]
    torch.testing.assert_close(gradient, torch.tensor([[[1 / 2, 0, 1 / 2], [1 / 3, 1 / 3, 1 / 3]]]))


def test_step_mask_under_vmap():
    mask = (uniform(K, B, T, D) > 0.7).double()
    gradient = torch.vmap(torch.func.grad(lambda m: (step_mask(m) * torch.arange(T)).sum()))(mask)
    for k in range(K):
        want = torch.func.grad(lambda m: (step_mask(m) * torch.arange(T)).sum())(mask[k])
        torch.testing.assert_close(gradient[k], want)
