"""The trainable parts of TimeX as one module: generator H^E, explanation encoder G^E, explanation predictor F^E, landmarks L.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from timex.engine import Noise
from timex.masking import (
    baseline_draw,
    bernoulli_soft,
    bernoulli_straight_through,
    direct_value,
    normal_from_uniform,
    step_mask,
)
from timex.method.config import TimeXConfig
from timex.method.generator import Generator
from timex.reference.base import ReferenceModel, mlp_head
from timex.reference.transformer import Transformer

DRAWS = {"straight_through": bernoulli_straight_through, "soft": bernoulli_soft}


class Surrogate(NamedTuple):
    """What the surrogate says about a batch: p, mask and the fill b (B, T, D), embedding (B, Z), logits (B, C)."""

    p: Tensor
    mask: Tensor
    b: Tensor
    z_e: Tensor
    logits_e: Tensor


def masking_for(reference: ReferenceModel, config: TimeXConfig) -> str:
    """Attention masking for univariate transformers, direct-value masking for everything else, unless the config says."""
    if config.masking != "auto":
        if config.masking != "value" and not reference.attention:
            raise ValueError(
                f"masking={config.masking!r} needs a model with an attention mask, which {type(reference).__name__} has not: "
                "use masking='value'."
            )
        return config.masking
    return "attention" if reference.attention and reference.n_channels == 1 else "value"


class TimeXModel(nn.Module):
    """H^E, G^E, F^E and L around a reference model, which is copied and never changed.

    Args:
        reference: The model that is explained.
        config: Settings.
        resolution: Steps that explanations do not tell apart.
    """

    def __init__(self, reference: ReferenceModel, config: TimeXConfig, resolution: int = 1) -> None:
        super().__init__()
        sizes = reference.config if isinstance(reference, Transformer) else {"n_layers": 2, "d_hidden": 64}
        self.generator = Generator(
            reference.n_channels,
            reference.n_steps,
            sizes["n_layers"] if config.generator_layers is None else config.generator_layers,
            sizes["d_hidden"] if config.generator_hidden is None else config.generator_hidden,
            config.generator_dropout,
            config.generator_filters,
            resolution,
        )
        self.encoder = copy.deepcopy(reference).requires_grad_(True)
        self.predictor = mlp_head(reference.embedding_size, reference.n_classes)
        self.landmarks = nn.Parameter(torch.zeros(config.n_landmarks, reference.embedding_size))
        self.masking = masking_for(reference, config)
        self.draw = DRAWS[config.mask]
        self.fill, self.shown = config.fill, config.shown

    def forward(
        self,
        x: Tensor,
        times: Tensor | None,
        observed: Tensor | None,
        mean: Tensor,
        std: Tensor,
        tau: Tensor,
        noise: Noise | None,
        sample: Noise | None,
    ) -> Surrogate:
        """One pass of G^E(H^E(x)).

        Args:
            x: Series, (B, T, D).
            times: Times, (B, T), or None.
            observed: Measured cells, (B, T, D), or None.
            mean: Baseline mean, (T, D).
            std: Baseline standard deviation, (T, D).
            tau: Temperature of the mask.
            noise: Source of dropout; None evaluates.
            sample: Source of masks and fills; None takes p > .5 and the mean, which makes explanations deterministic.
        """
        p = self.generator(x, times, observed, noise)  # (B, T, D)
        if sample is None:
            mask, b = (p > 0.5).to(p.dtype), mean
        else:
            mask = self.draw(p, sample.uniform(*p.shape), tau)
            # A few samples get the mask a user is shown, so that the surrogate can be trusted on it. They teach the
            # surrogate only: p learns from draws, where every cell has its chance.
            shown = sample.uniform(len(p), 1, 1) < self.shown
            mask = torch.where(shown, (p.detach() > 0.5).to(p.dtype), mask)
            drawn = self.fill == "draw"
            b = baseline_draw(mean, std, normal_from_uniform(sample.uniform(*p.shape))) if drawn else mean
        x_m, attended = self.masked(x, observed, mask, b)
        z_e = self.encoder.encode(x_m, times, observed, attended, noise)
        return Surrogate(p, mask, b, z_e, self.predictor(z_e))

    def masked(self, x: Tensor, observed: Tensor | None, mask: Tensor, b: Tensor) -> tuple[Tensor, Tensor | None]:
        """x^m (B, T, D) and the steps attention may see (B, T): cells outside `mask` are hidden as the architecture allows."""
        if self.masking != "attention":
            x = direct_value(x, mask, b)
        if observed is not None:
            x = torch.where(observed, x, 0.0)  # a fill must not invent cells that were never measured
        return x, None if self.masking == "value" else step_mask(mask)
