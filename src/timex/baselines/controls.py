"""Two controls that explain nothing of the model: what they score, the data gives away by itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from timex.baselines.base import Unfitted


class Random(Unfitted):
    """Uniform scores, the floor of every table.

    Args:
        model: Only asked for its predictions.
        seed: Seed of the scores; they depend on it and on the place of the sample in x, not on chunks.
        device: Where to run it.
    """

    name = "random"

    def __init__(self, model: nn.Module, seed: int = 0, device: torch.device | str | None = None) -> None:
        super().__init__(model, device)
        self.seed = seed

    def _start(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)

    def _attribute(self, x: Tensor, target: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        return torch.rand(x.shape, generator=self._generator)


class Amplitude(Unfitted):
    """|x - median of the channel|: on data whose signal is large, it beats every explainer without seeing the model."""

    name = "amplitude"

    def _attribute(self, x: Tensor, target: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        seen = torch.ones_like(x, dtype=torch.bool) if observed is None else observed
        median = torch.where(seen, x, torch.nan).nanmedian(dim=1, keepdim=True).values  # (B, 1, D)
        return (x - median.nan_to_num()).abs()
