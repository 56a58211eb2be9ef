"""Counterfactuals: a small edit of a series, of the cells that its explanation keeps, after which the model changes its class.

This is another kind of answer than an attribution. It shows one series of another class, not what the model relies on.

Shapes: N samples, T time steps, D channels, C classes, M training series, K candidate edits of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.checks import check_labels
from timex.explainers.base import Explainer
from timex.explainers.target import target_indices
from timex.records import Explanation, Series, as_series
from timex.report.spans import runs
from timex.trust.measure import Floats, model_of, predict_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MOST = 2000
"""Training series that are searched for a guide, at most."""
COUNTS = 40
"""Numbers of edited cells that are tried at once, from one cell to all that may be edited."""
PIECES = 4
"""Parts of a run of edited cells that can be given back one by one."""
BLENDS = 16
"""Steps between the series and its guide that are tried for the edited cells."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Counterfactuals:
    """Edits of N series. They show what would change the answer, not what the answer rests on.

    Attributes:
        explanation: The explanations whose order of cells the edits follow.
        edited: The edited series in the user's own units, (N, T, D).
        cells: The edited cells, (N, T, D).
        target: The class that the edit is to reach, (N,).
        probability: The model's probabilities for the edited series, (N, C).
        guide: The training series whose values are taken, (N,): the nearest that the model gives the target.
        distance: Root mean squared change of a series over all its cells, in training deviations of the channel, (N,).
        plausibility: Distance of the edited series from the nearest training series of the target class, over the median of
            these distances among the training series themselves, (N,). Up to about 1 it lies where training series lie.
    """

    explanation: Explanation
    edited: NDArray[np.float32]
    cells: Bools
    target: NDArray[np.int64]
    probability: Floats
    guide: NDArray[np.int64]
    distance: Floats
    plausibility: Floats

    def __len__(self) -> int:
        return len(self.edited)

    @cached_property
    def valid(self) -> Bools:
        """Whether the model predicts the target for the edited series, (N,)."""
        return np.asarray(self.probability.argmax(1) == self.target)

    @cached_property
    def share(self) -> Floats:
        """Share of the measured cells that are edited, (N,)."""
        seen = self.explanation.observed
        return np.asarray(self.cells.sum((1, 2)) / np.maximum(seen.sum((1, 2)), 1))

    @cached_property
    def within_mask(self) -> Floats:
        """Share of the edited cells that the explanation keeps, (N,); NaN without a mask or without edits."""
        mask, count = self.explanation.mask, self.cells.sum((1, 2))
        inside = np.full(len(self), np.nan) if mask is None else (self.cells & mask).sum((1, 2))
        return np.where(count > 0, inside / np.maximum(count, 1), np.nan)

    def table(self) -> pd.DataFrame:
        """One row per sample: classes, probability of the target before and after, validity, proximity and plausibility."""
        import pandas as pd

        e, rows = self.explanation, np.arange(len(self))
        names = np.array(e.classes or [str(c) for c in range(e.probability.shape[1])])
        columns = {
            "prediction": names[e.probability.argmax(1)],
            "target": names[self.target],
            "before": e.probability[rows, self.target],
            "after": self.probability[rows, self.target],
            "valid": self.valid,
            "cells": self.cells.sum((1, 2)),
            "share": self.share,
            "within_mask": self.within_mask,
            "distance": self.distance,
            "plausibility": self.plausibility,
            "guide": self.guide,
        }
        return pd.DataFrame(columns)

    def plot(self, i: int = 0) -> Figure:
        """The series and its edit, channel by channel, marked as a counterfactual."""
        from timex.report.plots import plot_counterfactual

        name = self.explanation.classes[self.target[i]] if self.explanation.classes else f"class {self.target[i]}"
        facts = f"{self.share[i]:.1%} of the cells changed, plausibility {self.plausibility[i]:.2f}"
        outcome = f"model then predicts {name}" if self.valid[i] else f"no edit found that gives {name}"
        return plot_counterfactual(self.explanation, self.edited[i], self.cells[i], i, f"{outcome}; {facts}")

    def __repr__(self) -> str:
        facts = f"{self.valid.mean():.0%} valid, {self.share.mean():.1%} of the cells changed"
        return (
            f"Counterfactuals of {len(self)} series: {facts}, plausibility {np.median(self.plausibility):.2f}. They show what "
            "would change the answer, not what it rests on."
        )


