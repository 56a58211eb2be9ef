"""From a measured number to a verdict in words: one rule for each question that `check` asks.

A rule returns a `Finding`. Agreement between surrogate and model can at most weaken a verdict: a surrogate may agree because an
explanation keeps nearly everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from timex.trust.interval import Interval

Verdict = Literal["trust", "weak", "do not use"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

ONE_CLASS = 0.995
"""Share of the commonest class from which on a model counts as constant."""
KEPT_MUCH, KEPT_NEARLY_ALL = 0.5, 0.8
"""Shares of the cells kept above which an explanation singles out little, or nothing."""
FEWER = {"evidence": "a higher evidence.price_high", "paper": "a smaller loss.r", "instance": "a smaller loss.r"}
MORE = {"evidence": "a lower evidence.price_high", "paper": "a larger loss.r", "instance": "a larger loss.r"}
"""What to change in the settings of TimeX for fewer and more kept cells, by objective."""
FEW_ANSWERS = 0.1
"""Share of the series with another number than a blank series, below which findings rest on few of them."""
ALONE_GOOD, ALONE_POOR = 0.75, 0.5
"""Shares of samples that keep their class, seen through the kept cells alone; for numbers, shares of the evidence."""
WITHOUT_HIGH = 0.6
"""The same without the kept cells: the share above which these are not needed."""
DROP = 0.15
"""Fall of the agreement below that on training series from which on the series count as different."""
ALIKE = 0.8
"""Rank correlation from which on two maps count as nearly the same."""
STEADY = 0.5
"""Rank correlation under small noise, or between two seeds, below which an explanation counts as unsteady."""
BEHIND_LITTLE, BEHIND_FAR = 0.1, 0.4
"""How far the evidence gap may stay behind that of plain gradients: little, and too far."""
USUAL, FAR = (0.5, 1.5), (1 / 3, 2.0)
"""Median distance of series from the training mean, over that of training series: the usual range, and that of doubt."""
UNLIKE, FOREIGN = 0.8, 0.95
"""AUROC at which a classifier tells the series from training series: from which on they differ, and differ too much."""
EPOCHS_TO_SEE = 4
"""Epochs from which on the last third shows whether a fit had converged."""
LATE = 0.25
"""Share of the whole fall of the validation value that may come in the last third of the epochs."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that trusts least; trust if there is none.

    >>> worst(["trust", "weak"])
    'weak'
    """
    return max(verdicts, key=VERDICTS.index, default="trust")


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Attributes:
        name: The question, in a word or two.
        value: What was measured; between 0 and 1 for shares.
        verdict: What follows.
        meaning: The value in words.
        advice: What to do; empty where nothing needs doing.
    """

    name: str
    value: float
    verdict: Verdict
    meaning: str
    advice: str = ""


def one_class(commonest: float, name: str, default: str) -> Finding:
    """Whether the model predicts more than one class."""
    if commonest >= ONE_CLASS:
        return Finding(
            "guessing",
            commonest,
            "do not use",
            f"the model predicts {name} for {commonest:.1%} of the series: there is nothing to tell apart",
            "check the model and how the series are scaled",
        )
    meaning = f"always guessing {name} would be right for {commonest:.1%}; for a blank series the model predicts {default}"
    return Finding("guessing", commonest, "trust", meaning)


def answers(share: float, constant: bool = False) -> Finding:
    """Whether a model of numbers answers series otherwise than a blank series: only then is there something to explain.

    Args:
        share: Share of the series whose numbers differ from those of a blank series. A model of rare events has few of them.
        constant: Whether all numbers are those of a blank series, up to rounding.
    """
    if constant:
        meaning = "the model gives every series the numbers of a blank series: there is nothing to explain"
        return Finding("answers", share, "do not use", meaning, "check the model and how the series are scaled")
    meaning = f"{share:.1%} of the series get another answer than a blank one"
    if share >= FEW_ANSWERS:
        return Finding("answers", share, "trust", meaning)
    advice = "few series get another answer than a blank one, and hidden cells test these alone: check more of them"
    return Finding("answers", share, "weak", meaning, advice)


def few(n: int) -> Finding:
    """That hidden cells change the answers to too few series to test explanations by them."""
    meaning = f"only {n} series get another answer than a blank one"
    return Finding("series", n, "weak", meaning, "check more of them: hidden cells say nothing of the others")


def same_model(same: bool) -> Finding:
    """Whether the explainer was fitted on the weights that it explains now."""
    if same:
        return Finding("same model", 1.0, "trust", "the model has the weights that the explainer was fitted on")
    meaning = "the explainer was fitted on a model with other weights"
    return Finding("same model", 0.0, "do not use", meaning, "fit the explainer again")


