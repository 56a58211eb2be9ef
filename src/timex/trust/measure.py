"""What `check` measures of an explainer on N series: the model's answers with cells hidden, and controls beside them.

Shapes: N samples, T time steps, D channels, C classes or numbers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from timex.explainers import Amplitude, Random
from timex.explainers.base import Explainer
from timex.explainers.smoothed_gradients import ChosenWidth, Gradients, GradientsConfig
from timex.metrics import Probe, distance_from, distinction, rank_correlation, stability, traits
from timex.metrics.faithfulness import evidence_gap, top_cells
from timex.metrics.hiding import DIFFERS, Fill, Predict
from timex.records import Baseline, Explanation, Series, as_series
from timex.reference.adapt import model_hash
from timex.reference.base import ReferenceModel
from timex.reference.blackbox import BlackBox
from timex.reference.predict import model_predict
from timex.reference.student import Distilled
from timex.trust.interval import Interval, Z
from timex.trust.randomise import correlation_with, explained_by, shuffled

Floats = NDArray[np.float64]

TOP = 0.15
"""Share of the cells that count as kept if a method gives scores and no mask."""
POINTS = 16
"""Points of the integrated gradients that explanations are compared with."""
SHUFFLES = 2
"""Models with shuffled weights."""
NOISE, MOVED = 0.05, 100
"""Small noise, in deviations of a channel, and the series that get it: they are explained twice more."""
OTHER_FILLS: tuple[Fill, ...] = ("zero", "local", "draw")
"""Fills that a check asks about beside its own; a draw needs training series."""
SPREAD_OF = 500
"""Training series whose answers give the unit of evidence of numbers; more are sampled."""


@dataclass(frozen=True)
class Measured:
    """Values of N series.

    Attributes:
        n_classes: Number of the model's classes.
        predicted: The model's class, (N,); 0 for numbers.
        kept: Share of the measured cells that the explanation keeps, (N,).
        whole: 1 for classes, (N,); for numbers the share of the evidence in the whole series: below 1 near a blank answer.
        alone: Whether the class stays when only the kept cells are seen, (N,); for numbers their share of the evidence.
        without: The same when the kept cells are hidden, (N,).
        gap: Evidence gap of the explanation, (N,).
        random: That of a random order, (N,).
        size: That of the values' size, (N,).
        gradients: That of plain integrated gradients, (N,); NaN for a black box.
        channels: That of the explanation averaged over time, (N,); NaN for a single channel.
        correlation: Rank correlation of the explanation and the values' size, (N,); NaN where one is constant.
        distance: Root mean squared distance from the training mean, in training deviations, (N,).
        agreement: Whether the surrogate agrees, (N,); all NaN without a surrogate.
    """

    n_classes: int
    predicted: NDArray[np.int64]
    kept: Floats
    whole: Floats
    alone: Floats
    without: Floats
    gap: Floats
    random: Floats
    size: Floats
    gradients: Floats
    channels: Floats
    correlation: Floats
    distance: Floats
    agreement: Floats

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Whether the numbers are others than those of a blank series, (N,); True for classes."""
        return self.whole > DIFFERS

    def take(self, rows: NDArray[np.bool_]) -> Measured:
        """The values of some series."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "n_classes"})


def measured(explainer: Explainer[Any], explanation: Explanation, probe: Probe) -> Measured:
    """Ask the model of `probe` about an explanation of its series, and about a random order, the values' size and channels."""
    series, a = probe.series, explanation.attribution
    kept = explanation.mask if explanation.mask is not None else next(top_cells(probe, a, (TOP,)))
    model, device = model_of(explainer), explainer.device
    random, size = (control(model, device=device).explain(series).attribution for control in (Random, Amplitude))
    agreement = np.full(len(series), np.nan) if explanation.agreement is None else explanation.agreement.astype(np.float64)
    return Measured(
        n_classes=probe.whole.shape[1],
        predicted=probe.classes,
        kept=(kept & series.observed).sum((1, 2)) / np.maximum(series.observed.sum((1, 2)), 1),
        whole=stays(probe, probe.whole),
        alone=stays(probe, probe.answer(kept)),
        without=stays(probe, probe.answer(~kept)),
        gap=evidence_gap(probe, a),
        random=evidence_gap(probe, random),
        size=evidence_gap(probe, size),
        gradients=gradient_gap(model, probe, device),
        channels=evidence_gap(probe, over_time(a, series)) if series.shape[2] > 1 else np.full(len(series), np.nan),
        correlation=rank_correlation(np.abs(a), size, series.observed),
        distance=distance_from(probe.baseline, series),
        agreement=agreement,
    )