def counterfactual(
    explainer: Explainer[Any],
    x: ArrayLike | Tensor | Series,
    train: ArrayLike | Tensor | Series,
    target: ArrayLike | str | None = None,
    within: Literal["all", "mask"] = "all",
) -> Counterfactuals:
    """The smallest edit found of each series that changes the model's class: kept cells first, by attribution.

    1. The guide is the nearest training series that the model gives another class, or the target: the nearest unlike neighbour.
    2. Kept cells take the guide's values, highest attribution first, until the model predicts the guide's class.
    3. If all kept cells do not suffice, the other cells follow in the order of their attribution.
    4. Pieces of the edit that are not needed are given back, and the rest is blended towards the guide as little as possible.

    The search follows one order of cells, so a smaller edit may exist.

    Args:
        explainer: A fitted explainer of a classifier.
        x: Series to edit, (N, T, D) or a `Series`.
        train: Series to look for guides in, best those the model was trained on; 2,000 of them at most.
        target: The class to reach, for all samples or one each, by index or name; by default that of the nearest series.
        within: "all" edits other cells where the kept ones do not suffice; "mask" edits kept cells alone, and fails more often.
            Without a mask, as for methods that keep no cells, all cells count as kept, and "mask" is an error.

    Example:
        >>> from timex.explainers import GradientXInput
        >>> from torch import nn
        >>> x = np.random.default_rng(0).normal(size=(40, 6, 2)).astype("float32")
        >>> found = counterfactual(GradientXInput(nn.Sequential(nn.Flatten(), nn.Linear(12, 2))), x[:3], x)
        >>> found.valid.tolist()
        [True, True, True]
    """
    series, known = as_series(x), as_series(train)
    explanation = explainer.explain(series)
    if explanation.numbers is not None:
        raise ValueError("Expected a classifier, got a model of numbers: a counterfactual changes a class.")
    if known.shape[1:] != series.shape[1:]:
        raise ValueError(f"Expected train with (T, D) = {series.shape[1:]} as x, got {known.shape[1:]}.")
    if within not in ("all", "mask"):
        raise ValueError(f'Expected within="all" or "mask", got {within!r}.')
    if within == "mask" and explanation.mask is None:
        raise ValueError(f'Expected within="all" for {type(explainer).__name__}, which keeps no cells: "mask" needs a mask.')
    known = known.take(slice(0, MOST))
    answers = Answers(explainer, series)
    n_classes = explanation.probability.shape[1]
    wanted = (
        None if target is None else check_labels(target_indices(target, len(series), series.classes), len(series), n_classes)
    )
    of_known = predict_of(model_of(explainer), known, explainer.device)(known.x, known.observed).argmax(1)
    unit = np.maximum(np.sqrt((known.baseline().std ** 2).mean(0)), 1e-6)  # (D)
    edits = [
        _edit(answers, explanation, i, known, of_known, unit, None if wanted is None else int(wanted[i]), within)
        for i in range(len(series))
    ]
    cells, edited, guide, classes, plausibility = (np.stack(column) for column in zip(*edits, strict=True))
    seen = series.observed
    change = np.where(seen, (edited - series.x) / unit, 0)
    distance = np.sqrt((change**2).sum((1, 2)) / np.maximum(seen.sum((1, 2)), 1))
    probability = np.concatenate([answers(i, edited[i : i + 1]) for i in range(len(series))])
    own = explainer.described(replace(series, x=edited)).x
    return Counterfactuals(explanation, own, cells, classes, probability, guide, distance, plausibility)


class Answers:
    """The model's probabilities for candidate edits of one of the series."""

    def __init__(self, explainer: Explainer[Any], series: Series) -> None:
        self.explainer, self.series = explainer, series

    def __call__(self, i: int, candidates: NDArray[np.float32]) -> Floats:
        """Probabilities (K, C) of candidates (K, T, D) for sample i."""
        copies = self.series.take(np.full(len(candidates), i))
        predict = predict_of(model_of(self.explainer), copies, self.explainer.device)
        return np.asarray(predict(candidates.astype(np.float32), copies.observed), dtype=np.float64)

    def reach(self, i: int, candidates: NDArray[np.float32], target: int) -> Bools:
        """Whether each candidate is predicted as the target, (K,)."""
        return np.asarray(self(i, candidates).argmax(1) == target)


