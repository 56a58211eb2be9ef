"""From probabilities to masked inputs: Bernoulli draws and fills from the baseline distribution.

Shapes: B samples, T time steps, D channels. Randomness comes in as noise tensors, so that
every function is pure, gives the same under `torch.vmap` and in a loop, and can be captured in a CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from timex.engine import Noise, normal_from_uniform

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


def direct_value(x: Tensor, mask: Tensor, baseline: Tensor) -> Tensor:
    """Direct-value masking: kept cells have their value, hidden cells the baseline's.

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


def time_shifted(x: Tensor, steps: Tensor | int) -> Tensor:
    """Series (B, T, D) moved by a number of steps, one for all or one per sample (B,), around the ends.

    Example:
        >>> time_shifted(torch.tensor([[[1.0], [2.0], [3.0]]]), 1).flatten()
        tensor([2., 3., 1.])
    """
    n_steps = x.shape[1]
    start = steps if isinstance(steps, int) else steps.reshape(-1, 1)
    index = (torch.arange(n_steps, device=x.device) + start) % n_steps  # (T) or (B, T)
    return x.gather(1, index.expand(x.shape[0], n_steps).unsqueeze(-1).expand_as(x))


def filled(kind: str, x: Tensor, mean: Tensor, std: Tensor, noise: Noise | None) -> Tensor:
    """The values of hidden cells, broadcast to (B, T, D).

    Args:
        kind: "mean"; "draw", N(mean, std) per cell; "shift", the channel's values a quarter to three quarters of the window
            later.
        x: Series, (B, T, D).
        mean: Mean of every cell over the training set, (T, D).
        std: Its standard deviation, (T, D).
        noise: Source of draws and shifts; None gives the mean, and a shift by half the window.
    """
    n_steps = x.shape[1]
    if kind == "shift":
        if noise is None:
            return time_shifted(x, n_steps // 2)
        return time_shifted(x, ((0.25 + 0.5 * noise.uniform(len(x))) * n_steps).long())
    if kind == "draw" and noise is not None:
        return baseline_draw(mean, std, normal_from_uniform(noise.uniform(*x.shape)))
    return mean


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