def stays(probe: Probe, answer: Floats) -> Floats:
    """1 where an answer (N, C) has the class of the whole series, else 0, (N,); for numbers its share of the evidence."""
    return probe.share(answer) if probe.numbers else (answer.argmax(1) == probe.classes).astype(np.float64)


def gradient_gap(model: ReferenceModel, probe: Probe, device: torch.device) -> Floats:
    """Evidence gap of integrated gradients without smoothing, (N,): what needs no fit. NaN without a gradient."""
    try:
        plain = Gradients(model, GradientsConfig(n_points=POINTS, width=0), device=device)
        plain.fitted_ = ChosenWidth(probe.baseline, 0)
        return evidence_gap(probe, plain.explain(probe.series).attribution)
    except ValueError:  # a black box, or a model that is constant or rounds
        return np.full(len(probe.series), np.nan)


def over_time(attribution: NDArray[np.float32], series: Series) -> Floats:
    """|attribution| averaged over the measured steps of every channel, (N, T, D)."""
    seen = series.observed
    total = np.where(seen, np.abs(attribution), 0).sum(axis=1, keepdims=True, dtype=np.float64)
    return np.broadcast_to(total / np.maximum(seen.sum(axis=1, keepdims=True), 1), series.shape)


def usual_distance(explainer: Explainer[Any], train: Series | None) -> float:
    """The distance of the median training series from the training mean; 1, as of normal values, where it is not known."""
    if train is not None:
        return float(np.median(distance_from(train.baseline(), train)))
    known: float | None = of_fit(explainer, "distance")
    return 1.0 if known is None else known


def unlikeness(explainer: Explainer[Any], series: Series, train: Series | None) -> float:
    """The AUROC at which series and training series can be told apart; NaN with few series, or where those are not known."""
    if train is not None:
        return distinction(traits(train), traits(series))
    known = of_fit(explainer, "traits")
    return float("nan") if known is None else distinction(known, traits(series))


def recall_over_chance(predicted: NDArray[np.int64], y: NDArray[np.int64], n_classes: int) -> Interval:
    """Mean recall over the classes that occur, less that of guessing, with its interval over the series of each class."""
    rows = [(predicted[y == c] == c).astype(np.float64) for c in np.unique(y)]
    mean = float(np.mean([row.mean() for row in rows])) - 1 / n_classes
    half = Z * float(np.sqrt(sum(row.var() / len(row) for row in rows))) / len(rows)
    return Interval(mean, mean - half, mean + half)


# ------------------------------------------------------------------------------------------------------------- the model


def of_fit(explainer: Explainer[Any], name: str, default: Any = None) -> Any:
    """What the explainer's fit kept under a name; the default if it kept nothing so called, or there was no fit."""
    return getattr(explainer.fitted_, name, default)


def model_of(explainer: Explainer[Any]) -> ReferenceModel:
    """The frozen model that an explainer explains; a student, which passes questions on, for a black box."""
    model: ReferenceModel = of_fit(explainer, "reference", explainer.model)
    return model


def predict_of(model: nn.Module, series: Series, device: torch.device | str) -> Predict:
    """The model's answers to these series with cells hidden; attention is left as it is."""
    times, observed = (None, None) if series.regular else (series.times, series.observed)
    return model_predict(model, device, attention=False, times=times, observed=observed, extras=series.extras)


def model_probe(
    model: ReferenceModel,
    series: Series,
    background: Series | Baseline,
    fill: Fill,
    seed: int,
    device: torch.device | str,
    spread: ArrayLike | None = None,
) -> Probe:
    """The model and series. The unit of evidence, if the model gives numbers and none is given, is that of the background."""
    if model.numbers and spread is None:
        spread = spread_of(model, series, background, device)
    return Probe(predict_of(model, series, device), series, background, fill, seed=seed, spread=spread)


def spread_of(model: ReferenceModel, series: Series, background: Series | Baseline, device: torch.device | str) -> Floats:
    """The mean squared distance of a model's numbers from those of a blank series, (C,): by the background series if known."""
    known = sampled(background, SPREAD_OF, 0) if isinstance(background, Series) else series
    probe = Probe(predict_of(model, known, device), known, background)
    return np.maximum(((probe.whole - probe.blank) ** 2).mean(axis=0), rounding(probe.whole))


def rounding(numbers: Floats) -> Floats:
    """Squared distances between numbers (N, C) that may come from the rounding of the model's float32 alone, (C,)."""
    return np.asarray(1e-12 * (1 + (numbers**2).max(axis=0)))


