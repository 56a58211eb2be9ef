"""From probabilities to masked inputs: Bernoulli draws, masked attention, and fills from the baseline distribution.

Shapes: B samples, T time steps, D channels, d width of an attention head. Randomness comes in as noise tensors, so that
every function is pure, gives the same under `torch.vmap` and in a loop, and can be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from timex.engine import stacking

SHORT = {"cuda": 256, "cpu": 64}  # up to this T the T x T weights are small, and plain products faster than the fused kernel
P_EPS = 1e-6  # keeps logit(p) and its slope finite, and is still representable next to 1 in float32


def bernoulli_soft(p: Tensor, u: Tensor, tau: float | Tensor = 1.0) -> Tensor:
    """Continuous relaxation of a Bernoulli(p) draw: the binary Gumbel-softmax.

    Args:
        p: Probabilities of 1, any shape.
        u: Uniform noise in [0, 1] of p's shape.
        tau: Temperature; the lower, the closer to 0 and 1.

    Returns:
        sigmoid((logit(p) + logit(u)) / tau), above 1/2 with probability p.
    """
    # The difference of two Gumbel variables is logistic, and logit(u) is a logistic draw.
    noise = torch.logit(u, eps=torch.finfo(u.dtype).eps)
    return torch.sigmoid((torch.logit(p.clamp(P_EPS, 1 - P_EPS)) + noise) / tau)


def bernoulli_straight_through(p: Tensor, u: Tensor, tau: float | Tensor = 1.0) -> Tensor:
    """Bernoulli(p) draws of exactly 0 or 1 whose gradient is that of `bernoulli_soft` at the same noise.

    Args:
        p: Probabilities of 1, any shape.
        u: Uniform noise in [0, 1] of p's shape.
        tau: Temperature of the relaxation behind the gradient; the draw itself does not depend on it.

    Returns:
        1 with probability p, else 0.

    Example:
        >>> p = torch.tensor([0.0, 0.2, 0.7, 1.0])
        >>> bernoulli_straight_through(p, u=torch.full((4,), 0.5))
        tensor([0., 0., 1., 1.])
    """
    soft = bernoulli_soft(p, u, tau)
    hard = (u > 1 - p).to(p.dtype)  # soft > 1/2 without its clamping and rounding: P(hard = 1) is p, also at 0 and 1
    # In this order the difference is exactly 0 forward, and the mask exactly 0 or 1.
    return hard + (soft - soft.detach())


def attention(q: Tensor, k: Tensor, v: Tensor, m: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
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

    Returns:
        (..., T, d); zero at steps that are not kept.
    """
    if m is None:
        return _attend(q, k, v, padding)
    kept = m.unsqueeze(-1)  # (..., T, 1)
    return kept * _attend(q, k, kept * v, padding)


def _attend(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> Tensor:
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
    scores = (q * q.shape[-1] ** -0.5) @ k.mT  # (..., T, T)
    if padding is not None:
        scores = scores.masked_fill(padding.unsqueeze(-2), torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


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


def direct_value(x: Tensor, mask: Tensor, baseline: Tensor) -> Tensor:
    """Direct-value masking: the cells kept have their own value, the others the baseline's.

    Args:
        x: The series, (B, T, D).
        mask: 1 to keep, 0 to replace, (B, T, D).
        baseline: Values to replace by, (B, T, D) or (T, D).

    Example:
        >>> direct_value(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]), torch.tensor([-1.0, -2.0]))
        tensor([ 3., -2.])
    """
    return mask * x + (1 - mask) * baseline


def baseline_draw(mean: Tensor, std: Tensor, normal: Tensor) -> Tensor:
    """A draw b ~ N(mu_tk, sigma_tk) from the baseline distribution.

    Args:
        mean: Mean of every cell over the training set, (T, D).
        std: Standard deviation of every cell, (T, D).
        normal: Standard normal noise, (B, T, D); zeros give the mean.

    Returns:
        (B, T, D).
    """
    return mean + std * normal


def normal_from_uniform(u: Tensor) -> Tensor:
    """Standard normal draws from uniform ones, by the inverse of the distribution function.

    Args:
        u: Uniform noise in [0, 1], any shape; its ends are finite, about 5.2 standard deviations out in float32.

    Example:
        >>> normal_from_uniform(torch.tensor([0.5, 0.8413])).round(decimals=2)
        tensor([0., 1.])
    """
    eps = torch.finfo(u.dtype).eps
    return torch.special.ndtri(u.clamp(eps, 1 - eps))


def step_mask(mask: Tensor) -> Tensor:
    """A mask over time steps: a step is kept if any of its channels is.

    The gradient of a step goes in equal parts to its channels of the largest value: to those kept, or, if none is, to
    all of them.

    Args:
        mask: Mask over cells, (B, T, D).

    Returns:
        (B, T).

    Example:
        >>> step_mask(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]))
        tensor([[1., 0.]])
    """
    return mask.amax(-1)
