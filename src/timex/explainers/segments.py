"""LIME and KernelSHAP over segments: linear models of the answer, fitted to series without random sets of segments.

Written out for whole batches: Captum's versions explain one series after another, and draw from the global random state.

Shapes: B samples, T time steps, D channels, C classes; M segments, S sets of segments that are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.explainers.segmentation import change_points, labels_of, lines_across, shape_changes, uniform_cuts
from timex.settings import Settings, setting

SEGMENTATIONS = {"uniform": uniform_cuts, "change_points": change_points, "shape_changes": shape_changes}
TINY = 1e-6
"""Added to the diagonal, so that the solution is unique and small if there are more segments than samples."""


@dataclass(frozen=True, kw_only=True)
class SegmentsConfig(Settings):
    """Settings of `Lime` and `KernelShap`."""

    n_segments: int = setting(10, "Segments of every channel.", least=1)
    segmentation: Literal["uniform", "change_points", "shape_changes"] = setting(
        "uniform",
        "Segments of equal length, cut where the mean of the channel changes most (binary segmentation), or cut where its "
        "shapes change (the matrix profile's arcs).",
    )
    n_samples: int = setting(500, "Sets of segments for which the model is evaluated.", least=2)
    fill: Literal["zero", "mean", "line"] = setting(
        "zero", "Replaces segments that are left out: zero, the channel's mean in the sample, or a line from end to end."
    )
    seed: int = setting(0, "Seed of the sets.")


class SegmentExplainer(Explainer):
    """The adapter: subclasses choose sets of segments in `_sets` and fit a linear model to the answers in `_coefficients`."""

    signed = True
    config_class = SegmentsConfig
    config: SegmentsConfig

    def _copies(self, shape: tuple[int, ...]) -> int:
        return 64

    @torch.no_grad()
    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        labels, n_segments = self._segments(batch)
        sets = self._sets(batch, n_segments)  # (B, S, M)
        whole = batch.logits.gather(1, batch.target[:, None])[:, 0]
        coefficients = self._coefficients(batch, labels, sets, whole)  # (B, M)
        return {"attribution": coefficients.gather(1, labels.flatten(1)).view_as(batch.x).to(batch.x.dtype)}

    def _segments(self, batch: Batch) -> tuple[Tensor, int]:
        """The segment of every cell, (B, T, D), and the number of segments M."""
        cuts = SEGMENTATIONS[self.config.segmentation]
        n_segments = min(self.config.n_segments, batch.x.shape[1]) * batch.x.shape[2]
        return labels_of(cuts(batch.x, batch.observed, self.config.n_segments)), n_segments

    def answers_to(self, batch: Batch, labels: Tensor, sets: Tensor) -> Tensor:
        """The logit of the target when only some segments are kept, (B, S): sets (B, S, M) of segments `labels` (B, T, D)."""
        fill = channel_fill(batch, self.config.fill, labels)
        index = labels.flatten(1)[:, None]  # (B, 1, F)
        found = []
        for part in sets.split(max(1, self._rows(batch.x.shape) // len(batch.x)), dim=1):
            kept = part.gather(2, index.expand(-1, part.shape[1], -1)).unflatten(2, batch.x.shape[1:])
            logits = self.logits_of_copies(torch.where(kept, batch.x[:, None], fill[:, None]), batch)
            found.append(logits.gather(2, batch.target[:, None, None].expand(-1, logits.shape[1], 1))[..., 0])
        return torch.cat(found, 1)

    def _sets(self, batch: Batch, n_segments: int) -> Tensor:
        """Sets of segments to keep, (B, S, M) bool."""
        raise NotImplementedError(f"{type(self).__name__} must define _sets")

    def _coefficients(self, batch: Batch, labels: Tensor, sets: Tensor, whole: Tensor) -> Tensor:
        """The score of every segment, (B, M), given the logit of the whole series (B,)."""
        raise NotImplementedError(f"{type(self).__name__} must define _coefficients")


def channel_fill(batch: Batch, fill: Literal["zero", "mean", "line"], labels: Tensor) -> Tensor:
    """The values that replace segments, (B, T, D), missing cells 0: zero, the mean of the measured values, or lines."""
    if fill == "zero":
        return torch.zeros_like(batch.x)
    seen = torch.ones_like(batch.x) if batch.observed is None else batch.observed.to(batch.x.dtype)
    if fill == "line":
        return lines_across(batch.x, labels) * seen
    return (batch.x * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp_min(1) * seen


# ----------------------------------------------------------------------------------------------------------------- LIME


@dataclass(frozen=True, kw_only=True)
class LimeConfig(SegmentsConfig):
    """Settings of `Lime`; kernel and regression are those of the authors' package."""

    width: float = setting(0.25, "Width of the kernel, in cosine distance from the whole series.", above=0)
    ridge: float = setting(1.0, "Weight of the squared coefficients.", least=0)


class Lime(SegmentExplainer):
    """Coefficients of a local linear model over segments: LIME (Ribeiro et al., 2016).

    Each set z in {0, 1}^M keeps every segment with probability 1/2. Coefficients b minimise

        sum_s w(z_s) (F_c(x, z_s) - b_0 - b z_s)^2 + ridge |b|^2,    w(z) = exp(-(1 - sqrt(|z| / M))^2 / width^2)

    over the sets and the whole series. Every cell of a segment has the coefficient of the segment. Assumes that segments do
    not interact, and that leaving some out gives plausible series.
    """

    name = "lime"
    cost = "n_samples"
    config_class = LimeConfig
    config: LimeConfig

    def _sets(self, batch: Batch, n_segments: int) -> Tensor:
        return uniform_per_sample(self.config.seed, batch.place, self.config.n_samples, n_segments) < 0.5

    def _coefficients(self, batch: Batch, labels: Tensor, sets: Tensor, whole: Tensor) -> Tensor:
        answers = torch.cat([whole[:, None], self.answers_to(batch, labels, sets)], 1)
        sets = torch.cat([torch.ones_like(sets[:, :1]), sets], 1)
        distance = 1 - sets.double().mean(2).sqrt()
        return ridge(sets, answers, torch.exp(-((distance / self.config.width) ** 2)), self.config.ridge)