def constant_numbers(probe: Probe) -> bool:
    """Whether a model of numbers gives series, and those behind its spread, the numbers of a blank series, up to rounding."""
    least = rounding(probe.whole)
    distance = (probe.whole - probe.blank) ** 2
    return bool((np.asarray(probe.spread) <= least).all() and (distance <= least).all())


def sampled(series: Series, most: int, seed: int) -> Series:
    """At most `most` random series, in their order."""
    whole = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in (most, seed))
    if not whole or most < 1 or seed < 0:
        raise ValueError(f"Expected most= of at least 1 and seed= of at least 0, whole numbers, got {most!r} and {seed!r}.")
    if len(series) <= most:
        return series
    return series.take(np.sort(np.random.default_rng(seed).permutation(len(series))[:most]))


def fitted_on_this_model(explainer: Explainer[Any]) -> bool | None:
    """Whether the frozen model has the weights of the model at the fit; None if the fit or the model does not show it."""
    known = of_fit(explainer, "reference_hash")
    return model_hash(model_of(explainer)) == known if known and has_weights(model_of(explainer)) else None


def has_weights(model: ReferenceModel) -> bool:
    """Whether the model's weights can be shuffled. False for a black box: its weights are unknown."""
    return not isinstance(model, BlackBox | Distilled)


def shuffled_correlation(explainer: Explainer[Any], explanation: Explanation, series: Series, train: Series | None) -> Floats:
    """Mean rank correlation with explanations of models with shuffled weights, (N,); a fit is repeated on `train`."""
    others = [explained_by(explainer, shuffled(explainer.model, seed), series, train) for seed in range(SHUFFLES)]
    return np.mean([correlation_with(explanation, other) for other in others], axis=0)


def shuffled_gap(explainer: Explainer[Any], explanation: Explanation, probe: Probe) -> Floats:
    """Mean evidence gap of the same explanations for models with shuffled weights, (N,): no fit is repeated."""
    gaps = []
    for seed in range(SHUFFLES):
        other: Any = shuffled(model_of(explainer), seed)
        asked = model_probe(other, probe.series, probe.background, probe.fill, probe.seed, explainer.device)
        gaps.append(evidence_gap(asked, explanation.attribution))
    return np.mean(gaps, axis=0)


# ------------------------------------------------------------------------------------- other noise, other seeds, other fills


def moved_correlation(explainer: Explainer[Any], series: Series) -> float:
    """Mean rank correlation of explanations before and after small noise, over the first series; constant maps are equal."""
    few = series.take(slice(0, MOVED))
    found = stability(lambda s: explainer.explain(s).attribution, few, NOISE, draws=1)
    return Interval.of(np.where(np.isnan(found), 1, found)).mean


def has_seed(explainer: Explainer[Any]) -> bool:
    """Whether the explainer's settings have a seed."""
    return is_dataclass(explainer.config) and any(f.name == "seed" for f in fields(explainer.config))


def seed_correlation(explainer: Explainer[Any], explanation: Explanation, series: Series, train: Series | None) -> Floats:
    """Rank correlation with the explanations of another seed, (N,); a fit is repeated on `train`."""
    other = copy.copy(explainer)
    other.config = replace(explainer.config, seed=explainer.config.seed + 1)
    if explainer.needs_fit:
        other.fitted_ = None
        other.fit(as_series(train), progress=False)
    return correlation_with(explanation, other.explain(series))


def other_fills(probe: Probe) -> dict[Fill, bool]:
    """Fills other than the probe's, and whether they can be measured: a draw needs training series."""
    return {fill: fill != "draw" or isinstance(probe.background, Series) for fill in OTHER_FILLS if fill != probe.fill}


def over_random(probe: Probe, attribution: NDArray[np.float32], random: NDArray[np.float32]) -> dict[str, Floats]:
    """The evidence gap over that of a random order under fills other than the probe's, (N,) each."""
    probes = {fill: replace(probe, fill=fill) for fill, measurable in other_fills(probe).items() if measurable}
    return {str(fill): evidence_gap(other, attribution) - evidence_gap(other, random) for fill, other in probes.items()}


def probe_of(
    explainer: Explainer[Any], series: Series, train: Series | None = None, fill: Fill | None = None, seed: int = 0
) -> Probe:
    """The explained model and the series.

    The background is `train`, else the baseline of the explainer's fit, else the series. The fill is a shift if the explainer
    was fitted with it, else the mean, unless given.
    """
    background = train if train is not None else of_fit(explainer, "baseline", series)
    if fill is None:
        fill = "shift" if of_fit(explainer, "fill") == "shift" else "mean"
    spread = of_fit(explainer, "spread") if train is None else None
    return model_probe(model_of(explainer), series, background, fill, seed, explainer.device, spread)
