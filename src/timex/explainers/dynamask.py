"""Dynamask (Crabbé & van der Schaar, 2021): a mask per sample, optimised so that what it keeps preserves the prediction.

Shapes: B samples, T time steps, D channels, C classes, O offsets of the blur; F = T * D cells.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from timex.engine import Tensors
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.records import Series

log = logging.getLogger(__name__)

START = 0.5
"""Value of every cell of the mask before the first step."""
MOVED = 0.01
"""A mask counts as still if the gradients of the prediction, all steps together, could move no cell this far."""
TUNE_SAMPLES = 64
"""Validation samples used at most to choose the keep ratio."""
TUNE_SHARES = (0.02, 0.05, 0.1, 0.2)
"""Shares of the cells kept when masks of different keep ratios are compared."""


@dataclass(frozen=True, kw_only=True)
class DynamaskConfig:
    """Settings of `Dynamask`; those of the TimeX paper's runs unless the comment states another source.

    Of the settings with several values, `fit` chooses one on validation data.
    """

    keep_ratio: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2)
    """Shares of cells to keep; .01 alone in the TimeX paper."""
    steps: int = 50
    """Steps of gradient descent on the mask."""
    lr: float = 0.1
    """Learning rate of the descent."""
    momentum: float = 0.9
    """Momentum of the descent."""
    size_weight: float = 0.001
    """Weight of the size regulator at the start."""
    size_growth: tuple[float, ...] = (1e3, 1e5)
    """Factors by which the weight of the size regulator grows over the steps, exponentially. 1e5 alone in the TimeX paper: such
    masks have few values but 0 and 1."""
    time_weight: float = 0.0
    """Weight of the mask's variation along time, for smooth masks; 0 turns it off."""
    sigma_max: tuple[float, ...] = (2.0, 10.0)
    """Widths, in steps, of the Gaussian blur of a cell with mask 0. 2 alone in the TimeX paper: this blur hardly changes ramps
    and shifted means."""
    seed: int = 0
    """Seed of the split into training and validation series where no validation series are given."""

    def __post_init__(self) -> None:
        if not self.keep_ratio or not all(0 < ratio <= 1 for ratio in self.keep_ratio):
            raise ValueError(f"Expected keep_ratio as shares in (0, 1], got {self.keep_ratio}.")
        for name in ("size_growth", "sigma_max"):
            values = getattr(self, name)
            if not values or not all(value > 0 for value in values):
                raise ValueError(f"Expected {name} as positive numbers, got {values}.")


class Choice(NamedTuple):
    """The settings that are chosen on validation data: one value of each of these in the config."""

    keep_ratio: float
    size_growth: float
    sigma_max: float


@dataclass(frozen=True, kw_only=True)
class DynamaskReport:
    """Figures of the optimisation of the masks in one `explain`, as means over its samples."""

    chosen: Choice
    """The settings of the optimisation."""
    still: float
    """Share of samples whose mask the prediction never moved, because its gradient vanished. Only the size regulator moved
    these masks, and it keeps the first of equal cells: they explain nothing."""
    error_first: float
    """Cross-entropy to the explained class with the mask before the first step."""
    error_last: float
    """Cross-entropy to the explained class with the final mask."""
    size_last: float
    """Final size regulator: 0 when exactly the configured share is kept."""
    loss_last: float
    """Final error plus regulator, at its final weight."""
    preserved: float
    """Share of samples for which the model, seeing the masked series, predicts the explained class."""


class Tuned(NamedTuple):
    """The settings chosen on validation data, and (T, D) of the series."""

    choice: Choice
    shape: tuple[int, ...]


