"""The paper's reference transformer: [time encoding ; x], post-norm encoder layers, mean over time, MLP head.

Shapes: B samples, T time steps, D channels, M = 16 + D the width of the layers.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from timex.engine import Noise
from timex.nn.layers import TransformerEncoder, mean_over_time, mlp_head, observed_steps
from timex.reference.base import Output, ReferenceModel


class Transformer(ReferenceModel):
    """The transformer classifier of the paper's experiments.

    Its encoder layers have no residual around self-attention, and dropout on the attention weights. The paper's text does not
    mention this; its published code does it because a residual carries every masked value past the attention mask.

    Args:
        n_channels: D.
        n_classes: C.
        n_steps: T, which sets the slowest wave of the time encoding.
        n_layers: Encoder layers.
        d_hidden: Width of the feed-forward part.
        dropout: Rate of dropout on the branches and inside the feed-forward part.
        normalise: Scale embeddings to unit length ("Norm. embedding" in the paper's tables).
        time_unit: The usual interval between steps, in the unit of `times`.
        residual: Whether self-attention has a residual, as in torch's own layers.
        attention_dropout: Whether the attention weights have dropout while training.
    """

    arch = "transformer"
    attention = True
    uses_times = True

    def __init__(
        self,
        n_channels: int,
        n_classes: int,
        n_steps: int,
        n_layers: int = 1,
        d_hidden: int = 64,
        dropout: float = 0.1,
        normalise: bool = False,
        time_unit: float = 1.0,
        residual: bool = False,
        attention_dropout: bool = True,
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
            "time_unit": time_unit,
            "residual": residual,
            "attention_dropout": attention_dropout,
        }
        self.n_channels, self.n_classes, self.n_steps, self.normalise = n_channels, n_classes, n_steps, normalise
        attention_rate = dropout if attention_dropout else 0.0
        self.encoder = TransformerEncoder(n_channels, n_steps, n_layers, d_hidden, dropout, time_unit, residual, attention_rate)
        self.embedding_size = self.encoder.width
        self.head = mlp_head(self.embedding_size, n_classes)

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Z (B, M) and logits (B, C)."""
        steps = observed_steps(observed)
        z = mean_over_time(self.encoder(x, times, steps, mask, noise), steps)
        z = F.normalize(z, dim=-1) if self.normalise else z
        return Output(z, self.head(z))


class ResidualTransformer(Transformer):
    """`Transformer` with residuals around self-attention and without dropout of its weights, as most foreign models have."""

    arch = "transformer_residual"

    def __init__(self, n_channels: int, n_classes: int, n_steps: int, **more: Any) -> None:
        super().__init__(n_channels, n_classes, n_steps, **{"residual": True, "attention_dropout": False, **more})
