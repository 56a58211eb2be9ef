"""The signs of an attribution against a model whose evidence is known."""

import numpy as np
import pytest

from timex import Series
from timex.metrics.faithfulness import cpd, direction_effect
from timex.metrics.hiding import Probe
from timex.records import Baseline, Explanation


def linear(x, kept):
    """The log-odds of class 1 are the sum of the cells."""
    p = 1 / (1 + np.exp(-x.sum((1, 2))))
    return np.stack([1 - p, p], axis=1)


X = np.array([[[3.0], [-1.0], [0.5], [0.0]], [[2.0], [1.0], [0.5], [0.25]]], dtype=np.float32)
PROBE = Probe(linear, Series(X), Baseline(np.zeros((4, 1), np.float32), np.zeros((4, 1), np.float32)))


def test_hiding_what_speaks_for_and_against_by_hand():
    found = direction_effect(PROBE, X, share=0.5)  # the two largest cells of each sample
    np.testing.assert_allclose(found.fall, [3, 3], atol=1e-6)
    np.testing.assert_allclose(found.rise, [1, np.nan], atol=1e-6)  # the second sample has no cell against its class


def test_cpd_in_the_order_of_signed_values():
    """By |attribution| the cell that speaks against the class comes second: the probability falls, then rises."""

    def p(total):
        return 1 / (1 + np.exp(-total))

    by_size, by_sign = cpd(PROBE, X, 2)[0], cpd(PROBE, X, 2, signed=True)[0]
    assert by_size == pytest.approx(2 * ((p(2.5) - p(-0.5)) + (p(0.5) - p(-0.5))), rel=1e-5)
    assert by_sign == pytest.approx(2 * (p(2.5) - p(-1.0)), rel=1e-5)


def test_wrong_signs_are_below_zero():
    found = direction_effect(PROBE, -X, share=0.5)
    np.testing.assert_allclose(found.fall, [-1, 0], atol=1e-6)
    np.testing.assert_allclose(found.rise, [-3, -3], atol=1e-6)


def test_an_explanation_with_its_direction_in_the_sign():
    given = {"series": Series(X), "prediction": np.ones(2, int), "probability": np.full((2, 2), 0.5, np.float32)}
    direction = np.sign(X).astype(np.int8)
    e = Explanation(attribution=np.abs(X), direction=direction, **given)
    directed = e.directed()
    np.testing.assert_array_equal(directed.attribution, X)
    assert directed.signed
    assert directed.directed() is directed
    assert e.to_frame()["direction"].tolist() == direction.ravel().tolist()
    with pytest.raises(ValueError, match="Expected an explanation with a direction, got none from this method"):
        Explanation(attribution=np.abs(X), **given).directed()
    with pytest.raises(ValueError, match=r"Expected direction of the shape of x, \(2, 4, 1\), got \(2, 4\)"):
        Explanation(attribution=np.abs(X), direction=direction[..., 0], **given)
