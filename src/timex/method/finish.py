"""The end of a fit: p of every series, its smoothing, the landmarks, and the record of what was learned.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timex.engine import Tensors
from timex.method.config import TimeXConfig
from timex.method.evidence import openness
from timex.method.explain import chunk_size, explain_masks, keep_probability, smoothed_probability
from timex.method.landmarks import Landmarks, medoids, survey
from timex.method.masking import filled
from timex.method.model import TimeXModel
from timex.method.quality import Quality, quality_of
from timex.method.task import Names, Task
from timex.metrics.familiarity import MOST, distance_from, traits
from timex.records import Baseline, Series
from timex.reference.base import ReferenceModel
from timex.reference.beside import beside
from timex.reference.evidence import Part, gap, gaps_by_width
from timex.reference.student import Distilled

MAX_GAP = 256
"""Validation series on which the smoothing is chosen, at most."""
MAX_ASKED = 32
"""The same for a black box, whose answers may cost money: each series takes some 140 of them."""
NEARLY = 0.1
"""Share of the gap that a wider smoothing may cost."""

History = tuple[dict[str, Any], ...]
"""One row per epoch, with the name of the part that was trained."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Everything a fit learned.

    Attributes:
        config: The settings of the fit.
        reference: The frozen copy of the model that is explained.
        reference_hash: A hash of the user's model as it was at the fit.
        model: The generator, surrogate and landmarks.
        baseline: Mean and standard deviation of every cell of the training series.
        fill: What hidden cells hold.
        spread: For forecasts, the unit of evidence (`timex.reference.evidence`); None for classes.
        smoothing: Standard deviation in steps of the Gaussian over explanations; 0 for none.
        landmarks: The landmarks and the training explanations around them.
        time_unit: The usual interval between steps of the training series.
        names: Names and scaling of channels and classes.
        extras: One row of extras that stands for those of the training series, (1, ...) by name.
        history: One row per epoch, of the generator and then of the surrogate.
        quality: How good the fit is, measured without ground truth.
        traits: What some training series are like (`timex.metrics.traits`); None for fits saved before these were kept.
        distance: How far the median training series lies from the training mean, in deviations; None as for `traits`.
    """

    config: TimeXConfig
    reference: ReferenceModel
    reference_hash: str
    model: TimeXModel
    baseline: Baseline
    fill: str
    spread: float | None
    smoothing: int
    landmarks: Landmarks
    time_unit: float
    names: Names
    extras: dict[str, NDArray[Any]]
    history: History
    quality: Quality
    traits: NDArray[np.float32] | None = None
    distance: float | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(T, D) of the series fitted on."""
        return self.reference.n_steps, self.reference.n_channels


class Masks(NamedTuple):
    """p of a task's training and validation series as users see it, (N, T, D) on the CPU, and the width of its smoothing."""

    train: Tensor
    val: Tensor
    smoothing: int


def finished_masks(task: Task) -> Masks:
    """The masks of the trained generator, smoothed by the width of the settings, or by the one that the model chooses."""
    task.model.to(task.device).eval()
    task.reference.to(task.device)
    parts = task.member.train, task.member.val
    p = [torch.cat([keep_probability(task, batch).cpu() for batch in batches(task, part)]) for part in parts]
    smoothing = best_smoothing(task, p[1]) if task.config.smoothing is None else task.config.smoothing
    train, val = (smoothed_probability(v, smoothing, part.get("observed")) for v, part in zip(p, parts, strict=True))
    return Masks(train, val, smoothing)


def batches(task: Task, data: Tensors) -> Iterator[Tensors]:
    """The data on the task's device, as many series at once as explaining takes."""
    size = chunk_size(data["x"].shape[1])
    for start in range(0, len(data["x"]), size):
        batch = {name: value[start : start + size].to(task.device) for name, value in data.items()}
        with beside(batch):  # until the next batch is asked for
            yield batch