def distance(median: float, usual: float = 1.0) -> Finding:
    """Whether the series lie where the training series lie, whose median distance from their mean is `usual`."""
    meaning = f"the median series lies {median:.2f} training deviations from the training mean (usual: {usual:.2f})"
    share = median / usual if usual > 0 else float("inf")
    if USUAL[0] <= share <= USUAL[1]:
        return Finding("training range", median, "trust", meaning)
    advice = "scale the series as in the fit, or fit on series like these"
    return Finding("training range", median, "weak" if FAR[0] <= share <= FAR[1] else "do not use", meaning, advice)


def accuracy(over_chance: Interval, chance: float) -> Finding:
    """Whether the model tells the labelled classes apart better than chance, by its mean recall over the classes."""
    recall = chance + over_chance.mean
    meaning = f"the model finds {recall:.1%} of the series of a class, mean over the classes (guessing: {chance:.1%})"
    if over_chance.low > 0:
        return Finding("accuracy", recall, "trust", meaning)
    advice = "check the model: what it has not learned, no explanation shows"
    return Finding("accuracy", recall, "weak" if over_chance.mean > 0 else "do not use", meaning, advice)


def familiar(auroc: float) -> Finding:
    """Whether the series move as the training series do."""
    meaning = f"a simple classifier tells these series from training series with AUROC {auroc:.2f} (alike: .5)"
    if auroc < UNLIKE:
        return Finding("familiar series", auroc, "trust", meaning)
    advice = "the model and the explainer were not made for such series: compare their class shares and their plots"
    return Finding("familiar series", auroc, "weak" if auroc < FOREIGN else "do not use", meaning, advice)


