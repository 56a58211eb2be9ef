"""Gradients at random points around a series: SmoothGrad, expected gradients and TIMING.

Written out rather than taken from Captum's noise tunnel and GradientShap, whose draws depend on what else is in the chunk.

Shapes: B samples, T time steps, D channels, C classes; S points of a sample, K segments of a point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from timex.engine import normal_from_uniform
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.records import Series
from timex.settings import Settings, setting


def gradients_of_copies(explainer: Explainer[Any], copies: Tensor, batch: Batch) -> Tensor:
    """The gradient of the target's logit at R altered copies of every sample, (B, R, T, D)."""
    copies = copies.detach().requires_grad_()
    logits = explainer.logits_of_copies(copies, batch)  # (B, R, C)
    chosen = logits.gather(2, batch.target[:, None, None].expand(-1, logits.shape[1], 1))
    (gradient,) = torch.autograd.grad(chosen.sum(), copies)
    return gradient


# ---------------------------------------------------------------------------------------------------------- SmoothGrad


@dataclass(frozen=True, kw_only=True)
class SmoothGradConfig(Settings):
    """Settings of `SmoothGrad`."""

    n_samples: int = setting(50, "Noisy copies of every sample; the authors see little change beyond.", least=2)
    noise: float = setting(
        0.15,
        "Standard deviation of the noise, as a share of the channel's range in the sample; the authors take .1 to .2.",
        above=0,
    )
    averaged: Literal["saliency", "ig"] = setting(
        "saliency", "What is computed at every noisy copy: the gradient, or integrated gradients from the zero series."
    )
    n_points: int = setting(
        10, 'Points of the integral of every copy for "ig"; few, as the mean over copies smooths it too.', least=1
    )
    statistic: Literal["mean", "square", "variance"] = setting(
        "mean", "Of the copies: the size of their mean (SmoothGrad), the mean of their squares, or their variance (VarGrad)."
    )
    seed: int = setting(0, "Seed of the noise.")


class SmoothGrad(Explainer):
    """|Gradient| of the class's logit, averaged over noisy copies of the series (Smilkov et al., 2017).

    |1/S sum_s g(x + e_s)|, e_s ~ N(0, (noise * range)^2), the range of the channel in the sample. g is the gradient dF_c / dx,
    or integrated gradients by `averaged="ig"`: g(x) = x * mean over k of dF_c / dx at a_k x, a_k = (k - .5) / n_points. The
    other statistics replace the mean over s, as in Captum's noise tunnel. Assumes that noise of this size leaves the series
    plausible, and for "ig" that zero is a neutral value of the data.
    """

    name = "smoothgrad"
    cost = "n_samples * {'saliency': 1, 'ig': n_points}[averaged]"
    needs_gradients = True
    config_class = SmoothGradConfig
    config: SmoothGradConfig

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.n_samples

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        c = self.config
        noise = normal_from_uniform(uniform_per_sample(c.seed, batch.place, c.n_samples, *batch.x.shape[1:]))  # (B, S, T, D)
        copies = batch.x[:, None] + c.noise * channel_range(batch)[:, None] * noise
        if batch.observed is not None:
            copies = torch.where(batch.observed[:, None], copies, batch.x[:, None])
        found = self._integrated(copies, batch) if c.averaged == "ig" else gradients_of_copies(self, copies, batch)
        match c.statistic:
            case "mean":
                return {"attribution": found.mean(1).abs()}
            case "square":
                return {"attribution": found.square().mean(1)}
        return {"attribution": found.var(1, unbiased=False)}

    def _integrated(self, copies: Tensor, batch: Batch) -> Tensor:
        """Integrated gradients of every copy from the zero series, (B, S, T, D)."""
        n = self.config.n_points
        total = torch.zeros_like(copies)
        for k in range(n):
            total += gradients_of_copies(self, (k + 0.5) / n * copies, batch)
        return copies * total / n


def channel_range(batch: Batch) -> Tensor:
    """The largest less the smallest measured value of every channel of every sample, (B, 1, D); 0 for none."""
    seen = torch.ones_like(batch.x, dtype=torch.bool) if batch.observed is None else batch.observed
    high = batch.x.masked_fill(~seen, -torch.inf).amax(1, keepdim=True)
    low = batch.x.masked_fill(~seen, torch.inf).amin(1, keepdim=True)
    return torch.where(seen.any(1, keepdim=True), high - low, 0.0)


# -------------------------------------------------------------------------------------------------- expected gradients


@dataclass(frozen=True, kw_only=True)
class GradientShapConfig(Settings):
    """Settings of `GradientShap`."""

    n_samples: int = setting(50, "Random points per sample: as many gradients as integrated gradients takes.", least=1)
    n_background: int = setting(100, "Training series kept as baselines; the usual size in the SHAP package.", least=1)
    seed: int = setting(0, "Seed of the baselines and of the points.")


