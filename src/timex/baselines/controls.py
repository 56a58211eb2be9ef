"""Controls that explain nothing of the model: what they score, the data gives away by itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from timex.baselines.base import BaselineExplainer, Batch, uniform_per_sample


@dataclass(frozen=True, kw_only=True)
class RandomConfig:
    """Settings of `Random`."""

    seed: int = 0
    """Seed of the scores; they depend on it and on the place of the sample in x alone."""


class Random(BaselineExplainer):
    """Uniform scores, the floor of every table. The model is only asked for its predictions."""

    name = "random"
    config_class = RandomConfig
    config: RandomConfig

    def _attribute(self, batch: Batch) -> Tensor:
        return uniform_per_sample(self.config.seed, batch.place, *batch.x.shape[1:])


class Amplitude(BaselineExplainer):
    """|x - median of the channel|: on data whose signal is large, it beats every explainer without seeing the model."""

    name = "amplitude"

    def _attribute(self, batch: Batch) -> Tensor:
        seen = torch.ones_like(batch.x, dtype=torch.bool) if batch.observed is None else batch.observed
        median = torch.where(seen, batch.x, torch.nan).nanmedian(dim=1, keepdim=True).values  # (B, 1, D)
        return (batch.x - median.nan_to_num()).abs()


class Centre(BaselineExplainer):
    """How near a step is to the middle of the window: on windows cut around what matters, the place alone gives it away.

    The distance to the middle, negated, and raised so that the ends have 0, as missing cells do.
    """

    name = "centre"

    def _attribute(self, batch: Batch) -> Tensor:
        t = batch.x.shape[1]
        middle = (t - 1) / 2
        near = middle - (torch.arange(t, device=batch.x.device) - middle).abs()  # (T,)
        return near[:, None].expand_as(batch.x)
