"""Draws against their probabilities, masked attention against the T x T form, and the gradients of both."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from timex import masking
from timex.engine import stacked
from timex.masking import (
    attention,
    baseline_draw,
    bernoulli_soft,
    bernoulli_straight_through,
    direct_value,
    normal_from_uniform,
    step_mask,
)

B, T, D, WIDTH, HEADS, K = 5, 7, 3, 4, 2, 3


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


# ---- attention -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "fused"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of the short series of these tests by plain products, as it comes, and by the kernel for long ones."""
    if request.param == "fused":
        monkeypatch.setattr(masking, "SHORT", {})


def naive_masked(q: Tensor, k: Tensor, v: Tensor, m: Tensor, padding: Tensor) -> Tensor:
    """Eq. attention_masking as written, sample by sample, with the T x T mask."""
    out = torch.zeros_like(v)
    for i in range(len(q)):
        scores = q[i] @ k[i].T / math.sqrt(q.shape[-1])
        scores[:, padding[i]] = -torch.inf
        out[i] = (scores.softmax(-1) * torch.outer(m[i], m[i])) @ v[i]
    return out


def triple(*shape: int) -> list[Tensor]:
    return [noise(*shape, seed=s) for s in (1, 2, 3)]


def some_padding(*shape: int) -> Tensor:
    padding = torch.zeros(*shape, dtype=torch.bool)
    padding[0, ..., -2:] = True
    padding[2, ..., -4:] = True
    return padding


@pytest.mark.usefixtures("kernel")
def test_attention_by_hand():
    # Width 1, both queries 0: weights 1/2, 1/2. Values 2 and 6; the first step masked out: its output is 0, and the
    # second's is 6 / 2, not 6: the weights are not renormalised.
    q, k, v = torch.zeros(2, 1), torch.tensor([[1.0], [5.0]]), torch.tensor([[2.0], [6.0]])
    assert attention(q, k, v).flatten().tolist() == [4.0, 4.0]
    assert attention(q, k, v, torch.tensor([0.0, 1.0])).flatten().tolist() == [0.0, 3.0]
    # Padding leaves the softmax instead: all weight goes to the second.
    assert attention(q, k, v, padding=torch.tensor([True, False])).flatten().tolist() == [6.0, 6.0]


@pytest.mark.usefixtures("kernel")
def test_plain_attention_equals_torchs():
    q, k, v = triple(B, HEADS, T, WIDTH)
    torch.testing.assert_close(attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
    padding = some_padding(B, 1, T)
    want = F.scaled_dot_product_attention(q, k, v, attn_mask=~padding.unsqueeze(-2))
    torch.testing.assert_close(attention(q, k, v, padding=padding), want)


@pytest.mark.usefixtures("kernel")
def test_masked_attention_equals_the_full_mask():
    q, k, v = triple(B, T, WIDTH)
    padding = some_padding(B, T)
    for m in (uniform(B, T), (uniform(B, T) > 0.5).double()):
        torch.testing.assert_close(attention(q, k, v, m), naive_masked(q, k, v, m, torch.zeros_like(padding)))
        torch.testing.assert_close(attention(q, k, v, m, padding), naive_masked(q, k, v, m, padding))


@pytest.mark.usefixtures("kernel")
def test_a_mask_of_ones_is_plain_attention():
    q, k, v = triple(B, T, WIDTH)
    torch.testing.assert_close(attention(q, k, v, torch.ones(B, T)), attention(q, k, v))


@pytest.mark.usefixtures("kernel")
def test_masked_values_do_not_reach_the_output():
    q, k, v = triple(B, T, WIDTH)
    m = torch.ones(B, T, dtype=torch.float64)
    m[:, 2] = 0
    changed = v.clone()
    changed[:, 2] += 100
    assert torch.equal(attention(q, k, v, m), attention(q, k, changed, m))


@pytest.mark.usefixtures("kernel")
def test_masks_and_padding_broadcast_over_heads():
    q, k, v = triple(B, HEADS, T, WIDTH)
    m, padding = uniform(B, T), some_padding(B, T)
    got = attention(q, k, v, m[:, None], padding[:, None])
    for h in range(HEADS):
        torch.testing.assert_close(got[:, h], attention(q[:, h], k[:, h], v[:, h], m, padding))


@pytest.mark.usefixtures("kernel")
def test_a_sample_that_is_all_padding_is_finite():
    q, k, v = (a.requires_grad_() for a in triple(B, T, WIDTH))
    out = attention(q, k, v, padding=torch.ones(B, T, dtype=torch.bool))
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (q, k, v)))


@pytest.mark.usefixtures("kernel")
def test_attention_gradients_are_right():
    q, k, v = (a.requires_grad_() for a in triple(3, 4, 2))
    m, padding = uniform(3, 4).requires_grad_(), some_padding(3, 4)[:, [0, 1, 3, 2]]
    padding[:, 0] = False
    assert gradcheck(lambda q, k, v, m: attention(q, k, v, m, padding), (q, k, v, m))


@pytest.mark.usefixtures("kernel")
def test_vmapped_attention_equals_a_loop():
    q, k, v = triple(K, B, T, WIDTH)
    m, padding = uniform(K, B, T), some_padding(B, T)

    def loss(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        return attention(q, k, v, m, padding).square().sum()

    got = stacked(torch.func.grad(loss, argnums=(0, 1, 2, 3)))(q, k, v, m)
    for i in range(K):
        want = torch.func.grad(loss, argnums=(0, 1, 2, 3))(q[i], k[i], v[i], m[i])
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g[i], w)


@pytest.mark.usefixtures("kernel")
def test_stacked_attention_differentiated_outside_equals_a_loop():
    """As the engine does it: the gradient of a sum over stacked members, taken outside of vmap."""
    tensors = [t.requires_grad_() for t in (*triple(K, B, T, WIDTH), uniform(K, B, T))]
    padding = some_padding(B, T)
    out = stacked(lambda q, k, v, m: attention(q, k, v, m, padding))(*tensors)
    got = torch.autograd.grad(out.square().sum(), tensors)
    for i in range(K):
        member = [t.detach()[i].requires_grad_() for t in tensors]
        want = torch.autograd.grad(attention(*member, padding).square().sum(), member)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g[i], w)


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


def test_normal_from_uniform_is_the_normal_quantile():
    # The 2.5, 50 and 97.5 % quantiles of the standard normal.
    got = normal_from_uniform(torch.tensor([0.025, 0.5, 0.975], dtype=torch.float64))
    assert got.tolist() == pytest.approx([-1.9599639845, 0.0, 1.9599639845])


def test_normal_from_uniform_is_finite_at_the_ends():
    ends = normal_from_uniform(torch.tensor([0.0, 1.0]))
    assert ends.tolist() == pytest.approx([-5.166, 5.166], abs=1e-2)


def test_normal_from_uniform_under_vmap():
    u = uniform(K, T, D)
    torch.testing.assert_close(torch.vmap(normal_from_uniform)(u), normal_from_uniform(u))


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
