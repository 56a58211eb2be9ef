"""Controls that ignore the model: their scores show how much of a metric the data alone explain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample


@dataclass(frozen=True, kw_only=True)
class RandomConfig:
    """Settings of `Random`."""

    seed: int = 0
    """Seed of the scores; they depend on it and on the position of the sample in x only."""


class Random(Explainer):
    """Uniform scores, the floor of every table."""

    name = "random"
    cost = "0"
    numbers = "all"
    config_class = RandomConfig
    config: RandomConfig

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        return {"attribution": uniform_per_sample(self.config.seed, batch.place, *batch.x.shape[1:])}


class Amplitude(Explainer):
    """Distance from the channel's median: what the values reveal without a model.

    On data whose deciding values are the largest, it beats every explainer.
    """

    name = "amplitude"
    cost = "0"
    numbers = "all"

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        seen = torch.ones_like(batch.x, dtype=torch.bool) if batch.observed is None else batch.observed
        median = torch.where(seen, batch.x, torch.nan).nanmedian(dim=1, keepdim=True).values  # (B, 1, D)
        return {"attribution": (batch.x - median.nan_to_num()).abs()}


class Centre(Explainer):
    """How near a step is to the middle of the window: what the place reveals without a model.

    The score is the number of steps to the nearer end: 0 at the ends, as for missing cells.
    """

    name = "centre"
    cost = "0"
    numbers = "all"

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        t = batch.x.shape[1]
        middle = (t - 1) / 2
        near = middle - (torch.arange(t, device=batch.x.device) - middle).abs()  # (T,)
        return {"attribution": near[:, None].expand_as(batch.x)}
