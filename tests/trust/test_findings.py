"""Verdicts from numbers."""

import numpy as np
import pytest

from timex.trust import findings as rules
from timex.trust.interval import Interval


def interval(mean, half=0.05):
    return Interval(mean, mean - half, mean + half)


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (rules.one_class(1.0, "a", "a"), "do not use"),
        (rules.one_class(0.9, "a", "b"), "trust"),
        (rules.answers(0.3), "trust"),
        (rules.answers(0.02), "weak"),
        (rules.answers(0.0), "weak"),  # none of these series, but the model is not constant
        (rules.answers(0.0, constant=True), "do not use"),
        (rules.few(3), "weak"),
        (rules.same_model(False), "do not use"),
        (rules.distance(1.0), "trust"),
        (rules.distance(1.8), "weak"),
        (rules.distance(3.0), "do not use"),
        (rules.distance(0.4), "weak"),
        (rules.distance(0.1), "do not use"),
        (rules.accuracy(interval(0.3), 0.25), "trust"),
        (rules.accuracy(interval(0.03), 0.25), "weak"),
        (rules.accuracy(interval(-0.03), 0.25), "do not use"),
        (rules.familiar(0.6), "trust"),
        (rules.familiar(0.85), "weak"),
        (rules.familiar(0.99), "do not use"),
        (rules.length([0.3]), "weak"),
        (rules.length([0.3, 0.2]), "trust"),  # too few epochs to see
        (rules.length([0.4, 0.2, 0.12, 0.11, 0.1, 0.1]), "trust"),
        (rules.length([0.6, 0.5, 0.4, 0.3, 0.2, 0.1]), "weak"),
        (rules.length([0.3, 0.3, 0.3, 0.3]), "trust"),
        (rules.kept_share(0.2, 0.0), "trust"),
        (rules.kept_share(0.6, 0.0), "weak"),
        (rules.kept_share(0.9, 0.0), "do not use"),
        (rules.kept_share(0.9, 0.0, ordered=True), "weak"),
        (rules.kept_share(0.1, 0.9, ordered=True), "do not use"),
        (rules.distance(0.3, 0.35), "trust"),
        (rules.distance(1.0, 0.35), "do not use"),
        (rules.distance(0.0, 0.0), "do not use"),
        (rules.kept_share(0.1, 0.2), "weak"),
        (rules.kept_share(0.1, 0.9), "do not use"),
        (rules.kept_alone(0.9), "trust"),
        (rules.kept_alone(0.6), "weak"),
        (rules.kept_alone(0.3), "do not use"),
        (rules.without_kept(0.1), "trust"),
        (rules.without_kept(0.99), "weak"),
        (rules.gap(0.5, interval(1.2)), "trust"),
        (rules.gap(-0.3, interval(0.4)), "weak"),
        (rules.gap(0.5, interval(0.04)), "do not use"),
        (rules.moments(interval(0.3)), "trust"),
        (rules.moments(interval(0.0)), "weak"),
        (rules.gradients(interval(-0.05)), "trust"),
        (rules.gradients(interval(-0.2)), "weak"),
        (rules.gradients(interval(-0.8)), "do not use"),
        (rules.amplitude(0.9, interval(0.1)), "trust"),
        (rules.amplitude(0.9, interval(0.0)), "weak"),
        (rules.amplitude(0.3, interval(-0.4)), "trust"),
        (rules.other_fills({"local": interval(0.4), "draw": interval(0.2)}), "trust"),
        (rules.other_fills({"local": interval(0.4), "draw": interval(0.03)}), "weak"),
        (rules.small_noise(0.9, 0.05), "trust"),
        (rules.small_noise(0.3, 0.05), "weak"),
        (rules.two_seeds(0.6), "trust"),
        (rules.two_seeds(0.1), "weak"),
        (rules.shuffled_again(0.2), "trust"),
        (rules.shuffled_again(0.99), "do not use"),
        (rules.shuffled_score(interval(0.3)), "trust"),
        (rules.shuffled_score(interval(0.01)), "weak"),
        (rules.agreement(0.95, 0.3, None), "trust"),
        (rules.agreement(0.5, 0.3, None), "weak"),
        (rules.agreement(0.75, 0.3, 0.95), "weak"),
    ],
)
def test_verdicts(finding, verdict):
    assert finding.verdict == verdict
    assert bool(finding.advice) == (verdict != "trust") or finding.name == "shuffled weights"


def test_the_worst_fill_is_named():
    found = rules.other_fills({"local": interval(0.4), "draw": interval(0.03)})
    assert found.value == 0.03
    assert "with the fill draw the top cells are no better than random" in found.advice


def test_no_agreement_however_low_makes_explanations_unusable_and_none_however_high_hides_another_finding():
    assert rules.agreement(0.0, 0.9, 1.0).verdict == "weak"
    whole_channels = [rules.agreement(0.97, 0.25, 0.97), rules.kept_share(0.13, 0.0), rules.moments(interval(-0.01))]
    assert rules.worst(f.verdict for f in whole_channels) == "weak"


def test_intervals_by_hand():
    mean, low, high = Interval.of([1.0, 2.0, 3.0, np.nan, 6.0])
    half = 1.96 * np.sqrt(((2**2 + 1 + 0 + 3**2) / 3) / 4)
    assert (mean, low, high) == pytest.approx((3.0, 3 - half, 3 + half))
    assert Interval.of([2.0]) == (2.0, -np.inf, np.inf)
