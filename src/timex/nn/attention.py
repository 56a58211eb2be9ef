"""One-head attention with a multiplicative mask over time steps, and the linear layers it is made of.

Shapes: B samples, T time steps, M the width of the layers, d the width of an attention head.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.engine import Noise, dropout, stacking

SHORT = {"cuda": 256, "cpu": 64}  # up to this T the T x T weights are small, and plain products faster than the fused kernel
SPLIT = 16


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer, (..., M) -> (..., N); for stacked members over flattened leading axes, as one batched product.

    Stacked on a GPU, the rows are dealt into a few groups: the gradient of a stacked weight is one long sum over all rows,
    which a batched product leaves to a single block of threads; by groups it is spread over the device.
    """
    if not stacking():
        return F.linear(x, weight, bias)
    rows = x.flatten(0, -2)
    if x.is_cuda and len(rows) % SPLIT == 0:
        weights = weight.mT.expand(SPLIT, *weight.mT.shape)
        out = torch.bmm(rows.unflatten(0, (SPLIT, -1)), weights).flatten(0, 1) + bias
    else:
        out = F.linear(rows, weight, bias)
    return out.unflatten(0, x.shape[:-1])


class Linear(nn.Linear):
    """`nn.Linear` by way of `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., M) -> (..., N)."""
        return linear(x, self.weight, self.bias)


class Attention(nn.Module):
    """One-head attention of queries over a memory (over themselves when the memory is the queries).

    Args:
        width: M.
        rate: Dropout rate of the attention weights while training.
    """

    def __init__(self, width: int, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, width) for _ in range(3))
        self.out_proj = Linear(width, width)
        for layer in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        h: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Attend: h (B, T, M) over memory (B, S, M); `mask` (B, S) multiplies the weights, `padding` (B, S) hides keys."""
        if h is memory:
            q, k, v = project(h, self.q_proj, self.k_proj, self.v_proj)
        else:
            q, (k, v) = self.q_proj(h), project(memory, self.k_proj, self.v_proj)
        return self.out_proj(attention(q, k, v, mask, padding, self.rate, noise))


def project(h: Tensor, *layers: Linear) -> tuple[Tensor, ...]:
    """Several linear layers of one input, as one product where that pays: a CPU spends more on splitting it up again."""
    if not (h.is_cuda or stacking()):
        return tuple(layer(h) for layer in layers)
    weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
    return linear(h, weight, bias).chunk(len(layers), dim=-1)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    m: Tensor | None = None,
    padding: Tensor | None = None,
    rate: float = 0.0,
    noise: Noise | None = None,
) -> Tensor:
    """Scaled dot-product attention, with differentiable attention masking (eq:attention_masking) where a mask is given.

    (softmax(QK' / sqrt(d)) * m m') V = m * (softmax(QK' / sqrt(d)) (m * V)): the T x T mask never exists, and neither do the
    T x T weights of long series: the kernel is torch's fused one, for stacked members too.

    Args:
        q: Queries, (..., T, d).
        k: Keys, (..., T, d).
        v: Values, (..., T, d).
        m: How much of every time step to keep, (..., T) float; its leading axes broadcast against q's.
        padding: True for keys that take no part in the softmax, (..., T) bool, broadcast alike. Where all are padded,
            the weights are uniform rather than undefined.
        rate: Dropout rate of the weights; the mask multiplies them before, which comes to the same as after.
        noise: Source of that dropout; None evaluates.

    Returns:
        (..., T, d); zero at steps that are not kept.
    """
    dropped = noise if rate else None
    if m is None:
        return _attend(q, k, v, padding, rate, dropped)
    kept = m.unsqueeze(-1)  # (..., T, 1)
    return kept * _attend(q, k, kept * v, padding, rate, dropped)


def _attend(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, rate: float, noise: Noise | None) -> Tensor:
    if noise is not None:
        return dropout(_weights(q, k, padding), rate, noise) @ v
    if torch.compiler.is_compiling() or q.shape[-2] <= SHORT.get(q.device.type, 0):
        return _plain(q, k, v, padding)
    return _Stacked.apply(q, k, v, padding) if stacking() else _fused(q, k, v, padding)


def _fused(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
    """The fused kernel, which wants one axis of samples, one of heads, and on CUDA a width that is a multiple of four."""
    scale, width, lead = q.shape[-1] ** -0.5, v.shape[-1], q.shape[:-2]
    bias = None
    if padding is not None:
        hidden = padding.expand(*lead, k.shape[-2]).reshape(-1, 1, 1, k.shape[-2])
        bias = torch.zeros_like(hidden, dtype=q.dtype).masked_fill(hidden, torch.finfo(q.dtype).min)
        bias = bias.expand(-1, 1, q.shape[-2], -1)
    if q.is_cuda and width % 4:
        q, k, v = (F.pad(t, (0, -width % 4)) for t in (q, k, v))
    q, k, v = (t.reshape(-1, 1, *t.shape[-2:]) for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
    return out.reshape(*lead, *out.shape[-2:])[..., :width]


def _plain(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
    """The same with the T x T weights written out, in operations that every transform of torch.func knows."""
    return _weights(q, k, padding) @ v


def attention_weights(layer: Attention, h: Tensor, padding: Tensor | None = None) -> Tensor:
    """The weights with which a self-attention layer mixes the steps of h (B, T, M) when it evaluates, (B, T, T)."""
    return _weights(layer.q_proj(h), layer.k_proj(h), padding)


def _weights(q: Tensor, k: Tensor, padding: Tensor | None) -> Tensor:
    """softmax(QK' / sqrt(d)), (..., T, T)."""
    scores = (q * q.shape[-1] ** -0.5) @ k.mT  # (..., T, T)
    if padding is not None:
        scores = scores.masked_fill(padding.unsqueeze(-2), torch.finfo(scores.dtype).min)
    return scores.softmax(-1)


class _Stacked(torch.autograd.Function):
    """`_fused` for stacked members: vmap has no rule for the kernel on every device, but members are only more samples.

    The engine differentiates outside of vmap, where autograd meets the kernel itself; `backward` serves gradients taken inside.
    """

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
        return _fused(q, k, v, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, padding = ctx.saved_tensors
        _, pull = torch.func.vjp(lambda q, k, v: _plain(q, k, v, padding), q, k, v)[:2]
        return (*pull(gradient), None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor | None) -> tuple[Tensor, int]:
        def members_first(value: Tensor | None, dim: int | None) -> Tensor | None:
            if value is None:
                return None
            return value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)

        q, k, v, padding = (members_first(a, dim) for a, dim in zip(arguments, in_dims, strict=True))
        return _fused(q, k, v, padding), 0  # type: ignore[arg-type]
