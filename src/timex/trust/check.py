"""Whether to trust an explainer on your series: the model's own answers with cells hidden, and a verdict in words.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.explainers import Random
from timex.explainers.base import Explainer
from timex.io.rounding import rounded
from timex.metrics import Probe
from timex.metrics.hiding import Fill
from timex.records import Explanation, Series, as_series
from timex.trust import findings as rules
from timex.trust.findings import Finding, Verdict, worst
from timex.trust.interval import Interval, plain
from timex.trust.measure import (
    NOISE,
    Measured,
    constant_numbers,
    fitted_on_this_model,
    has_seed,
    has_weights,
    measured,
    model_of,
    moved_correlation,
    of_fit,
    other_fills,
    over_random,
    probe_of,
    recall_over_chance,
    sampled,
    seed_correlation,
    shuffled_correlation,
    shuffled_gap,
    unlikeness,
    usual_distance,
)

MOST = 500
"""Series that a check looks at; more are sampled."""
FEW = 8
"""Classes with fewer series get no verdict; nor do hidden cells that can change fewer answers."""
PYTHON = {"train": "train=", "refit": "refit=True", "second_seed": "second_seed=True"}
"""Arguments of `check` as they are written in Python."""


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
        default: The class that the model predicts for a blank series; empty for numbers.
        overall: Findings about all series.
        classes: Findings about the series of each predicted class; none for numbers.
        numbers: Whether the model gives numbers, and not classes.
        model_hash: The SHA-256 of the weights of the explained model; empty for a black box.
        unmeasured: Questions that were not measured, and the arguments of `check` that they need.
    """

    method: str
    fill: Fill
    default: str
    overall: Group
    classes: tuple[Group, ...]
    numbers: bool = False
    model_hash: str = ""
    unmeasured: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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
            "numbers": self.numbers,
            "model_hash": self.model_hash,
            "unmeasured": {question: list(needs) for question, needs in self.unmeasured.items()},
            "overall": groups[0],
            "classes": groups[1:],
        }

    def notes(self, written: Callable[[str], str] = PYTHON.__getitem__) -> list[str]:
        """What was left out, a line each.

        Args:
            written: How an argument of `check` is written: as in Python by default.
        """
        of_numbers = "The model gives numbers: shares are shares of the evidence; accuracy, agreement and classes are left out"
        found = [f"{name}: not measured: pass {' and '.join(map(written, needs))}" for name, needs in self.unmeasured.items()]
        return [of_numbers, *found] if self.numbers else found

    def __str__(self) -> str:
        lines = [f"{self.verdict.upper()} ({self.method}, {self.overall.n:,} series, hidden cells: {self.fill})", *self.notes()]
        for group in (self.overall, *self.classes):
            lines += ["", f"{group.name}: {group.verdict}"]
            for f in group.findings:
                lines.append(f"  {f.verdict:<10} {f.name}: {f.meaning}" + (f". To do: {f.advice}" if f.advice else ""))
        return "\n".join(lines)


