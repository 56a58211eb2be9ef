"""H^E of the evidence objective: convolutions that read x, the model's gradients and its answer, and write p for every cell.

Shapes: B samples, T time steps, D channels, W the width of the layers, P pooled steps, S scales of the gradient.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.nn.layers import EncoderLayer, observed_steps, regular_times
from timex.reference.evidence import smoothed

SCALES = (0, 2, 6)
"""Standard deviations, in steps, of the Gaussians through which the generator sees the model's gradient."""
POOLED = 64
"""Steps over which attention looks, at most: longer series are averaged in equal pieces, so that cost stays linear in T."""
CODES = 4
"""Channels that encode the time of a step."""
PRICES = 8
"""Prices at which p is evaluated and averaged when explaining."""
START = -2.0
"""Logit of p at the middle price where the model's gradient is zero, before training."""
STEEP = 4.0
"""Rise of that logit to where the gradient is largest at every scale."""
SLOPE = math.log(math.exp(0.5) - 1)
"""Start of the slope before its softplus: logits fall by one half from the middle price to the highest."""


class Curve(NamedTuple):
    """The logit of every cell as a function of the price: `level - slope * price`, each (B, T, D), slope > 0.

    Kept sets are nested: a cell that is kept at a price is kept at every lower one.
    """

    level: Tensor
    slope: Tensor

    def logit(self, price: Tensor | float) -> Tensor:
        """Logits of p at a price from -1 (lowest) to 1 (highest)."""
        return self.level - self.slope * price

    def p(self, low: float, high: float) -> Tensor:
        """The share of the prices from `low` to `high` at which a cell is kept, (B, T, D)."""
        return torch.stack([self.logit(price).sigmoid() for price in evaluated_prices(low, high)]).mean(0)


def evaluated_prices(low: float, high: float) -> list[float]:
    """`PRICES` equally spaced prices from `low` to `high`, on the generator's logarithmic scale from -1 to 1.

    Example:
        >>> [round(price, 2) for price in evaluated_prices(0.1, 0.4)]
        [-0.75, -0.36, -0.05, 0.21, 0.43, 0.61, 0.78, 0.93]
    """
    if low == high:
        return [0.0]
    prices = (low + (high - low) * (k + 0.5) / PRICES for k in range(PRICES))
    return [2 * math.log(price / low) / math.log(high / low) - 1 for price in prices]


class Block(nn.Module):
    """A residual block: normalise, dilated convolution, a gate from the mean over time, 1 x 1. It starts as the identity."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.conv = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
        self.gate = nn.Linear(width, width)
        self.out = nn.Conv1d(width, width, 1)
        for parameter in self.out.parameters():
            nn.init.zeros_(parameter)

    def forward(self, h: Tensor, share: Tensor) -> Tensor:
        """(B, W, T) -> (B, W, T); `share` (B, 1, T) is each measured step's part of the mean over time."""
        a = F.gelu(self.conv(self.norm(h)))
        return h + self.out(a * self.gate((a * share).sum(-1)).sigmoid().unsqueeze(-1))