def best_smoothing(task: Task, p: Tensor) -> int:
    """The width of the smoothing that the model chooses: that with the largest gap of p, or a wider one that is nearly as good.

    The generator is trained on the evidence itself, so p keeps few cells of a motif, and its gap hardly asks for smoothing.
    The gradients did not see the loss: their best width, the one that `gradients` takes, tells how long a motif is for the
    model. A wider one is taken up to half of that, if it costs at most `NEARLY` of the gap.
    """
    gaps = gaps_of(task, p, by_openness=True)
    best = largest(gaps)
    gradient = task.member.val.get("gradient")
    if gradient is None:
        return best
    most = (largest(gaps_of(task, gradient.abs())) + 1) // 2
    least = gaps[best] - NEARLY * abs(gaps[best])
    return max([best, *(width for width, value in gaps.items() if width <= most and value >= least)])


@torch.no_grad()
def gaps_of(task: Task, attribution: Tensor, by_openness: bool = False) -> dict[int, float]:
    """The mean gap of evidence on validation series by the width of the smoothing, by the frozen model's answers.

    Args:
        task: The fit.
        attribution: Scores of its validation series, (N, T, D).
        by_openness: Weight the series by their openness, as the loss does.
    """
    mean, std = (torch.as_tensor(v, device=task.device) for v in task.baseline)
    most = MAX_ASKED if isinstance(task.reference, Distilled) else MAX_GAP

    def parts() -> Iterator[Part]:
        val = {name: v[:most] for name, v in task.member.val.items()}
        for batch in batches(task, {**val, "attribution": attribution[:most]}):
            x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
            answer = partial(_answer, task, times, observed)
            fill, blank = filled(task.fill, x, mean, std, None), answer(mean.expand_as(x))
            gap_of = partial(gap, answer, x, fill=fill, blank=blank, spread=task.spread, observed=observed)
            if by_openness:
                gap_of = partial(_weighted, gap_of, openness(batch["logits"], blank, task.fill, task.config.forecasts))
            yield gap_of, batch["attribution"], observed

    return gaps_by_width(parts())


def largest(gaps: dict[int, float]) -> int:
    """The width with the largest gap."""
    return max(gaps, key=lambda width: gaps[width])


def _weighted(gap_of: Callable[[Tensor], Tensor], weight: Tensor, attribution: Tensor) -> Tensor:
    """The gap of every sample times its weight, (B,)."""
    return weight * gap_of(attribution)


def _answer(task: Task, times: Tensor | None, observed: Tensor | None, view: Tensor) -> Tensor:
    """The answer of the model that is explained to altered series; cells that were never measured stay zero."""
    return task.reference.answers(view if observed is None else torch.where(observed, view, 0.0), times, observed)


def finish(task: Task, masks: Masks, history: History) -> Fitted:
    """The record of a fit whose weights are in `task.model`: its landmarks, and how good it is."""
    model = task.model.to(task.device)
    model.eval().requires_grad_(False)
    found = [explain_masks(task, batch, batch["p"]) for batch in batches(task, {**task.member.train, "p": masks.train})]
    z_e = torch.cat([part["embedding"].cpu() for part in found])
    predicted = task.member.train["logits"].argmax(-1)
    if task.config.objective != "paper":
        model.landmarks.copy_(medoids(z_e, task.config.n_landmarks, task.config.seed))
    landmarks = survey(model.landmarks.detach().cpu(), z_e, predicted, model.encoder.n_classes)
    agreement = None if task.config.forecasts else torch.cat([part["agreement"].cpu() for part in found])
    return Fitted(
        config=task.config,
        reference=task.reference,
        reference_hash=task.reference_hash,
        model=model,
        baseline=task.baseline,
        fill=task.fill,
        spread=task.spread,
        smoothing=masks.smoothing,
        landmarks=dataclasses.replace(landmarks, nearest=task.kept[landmarks.nearest]),
        time_unit=task.time_unit,
        names=task.names,
        extras=task.train.usual_extras(),
        history=history,
        quality=quality_of(masks.val, torch.as_tensor(task.val.observed), agreement, predicted),
        traits=traits_of(task.train, task.config.seed),
        distance=float(np.median(distance_from(task.baseline, task.train))),
    )


def traits_of(train: Series, seed: int) -> NDArray[np.float32]:
    """The traits of some random training series, as many as a check compares."""
    return traits(train.take(np.random.default_rng(seed).permutation(len(train))[:MOST])).astype(np.float32)
