"""Occlusion curves against a slow loop, and by hand."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from timex.metrics import occlusion_curve
from timex.metrics.occlusion import THRESHOLDS
from timex.records import Baseline

N, T, D = 24, 11, 3
ZERO = Baseline(np.zeros((T, D), np.float32), np.zeros((T, D), np.float32))


@pytest.fixture
def series():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, T, D)).astype(np.float32)
    return x, np.arange(N) % 2, rng.random((N, T, D))


def score_of_sum(x, kept):
    p = 1 / (1 + np.exp(-x.sum(axis=(1, 2)).astype(float)))
    return np.stack([1 - p, p], axis=1)


def test_curve_is_that_of_a_slow_loop(series):
    x, y, attribution = series
    got = occlusion_curve(score_of_sum, x, y, attribution, ZERO, fill="zero")
    for j, p in enumerate(THRESHOLDS):
        occluded = np.zeros_like(x)
        for i in range(N):
            threshold = np.quantile(attribution[i], p)
            for t in range(T):
                for k in range(D):
                    if attribution[i, t, k] > threshold:
                        occluded[i, t, k] = x[i, t, k]
        assert got["auroc"][j] == pytest.approx(roc_auc_score(y, occluded.sum(axis=(1, 2))))
    assert got["threshold"].tolist() == list(THRESHOLDS)


def test_missing_cells_are_neither_counted_nor_filled(series):
    x, y, attribution = series
    seen = np.random.default_rng(1).random(x.shape) < 0.6
    x = np.where(seen, x, 0)
    ones = Baseline(np.ones((T, D), np.float32), np.zeros((T, D), np.float32))
    calls = []

    def predict(x, kept):
        calls.append((x.copy(), kept.copy()))
        return score_of_sum(x, kept)

    occlusion_curve(predict, x, y, np.where(seen, attribution, 99), ones, thresholds=(0.5, 0.9), observed=seen)
    for (occluded, kept), p in zip(calls, (0.5, 0.9), strict=True):
        assert not (kept & ~seen).any()
        assert (occluded[~seen] == 0).all()
        assert (occluded[seen & ~kept] == 1).all()
        for i in range(N):
            own = attribution[i][seen[i]]
            assert (kept[i][seen[i]] == (own > np.quantile(own, p))).all()


def test_equal_attributions_are_broken_by_rank_and_never_empty_the_mask(series):
    x, y, _ = series
    counts = []

    def predict(x, kept):
        counts.append(kept.sum(axis=(1, 2)))
        return score_of_sum(x, kept)

    occlusion_curve(predict, x, y, np.ones_like(x), ZERO, thresholds=(0.0, 0.75, 0.99))
    n = T * D
    assert [set(c) for c in counts] == [{n - 1}, {n - 1 - int(0.75 * (n - 1))}, {1}]


def test_a_draw_has_the_baseline_and_is_shared_by_thresholds_and_explainers(series):
    _, y, attribution = series
    x = np.full((N, T, D), 100, np.float32)
    baseline = Baseline(np.full((T, D), 5, np.float32), np.full((T, D), 2, np.float32))
    seen = []

    def predict(x, kept):
        seen.append(np.where(kept, np.nan, x))
        return np.full((N, 2), 0.5)

    for a in (attribution, -attribution):
        occlusion_curve(predict, x, y, a, baseline, thresholds=(0.75, 0.9), seed=3)
    drawn = np.nanmean(seen, axis=0)
    assert np.nanmax(np.abs(np.stack(seen) - drawn)) == pytest.approx(0, abs=1e-5)
    assert drawn.mean() == pytest.approx(5, abs=4 * 2 / np.sqrt(drawn.size))
    assert drawn.std() == pytest.approx(2, rel=0.1)


def test_random_control_keeps_as_many_and_follows_the_seed(series):
    x, y, _ = series
    kept = []

    def predict(x, k):
        kept.append(k.copy())
        return score_of_sum(x, k)

    for seed in (0, 0, 1):
        occlusion_curve(predict, x, y, None, ZERO, thresholds=(0.9,), seed=seed)
    assert (kept[0] == kept[1]).all()
    assert (kept[0] != kept[2]).any()
    assert set(kept[0].sum(axis=(1, 2))) == {T * D - 1 - int(0.9 * (T * D - 1))}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fill": "mean"}, "Expected fill as draw or zero, got 'mean'"),
        ({"thresholds": (0.5, 1.0)}, "below 1"),
        ({"attribution": np.zeros((N, T))}, "finite attribution of the shape of x"),
        ({"attribution": np.full((N, T, D), np.nan)}, "finite attribution"),
    ],
)
def test_wrong_arguments_are_named(series, change, words):
    x, y, attribution = series
    with pytest.raises(ValueError, match=words):
        occlusion_curve(score_of_sum, **{"x": x, "y": y, "attribution": attribution, "baseline": ZERO, **change})
