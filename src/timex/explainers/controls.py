"""Controls that ignore the model. Their scores show how well a ranking without any model does in a metric."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class RandomConfig(Settings):
    """Settings of `Random`."""

    seed: int = setting(0, "Seed of the scores, which depend on it and on the position of the sample in x alone.")


class Random(Explainer):
    """Uniform scores: the lower bound that every method must exceed.

    score(t, d) ~ U(0, 1), whatever the model and the values.
    """

    name = "random"
    cost = "0"
    numbers = "all"
    config_class = RandomConfig
    config: RandomConfig

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        return {"attribution": uniform_per_sample(self.config.seed, batch.place, *batch.x.shape[1:])}


class Amplitude(Explainer):
    """Distance from the channel's median: how well large values alone find the deciding cells.

    score(t, d) = |x(t, d) - median over t of x(t, d)|. On data whose deciding values are the largest, it beats every explainer.
    """

    name = "amplitude"
    cost = "0"
    numbers = "all"

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        seen = torch.ones_like(batch.x, dtype=torch.bool) if batch.observed is None else batch.observed
        median = torch.where(seen, batch.x, torch.nan).nanmedian(dim=1, keepdim=True).values  # (B, 1, D)
        return {"attribution": (batch.x - median.nan_to_num()).abs()}


class Centre(Explainer):
    """How near a step is to the middle of the window: how well the place alone finds the deciding cells.

    score(t, d) = min(t, T - 1 - t) for t = 0 .. T - 1, the number of steps to the nearer end. Missing cells have 0 too.
    """

    name = "centre"
    cost = "0"
    numbers = "all"

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        t = batch.x.shape[1]
        middle = (t - 1) / 2
        near = middle - (torch.arange(t, device=batch.x.device) - middle).abs()  # (T,)
        return {"attribution": near[:, None].expand_as(batch.x)}