def _edit(
    answers: Answers,
    e: Explanation,
    i: int,
    known: Series,
    of_known: NDArray[np.int64],
    unit: Floats,
    target: int | None,
    within: Literal["all", "mask"],
) -> tuple[Bools, NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], Floats]:
    """Edited cells (T, D), the edited series (T, D) as the model takes it, guide, target and plausibility of sample i."""
    x, seen = answers.series.x[i], answers.series.observed[i]
    predicted = int(e.probability[i].argmax())
    if target == predicted:
        raise ValueError(f"Expected a target other than the predicted class, got class {target} for sample {i}.")
    rivals = np.flatnonzero(of_known != predicted if target is None else of_known == target)
    if not len(rivals):
        raise ValueError(
            f"Found no training series that the model gives another class than that of sample {i}: give more of them."
        )
    apart = distances(x, seen, known.take(rivals), unit)
    nearest = rivals[apart.argmin()]
    wanted = int(of_known[nearest])
    guide, free = known.x[nearest], seen & known.observed[nearest]
    kept = free if e.mask is None else free & e.mask[i]
    order = np.lexsort((-np.abs(e.attribution[i]).ravel(), ~kept.ravel(), ~free.ravel()))  # by the last key first
    place = np.argsort(order).reshape(x.shape)
    cells = _fewest(answers, i, x, guide, place, int(kept.sum()), wanted)
    if within == "all" and not cells.any():
        cells = _fewest(answers, i, x, guide, place, int(free.sum()), wanted)
    cells = _without_spare_pieces(answers, i, x, guide, cells, kept, wanted)
    edited = _blended(answers, i, x, guide, cells, wanted)
    same = known.take(np.flatnonzero(of_known == wanted))
    ratio = distances(edited, seen, same, unit).min() / usual_distance(same, unit)
    return cells, edited, np.asarray(nearest), np.asarray(wanted), np.asarray(ratio)


def distances(x: NDArray[np.float32], seen: Bools, known: Series, unit: Floats) -> Floats:
    """Root mean squared distance of x (T, D) from M series, in units of each channel, over cells that both measured, (M,)."""
    both = known.observed & seen
    change = np.where(both, (known.x - x) / unit, 0)
    count = both.sum((1, 2))
    return np.asarray(np.where(count > 0, np.sqrt((change**2).sum((1, 2)) / np.maximum(count, 1)), np.inf))


def usual_distance(known: Series, unit: Floats, most: int = 100) -> float:
    """The median distance of series from the nearest other one; 1 for a single series."""
    if len(known) < 2:
        return 1.0
    nearest = []
    for j in range(min(most, len(known))):
        found = distances(known.x[j], known.observed[j], known, unit)
        found[j] = np.inf
        nearest.append(found.min())
    return max(float(np.median(nearest)), 1e-6)


def _fewest(
    answers: Answers,
    i: int,
    x: NDArray[np.float32],
    guide: NDArray[np.float32],
    place: NDArray[np.int64],
    most: int,
    target: int,
) -> Bools:
    """The first cells by `place`, at most `most`, that reach the target with the guide's values; none if no number does."""
    if not most:
        return np.zeros(x.shape, dtype=np.bool_)
    counts = np.unique(np.round(np.geomspace(1, most, COUNTS)).astype(int))
    for _ in range(2):  # a coarse search, then a fine one up to the first number that was enough
        enough = answers.reach(i, np.stack([np.where(place < k, guide, x) for k in counts]), target)
        if not enough.any():
            return np.zeros(x.shape, dtype=np.bool_)
        first = int(enough.argmax())
        low = counts[first - 1] if first else 0
        best = int(counts[first])
        counts = np.unique(np.round(np.linspace(low + 1, best, COUNTS)).astype(int))
    return np.asarray(place < best)


def _without_spare_pieces(
    answers: Answers, i: int, x: NDArray[np.float32], guide: NDArray[np.float32], cells: Bools, kept: Bools, target: int
) -> Bools:
    """The edited cells without the pieces that the target does not need: those with most cells outside `kept` go first."""
    cells = cells.copy()
    while cells.any():
        pieces = []
        for line, first, after in zip(*runs(cells), strict=True):
            edges = np.unique(np.linspace(first, after, min(PIECES, after - first) + 1).round().astype(int))
            for start, end in pairwise(edges):
                piece = np.zeros_like(cells)
                piece[start:end, line] = True
                pieces.append(piece)
        candidates = np.stack([np.where(cells & ~piece, guide, x) for piece in pieces])
        spare = answers.reach(i, candidates, target)
        if not spare.any():
            break
        freed = [piece for piece, is_spare in zip(pieces, spare, strict=True) if is_spare]
        cells &= ~max(freed, key=lambda piece: ((piece & ~kept).sum(), piece.sum()))
    return cells


def _blended(
    answers: Answers, i: int, x: NDArray[np.float32], guide: NDArray[np.float32], cells: Bools, target: int
) -> NDArray[np.float32]:
    """X with its edited cells moved towards the guide as little as the target needs."""
    share = (np.arange(BLENDS, dtype=np.float32) + 1) / BLENDS
    candidates = np.where(cells, x + share[:, None, None] * (guide - x), x).astype(np.float32)
    enough = answers.reach(i, candidates, target)
    return np.asarray(candidates[int(enough.argmax()) if enough.any() else -1])
