"""Whether to trust an explainer on your series: the model's own answers with cells hidden, and a verdict in words.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.explainers import Random
from timex.explainers.base import Explainer
from timex.io.rounding import rounded
from timex.method.explainer import TimeX
from timex.metrics import Probe
from timex.metrics.hiding import Fill
from timex.records import Explanation, Series, as_series
from timex.trust import findings as rules
from timex.trust.findings import Finding, Verdict, worst
from timex.trust.interval import Interval, plain
from timex.trust.measure import (
    NOISE,
    Measured,
    fitted_on_this_model,
    has_seed,
    has_weights,
    measured,
    model_of,
    moved_correlation,
    over_random,
    probe_of,
    recall_over_chance,
    seed_correlation,
    shuffled_correlation,
    shuffled_gap,
    unlikeness,
    usual_distance,
)

MOST = 500
"""Series that a check looks at; more are sampled."""
FEW = 8
"""Series of a class below which nothing is said of it."""


@dataclass(frozen=True)
class Group:
    """Findings about all series, or about those of one predicted class."""

    name: str
    n: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict of the worst finding."""
        return worst(finding.verdict for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        """The finding with this name."""
        return next(finding for finding in self.findings if finding.name == name)


@dataclass(frozen=True)
class Check:
    """The result of `check`.

    Attributes:
        method: The explainer's registry name.
        fill: What took the place of hidden cells.
        default: The class that the model predicts for a blank series.
        overall: Findings about all series.
        classes: Findings about the series of each predicted class.
    """

    method: str
    fill: Fill
    default: str
    overall: Group
    classes: tuple[Group, ...]

    @property
    def verdict(self) -> Verdict:
        """That of the findings about all series; a class that cannot be used makes it weak, and all of them unusable."""
        unusable = [group.verdict == "do not use" for group in self.classes if group.name != self.default]
        if unusable and all(unusable):
            return "do not use"
        return worst([self.overall.verdict, "weak" if any(unusable) else "trust"])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; numbers are rounded to four digits."""
        groups = [rounded(plain(asdict(group))) | {"verdict": group.verdict} for group in (self.overall, *self.classes)]
        return {
            "verdict": self.verdict,
            "method": self.method,
            "fill": self.fill,
            "default_class": self.default,
            "overall": groups[0],
            "classes": groups[1:],
        }

    def __str__(self) -> str:
        lines = [f"{self.verdict.upper()} ({self.method}, {self.overall.n:,} series, hidden cells: {self.fill})"]
        for group in (self.overall, *self.classes):
            lines += ["", f"{group.name}: {group.verdict}"]
            for f in group.findings:
                lines.append(f"  {f.verdict:<10} {f.name}: {f.meaning}" + (f". To do: {f.advice}" if f.advice else ""))
        return "\n".join(lines)


def check(
    explainer: Explainer[Any],
    x: ArrayLike | Tensor | Series,
    train: Series | None = None,
    *,
    refit: bool = False,
    second_seed: bool = False,
    fill: Fill | None = None,
    most: int = MOST,
    seed: int = 0,
) -> Check:
    """Ask the explained model whether explanations of these series can be trusted. No known deciding cells are needed.

    Args:
        explainer: Any explainer of a classifier, fitted if it needs a fit.
        x: Held-out series, as the model takes them: (N, T, D), or a `Series`.
        train: Training series, which give the values of hidden cells. By default an explainer's own training mean is used,
            or the mean of x for a method without a fit.
        refit: Fit the explainer again for models with shuffled weights, on `train`: slow, and the full test of whether it
            follows the model. Without it, explanations that need a fit are only scored on such models.
        second_seed: Fit the explainer again with another seed, on `train`, and compare the explanations: as slow as a fit.
            Methods without a fit whose settings have a seed are always compared so.
        fill: What takes the place of hidden cells; by default the mean, or a shift where the explainer was fitted with it.
        most: Series to look at; more are sampled.
        seed: Seed of the sample and of random orders.

    Returns:
        A `Check`: a verdict over all series and per predicted class, with what was measured and what to do.
    """
    series = sampled(as_series(x), most, seed)
    if (refit or second_seed) and explainer.needs_fit and train is None:
        raise ValueError("Expected train= for a refit: the series to fit the explainer again on.")
    explanation = explainer.explain(series)
    if model_of(explainer).numbers:
        raise ValueError(
            "Expected an explainer of a classifier, got one of a regression or forecast: its outputs are no classes."
        )
    probe = probe_of(explainer, series, train, fill, seed)
    m = measured(explainer, explanation, probe)
    blank = int(np.bincount(probe.blank.argmax(axis=1)).argmax())

    def name(c: int) -> str:
        return explanation.classes[c] if explanation.classes else str(c)

    labelled = replace(series, y=explanation.series.y, classes=explanation.series.classes)  # as the explained answers are
    model = tuple(_of_model(explainer, m, labelled, train, name(int(np.bincount(m.predicted).argmax())), name(blank)))
    explained = (
        *_of_explanation(m, blank),
        *_other_fills(explainer, m, explanation, probe, blank),
        *_steady(explainer, explanation, series, train, second_seed),
        *_of_surrogate(explainer, m),
        *_shuffled(explainer, m, explanation, probe, refit),
    )
    failed = tuple(f for f in model if f.verdict == "do not use")  # holds for every class
    classes = tuple(
        Group(name(int(c)), int((m.predicted == c).sum()), (*failed, *_of_class(m.take(m.predicted == c), c == blank)))
        for c in np.unique(m.predicted)
    )
    overall = Group("all series", len(m), (*model, *explained))
    return Check(explainer.name, probe.fill, name(blank), overall, classes)


def sampled(series: Series, most: int, seed: int) -> Series:
    """At most `most` random series, in their order."""
    if len(series) <= most:
        return series
    return series.take(np.sort(np.random.default_rng(seed).permutation(len(series))[:most]))


def _of_model(
    explainer: Explainer[Any], m: Measured, series: Series, train: Series | None, commonest: str, default: str
) -> Iterator[Finding]:
    """Whether the model, and the series, are those that the explainer is for."""
    yield rules.one_class(_commonest(m), commonest, default)
    if series.y is not None:
        yield rules.accuracy(recall_over_chance(m.predicted, series.y, m.n_classes), 1 / m.n_classes)
    if isinstance(explainer, TimeX) and has_weights(model_of(explainer)):
        yield rules.same_model(fitted_on_this_model(explainer))
    yield rules.distance(float(np.median(m.distance)), usual_distance(explainer, train))
    if not np.isnan(unlike := unlikeness(explainer, series, train)):
        yield rules.familiar(unlike)
    if isinstance(explainer, TimeX):
        rows = [row for row in explainer.fitted.history if row["part"] != "surrogate"]
        yield rules.length([row["criterion"] for row in rows])


def _of_explanation(m: Measured, blank: int) -> Iterator[Finding]:
    """What hiding cells says, over the series whose class a blank series does not have: hidden cells cannot bring it back."""
    m = m.take(_not_blank(m, blank))
    yield from _hiding(m)
    if not np.isnan(m.channels).any():
        yield rules.moments(Interval.of(m.gap - m.channels))
    if not np.isnan(m.gradients).any():
        yield rules.gradients(Interval.of(m.gap - m.gradients))
    yield rules.amplitude(Interval.of(m.correlation).mean, Interval.of(m.gap - m.size))


def _not_blank(m: Measured, blank: int) -> NDArray[np.bool_]:
    """The series whose class a blank series does not have, (N,); all if there are none."""
    other: NDArray[np.bool_] = m.predicted != blank
    return other if other.any() else ~other


def _other_fills(
    explainer: Explainer[Any], m: Measured, explanation: Explanation, probe: Probe, blank: int
) -> Iterator[Finding]:
    random = Random(model_of(explainer), device=explainer.device).explain(probe.series)
    found = over_random(probe, explanation.attribution, random.attribution)
    if found:
        yield rules.other_fills({fill: Interval.of(values[_not_blank(m, blank)]) for fill, values in found.items()})


def _steady(
    explainer: Explainer[Any], explanation: Explanation, series: Series, train: Series | None, second_seed: bool
) -> Iterator[Finding]:
    """Whether small noise, or another seed, changes the explanations."""
    yield rules.small_noise(moved_correlation(explainer, series), NOISE)
    if has_seed(explainer) and (second_seed or not explainer.needs_fit):
        yield rules.two_seeds(Interval.of(seed_correlation(explainer, explanation, series, train)).mean)


def _hiding(m: Measured) -> Iterator[Finding]:
    over_random = Interval.of(m.gap - m.random)
    yield rules.kept_share(float(m.kept.mean()), float((m.kept == 0).mean()), ordered=over_random.low > 0)
    yield rules.kept_alone(float(m.alone.mean()))
    yield rules.without_kept(float(m.without.mean()))
    yield rules.gap(float(m.gap.mean()), over_random)


def _of_surrogate(explainer: Explainer[Any], m: Measured) -> Iterator[Finding]:
    if isinstance(explainer, TimeX):
        yield rules.agreement(float(m.agreement.mean()), _commonest(m), explainer.fitted.quality.agreement)


def _shuffled(explainer: Explainer[Any], m: Measured, explanation: Explanation, probe: Probe, refit: bool) -> Iterator[Finding]:
    """Whether explanations follow the weights: explained again where that is quick or wished for, else scored again."""
    if not has_weights(model_of(explainer)):
        return
    if refit or not explainer.needs_fit:
        train = probe.background if isinstance(probe.background, Series) else None
        yield rules.shuffled_again(shuffled_correlation(explainer, explanation, probe.series, train))
    else:
        yield rules.shuffled_score(Interval.of(m.gap - shuffled_gap(explainer, explanation, probe)))


def _of_class(m: Measured, default: bool) -> Iterator[Finding]:
    """Findings about the series of one predicted class."""
    if len(m) < FEW:
        yield Finding("series", len(m), "weak", f"only {len(m)} series have this class", "check more series of it")
    elif default:
        yield from _of_default(m)
    else:
        yield from _hiding(m)
        if not np.isnan(m.agreement).any():
            yield rules.agreement(float(m.agreement.mean()), 0.0, None)


def _of_default(m: Measured) -> Iterator[Finding]:
    """Of the class that a blank series has too: hidden cells bring it back, so that only its evidence can be tested."""
    kept = rules.kept_share(float(m.kept.mean()), float((m.kept == 0).mean()))
    yield replace(kept, verdict="weak") if kept.verdict == "do not use" else kept
    found = rules.gap(float(m.gap.mean()), Interval.of(m.gap - m.random))
    if found.verdict == "trust":
        yield found
    else:
        meaning = "a blank series has this class too: without evidence the model falls back to it"
        yield Finding("default class", found.value, "weak", meaning, "read what is missing for the other classes instead")


def _commonest(m: Measured) -> float:
    """Share of the commonest predicted class."""
    return float(np.bincount(m.predicted).max() / len(m))
