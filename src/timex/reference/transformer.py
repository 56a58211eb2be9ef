"""The paper's reference transformer: [time encoding ; x], post-norm encoder layers, mean over time, MLP head.

Shapes: B samples, T time steps, D channels, M = 16 + D the width of the layers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.engine import Noise, dropout, residual, stacking
from timex.masking import attention
from timex.reference.base import ReferenceModel, mean_over_time, mlp_head, observed_steps

TIME_WIDTH = 16


def time_encoding(times: Tensor, n_steps: int) -> Tensor:
    """Sines and cosines of t / n_steps^(k/7), k = 0..7: (..., T) -> (..., T, 16)."""
    k = torch.arange(TIME_WIDTH // 2, device=times.device, dtype=times.dtype)
    angle = times[..., None] * torch.pow(float(n_steps), -k / (TIME_WIDTH // 2 - 1))
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def regular_times(x: Tensor) -> Tensor:
    """Times 1..T for x (B, T, D), as (T,)."""
    return torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)


def with_time(x: Tensor, times: Tensor | None, n_steps: int) -> Tensor:
    """[time encoding ; x], (B, T, M)."""
    code = time_encoding(regular_times(x) if times is None else times, n_steps)
    return torch.cat([code.expand(*x.shape[:2], TIME_WIDTH), x], dim=-1)


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
    """One-head attention of queries over a memory (over themselves when the memory is the queries)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, width) for _ in range(3))
        self.out_proj = Linear(width, width)
        for layer in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, h: Tensor, memory: Tensor, mask: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        """Attend: h (B, T, M) over memory (B, S, M); `mask` (B, S) multiplies the weights, `padding` (B, S) hides keys."""
        if h is memory:
            q, k, v = project(h, self.q_proj, self.k_proj, self.v_proj)
        else:
            q, (k, v) = self.q_proj(h), project(memory, self.k_proj, self.v_proj)
        return self.out_proj(attention(q, k, v, mask, padding))


def project(h: Tensor, *layers: Linear) -> tuple[Tensor, ...]:
    """Several linear layers of one input, as one product where that pays: a CPU spends more on splitting it up again."""
    if not (h.is_cuda or stacking()):
        return tuple(layer(h) for layer in layers)
    weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
    return linear(h, weight, bias).chunk(len(layers), dim=-1)


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
    """Post-norm self-attention and feed-forward, as `torch.nn.TransformerEncoderLayer` with one head."""

    def __init__(self, width: int, d_hidden: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.attention = Attention(width)
        self.feed_forward = FeedForward(width, d_hidden, rate)
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)

    def forward(self, h: Tensor, mask: Tensor | None, padding: Tensor | None, noise: Noise | None) -> Tensor:
        """(B, T, M) -> (B, T, M)."""
        h = self.norm1(residual(h, self.attention(h, h, mask, padding), self.rate, noise))
        return self.norm2(residual(h, self.feed_forward(h, noise), self.rate, noise))


class DecoderLayer(nn.Module):
    """Post-norm self-attention, attention over a memory, feed-forward, as `torch.nn.TransformerDecoderLayer` with one head."""

    def __init__(self, width: int, d_hidden: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.attention, self.cross = Attention(width), Attention(width)
        self.feed_forward = FeedForward(width, d_hidden, rate)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(width) for _ in range(3))

    def forward(self, h: Tensor, memory: Tensor, padding: Tensor | None, noise: Noise | None) -> Tensor:
        """Decode: h (B, T, M) reads memory (B, T, M)."""
        h = self.norm1(residual(h, self.attention(h, h, None, padding), self.rate, noise))
        h = self.norm2(residual(h, self.cross(h, memory, None, padding), self.rate, noise))
        return self.norm3(residual(h, self.feed_forward(h, noise), self.rate, noise))


class TransformerEncoder(nn.Module):
    """[time encoding ; x] through a stack of encoder layers."""

    def __init__(self, n_channels: int, n_steps: int, n_layers: int, d_hidden: int, rate: float) -> None:
        super().__init__()
        self.n_steps = n_steps
        self.width = TIME_WIDTH + n_channels
        self.layers = nn.ModuleList(EncoderLayer(self.width, d_hidden, rate) for _ in range(n_layers))

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        steps: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, M); `steps` (B, T) marks the measured steps, `mask` (B, T) multiplies the attention."""
        return self.encode(with_time(x, times, self.n_steps), None if steps is None else ~steps, mask, noise)

    def encode(self, h: Tensor, padding: Tensor | None, mask: Tensor | None, noise: Noise | None) -> Tensor:
        """The layers alone, for [time encoding ; x] that is there already: (B, T, M) -> (B, T, M)."""
        for layer in self.layers:
            h = layer(h, mask, padding, noise)
        return h


class Transformer(ReferenceModel):
    """The paper's "vanilla" transformer classifier.

    Args:
        n_channels: D.
        n_classes: C.
        n_steps: T, which sets the slowest wave of the time encoding.
        n_layers: Encoder layers.
        d_hidden: Width of the feed-forward part.
        dropout: Rate of dropout on the branches and inside the feed-forward part.
        normalise: Scale embeddings to unit length ("Norm. embedding" in the paper's tables).
    """

    arch = "transformer"
    attention = True

    def __init__(
        self,
        n_channels: int,
        n_classes: int,
        n_steps: int,
        n_layers: int = 1,
        d_hidden: int = 64,
        dropout: float = 0.1,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.config = {
            "n_channels": n_channels,
            "n_classes": n_classes,
            "n_steps": n_steps,
            "n_layers": n_layers,
            "d_hidden": d_hidden,
            "dropout": dropout,
            "normalise": normalise,
        }
        self.n_channels, self.n_classes, self.n_steps, self.normalise = n_channels, n_classes, n_steps, normalise
        self.encoder = TransformerEncoder(n_channels, n_steps, n_layers, d_hidden, dropout)
        self.embedding_size = self.encoder.width
        self.head = mlp_head(self.embedding_size, n_classes)

    def encode(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """G(x), (B, M)."""
        steps = observed_steps(observed)
        z = mean_over_time(self.encoder(x, times, steps, mask, noise), steps)
        return F.normalize(z, dim=-1) if self.normalise else z
