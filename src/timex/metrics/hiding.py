"""A model seen through series with hidden cells: what to hide, what takes its place, what the model then answers.

Shapes: N samples, T time steps, D channels, C classes or numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.checks import check_labels
from timex.conversions import as_numbers
from timex.records import Baseline, Series

Predict = Callable[[NDArray[np.float32], NDArray[np.bool_]], NDArray[Any]]
"""Class probabilities, or numbers, (N, C) of series (N, T, D) with hidden cells; the second argument marks the kept cells."""

Fill = Literal["mean", "zero", "sample", "noise", "draw", "shift", "local"]
"""What takes the place of a hidden cell.

- mean: the cell's mean over the background series.
- zero: zero.
- sample: the mean of the sample's channel.
- noise: a draw from the normal distribution with the cell's mean and deviation.
- draw: the same cell of a random background series, one series per sample.
- shift: the value of the channel half a series later, around the end.
- local: a line between the nearest kept cells of the channel; the cell's mean where the channel keeps none.
"""
FILLS: tuple[Fill, ...] = get_args(Fill)
DIFFERS = 0.01
"""Share of the evidence of numbers from which on an answer differs from a blank one: a tenth of the usual distance from it."""


@dataclass(frozen=True)
class Probe:
    """A model and N series, of which any cells can be hidden. Missing cells are neither hidden nor filled.

    Attributes:
        predict: The model: see `timex.reference.predict.model_predict` for one of torch.
        series: The series as the model takes them.
        background: Training series, or their mean and deviation per cell.
        fill: What takes the place of a hidden cell.
        target: The class whose probability counts, (N,); by default the class predicted from the whole series.
        seed: Seed of the fills and of the order of equal attributions.
        spread: For a model of numbers, the unit of evidence: the mean squared distance of training answers from the answer to
            a blank series, one value or one of each number (C,). None for a classifier.

    Example:
        >>> rising = lambda x, kept: np.stack([x.sum((1, 2)) < 0, x.sum((1, 2)) >= 0], axis=1).astype(float)
        >>> probe = Probe(rising, Series([[[3.0], [-1.0]]]), Baseline(np.zeros((2, 1)), np.zeros((2, 1))))
        >>> probe.answer(np.array([[[False], [True]]]))  # the model sees 0 and -1
        array([[1., 0.]])
    """

    predict: Predict
    series: Series
    background: Series | Baseline
    fill: Fill = "mean"
    target: ArrayLike | None = None
    seed: int = 0
    spread: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.fill not in FILLS:
            raise ValueError(f"Expected fill among {', '.join(FILLS)}, got {self.fill!r}.")
        if self.fill == "draw" and not isinstance(self.background, Series):
            raise ValueError("Expected training series as background for the fill draw, got their mean and deviation.")
        if self.numbers and self.target is not None:
            raise ValueError("Expected no target= for a model of numbers: they have no classes.")
        if self.baseline.mean.shape != self.series.shape[1:]:
            raise ValueError(
                f"Expected background of the series' shape {self.series.shape[1:]}, got {self.baseline.mean.shape}."
            )

    @cached_property
    def baseline(self) -> Baseline:
        """Mean and deviation of every cell of the background."""
        return self.background if isinstance(self.background, Baseline) else self.background.baseline()

    @property
    def numbers(self) -> bool:
        """Whether the model gives numbers, and not classes."""
        return self.spread is not None

    @cached_property
    def whole(self) -> NDArray[np.float64]:
        """Answers to the whole series, (N, C)."""
        return np.asarray(self.predict(self.series.x, np.ones(self.series.shape, dtype=bool)), dtype=np.float64)

    @cached_property
    def blank(self) -> NDArray[np.float64]:
        """Answers to series without evidence, (N, C): every cell hidden, by the mean where the fill is shift.

        A shift of every cell at once hides nothing: the whole series stands there, in another place.
        """
        probe = replace(self, fill="mean") if self.fill == "shift" else self
        return probe.answer(np.zeros(self.series.shape, dtype=bool))

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The class whose probability counts, (N,); 0 for numbers."""
        if self.numbers:
            return np.zeros(len(self.series), dtype=np.int64)
        if self.target is None:
            return self.whole.argmax(axis=1)
        return check_labels(self.target, len(self.series), self.whole.shape[1])

    @cached_property
    def open(self) -> NDArray[np.bool_]:
        """Whether hidden cells can change the answer, (N,): not if a blank series has the same class, or nearly the numbers."""
        if self.numbers:
            return np.asarray(self.share(self.whole) > DIFFERS)
        return np.asarray(self.classes != self.blank.argmax(axis=1))

    def answer(self, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Answers to the series with all but the `kept` cells (N, T, D) hidden, (N, C)."""
        return np.asarray(self.predict(self.hidden(kept), kept), dtype=np.float64)

    def hidden(self, kept: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The series with all but the `kept` cells replaced."""
        seen = self.series.observed
        filling = self._between(kept & seen) if self.fill == "local" else self._filling
        return np.where(kept | ~seen, self.series.x, filling).astype(np.float32)

    def own(self, answer: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of the class that counts, (N,); for numbers the share of the evidence."""
        if self.numbers:
            return self.share(answer)
        return np.take_along_axis(answer, self.classes[:, None], axis=1)[:, 0]

    def evidence(self, answer: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much an answer (N, C) speaks for that to the whole series, (N,).

        For classes, the log-odds of the class that counts. For numbers, minus the mean squared distance in units of `spread`.
        """
        if self.spread is not None:
            return -((answer - self.whole) ** 2 / np.asarray(self.spread)).mean(axis=1)
        tiny = np.finfo(np.float64).tiny
        others = answer.copy()  # 1 - p would lose all digits near p = 1
        np.put_along_axis(others, self.classes[:, None], 0, axis=1)
        return np.log(np.maximum(self.own(answer), tiny)) - np.log(np.maximum(others.sum(axis=1), tiny))

    def share(self, answer: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of the evidence that an answer holds, (N,): (e - e_blank) / max(1, e_x - e_blank), from -1 to 1."""
        return np.clip((self.evidence(answer) - self._nothing) / self._unit, -1, 1)

    @cached_property
    def _nothing(self) -> NDArray[np.float64]:
        """The evidence of a blank series, (N,)."""
        return self.evidence(self.blank)

    @cached_property
    def _unit(self) -> NDArray[np.float64]:
        """The evidence of the whole series above a blank one, at least 1, (N,)."""
        return np.maximum(self.evidence(self.whole) - self._nothing, 1)

    def places(self, attribution: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The place of every cell in the order of |attribution|, and the number of measured cells; see `places`."""
        score = np.abs(as_numbers(attribution, np.float64, "attribution"))
        seen = self.series.observed
        if score.shape != seen.shape or not np.isfinite(score[seen]).all():
            raise ValueError(f"Expected a finite attribution of the shape of x, {seen.shape}, got {score.shape}.")
        return places(score, np.random.default_rng(self.seed).random(score.shape), seen)

    @cached_property
    def _filling(self) -> NDArray[Any]:
        """Values of hidden cells, broadcast to (N, T, D), for fills that do not depend on what is kept."""
        rng = np.random.default_rng(self.seed)
        mean, std = self.baseline
        seen = self.series.observed
        match self.fill:
            case "zero":
                return np.zeros_like(mean)
            case "sample":
                return self.series.x.sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1)
            case "noise":
                return mean + std * rng.standard_normal(seen.shape, dtype=np.float32)
            case "shift":
                half = self.series.shape[1] // 2
                return np.where(np.roll(seen, -half, axis=1), np.roll(self.series.x, -half, axis=1), mean)
            case "draw" if isinstance(self.background, Series):
                donors = self.background.take(rng.integers(len(self.background), size=len(seen)))
                return np.where(donors.observed, donors.x, mean)
        return mean

    def _between(self, known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Straight lines over time between the `known` cells of every channel, level before the first and after the last."""
        t = known.shape[1]
        step = np.arange(t)[None, :, None]
        before = np.maximum.accumulate(np.where(known, step, -1), axis=1)
        after = np.minimum.accumulate(np.where(known, step, t)[:, ::-1], axis=1)[:, ::-1]
        left, right = np.where(before < 0, after, before), np.where(after >= t, before, after)
        none = left >= t  # so that right is -1
        left, right = np.where(none, 0, left), np.where(none, 0, right)
        x = self.series.x
        start, end = np.take_along_axis(x, left, axis=1), np.take_along_axis(x, right, axis=1)
        times = np.broadcast_to(self.series.times.astype(np.float64)[:, :, None], x.shape)
        first, last = np.take_along_axis(times, left, axis=1), np.take_along_axis(times, right, axis=1)
        weight = (times - first) / np.where(last > first, last - first, 1)
        return np.where(none, self.baseline.mean, start + (end - start) * np.clip(weight, 0, 1))


def places(score: NDArray[Any], tie: NDArray[Any], seen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The place of every cell when its sample's are sorted, largest first, missing ones last; and how many are not missing.

    Args:
        score: (N, T, D).
        tie: Numbers that order equal scores, (N, T, D).
        seen: Cells that are not missing, (N, T, D).
    """
    n = len(score)
    keys = (tie.reshape(n, -1), -score.reshape(n, -1), ~seen.reshape(n, -1))  # the last counts most
    order = np.lexsort(keys, axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1])[None], axis=1)
    return place.reshape(score.shape), seen.reshape(n, -1).sum(axis=1)
