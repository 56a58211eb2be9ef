"""Occlusion with the values of training series instead of zero: augmented occlusion and feature permutation.

Shapes: B samples, T time steps, D channels, C classes; S training series, R draws, G groups of cells, Q of them at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.explainers.random_gradients import Background
from timex.explainers.splitting import split
from timex.records import Series
from timex.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class DrawnConfig(Settings):
    """Settings of methods that draw from training series."""

    draws: int = setting(10, "Training series whose values take the place of a group of cells.", least=1)
    n_background: int = setting(1000, "Training series kept to draw from.", least=1)
    seed: int = setting(0, "Seed of the kept series and of the draws.")


class DrawnOcclusion(Explainer[Background]):
    """The fall of the logit when a group of cells takes the values of training series, for every group.

    score(t, d) = mean over the groups that contain (t, d) of 1/R sum_r (F_c(x) - F_c(x with the group from training series r)).
    A sample's R series are the same for all groups. Subclasses define the groups in `_groups`.
    """

    needs_fit = True
    signed = True
    config: DrawnConfig

    def _fit(self, train: Series, val: Series | None, progress: bool) -> Background:
        kept = split(train, val, self.config.seed, 1)[0]
        order = np.random.default_rng(self.config.seed).permutation(len(kept))[: self.config.n_background]
        chosen = kept.take(order)
        values = np.where(chosen.observed, chosen.x, kept.baseline().mean)  # a missing cell has the training mean
        return Background(torch.as_tensor(values, dtype=torch.float32, device=self.device))

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.draws * 4

    @torch.no_grad()
    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        background, r = self.fitted.x, self.config.draws
        donors = background[(uniform_per_sample(self.config.seed, batch.place, r) * len(background)).long()]  # (B, R, T, D)
        whole = batch.logits.gather(1, batch.target[:, None])  # (B, 1)
        total, count = torch.zeros_like(batch.x), torch.zeros_like(batch.x[0])
        size = max(1, self._rows(batch.x.shape) // (len(batch.x) * r))
        every = torch.arange(self._n_groups(*batch.x.shape[1:]), device=batch.x.device)
        for part in every.split(size):
            group = self._groups(part, batch.x.shape[1:])  # (Q, T, D)
            changed = group if batch.observed is None else group & batch.observed[:, None, None]
            copies = torch.where(changed, donors[:, :, None], batch.x[:, None, None])  # (B, R, Q, T, D)
            logits = self.logits_of_copies(copies.flatten(1, 2), batch)
            answers = logits.gather(2, batch.target[:, None, None].expand(-1, logits.shape[1], 1))[..., 0]
            loss = whole - answers.unflatten(1, (r, -1)).mean(1)  # (B, Q)
            total += torch.einsum("bq,qtd->btd", loss, group.to(loss.dtype))
            count += group.sum(0)
        return {"attribution": total / count}

    @abstractmethod
    def _n_groups(self, t: int, d: int) -> int:
        """The number of groups of series (T, D)."""

    @abstractmethod
    def _groups(self, index: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The cells of the groups with these numbers, (Q, T, D) bool."""


# --------------------------------------------------------------------------------------------------- augmented occlusion


@dataclass(frozen=True, kw_only=True)
class AugmentedOcclusionConfig(DrawnConfig):
    """Settings of `AugmentedOcclusion`."""

    width: int = setting(5, "Steps of one channel that are replaced together; as occlusion.", least=1)


class AugmentedOcclusion(DrawnOcclusion):
    """How far the logit falls when a window of one channel takes values of training series (Tonekaboni et al., 2020).

    score(t, d) = mean over the windows W that contain (t, d) of 1/R sum_r (F_c(x) - F_c(x with W from training series r))

    Occlusion inserts zero, which may itself be evidence. This method inserts values that occur at these steps. Assumes that
    series are aligned, so that the values of one are plausible in another.
    """

    name = "augmented_occlusion"
    cost = "draws * D * (T - width + 1)"
    config_class = AugmentedOcclusionConfig
    config: AugmentedOcclusionConfig

    def _n_groups(self, t: int, d: int) -> int:
        return (t - min(self.config.width, t) + 1) * d

    def _groups(self, index: Tensor, shape: tuple[int, ...]) -> Tensor:
        t, d = shape
        step, start = torch.arange(t, device=index.device), (index // d)[:, None]
        inside = (step >= start) & (step < start + self.config.width)  # (Q, T)
        channel = torch.arange(d, device=index.device) == (index % d)[:, None]  # (Q, D)
        return inside[:, :, None] & channel[:, None]


# --------------------------------------------------------------------------------------------------- feature permutation


@dataclass(frozen=True, kw_only=True)
class FeaturePermutationConfig(DrawnConfig):
    """Settings of `FeaturePermutation`."""

    feature: Literal["cell", "step", "channel"] = setting("step", "What counts as one feature: a cell, a step, or a channel.")


class FeaturePermutation(DrawnOcclusion):
    """How far the logit falls when a step takes the values of another series: feature permutation (after Breiman, 2001).

    score(feature) = 1/R sum_r (F_c(x) - F_c(x with the feature from training series r)), for all cells of the feature

    Breiman permutes a feature across a data set and averages over the data set. Here each sample draws from training series
    and has its own scores, which therefore do not depend on other samples. Assumes that features do not depend on each other.
    """

    name = "feature_permutation"
    cost = "draws * {'cell': T * D, 'step': T, 'channel': D}[feature]"
    config_class = FeaturePermutationConfig
    config: FeaturePermutationConfig

    def _n_groups(self, t: int, d: int) -> int:
        return {"cell": t * d, "step": t, "channel": d}[self.config.feature]

    def _groups(self, index: Tensor, shape: tuple[int, ...]) -> Tensor:
        t, d = shape
        cell = torch.arange(t * d, device=index.device).view(t, d)
        feature = {"cell": cell, "step": cell // d, "channel": cell % d}[self.config.feature]
        return feature == index[:, None, None]