def check(
    explainer: Explainer[Any],
    x: ArrayLike | Tensor | Series,
    train: ArrayLike | Tensor | Series | None = None,
    *,
    refit: bool = False,
    second_seed: bool = False,
    fill: Fill | None = None,
    most: int = MOST,
    seed: int = 0,
) -> Check:
    """Ask the explained model whether explanations of these series can be trusted. No known deciding cells are needed.

    Args:
        explainer: Any explainer, fitted if it needs a fit. Questions about classes are left out for a model of numbers.
        x: Held-out series, as the model takes them: (N, T, D), or a `Series`.
        train: Training series, which give the values of hidden cells. By default an explainer's own training mean is used,
            or the mean of x for a method without a fit; x is then not compared with training series.
        refit: Fit the explainer again for models with shuffled weights, on `train`: slow, and the full test of whether it
            follows the model. Without it, explanations that need a fit are only scored on such models.
        second_seed: Fit the explainer again with another seed, on `train`, and compare the explanations: as slow as a fit.
            Methods without a fit whose settings have a seed are always compared so.
        fill: What takes the place of hidden cells; by default the mean, or a shift where the explainer was fitted with it.
        most: Series to look at; more are sampled.
        seed: Seed of the sample and of random orders.

    Returns:
        A `Check`: a verdict over all series and per predicted class, with what was measured and what to do.

    Example:
        >>> from torch import nn
        >>> from timex.explainers import Saliency
        >>> regression = nn.Sequential(nn.Flatten(), nn.Linear(24, 1))
        >>> x = np.random.default_rng(0).normal(size=(30, 12, 2))
        >>> [f.name for f in check(Saliency(regression, task="regress", device="cpu"), x).overall.findings][:5]
        ['answers', 'share kept', 'kept alone', 'without kept', 'evidence gap']
    """
    series, train = sampled(as_series(x), most, seed), None if train is None else as_series(train)
    if (refit or second_seed) and explainer.needs_fit and train is None:
        raise ValueError("Expected train= for a refit: the series to fit the explainer again on.")
    explanation = explainer.explain(series)
    probe = probe_of(explainer, series, train, fill, seed)
    m = measured(explainer, explanation, probe)
    blank = None if probe.numbers else int(np.bincount(probe.blank.argmax(axis=1)).argmax())

    def name(c: int) -> str:
        return explanation.classes[c] if explanation.classes else str(c)

    if blank is None:
        answers = [rules.answers(float(m.differs.mean()), constant_numbers(probe))]
    else:
        labelled = replace(series, y=explanation.series.y, classes=explanation.series.classes)  # as the explained answers are
        answers = [*_of_answers(m, labelled, name(int(np.bincount(m.predicted).argmax())), name(blank))]
    model = (*answers, *_of_series(explainer, m, series, train))
    explained = (
        *_of_explanation(explainer, m, explanation, probe, blank),
        *_steady(explainer, explanation, series, train, second_seed),
        *_of_surrogate(explainer, m),
        *_shuffled(explainer, m, explanation, probe, refit),
    )
    failed = tuple(f for f in model if f.verdict == "do not use")  # holds for every class
    classes = tuple(
        Group(name(c), int((m.predicted == c).sum()), (*failed, *_of_class(explainer, m.take(m.predicted == c), c == blank)))
        for c in ([] if blank is None else np.unique(m.predicted).tolist())
    )
    overall = Group("all series", len(m), (*model, *explained))
    return Check(
        method=explainer.name,
        fill=probe.fill,
        default="" if blank is None else name(blank),
        overall=overall,
        classes=classes,
        numbers=probe.numbers,
        model_hash=explanation.model_hash,
        unmeasured=_unmeasured(overall, explainer, probe, train, refit),
    )


def _unmeasured(
    overall: Group, explainer: Explainer[Any], probe: Probe, train: Series | None, refit: bool
) -> dict[str, tuple[str, ...]]:
    """Questions that this call did not measure, and the arguments that they need."""
    needed: tuple[str, ...] = ("train",) if train is None else ()
    known = {"training range": "baseline", "familiar series": "traits"}  # what a fit may keep of its training series
    unknown = [question for question, kept in known.items() if needed and of_fit(explainer, kept) is None]
    fills = [f"other fills, {fill}" for fill, measurable in other_fills(probe).items() if not measurable]
    found = dict.fromkeys((*unknown, *fills), needed)
    if has_seed(explainer) and "two seeds" not in (f.name for f in overall.findings):
        found["two seeds"] = ("second_seed", *needed)
    if explainer.needs_fit and has_weights(model_of(explainer)) and not refit:
        found["explanations of shuffled models"] = ("refit", *needed)
    return found


def _of_answers(m: Measured, series: Series, commonest: str, default: str) -> Iterator[Finding]:
    """Whether the model tells classes apart."""
    yield rules.one_class(_commonest(m), commonest, default)
    if series.y is not None:
        yield rules.accuracy(recall_over_chance(m.predicted, series.y, m.n_classes), 1 / m.n_classes)


def _of_series(explainer: Explainer[Any], m: Measured, series: Series, train: Series | None) -> Iterator[Finding]:
    """Whether the model, and the series, are those that the explainer is for."""
    if (same := fitted_on_this_model(explainer)) is not None:
        yield rules.same_model(same)
    if train is not None or of_fit(explainer, "baseline") is not None:  # else they would be compared with themselves
        yield rules.distance(float(np.median(m.distance)), usual_distance(explainer, train))
    if not np.isnan(unlike := unlikeness(explainer, series, train)):
        yield rules.familiar(unlike)
    if values := [row["criterion"] for row in of_fit(explainer, "history", ()) if row["part"] != "surrogate"]:
        yield rules.length(values)


