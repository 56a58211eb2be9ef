"""Time encoding and transformer layers.

Shapes: B samples, T time steps, D channels, M = 16 + D the width of the layers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.engine import Noise, dropout, residual
from timex.nn.attention import Attention, Linear

TIME_WIDTH = 16


def time_encoding(times: Tensor, n_steps: int) -> Tensor:
    """Sines and cosines of t / n_steps^(k/7), k = 0..7: (..., T) -> (..., T, 16)."""
    k = torch.arange(TIME_WIDTH // 2, device=times.device, dtype=times.dtype)
    angle = times[..., None] * torch.pow(float(n_steps), -k / (TIME_WIDTH // 2 - 1))
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def regular_times(x: Tensor) -> Tensor:
    """Times 1..T for x (B, T, D), as (T,)."""
    return torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)


def with_time(x: Tensor, times: Tensor | None, n_steps: int, time_unit: float = 1.0) -> Tensor:
    """[time encoding ; x], (B, T, M); `times` are divided by `time_unit`, so that neighbouring steps are about 1 apart."""
    code = time_encoding(regular_times(x) if times is None else times / time_unit, n_steps)
    return torch.cat([code.expand(*x.shape[:2], TIME_WIDTH), x], dim=-1)


class LayerNorm(nn.LayerNorm):
    """`nn.LayerNorm`, written out on a GPU, where torch's kernel spends a block of threads on each of our short rows."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., M) -> (..., M)."""
        if not x.is_cuda:
            return super().forward(x)
        centred = x - x.mean(-1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return centred * scale * self.weight + self.bias


class FeedForward(nn.Module):
    """Linear, ReLU, dropout, Linear."""

    def __init__(self, width: int, d_hidden: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.linear1, self.linear2 = Linear(width, d_hidden), Linear(d_hidden, width)

    def forward(self, h: Tensor, noise: Noise | None) -> Tensor:
        """(B, T, M) -> (B, T, M)."""
        return self.linear2(dropout(F.relu(self.linear1(h)), self.rate, noise))


class EncoderLayer(nn.Module):
    """Post-norm self-attention and feed-forward, one head.

    With a residual it is `torch.nn.TransformerEncoderLayer`. The paper's models leave out the residual around self-attention:
    it would carry every masked value past the attention mask.

    Args:
        width: M.
        d_hidden: Width of the feed-forward part.
        rate: Dropout rate.
        with_residual: Whether self-attention has a residual.
        attention_rate: Dropout rate of the attention weights.
    """

    def __init__(self, width: int, d_hidden: int, rate: float, with_residual: bool = True, attention_rate: float = 0.0) -> None:
        super().__init__()
        self.rate, self.with_residual = rate, with_residual
        self.attention = Attention(width, attention_rate)
        self.feed_forward = FeedForward(width, d_hidden, rate)
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)

    def forward(self, h: Tensor, mask: Tensor | None, padding: Tensor | None, noise: Noise | None) -> Tensor:
        """(B, T, M) -> (B, T, M)."""
        attended = self.attention(h, h, mask, padding, noise)
        if self.with_residual:
            h = self.norm1(residual(h, attended, self.rate, noise))
        else:
            h = self.norm1(dropout(attended, self.rate, noise))
        return self.norm2(residual(h, self.feed_forward(h, noise), self.rate, noise))


class DecoderLayer(nn.Module):
    """Post-norm self-attention, attention over a memory, feed-forward, as `torch.nn.TransformerDecoderLayer` with one head."""

    def __init__(self, width: int, d_hidden: int, rate: float, attention_rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        self.attention, self.cross = Attention(width, attention_rate), Attention(width, attention_rate)
        self.feed_forward = FeedForward(width, d_hidden, rate)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(width) for _ in range(3))

    def forward(self, h: Tensor, memory: Tensor, padding: Tensor | None, noise: Noise | None) -> Tensor:
        """Decode: h (B, T, M) reads memory (B, T, M)."""
        h = self.norm1(residual(h, self.attention(h, h, None, padding, noise), self.rate, noise))
        h = self.norm2(residual(h, self.cross(h, memory, None, padding, noise), self.rate, noise))
        return self.norm3(residual(h, self.feed_forward(h, noise), self.rate, noise))


class TransformerEncoder(nn.Module):
    """[time encoding ; x] through a stack of encoder layers; see `EncoderLayer` for the arguments."""

    def __init__(
        self,
        n_channels: int,
        n_steps: int,
        n_layers: int,
        d_hidden: int,
        rate: float,
        time_unit: float = 1.0,
        with_residual: bool = True,
        attention_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_steps, self.time_unit = n_steps, time_unit
        self.width = TIME_WIDTH + n_channels
        self.layers = nn.ModuleList(
            EncoderLayer(self.width, d_hidden, rate, with_residual, attention_rate) for _ in range(n_layers)
        )

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        steps: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, M); `steps` (B, T) marks the measured steps, `mask` (B, T) multiplies the attention."""
        return self.encode(with_time(x, times, self.n_steps, self.time_unit), None if steps is None else ~steps, mask, noise)

    def encode(self, h: Tensor, padding: Tensor | None, mask: Tensor | None, noise: Noise | None) -> Tensor:
        """The layers alone, for [time encoding ; x] that is there already: (B, T, M) -> (B, T, M)."""
        for layer in self.layers:
            h = layer(h, mask, padding, noise)
        return h


def mlp_head(width: int, n_classes: int) -> nn.Sequential:
    """The predictor of every reference model: Linear, ReLU, Linear."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_classes))


def observed_steps(observed: Tensor | None) -> Tensor | None:
    """Steps with at least one measured cell, (B, T) bool, or None for all."""
    return None if observed is None else observed.any(dim=-1)


def mean_over_time(h: Tensor, steps: Tensor | None) -> Tensor:
    """Mean of (B, T, H) over the measured steps, (B, H); a sample with none gives zeros."""
    if steps is None:
        return h.mean(dim=1)
    weight = steps.to(h.dtype)[..., None]  # (B, T, 1)
    return (h * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
