"""H^E, the explanation generator: a transformer encoder-decoder that reads x and writes a probability for every cell.

Shapes: B samples, T time steps, D channels, M = 16 + D the width of the layers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.engine import Noise
from timex.reference.base import observed_steps
from timex.reference.transformer import DecoderLayer, Linear, TransformerEncoder, with_time

DECODER_LAYERS = 2
DECODER_HIDDEN = 32
STEM_KERNEL = 7


class Generator(nn.Module):
    """x -> p in (0, 1)^(T x D), the probability that a cell is kept: the explanation itself.

    The encoder gives a memory; the decoder reads [time encoding ; x] against it. Not causal: an explanation is given after the
    whole window was seen.

    Args:
        n_channels: D.
        n_steps: T.
        n_layers: Encoder layers.
        d_hidden: Feed-forward width of the encoder.
        rate: Dropout rate.
        n_filters: Filters of a convolutional stem that gives every step a view of its neighbours beside its own value, which
            small transformers find hard to learn; 0 for none, as in the paper.
    """

    def __init__(self, n_channels: int, n_steps: int, n_layers: int, d_hidden: int, rate: float, n_filters: int = 0) -> None:
        super().__init__()
        self.n_steps = n_steps
        widths = (n_channels, n_filters) if n_filters else ()
        self.stem = nn.ModuleList(nn.Conv1d(w, n_filters, STEM_KERNEL, padding=STEM_KERNEL // 2) for w in widths)
        self.encoder = TransformerEncoder(n_channels + n_filters, n_steps, n_layers, d_hidden, rate)
        width = self.encoder.width
        self.decoder = nn.ModuleList(DecoderLayer(width, DECODER_HIDDEN, rate) for _ in range(DECODER_LAYERS))
        self.out = Linear(width, n_channels)

    def forward(
        self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None, noise: Noise | None = None
    ) -> Tensor:
        """p, (B, T, D)."""
        steps = observed_steps(observed)
        padding = None if steps is None else ~steps
        h = with_time(self.with_neighbours(x), times, self.n_steps)  # (B, T, M)
        memory = self.encoder.encode(h, padding, None, noise)
        for layer in self.decoder:
            h = layer(h, memory, padding, noise)
        return self.out(h).sigmoid()

    def with_neighbours(self, x: Tensor) -> Tensor:
        """[x ; what the stem sees], (B, T, D + n_filters)."""
        if not len(self.stem):
            return x
        h = x.transpose(1, 2)  # (B, D, T)
        for layer in self.stem:
            h = F.relu(layer(h))
        return torch.cat([x, h.transpose(1, 2)], dim=-1)
