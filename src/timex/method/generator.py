"""H^E, the explanation generator: a transformer encoder-decoder that reads x and writes a probability for every cell.

Shapes: B samples, T time steps, D channels, M = 16 + D the width of the layers.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from timex.engine import Noise
from timex.reference.base import observed_steps
from timex.reference.transformer import DecoderLayer, Linear, TransformerEncoder, with_time

DECODER_LAYERS = 2
DECODER_HIDDEN = 32
STEM_KERNEL = 7
BAND = 0.6
"""Share of the power of a signal's changes by which `resolution_of` takes the width of its band."""
FINELY = 3
"""Steps to the interval from which on a signal counts as finely sampled: noise has 1.3, a random walk 1.7."""
COARSEST = 32
"""Intervals that a window has at least."""
SURVEYED = 2000
"""Series looked at, at most, to find a signal's resolution."""
ROUNDING = 1e-5
"""Changes smaller than this share of the largest value are those of rounding to single precision."""


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
        resolution: Steps that p does not tell apart, see `blur_weights`; 1 for every cell its own, as in the paper.
    """

    blur: Tensor | None

    def __init__(
        self,
        n_channels: int,
        n_steps: int,
        n_layers: int,
        d_hidden: int,
        rate: float,
        n_filters: int = 0,
        resolution: int = 1,
    ) -> None:
        super().__init__()
        self.n_steps = n_steps
        widths = (n_channels, n_filters) if n_filters else ()
        self.stem = nn.ModuleList(nn.Conv1d(w, n_filters, STEM_KERNEL, padding=STEM_KERNEL // 2) for w in widths)
        self.encoder = TransformerEncoder(n_channels + n_filters, n_steps, n_layers, d_hidden, rate)
        width = self.encoder.width
        self.decoder = nn.ModuleList(DecoderLayer(width, DECODER_HIDDEN, rate) for _ in range(DECODER_LAYERS))
        self.out = Linear(width, n_channels)
        # follows from the settings, so no part of what is saved
        self.register_buffer("blur", blur_weights(n_steps, resolution) if resolution > 1 else None, persistent=False)

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
        p = self.out(h).sigmoid()
        return p if self.blur is None else blurred(p, self.blur, observed)

    def with_neighbours(self, x: Tensor) -> Tensor:
        """[x ; what the stem sees], (B, T, D + n_filters)."""
        if not len(self.stem):
            return x
        h = x.transpose(1, 2)  # (B, D, T)
        for layer in self.stem:
            h = F.relu(layer(h))
        return torch.cat([x, h.transpose(1, 2)], dim=-1)


def blur_weights(n_steps: int, resolution: int) -> Tensor:
    """Weights of step s in the blurred step t, (T, T): a Gaussian with a standard deviation of `resolution` steps, sum 1."""
    steps = torch.arange(n_steps, dtype=torch.float32)
    weights = torch.exp(-0.5 * ((steps[:, None] - steps) / resolution) ** 2)
    return weights / weights.sum(-1, keepdim=True)


def blurred(p: Tensor, weights: Tensor, observed: Tensor | None = None) -> Tensor:
    """The average of p over neighbouring steps, those measured alone where some were not, (B, T, D)."""
    if observed is None:
        average = weights @ p
    else:
        average = weights @ (p * observed) / (weights @ observed.to(p.dtype)).clamp(min=torch.finfo(p.dtype).tiny)
    return average.clamp(max=1)  # which rounding may exceed


def resolution_of(x: NDArray[np.float32], times: NDArray[np.float32], observed: NDArray[np.bool_]) -> int:
    """Steps that the signal itself does not tell apart; 1 if it tells every step from the next.

    Three fifths of the power of a signal's changes from step to step lie below some frequency f; half a period of f is the
    Nyquist interval of that band. Of changes, because a drift or an offset holds most of the power of many signals and says
    nothing of how finely they are sampled: changes of noise and of a random walk fill all of the band, those of a smooth
    signal only its lower end. The channel that needs most decides. Series with gaps or uneven times are left out, and where
    most have some every step counts.

    Args:
        x: Series, (N, T, D).
        times: Times of their steps, (N, T).
        observed: Measured cells, (N, T, D).
    """
    n_steps = x.shape[1]
    if n_steps < FINELY * COARSEST:
        return 1
    some = np.sort(np.random.default_rng(0).permutation(len(x))[:SURVEYED])
    between = np.diff(times[some], axis=1)
    even = np.isclose(between, between[:, :1], rtol=1e-3, atol=0).all(axis=1)
    whole = some[even & observed[some].all(axis=(1, 2))]
    if 2 * len(whole) < len(some):
        return 1
    finest = min(_interval(x[whole, :, c].astype(np.float64)) for c in range(x.shape[2]))
    steps = int(min(finest, n_steps / COARSEST))
    return steps if steps >= FINELY and np.isfinite(finest) else 1


def _interval(x: NDArray[np.float64]) -> float:
    """The Nyquist interval of the changes of one channel, (N, T), in steps; infinite if there are none."""
    changes = np.diff(x, axis=1)
    changes -= changes.mean(axis=1, keepdims=True)
    if np.abs(changes).max() <= ROUNDING * np.abs(x).max():  # a constant, or a ramp
        return np.inf
    power = (np.abs(np.fft.rfft(changes, axis=1)) ** 2).sum(axis=0)
    below = (power.cumsum() < BAND * power.sum()).sum()
    return float(0.5 / np.fft.rfftfreq(changes.shape[1])[below])