class Background(NamedTuple):
    """Training series to draw from, (S, T, D): baselines of expected gradients, or values of replaced cells."""

    x: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, D)."""
        return tuple(self.x.shape[1:])


class GradientShap(Explainer[Background]):
    """Expected gradients (Erion et al., 2021): integrated gradients from random training series instead of zero.

    1/S sum_s (x - b_s) * dF_c / dx at b_s + a_s (x - b_s), a_s ~ U(0, 1), b_s one of `n_background` training series. Captum
    and the SHAP package call it GradientShap. Scores are signed; in expectation they sum to F_c(x) less the mean of F_c over
    these training series. Assumes that the training series together stand for a series without evidence.
    """

    name = "gradient_shap"
    cost = "n_samples"
    needs_fit = True
    needs_gradients = True
    signed = True
    config_class = GradientShapConfig
    config: GradientShapConfig

    def _fit(self, train: Series, val: Series | None, progress: bool) -> Background:
        kept = self.training_tensors(train, val)[0]["x"]
        order = torch.randperm(len(kept), generator=torch.Generator().manual_seed(self.config.seed))
        return Background(kept[order[: self.config.n_background]].to(self.device))

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.n_samples

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        along, which = uniform_per_sample(self.config.seed, batch.place, 2, self.config.n_samples).unbind(1)  # (B, S)
        background = self.fitted.x
        start = background[(which * len(background)).long()]  # (B, S, T, D)
        if batch.observed is not None:
            start = torch.where(batch.observed[:, None], start, 0.0)  # as x: the model never sees a cell that was not measured
        change = batch.x[:, None] - start
        gradient = gradients_of_copies(self, start + along[..., None, None] * change, batch)
        return {"attribution": (gradient * change).mean(1)}


# -------------------------------------------------------------------------------------------------------------- TIMING


@dataclass(frozen=True, kw_only=True)
class TimingConfig(Settings):
    """Settings of `Timing`. Ours: a share of the cells, so that they suit series of any length."""

    n_points: int = setting(50, "Points of the integral, each with segments of its own; as integrated gradients.", least=1)
    held: float = setting(0.5, "Expected share of the cells that keep their value at a point.", least=0, below=1)
    min_length: int = setting(1, "Shortest segment, in steps.", least=1)
    max_length: int | None = setting(None, "Longest segment, in steps; None takes a quarter of the series.", least=1)
    seed: int = setting(0, "Seed of the segments.")


class Timing(Explainer):
    """Integrated gradients along paths on which random segments keep their value: TIMING (Jang et al., 2025).

    At point k of S the cells outside the segments, M_k = 1, are x scaled by a_k = (k - .5) / S, and the others are x:

        score(t, d) = x(t, d) * mean over k with M_k(t, d) = 1 of dF_c / dx(t, d) at (1 - M_k) x + a_k M_k x

    The gradient of a cell is thus taken while other parts of the series keep their values; integrated gradients shrink the
    whole series at once. Without segments (`held=0`) it is integrated gradients from zero. Scores are signed. Assumes that
    zero is a neutral value of the data.
    """

    name = "timing"
    cost = "n_points"
    signed = True
    needs_gradients = True
    config_class = TimingConfig
    config: TimingConfig

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.n_points

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        n = self.config.n_points
        moves = ~held_cells(self.config, batch.place, batch.x.shape[1:])  # (B, S, T, D)
        along = (torch.arange(n, device=batch.x.device) + 0.5) / n
        scale = torch.where(moves, along[:, None, None], 1.0)
        gradient = gradients_of_copies(self, scale * batch.x[:, None], batch)
        return {"attribution": batch.x * (gradient * moves).sum(1) / moves.sum(1).clamp_min(1)}


def held_cells(config: TimingConfig, place: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Whether a cell keeps its value at each point, (B, S, T, D).

    A segment covers L steps of one channel; L, channel and start are uniform. The number K of segments solves
    (1 - mean L / (T D))^K = 1 - held. The left side is the probability that no segment covers a cell, if segments wrap around.
    """
    t, d = shape
    low = min(config.min_length, t)
    high = min(max(low, t // 4 if config.max_length is None else config.max_length), t)
    share = (low + high) / 2 / (t * d)
    if config.held == 0:
        return torch.zeros(len(place), config.n_points, t, d, dtype=torch.bool, device=place.device)
    count = max(1, round(math.log(1 - config.held) / math.log(1 - share))) if share < 1 else 1
    length, start, channel = uniform_per_sample(config.seed, place, 3, config.n_points, count).unbind(1)  # (B, S, K)
    length = low + (length * (high - low + 1)).long().clamp(max=high - low)
    start = (start * (t - length + 1)).long()
    channel = (channel * d).long().clamp(max=d - 1)
    # +1 at a start, -1 after an end
    change = torch.zeros(*start.shape[:2], (t + 1) * d, dtype=torch.int32, device=place.device)
    one = torch.ones_like(start, dtype=torch.int32)
    change.scatter_add_(2, start * d + channel, one).scatter_add_(2, (start + length) * d + channel, -one)
    return change.unflatten(2, (t + 1, d)).cumsum(2)[:, :, :t] > 0