class Dynamask(Explainer[Tuned]):
    """Masks that keep few cells and blur the others, without changing the prediction (Crabbé & van der Schaar, 2021).

    For every sample, gradient descent minimises over masks m in [0, 1]

        CE(F(blur(x, m)), c) + weight * mean of (sort(m) - r)^2 + time_weight * mean of |m(t + 1, d) - m(t, d)|

    blur(x, m) is x with every cell blurred over time by a Gaussian of width sigma_max * (1 - m). The sorted mask is compared
    with r, which is 1 for the share `keep_ratio` of the cells and 0 for the rest. `weight` grows over the steps. The losses of
    the samples of a chunk are summed, so the samples do not affect each other.

    The authors try several sizes and take the smallest mask that preserves the prediction. Here `fit` optimises masks on
    validation samples and chooses the blur, then the growth of the weight, then the keep ratio. Each choice is the one whose
    highest cells, at equal numbers, best preserve the prediction when all other cells become the mean of their channel. If
    every setting has one value, nothing is fitted, and `explain` may come first.

    Assumes that blurring removes the evidence. A narrow blur removes spikes, but no shifted mean and no long ramp. Where it
    fails, a confident model gives no gradient and the mask never moves. `report.still` counts these samples, and a warning is
    logged.
    """

    name = "dynamask"
    cost = "steps + 1"
    numbers = "none"
    config_class = DynamaskConfig
    config: DynamaskConfig
    needs_fit = True
    needs_gradients = True
    game: ClassVar[int] = 1
    """1 to keep the prediction, -1 to lose it."""
    report: DynamaskReport | None = None
    """Figures of the latest `explain`."""

    @property
    def chosen(self) -> Choice | None:
        """The settings that `explain` runs with; None if there are several to choose from and `fit` has not chosen yet."""
        if self.fitted_ is not None:
            return self.fitted_.choice
        return self._first() if all(len(values) == 1 for values in self._options()) else None

    def _options(self) -> list[tuple[float, ...]]:
        return [getattr(self.config, name) for name in Choice._fields]

    def _first(self) -> Choice:
        return Choice(*(values[0] for values in self._options()))

    def _copies(self, shape: tuple[int, ...]) -> int:
        t, d = shape[-2:]
        offsets = 2 * min(reach_of(max(self.config.sigma_max)), t - 1) + 1
        return max(1, d * offsets // max(t, d, 64))  # the neighbours of every cell need more memory than the model

    def _check_ready(self, series: Series) -> None:
        if self.chosen is None or self.fitted_ is not None:
            super()._check_ready(series)
        self._figures: list[Tensor] = []

    def _finish_explain(self) -> None:
        self.report = self._summary(torch.cat(self._figures))
        if self.report.still > 0:
            log.warning(
                "Dynamask: the model's prediction never moved the mask of %.0f %% of the samples: these are not explained (a "
                "larger sigma_max blurs more)",
                100 * self.report.still,
            )

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        mask, figures = self._optimise(batch, self.chosen or self._first())
        self._figures.append(figures.cpu())
        return {"attribution": mask}

    def _optimise(self, batch: Batch, choice: Choice) -> tuple[Tensor, Tensor]:
        """The masks of a chunk (B, T, D), and figures of every sample (B, 6) for the report."""
        c = self.config
        seen = torch.ones_like(batch.x, dtype=torch.bool) if batch.observed is None else batch.observed
        blur = Blur(batch.x, seen, choice.sigma_max)
        target = size_target(seen, choice.keep_ratio)
        mask = torch.full_like(batch.x, START)
        velocity, pull = torch.zeros_like(mask), torch.zeros_like(mask)
        growth = math.exp(math.log(choice.size_growth) / c.steps)
        weight, errors = c.size_weight, []
        for _ in range(c.steps):
            mask.requires_grad_()
            error, size = self._terms(mask, batch, blur, seen, target)[:2]
            shape = weight * size + c.time_weight * mask.diff(dim=1).abs().mean((1, 2))
            # separately, to measure which of the two moved the mask
            of_error, of_shape = (torch.autograd.grad(term.sum(), mask)[0] for term in (error, shape))
            with torch.no_grad():
                errors.append(error.detach())
                pull += of_error.abs()
                velocity = c.momentum * velocity + of_error + of_shape
                mask = (mask - c.lr * velocity).clamp(0, 1)
            weight *= growth
        with torch.no_grad():
            error, size, kept = self._terms(mask, batch, blur, seen, target)
            reach = c.lr / (1 - c.momentum) * pull.masked_fill(~seen, 0).amax((1, 2))
            return mask, torch.stack([(reach <= MOVED).float(), errors[0], error, size, error + weight * size, kept], 1)

    def _terms(self, mask: Tensor, batch: Batch, blur: Blur, seen: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Per sample: cross-entropy, size regulator, and whether the explained class is predicted, each (B,)."""
        logits = self.logits(blur(self._left(mask)), batch.times, batch.observed)
        error = self.game * F.cross_entropy(logits, batch.target, reduction="none")
        return error, size_regulator(mask, seen, target), (logits.argmax(-1) == batch.target).float()

    def _left(self, mask: Tensor) -> Tensor:
        """How far each cell keeps its value under a mask, (B, T, D): the mask itself, in the preservation game."""
        return mask

    def _summary(self, figures: Tensor) -> DynamaskReport:
        still, first, last, size, loss, kept = figures.mean(0).tolist()
        return DynamaskReport(
            chosen=self.chosen or self._first(),
            still=still,
            error_first=self.game * first,
            error_last=self.game * last,
            size_last=size,
            loss_last=loss,
            preserved=kept,
        )

    # ------------------------------------------------------------------------------------------------------------ tuning

    def _fit(self, train: Series, held_out: Series | None, progress: bool) -> Tuned:
        val = self.training_tensors(train, held_out)[1]
        few = {name: v[:TUNE_SAMPLES] for name, v in val.items()}
        scores: dict[Choice, float] = {}
        choice = self._first()
        for name in ("sigma_max", "size_growth", "keep_ratio"):  # in turn, as trying all combinations costs more
            rivals = [choice._replace(**{name: value}) for value in getattr(self.config, name)]
            if len(rivals) > 1:
                scores |= {rival: self._faithfulness(few, rival) for rival in rivals if rival not in scores}
                choice = min(rivals, key=lambda rival: scores[rival])
        trials = "; ".join(f"{', '.join(f'{v:g}' for v in rival)}: {score:.3f}" for rival, score in scores.items())
        log.info("Dynamask runs with %s; probability lost by its highest cells on validation data: %s", choice, trials)
        return Tuned(choice, train.shape[1:])

    def _faithfulness(self, data: Tensors, choice: Choice) -> float:
        """The mean of 1 - p, p the probability of the predicted class when the model sees only the highest cells of the masks.

        Probabilities are compared, as a few confident errors would dominate the mean cross-entropy.
        """
        total, count = 0.0, 0
        for batch in self.batches(data, self._copies(data["x"].shape)):
            mask, _ = self._optimise(batch, choice)
            with torch.no_grad():
                seen = torch.ones_like(mask, dtype=torch.bool) if batch.observed is None else batch.observed
                number = seen.sum(1, keepdim=True).clamp(min=1)
                mean = torch.where(seen, batch.x, 0).sum(1, keepdim=True) / number  # (B, 1, D)
                # ties are broken by place, as the number of cells shown must be equal
                rank = mask.masked_fill(~seen, -1).flatten(1).argsort(dim=1, descending=True, stable=True).argsort(1)
                shown = [(rank < round(share * rank.shape[1])).view_as(mask) for share in TUNE_SHARES]
                copies = torch.stack([torch.where(s | ~seen, batch.x, mean) for s in shown], 1)  # (B, shares, T, D)
                probability = self.logits_of_copies(copies, batch).softmax(-1)  # (B, shares, C)
                labels = batch.target[:, None, None].expand(-1, len(shown), 1)
                total += float((1 - probability.gather(2, labels)).sum())
                count += labels.numel()
        return total / count


class DynamaskDeletion(Dynamask):
    """Masks of few cells whose blurring changes the prediction: Dynamask's deletion game (Crabbé & van der Schaar, 2021).

    Gradient descent minimises -CE(F(blur(x, 1 - m)), c) + weight * mean of (sort(m) - r)^2 over masks m in [0, 1]: cells of the
    mask are blurred by Gaussians of width sigma_max * m. Everything else is as in `Dynamask`. `report.preserved` is the share
    of samples whose class survives the blurring. Where evidence is redundant, a part of it preserves the prediction, and
    deletion has to mark all of it.
    """

    name = "dynamask_deletion"
    game = -1

    def _left(self, mask: Tensor) -> Tensor:
        return 1 - mask


class Blur:
    """Gaussian blur along time with a width for every cell. What does not depend on the mask is computed once.

    Args:
        x: Series, (B, T, D).
        seen: Cells that exist, (B, T, D) bool; the rest contribute nothing to their neighbours.
        sigma_max: Width at mask 0, in steps; at mask 1 a cell is itself.
    """

    def __init__(self, x: Tensor, seen: Tensor, sigma_max: float) -> None:
        self.x, self.seen, self.sigma_max = x, seen, sigma_max
        reach = min(reach_of(sigma_max), x.shape[1] - 1)
        offset = torch.arange(-reach, reach + 1, device=x.device)
        self.neighbours = _windows(x, reach)  # (B, T, D, O)
        exponent = -(offset.to(x.dtype) ** 2) / 2
        # far below any real exponent, yet finite: its gradient is multiplied by a weight of 0
        exponent = torch.where(_windows(seen.to(x.dtype), reach) > 0, exponent, -1e6)
        self.exponent = torch.where(seen[..., None], exponent, 0.0)  # (B, T, D, O)

    def __call__(self, mask: Tensor) -> Tensor:
        """The blurred series, (B, T, D); cells that do not exist stay as they are."""
        sigma = self.sigma_max * (1 - mask) + 1e-5  # never 0, so that the slope stays finite
        weights = (self.exponent / sigma[..., None] ** 2).softmax(-1)
        return torch.where(self.seen, (weights * self.neighbours).sum(-1), self.x)


def reach_of(sigma_max: float) -> int:
    """How many steps a blur looks to either side: beyond five widths all weights together are below 1e-6."""
    return math.ceil(5 * sigma_max)


def _windows(x: Tensor, reach: int) -> Tensor:
    """The neighbours of every cell along time, zeros beyond the ends: (B, T, D) -> (B, T, D, 2 * reach + 1)."""
    return F.pad(x, (0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1)


def size_target(seen: Tensor, keep_ratio: float) -> Tensor:
    """The target r of the sorted mask: 1 for the share to keep of the existing cells, else 0, (B, F), highest first."""
    number = seen.flatten(1).sum(1, keepdim=True)
    place = torch.arange(seen[0].numel(), device=seen.device)
    return (place < (keep_ratio * number).round().clamp(min=1)).float()


def size_regulator(mask: Tensor, seen: Tensor, target: Tensor) -> Tensor:
    """Mean squared distance of the sorted mask from `target` over the cells that exist, (B,)."""
    ordered = mask.masked_fill(~seen, -1).flatten(1).sort(dim=1, descending=True, stable=True).values  # (B, F)
    number = seen.flatten(1).sum(1, keepdim=True)
    exists = torch.arange(ordered.shape[1], device=mask.device) < number
    return ((ordered - target) ** 2 * exists).sum(1) / number[:, 0].clamp(min=1)