class ConvolutionalGenerator(nn.Module):
    """x -> p in (0, 1)^(T x D), at every price.

    It starts at the smoothed gradients of the model and learns where to depart from them. Steps at which nothing was measured
    enter the convolutions and their normalisation as zeros; the gates and the attention leave them out.

    Args:
        n_channels: D.
        n_steps: T.
        n_context: Width of the context: the model's embedding and its probabilities.
        width: W.
        gradients: Whether the model's gradient is an input.
        time_unit: The usual interval between steps, in the unit of `times`.
    """

    def __init__(
        self, n_channels: int, n_steps: int, n_context: int, width: int, gradients: bool = True, time_unit: float = 1.0
    ) -> None:
        super().__init__()
        self.span = n_steps * time_unit
        planes = 1 + len(SCALES) if gradients else 1
        self.input = nn.Conv1d(planes * n_channels + CODES, width, 7, padding=3)
        self.context = nn.Linear(n_context, width)
        dilations = [4**k for k in range(n_steps.bit_length()) if 4 * 4**k < n_steps] or [1]  # kernels of 5 leave no gaps
        self.local = nn.ModuleList(Block(width, dilation) for dilation in dilations)
        self.across = nn.ModuleList(EncoderLayer(width, 2 * width, 0.0) for _ in range(2))
        self.after = nn.ModuleList(Block(width, dilation) for dilation in dilations[:2])
        self.norm = nn.GroupNorm(1, width)
        self.out = nn.Conv1d(width, 2 * n_channels, 1)
        nn.init.normal_(self.out.weight, std=0.02)
        start = torch.tensor([START if gradients else -1.0, SLOPE])
        self.out.bias = nn.Parameter(start.repeat_interleave(n_channels))
        self.gradient_weight = nn.Parameter(torch.full((len(SCALES),), STEEP / len(SCALES))) if gradients else None

    def forward(
        self,
        x: Tensor,
        gradient: Tensor | None,
        context: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
    ) -> Curve:
        """The logit curve of every cell.

        Args:
            x: Series, (B, T, D).
            gradient: Integrated gradients of the model's evidence, (B, T, D); None without `gradients`.
            context: The model's embedding and answer, (B, n_context).
            times: Times of the steps, (B, T); 1..T when None.
            observed: Measured cells, (B, T, D); all when None.
        """
        steps = observed_steps(observed)
        seen = x.new_ones(x.shape[:2]) if steps is None else steps.to(x.dtype)
        share = (seen / seen.sum(-1, keepdim=True).clamp_min(1)).unsqueeze(1)  # (B, 1, T)
        scales = [] if gradient is None else at_scales(gradient, observed)
        h = self.input(torch.cat([self._code(x, times, steps), *(v.transpose(1, 2) for v in (x, *scales))], dim=1))
        h = h + self.context(context).unsqueeze(-1)
        for block in self.local:
            h = block(h, share)
        h = h + self._across(h, seen)
        for block in self.after:
            h = block(h, share)
        level, slope = self.out(self.norm(h)).transpose(1, 2).chunk(2, dim=-1)  # (B, T, D) each
        if self.gradient_weight is not None:
            for weight, scale in zip(self.gradient_weight, scales, strict=True):
                level = level + weight * scale
        return Curve(level, F.softplus(slope))

    def _code(self, x: Tensor, times: Tensor | None, steps: Tensor | None) -> Tensor:
        """The place of every step in the window, (B, 4, T); that of a step without a measured cell is 0."""
        place = (regular_times(x) if times is None else times) / self.span  # (T) or (B, T)
        if steps is not None:
            place = torch.where(steps, place, 0.0)
        code = torch.stack([place, (math.pi * place).sin(), (math.pi * place).cos(), (2 * math.pi * place).sin()], dim=-2)
        return code.expand(x.shape[0], *code.shape[-2:])

    def _across(self, h: Tensor, seen: Tensor) -> Tensor:
        """Attention over at most `POOLED` averages of neighbouring steps, spread over their steps again, (B, W, T)."""
        t = h.shape[-1]
        size = -(-t // POOLED)
        rest = -t % size
        pieces = F.pad(h * seen.unsqueeze(1), (0, rest)).unflatten(-1, (-1, size))  # (B, W, P, size)
        count = F.pad(seen, (0, rest)).unflatten(-1, (-1, size)).sum(-1)  # (B, P)
        g = (pieces.sum(-1) / count.clamp_min(1).unsqueeze(1)).transpose(1, 2)  # (B, P, W)
        for layer in self.across:
            g = layer(g, None, count == 0, None)
        return g.transpose(1, 2).repeat_interleave(size, dim=-1)[..., :t]


def at_scales(gradient: Tensor, observed: Tensor | None = None) -> list[Tensor]:
    """|gradient| smoothed at every scale, in parts of the sample's largest value, S tensors (B, T, D)."""
    views = [smoothed(gradient.abs(), width, observed) for width in SCALES]
    return [v / v.amax((1, 2), keepdim=True).clamp_min(torch.finfo(v.dtype).tiny) for v in views]


def start_probability(gradient: Tensor, observed: Tensor | None = None) -> Tensor:
    """The p at which the generator starts, at the middle price: a function of the model's gradients alone, (B, T, D).

    Example:
        >>> start_probability(torch.tensor([[[0.0], [0.0]]])).flatten()  # sigmoid(-2)
        tensor([0.1192, 0.1192])
    """
    return (START + STEEP * torch.stack(at_scales(gradient, observed)).mean(0)).sigmoid()
