"""H^E of the paper's objective: a transformer encoder-decoder that reads x and writes a probability for every cell.

Shapes: B samples, T time steps, D channels, M = 16 + D the width of the layers.
"""

from __future__ import annotations

from torch import Tensor, nn

from timex.engine import Noise
from timex.nn.attention import Linear
from timex.nn.layers import DecoderLayer, TransformerEncoder, observed_steps, with_time

DECODER_LAYERS = 2
DECODER_HIDDEN = 32


class Generator(nn.Module):
    """x -> p in (0, 1)^(T x D), the probability that a cell is kept: the explanation itself.

    The encoder gives a memory; the decoder reads [time encoding ; x] against it. Neither is causal: the whole window is known
    when its explanation is made.

    Args:
        n_channels: D.
        n_steps: T.
        n_layers: Encoder layers.
        d_hidden: Feed-forward width of the encoder.
        rate: Dropout rate.
        time_unit: The usual interval between steps, in the unit of `times`.
        with_residual: Whether the encoder's self-attention has a residual; False in the paper's published code.
        attention_dropout: Whether attention weights have dropout.
        two_outputs: For one channel, p is the second of two outputs after a softmax, and the last layer starts with Xavier
            weights and a bias of .01, as in the published code.
    """

    def __init__(
        self,
        n_channels: int,
        n_steps: int,
        n_layers: int,
        d_hidden: int,
        rate: float,
        time_unit: float = 1.0,
        with_residual: bool = True,
        attention_dropout: bool = False,
        two_outputs: bool = False,
    ) -> None:
        super().__init__()
        self.n_steps, self.time_unit = n_steps, time_unit
        self.two_outputs = two_outputs and n_channels == 1
        attention_rate = rate if attention_dropout else 0.0
        sizes = (n_channels, n_steps, n_layers, d_hidden, rate, time_unit)
        self.encoder = TransformerEncoder(*sizes, with_residual=with_residual, attention_rate=attention_rate)
        width = self.encoder.width
        self.decoder = nn.ModuleList(DecoderLayer(width, DECODER_HIDDEN, rate, attention_rate) for _ in range(DECODER_LAYERS))
        self.out = Linear(width, 2 if self.two_outputs else n_channels)
        if two_outputs:
            nn.init.xavier_uniform_(self.out.weight)
            nn.init.constant_(self.out.bias, 0.01)

    def forward(
        self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None, noise: Noise | None = None
    ) -> Tensor:
        """p, (B, T, D)."""
        steps = observed_steps(observed)
        padding = None if steps is None else ~steps
        h = with_time(x, times, self.n_steps, self.time_unit)  # (B, T, M)
        memory = self.encoder.encode(h, padding, None, noise)
        for layer in self.decoder:
            h = layer(h, memory, padding, noise)
        out = self.out(h)
        return out.softmax(-1)[..., 1:] if self.two_outputs else out.sigmoid()  # (B, T, D)
