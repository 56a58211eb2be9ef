"""Masked attention against the T x T form, by the plain products and by the fused kernel, and its gradients."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from timex.engine import Noise, stacked
from timex.nn import attention as attention_module
from timex.nn.attention import attention

B, T, WIDTH, HEADS, K = 5, 7, 4, 2, 3


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=["plain", "fused"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of the short series of these tests by plain products, as it comes, and by the kernel for long ones."""
    if request.param == "fused":
        monkeypatch.setattr(attention_module, "SHORT", {})


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


# ---- dropout of the weights ------------------------------------------------------------------------------------------


def test_dropout_acts_on_the_masked_weights_and_rescales_by_the_rate_alone():
    """Step by step: softmax, mask m m', dropout, weighted sum; the mask leaves the weights of the other steps as they are."""
    (q, k, v), m, rate = triple(B, T, WIDTH), (uniform(B, T) > 0.4).double(), 0.25
    kept = Noise(torch.tensor(3)).keep((B, T, T), rate).double() / (1 - rate)
    expected = torch.zeros_like(v)
    for i in range(B):
        for t in range(T):
            e = [math.exp(float(q[i, t] @ k[i, s]) / math.sqrt(WIDTH)) for s in range(T)]
            for s in range(T):
                expected[i, t] += e[s] / sum(e) * m[i, t] * m[i, s] * kept[i, t, s] * v[i, s]
    torch.testing.assert_close(attention(q, k, v, m, None, rate, Noise(torch.tensor(3))), expected)
    assert 0.1 < float((kept == 0).double().mean()) < 0.4
    torch.testing.assert_close(attention(q, k, v, m, None, rate, None), attention(q, k, v, m))