def _of_explanation(
    explainer: Explainer[Any], m: Measured, explanation: Explanation, probe: Probe, blank: int | None
) -> Iterator[Finding]:
    """What hiding cells says, over the series that get another answer than a blank series: only these can lose it."""
    open_ = _open(m, blank)
    if open_.sum() < FEW:
        yield rules.few(int(open_.sum()))
        return
    m = m.take(open_)
    yield from _hiding(explainer, m)
    if not np.isnan(m.channels).any():
        yield rules.moments(Interval.of(m.gap - m.channels))
    if not np.isnan(m.gradients).any():
        yield rules.gradients(Interval.of(m.gap - m.gradients))
    yield rules.amplitude(Interval.of(m.correlation).mean, Interval.of(m.gap - m.size))
    random = Random(model_of(explainer), device=explainer.device).explain(probe.series)
    found = over_random(probe, explanation.attribution, random.attribution)
    yield rules.other_fills({fill: Interval.of(values[open_]) for fill, values in found.items()})


def _open(m: Measured, blank: int | None) -> NDArray[np.bool_]:
    """The series that get another answer than a blank series, (N,): another class, all if there are none, or other numbers."""
    if blank is None:
        return m.differs
    other = m.predicted != blank
    return other if other.any() else ~other


def _steady(
    explainer: Explainer[Any], explanation: Explanation, series: Series, train: Series | None, second_seed: bool
) -> Iterator[Finding]:
    """Whether small noise, or another seed, changes the explanations."""
    yield rules.small_noise(moved_correlation(explainer, series), NOISE)
    if has_seed(explainer) and (second_seed or not explainer.needs_fit):
        yield rules.two_seeds(Interval.of(seed_correlation(explainer, explanation, series, train)).mean)


def _hiding(explainer: Explainer[Any], m: Measured) -> Iterator[Finding]:
    over_random = Interval.of(m.gap - m.random)
    numbers = model_of(explainer).numbers
    whole = float(m.whole.mean())
    yield _kept_share(explainer, m, ordered=over_random.low > 0)
    yield rules.kept_alone(float(m.alone.mean()) / whole, numbers)
    yield rules.without_kept(float(m.without.mean()) / whole, numbers)
    yield rules.gap(float(m.gap.mean()), over_random)


def _kept_share(explainer: Explainer[Any], m: Measured, ordered: bool = False, needed: bool = True) -> Finding:
    objective = getattr(explainer.config, "objective", None)
    return rules.kept_share(float(m.kept.mean()), float((m.kept == 0).mean()), ordered, objective, needed)


def _of_surrogate(explainer: Explainer[Any], m: Measured) -> Iterator[Finding]:
    if not np.isnan(m.agreement).any():
        trained = getattr(of_fit(explainer, "quality"), "agreement", None)
        yield rules.agreement(float(m.agreement.mean()), _commonest(m), trained)


def _shuffled(explainer: Explainer[Any], m: Measured, explanation: Explanation, probe: Probe, refit: bool) -> Iterator[Finding]:
    """Whether explanations follow the weights: explained again where that is quick or wished for, else scored again."""
    rows = m.differs
    if not has_weights(model_of(explainer)) or not rows.any():
        return
    if refit or not explainer.needs_fit:
        train = probe.background if isinstance(probe.background, Series) else None
        correlation = shuffled_correlation(explainer, explanation, probe.series, train)[rows]
        yield rules.shuffled_again(float(correlation.mean()))
    else:
        yield rules.shuffled_score(Interval.of((m.gap - shuffled_gap(explainer, explanation, probe))[rows]))


def _of_class(explainer: Explainer[Any], m: Measured, default: bool) -> Iterator[Finding]:
    """Findings about the series of one predicted class."""
    if len(m) < FEW:
        yield Finding("series", len(m), "weak", f"only {len(m)} series have this class", "check more series of it")
    elif default:
        yield from _of_default(explainer, m)
    else:
        yield from _hiding(explainer, m)
        if not np.isnan(m.agreement).any():
            yield rules.agreement(float(m.agreement.mean()), 0.0, None)


def _of_default(explainer: Explainer[Any], m: Measured) -> Iterator[Finding]:
    """Of the class that a blank series has too: hidden cells bring it back, so that only its evidence can be tested."""
    kept = _kept_share(explainer, m, needed=False)
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
