"""What series are like, and whether two sets of series can be told apart."""

import numpy as np
import pytest

from timex import Series
from timex.metrics.familiarity import LAGS, distinction, traits

N, T, D = 4, 11, 3
RNG = np.random.default_rng(0)


def by_loop(x, seen):
    """The traits of one channel of one series."""
    values = [v for v, s in zip(x, seen, strict=True) if s]
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / len(values)
    found = [mean, variance**0.5]
    for lag in LAGS:
        pairs = [(x[t] - mean) * (x[t + lag] - mean) for t in range(T - lag) if seen[t] and seen[t + lag]]
        found.append(sum(pairs) / max(len(pairs), 1) / variance)
    return found


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_traits_are_those_of_a_loop(share):
    seen = RNG.random((N, T, D)) < share
    series = Series(RNG.normal(1, 2, size=(N, T, D)), observed=seen)
    found = traits(series).reshape(N, 6, D)
    for i in range(N):
        for k in range(D):
            np.testing.assert_allclose(found[i, :, k], by_loop(series.x[i, :, k], seen[i, :, k]), atol=1e-6)


def test_constant_and_unmeasured_channels_are_zero():
    x = np.full((2, 3, 2), 5.0)
    found = traits(Series(x, observed=np.broadcast_to([True, False], x.shape))).reshape(2, 6, 2)
    assert found[:, 0, 0].tolist() == [5, 5]
    assert not found[:, 1:, 0].any()
    assert not found[:, :, 1].any()


def test_order_counts_and_values_of_the_same_kind_do_not():
    rng = np.random.default_rng(1)
    walk = rng.normal(size=(200, 30, 2)).cumsum(1)
    known, held_out = traits(Series(walk[:120])), traits(Series(walk[120:]))
    assert 0.3 < distinction(known, held_out) < 0.7
    assert distinction(known, traits(Series(rng.permuted(walk[120:], axis=1)))) > 0.95
    assert np.isnan(distinction(known, held_out[:19]))