def ridge(sets: Tensor, answers: Tensor, weight: Tensor, penalty: float) -> Tensor:
    """Coefficients (B, M) of a weighted ridge regression of answers (B, S) on sets (B, S, M); the intercept is free."""
    z, y, w = sets.double(), answers.double(), weight[..., None]
    z = z - (z * w).sum(1, keepdim=True) / w.sum(1, keepdim=True)
    y = y - (y * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
    gram = z.mT @ (w * z) + (penalty + TINY) * torch.eye(z.shape[2], dtype=z.dtype, device=z.device)
    return torch.linalg.solve(gram, z.mT @ (weight * y)[..., None])[..., 0]


# ----------------------------------------------------------------------------------------------------------- KernelSHAP


class KernelShap(SegmentExplainer):
    """Shapley values of segments, by the regression of KernelSHAP (Lundberg & Lee, 2017).

    Coefficients b minimise sum_s w(z_s) (F_c(x, z_s) - F_c(nothing) - b z_s)^2 subject to sum b = F_c(x) - F_c(nothing), with
    w(z) = (M - 1) / (binom(M, |z|) |z| (M - |z|)). If there are no more than `n_samples` sets, all of them count and the values
    are exact. Else sets are drawn in proportion to w, each with its complement. Every cell of a segment has the value of the
    segment. Assumes that leaving segments out gives plausible series.
    """

    name = "kernel_shap"
    cost = "min(n_samples, 2 ** (min(n_segments, T) * D) - 2) + 1"

    def _sets(self, batch: Batch, n_segments: int) -> Tensor:
        listed = all_sets(n_segments, self.config.n_samples)
        if listed is not None:
            return listed.to(batch.x.device).expand(len(batch.x), -1, -1)
        return random_sets(self.config.seed, batch.place, self.config.n_samples, n_segments)

    def _coefficients(self, batch: Batch, labels: Tensor, sets: Tensor, whole: Tensor) -> Tensor:
        m, listed = sets.shape[2], all_sets(sets.shape[2], self.config.n_samples) is not None
        nothing = sets.new_zeros(len(sets), 1, m)
        answers = self.answers_to(batch, labels, torch.cat([nothing, sets], 1)).double()
        gain, total = answers[:, 1:] - answers[:, :1], whole.double() - answers[:, 0]
        size = sets.sum(2)
        weight = kernel(m).to(sets.device)[size] if listed else torch.ones_like(gain)
        return constrained(sets, gain, weight, total)


def kernel(n_segments: int) -> Tensor:
    """The weight of a set by its size, (M + 1,) double; 0 for the empty and the full set, which are constraints."""
    m = n_segments
    inner = [(m - 1) / (math.comb(m, k) * k * (m - k)) for k in range(1, m)]
    return torch.tensor([0.0, *inner, 0.0], dtype=torch.float64)


def all_sets(n_segments: int, most: int) -> Tensor | None:
    """Every set but the empty and the full one, (2^M - 2, M) bool; None if there are more than `most`."""
    if 2**n_segments - 2 > most:
        return None
    return (torch.arange(1, 2**n_segments - 1)[:, None] >> torch.arange(n_segments)) % 2 == 1


def random_sets(seed: int, place: Tensor, n_samples: int, n_segments: int) -> Tensor:
    """Sets with sizes in proportion to 1 / (k (M - k)), in pairs of a set and its complement, (B, S, M) bool."""
    half = (n_samples + 1) // 2
    k = torch.arange(1, n_segments, device=place.device, dtype=torch.float64)
    edges = (1 / (k * (n_segments - k))).cumsum(0)
    u = uniform_per_sample(seed, place, half, n_segments + 1)
    size = 1 + torch.searchsorted(edges / edges[-1], u[..., 0].double().contiguous()).clamp(max=n_segments - 2)  # (B, S / 2)
    rank = u[..., 1:].argsort(-1).argsort(-1)
    sets = rank < size[..., None]
    return torch.stack([sets, ~sets], 2).flatten(1, 2)[:, :n_samples]


def constrained(sets: Tensor, gain: Tensor, weight: Tensor, total: Tensor) -> Tensor:
    """Weighted least squares of gain (B, S) on sets (B, S, M), the coefficients (B, M) summing to total (B,).

    b = A^-1 (c - 1 (1' A^-1 c - total) / (1' A^-1 1)) with A = Z' W Z and c = Z' W y.
    """
    z = sets.double()
    norm = weight.sum(1).clamp_min(torch.finfo(torch.float64).tiny)[:, None, None]
    scaled = z * weight[..., None] / norm
    gram = scaled.mT @ z + TINY * torch.eye(z.shape[2], dtype=z.dtype, device=z.device)
    sides = torch.cat([scaled.mT @ gain[..., None], gram.new_ones(*gram.shape[:2], 1)], 2)
    free, one = torch.linalg.solve(gram, sides).unbind(2)  # (B, M) each
    return free - one * ((free.sum(1) - total) / one.sum(1))[:, None]
