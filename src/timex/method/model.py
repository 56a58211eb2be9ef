"""The trainable parts of TimeX as one module: generator H^E, surrogate (G^E and F^E), landmarks L.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from timex.engine import Noise
from timex.method.config import TimeXConfig
from timex.method.convolutional import ConvolutionalGenerator
from timex.method.generator import Generator
from timex.method.masking import bernoulli_soft, bernoulli_straight_through, direct_value, filled, step_mask
from timex.nn.layers import mlp_head
from timex.reference.base import ReferenceModel
from timex.reference.transformer import Transformer

DRAWS = {"straight_through": bernoulli_straight_through, "soft": bernoulli_soft}


CONDITIONER = "conditioner."
"""Prefix of the conditioner's weights among those that are trained with the generator."""
CONDITIONER_WIDTH = 32
"""Width of the conditioner."""


class Conditioner(nn.Module):
    """x~ = MLP(x, m), cell by cell, with weights of its own for every channel: a series in which the mask can be seen.

    It starts near m * x, the kept cells alone.
    """

    def __init__(self, n_channels: int, width: int = CONDITIONER_WIDTH) -> None:
        super().__init__()
        self.into = nn.Parameter(torch.randn(n_channels, 3, width) / 3**0.5)
        self.bias = nn.Parameter(torch.zeros(n_channels, width))
        self.out = nn.Parameter(torch.randn(n_channels, width) / (10 * width**0.5))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) and (B, T, D) -> (B, T, D)."""
        kept = mask * x
        h = torch.einsum("btdi,diw->btdw", torch.stack([x, mask, kept], dim=-1), self.into) + self.bias
        return kept + torch.einsum("btdw,dw->btd", h.relu(), self.out)


class Explained(NamedTuple):
    """Outputs for a batch: p (B, T, D), the surrogate's embedding (B, Z) and logits (B, C)."""

    p: Tensor
    z_e: Tensor
    logits_e: Tensor


def masking_for(reference: ReferenceModel, config: TimeXConfig) -> str:
    """Attention masking for univariate transformers, direct-value masking for everything else, unless the config says."""
    hide = config.mask.hide
    if hide != "auto":
        if hide != "value" and not reference.attention:
            raise ValueError(
                f"mask.hide={hide!r} needs a model with an attention mask, which {type(reference).__name__} has not: "
                "use mask.hide='value'."
            )
        return hide
    return "attention" if reference.attention and reference.n_channels == 1 else "value"


class Surrogate(nn.Module):
    """F^E(G^E(x^m)): an encoder that starts as a copy of the reference, and a fresh predictor."""

    def __init__(self, reference: ReferenceModel) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(reference).requires_grad_(True)
        self.predictor = mlp_head(reference.embedding_size, reference.n_classes)

    def forward(
        self, x_m: Tensor, times: Tensor | None, observed: Tensor | None, attended: Tensor | None, noise: Noise | None
    ) -> tuple[Tensor, Tensor]:
        """Embedding (B, Z) and logits (B, C) of masked series."""
        z_e = self.encoder.output(x_m, times, observed, attended, noise).z
        return z_e, self.predictor(z_e)


class TimeXModel(nn.Module):
    """H^E, G^E, F^E and L around a reference model, which is copied and never changed.

    Args:
        reference: The model that is explained.
        config: Settings.
        time_unit: The usual interval between steps, in the unit of `times`.

    Attributes:
        context_mean: Mean of the model's embeddings and answers over the training series, for the generator's scaling.
        context_std: Their standard deviation.
    """

    context_mean: Tensor
    context_std: Tensor

    def __init__(self, reference: ReferenceModel, config: TimeXConfig, time_unit: float = 1.0) -> None:
        super().__init__()
        self.generator = generator_for(reference, config, time_unit)
        self.surrogate = Surrogate(reference)
        self.conditioner = Conditioner(reference.n_channels) if config.objective == "instance" else None
        self.landmarks = nn.Parameter(torch.zeros(config.n_landmarks, reference.embedding_size))
        width = reference.embedding_size + reference.n_classes
        self.register_buffer("context_mean", torch.zeros(width))
        self.register_buffer("context_std", torch.ones(width))
        self.masking = masking_for(reference, config)
        self.draw = DRAWS[config.mask.sampling]

    @property
    def encoder(self) -> ReferenceModel:
        """G^E."""
        return self.surrogate.encoder

    def masking_params(self) -> dict[str, Tensor]:
        """The weights that are trained without the surrogate: those of the generator, and of a conditioner."""
        found = {name: p.detach() for name, p in self.generator.named_parameters()}
        if self.conditioner is not None:
            found |= {CONDITIONER + name: p.detach() for name, p in self.conditioner.named_parameters()}
        return found

    def load_masking(self, params: dict[str, Tensor]) -> None:
        """Take trained weights, named as `masking_params` names them."""
        self.generator.load_state_dict(params, strict=False)
        if self.conditioner is not None:
            own = {n.removeprefix(CONDITIONER): v for n, v in params.items() if n.startswith(CONDITIONER)}
            self.conditioner.load_state_dict(own)

    def forward(
        self,
        x: Tensor,
        times: Tensor | None,
        observed: Tensor | None,
        mean: Tensor,
        std: Tensor,
        tau: Tensor,
        fill: str,
        noise: Noise | None,
        sample: Noise | None,
    ) -> Explained:
        """One pass of G^E(H^E(x)) with the paper's generator.

        Args:
            x: Series, (B, T, D).
            times: Times, (B, T), or None.
            observed: Measured cells, (B, T, D), or None.
            mean: Baseline mean, (T, D).
            std: Baseline standard deviation, (T, D).
            tau: Temperature of the mask.
            fill: What hidden cells hold, see `filled`.
            noise: Source of dropout; None evaluates.
            sample: Source of masks and fills; None takes p > .5 and a fixed fill, which makes explanations deterministic.
        """
        p = self.generator(x, times, observed, noise)  # (B, T, D)
        mask = (p > 0.5).to(p.dtype) if sample is None else self.draw(p, sample.uniform(*p.shape), tau)
        x_m, attended = self.masked(x, observed, mask, filled(fill, x, mean, std, sample))
        return Explained(p, *self.surrogate(x_m, times, observed, attended, noise))

    def masked(self, x: Tensor, observed: Tensor | None, mask: Tensor, fill: Tensor) -> tuple[Tensor, Tensor | None]:
        """x^m (B, T, D) and the steps attention may see (B, T): cells outside `mask` are hidden as `masking` says."""
        if self.masking != "attention":
            x = direct_value(x, mask, fill)
        if observed is not None:
            x = torch.where(observed, x, 0.0)  # a fill must not invent cells that were never measured
        return x, None if self.masking == "value" else step_mask(mask)


def generator_for(reference: ReferenceModel, config: TimeXConfig, time_unit: float) -> nn.Module:
    """A fresh generator of the kind the objective trains."""
    settings = config.generator
    if config.objective == "evidence":
        return ConvolutionalGenerator(
            reference.n_channels,
            reference.n_steps,
            reference.embedding_size + reference.n_classes,
            settings.width,
            gradients=settings.gradient_points > 0,
            time_unit=time_unit,
        )
    sizes = reference.config if isinstance(reference, Transformer) else {"n_layers": 2, "d_hidden": 64}
    return Generator(
        reference.n_channels,
        reference.n_steps,
        settings.layers or sizes["n_layers"],
        settings.hidden or sizes["d_hidden"],
        settings.dropout,
        time_unit=time_unit,
        with_residual=settings.residual,
        attention_dropout=settings.attention_dropout,
        two_outputs=settings.output == "softmax",
    )