def length(values: Sequence[float]) -> Finding:
    """Whether the fit had converged, by the validation value of every epoch of the generator. At most weak."""
    n = len(values)
    if n == 1:
        meaning = "the generator was fitted for one epoch: nothing shows that it had converged"
        return Finding("length of fit", n, "weak", meaning, "fit for more epochs")
    best = np.minimum.accumulate(values)
    fall, late = best[0] - best[-1], best[-1 - n // 3] - best[-1]
    share = float(late / fall) if fall > 0 else 0.0
    meaning = f"{n} epochs; {share:.0%} of the fall of the validation value came in the last third"
    if n < EPOCHS_TO_SEE or share <= LATE:
        return Finding("length of fit", n, "trust", meaning)
    return Finding("length of fit", n, "weak", meaning, "fit for more epochs")


def kept_share(share: float, empty: float, ordered: bool = False, objective: str | None = None, needed: bool = True) -> Finding:
    """Whether the explanation singles anything out.

    Args:
        share: Share of the cells kept.
        empty: Share of the series of which none is kept.
        ordered: Whether the scores put the evidence first, clearly better than a random order: they then say more than a mask
            that keeps nearly everything.
        objective: The objective of TimeX, whose settings the advice names; None for another method.
        needed: Whether the class needs cells; that of a blank series needs none.
    """
    meaning = f"{share:.1%} of the cells are kept; {empty:.1%} of the series keep none"
    much, nothing = share > KEPT_MUCH, empty > 0.1
    if not (much or nothing):
        return Finding("share kept", share, "trust", meaning)
    verdict: Verdict = "do not use" if (share > KEPT_NEARLY_ALL and not ordered) or empty > 0.5 else "weak"
    advice = "read the order of the scores, not the mask"
    if nothing and not needed:
        advice += ": a blank series gets this class too, so that no cell has to be kept"
    elif objective is not None:
        advice += f"; or fit again with {(FEWER if much else MORE)[objective]}"
    return Finding("share kept", share, verdict, meaning, advice)


def kept_alone(share: float, numbers: bool = False) -> Finding:
    """Whether the kept cells suffice."""
    meaning = f"seeing the kept cells alone, {_stays(share, numbers)}"
    if share >= ALONE_GOOD:
        return Finding("kept alone", share, "trust", meaning)
    advice = "fit for more epochs, or compare with another method: timex compare"
    return Finding("kept alone", share, "weak" if share >= ALONE_POOR else "do not use", meaning, advice)


def without_kept(share: float, numbers: bool = False) -> Finding:
    """Whether the kept cells are needed."""
    meaning = f"without the kept cells, {_stays(share, numbers)}"
    if share <= WITHOUT_HIGH:
        return Finding("without kept", share, "trust", meaning)
    advice = "the kept cells are not the only reason: expect others beside them"
    return Finding("without kept", share, "weak", meaning, advice)


def _stays(share: float, numbers: bool) -> str:
    if numbers:
        return f"the model's numbers hold {share:.1%} of the evidence"
    return f"the model predicts the same class for {share:.1%} of the series"


def gap(mean: float, over_random: Interval) -> Finding:
    """Whether the evidence sits where the explanation points."""
    meaning = f"evidence gap {mean:+.2f}; over a random order {over_random}"
    if over_random.low <= 0:
        return Finding(
            "evidence gap", mean, "do not use", f"{meaning}: no better than random", "fit again, or use another method"
        )
    if mean <= 0:
        return Finding("evidence gap", mean, "weak", meaning, "the evidence is spread over many cells: compare methods")
    return Finding("evidence gap", mean, "trust", meaning)


def other_fills(over_random: Mapping[str, Interval]) -> Finding:
    """Whether the evidence sits there too if hidden cells get other values. The worst of the fills counts."""
    worst_fill = min(over_random, key=lambda fill: over_random[fill].low)
    meaning = "; ".join(f"filled by {fill}, evidence gap over a random order {found}" for fill, found in over_random.items())
    value = over_random[worst_fill].mean
    if over_random[worst_fill].low > 0:
        return Finding("other fills", value, "trust", meaning)
    advice = f"with the fill {worst_fill} the top cells are no better than random: compare methods under several fills"
    return Finding("other fills", value, "weak", meaning, advice)


def small_noise(correlation: float, noise: float) -> Finding:
    """Whether explanations stay when the series move a little."""
    meaning = f"rank correlation {correlation:.2f} with explanations of the same series and noise of {noise:.0%}"
    if correlation >= STEADY:
        return Finding("small noise", correlation, "trust", meaning)
    return Finding("small noise", correlation, "weak", meaning, "read the average over similar series, not one explanation")


def two_seeds(correlation: float) -> Finding:
    """Whether another seed gives the same explanations."""
    meaning = f"rank correlation {correlation:.2f} with explanations of a second seed"
    if correlation >= STEADY:
        return Finding("two seeds", correlation, "trust", meaning)
    advice = "fit several seeds and average their explanations, or fit for longer"
    return Finding("two seeds", correlation, "weak", meaning, advice)


def moments(over_channels: Interval) -> Finding:
    """Whether the explanation says when, and not only in which channel."""
    meaning = f"evidence gap over the same scores averaged over time: {over_channels}"
    if over_channels.low > 0:
        return Finding("moments", over_channels.mean, "trust", meaning)
    advice = "read it as which channels matter; do not read moments from it"
    return Finding("moments", over_channels.mean, "weak", meaning, advice)


def agreement(share: float, commonest: float, trained: float | None) -> Finding:
    """Whether the surrogate, seeing the explanation alone, predicts the model's class. At most weak."""
    meaning = f"the surrogate agrees with the model on {share:.1%} of these series (guessing: {commonest:.1%})"
    if trained is not None and share < trained - DROP:
        meaning += f", on {trained:.1%} of the training series"
        return Finding(
            "agreement", share, "weak", meaning, "these series differ from the training series: fit on series like these"
        )
    if share < (1 + commonest) / 2:
        return Finding("agreement", share, "weak", meaning, "fit longer, or on more series")
    return Finding("agreement", share, "trust", meaning)


def amplitude(correlation: float, over_amplitude: Interval) -> Finding:
    """Whether the explanation only repeats the size of the values."""
    meaning = f"rank correlation {correlation:.2f} with the size of the values; evidence gap over theirs {over_amplitude}"
    if correlation > ALIKE and over_amplitude.low <= 0:
        return Finding(
            "amplitude", correlation, "weak", meaning, "large values alone explain as much: test on series of equal size"
        )
    return Finding("amplitude", correlation, "trust", meaning)


def gradients(over_gradients: Interval) -> Finding:
    """Whether the explanation finds the evidence as well as gradients do without a fit."""
    mean = over_gradients.mean
    meaning = f"evidence gap over that of plain integrated gradients {over_gradients}"
    if mean >= -BEHIND_LITTLE:
        return Finding("gradients", mean, "trust", meaning)
    advice = "fit for more epochs, or use the method gradients"
    return Finding("gradients", mean, "weak" if mean >= -BEHIND_FAR else "do not use", meaning, advice)


def shuffled_again(correlation: float) -> Finding:
    """Whether explanations of a model with shuffled weights are other explanations."""
    meaning = f"rank correlation {correlation:.2f} with explanations of a model with shuffled weights"
    if correlation < ALIKE:
        return Finding("shuffled weights", correlation, "trust", meaning)
    return Finding("shuffled weights", correlation, "do not use", meaning, "the method does not follow the model: use another")


def shuffled_score(over_shuffled: Interval) -> Finding:
    """Whether the explanations fit this model better than models with shuffled weights."""
    meaning = f"evidence gap over that of the same explanations for models with shuffled weights {over_shuffled}"
    if over_shuffled.low > 0:
        return Finding("shuffled weights", over_shuffled.mean, "trust", meaning)
    return Finding("shuffled weights", over_shuffled.mean, "weak", meaning, "the explanations are not specific to this model")
