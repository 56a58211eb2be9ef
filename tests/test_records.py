"""`Series`, `Dataset` and `Explanation`: what they keep, derive and refuse.

Shapes: N samples, T steps, D channels, all different.
"""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from timex import Dataset, Explanation, Series
from timex.records import as_series, to_tensor

N, T, D = 5, 4, 3


def values(n=N):
    return np.random.default_rng(0).normal(size=(n, T, D)).astype(np.float32)


def full(n=N):
    """Series with every field."""
    observed = np.ones((n, T, D), dtype=bool)
    observed[0, 1, 2] = False
    return Series(
        values(n),
        np.arange(T) * 0.5,
        observed,
        y=np.arange(n) % 2,
        truth=values(n) > 1,
        ids=[f"s{i}" for i in range(n)],
        channels=("a", "b", "c"),
        units=("m", "", "s"),
        classes=("off", "on"),
        sampling_rate=2.0,
        scaling=([1.0, 2.0, 3.0], 10.0),
    )


# --------------------------------------------------------------------------------------------------------------- series


def test_samples_are_taken_with_everything_they_have():
    for index in ([3, 1], np.array([False, True, False, True, False])[::1], slice(1, 4, 2)):
        part = full().take(index)
        rows = np.arange(N)[index]
        np.testing.assert_array_equal(part.x, full().x[rows])
        np.testing.assert_array_equal(part.truth, full().truth[rows])
        np.testing.assert_array_equal(part.observed, full().observed[rows])
        np.testing.assert_array_equal(part.times, full().times[rows])
        assert part.y.tolist() == (rows % 2).tolist()
        assert part.ids == tuple(f"s{i}" for i in rows)
        assert (part.channels, part.classes, part.sampling_rate) == (("a", "b", "c"), ("off", "on"), 2.0)
    assert [len(part) for part in full().chunks(2)] == [2, 2, 1]
    assert sum((part.ids for part in full().chunks(2)), ()) == full().ids


def test_regular_series_travel_without_times():
    assert set(Series(values()).tensors()) == {"x"}
    assert set(Series(values(), y=np.zeros(N)).tensors()) == {"x", "y"}
    assert set(full().tensors()) == {"x", "y", "times", "observed"}
    for options in ({"times": np.arange(T) + 1.5}, {"observed": np.arange(N * T * D).reshape(N, T, D) > 0}):
        assert not Series(values(), **options).regular
    assert Series(values(), np.arange(1, T + 1)).regular


def test_units_and_scaling():
    """x * scale + offset per channel, and zero where nothing was measured."""
    own = full().in_own_units()
    expected = full().x * 10 + np.array([1, 2, 3], dtype=np.float32)
    assert own.x[0, 1, 2] == 0
    np.testing.assert_allclose(own.x[own.observed], expected[own.observed], rtol=1e-6)
    assert own.scaling is None
    assert own.in_own_units() is own
    assert own.channel_labels == ("a [m]", "b", "c [s]")
    assert replace(own, units=()).channel_labels == ("a", "b", "c")


def test_names_fill_what_is_missing():
    named = Series(values(), channels=("x", "y", "z")).named(("a", "b", "c"), ("m", "m", "m"), ("on", "off"), (0.0, 2.0))
    assert (named.channels, named.units, named.classes) == (("x", "y", "z"), ("m", "m", "m"), ("on", "off"))
    assert named.scaling == ((0.0,), (2.0,))
    with pytest.raises(ValueError, match="Expected one name for each of 3 in channels, or none, got 2"):
        Series(values()).named(("a", "b"))


def test_baseline_is_over_observed_cells():
    x = np.array([[[1.0], [5.0]], [[3.0], [7.0]], [[8.0], [9.0]]])
    observed = np.array([[[True], [False]], [[True], [False]], [[False], [False]]])
    mean, std = Series(x, observed=observed).baseline()
    assert (mean.tolist(), std.tolist()) == ([[2.0], [0.0]], [[1.0], [0.0]])


def test_the_time_unit_is_the_usual_interval():
    assert Series(values()).time_unit == 1
    assert Series(values(), np.array([0.0, 0.004, 0.008, 0.1])).time_unit == pytest.approx(0.004)
    observed = np.ones((N, T), dtype=bool)
    observed[:, 1] = False  # of 0, 1, 3, 6 the interval 3 to 6 alone lies between measured neighbours
    assert Series(values(), np.array([0.0, 1.0, 3.0, 6.0]), observed).time_unit == 3


def test_the_digest_is_of_the_cells():
    digest = full().digest
    assert full().digest == digest == replace(full(), ids=(), y=None, channels=()).digest
    other_x, other_times = full().x.copy(), full().times.copy()
    other_x[4, 3, 2] += 1
    other_times[4, 3] += 1
    for changed in (
        replace(full(), x=other_x),
        replace(full(), times=other_times),
        replace(full(), observed=None),
        full().take(slice(4)),
    ):
        assert changed.digest != digest


def test_gaps_are_nan():
    x = values()
    x[2, 1, 0] = np.nan
    series = Series.with_gaps(x)
    assert (~series.observed).sum() == 1
    assert series.x[2, 1, 0] == 0
    with pytest.raises(ValueError, match="got inf at sample 1"):
        Series.with_gaps(np.where(np.arange(N)[:, None, None] == 1, 1e300, 0.0) + np.zeros((N, T, D)))


def test_series_are_frozen_and_checked():
    with pytest.raises(FrozenInstanceError):
        full().x = values()
    with pytest.raises(ValueError, match=r"Expected labels 0\.\.1, got 0\.\.4"):
        replace(full(), y=np.arange(N))
    with pytest.raises(ValueError, match="Expected labels, got series without y"):
        _ = Series(values()).labels
    with pytest.raises(ValueError, match="Expected different names in ids, got 's' twice"):
        replace(full(), ids=["s"] * N)


def test_as_series():
    series = full()
    assert as_series(series) is series
    assert as_series(values()[0], observed=np.ones((T, D), dtype=bool)).shape == (1, T, D)
    with pytest.raises(ValueError, match="Expected times, observed inside the Series, got it beside one"):
        as_series(series, series.times, series.observed)


def test_tensors_of_views():
    frozen = values()[::-1]
    frozen.flags.writeable = False
    assert torch.equal(to_tensor(frozen), torch.tensor(values()[::-1].copy()))


# -------------------------------------------------------------------------------------------------------------- dataset


def test_named_gives_every_part_the_names():
    x = values()
    parts = (Series(x[:2], y=[0, 1]), Series(x[2:4], y=[1, 0]), Series(x[4:], y=[1]))
    data = Dataset.named("mine", *parts, ("a", "b", "c"), ("off", "on"), fold=2, seed=7)
    assert (data.channels, data.classes, data.fold, data.seed) == (("a", "b", "c"), ("off", "on"), 2, 7)
    assert all(part.classes == data.classes for part in (data.train, data.val, data.test))
    np.testing.assert_allclose(data.baseline.mean, x[:2].mean(0), rtol=1e-6)


def test_parts_that_do_not_fit():
    good = Series(values(), y=np.arange(N) % 2, classes=("off", "on"))
    with pytest.raises(ValueError, match=r"Expected every part to have \(T, D\) = \(4, 3\), got \(3, 3\) in val"):
        Dataset("mine", good, Series(values()[:, :3], y=np.zeros(N)), good)
    with pytest.raises(ValueError, match=r"Expected labels 0\.\.1 for the classes \('off', 'on'\), got 2 in test"):
        Dataset("mine", good, good, Series(values(), y=np.full(N, 2)))


# ---------------------------------------------------------------------------------------------------------- explanation


def explanation():
    series = full().in_own_units()
    probability = np.tile(np.array([0.25, 0.75], dtype=np.float32), (N, 1))
    attribution = np.abs(values())
    return Explanation(
        series=series,
        attribution=attribution,
        prediction=np.ones(N, dtype=np.int64),
        probability=probability,
        mask=attribution > 0.5,
        agreement=np.arange(N) > 0,
    )


def test_the_frame_has_a_row_per_observed_cell():
    e = explanation()
    frame = e.to_frame()
    assert len(frame) == N * T * D - 1
    row = frame[(frame["sample"] == 3) & (frame["step"] == 2) & (frame["channel"] == "b")].iloc[0]
    assert row["time"] == 1.0
    assert row["value"] == e.x[3, 2, 1]
    assert row["attribution"] == e.attribution[3, 2, 1]
    assert (row["prediction"], row["label"], row["id"]) == ("on", "on", "s3")
    assert (row["truth"], row["mask"], row["agreement"]) == (e.series.truth[3, 2, 1], e.mask[3, 2, 1], True)
    missing = frame[(frame["sample"] == 0) & (frame["step"] == 1)]
    assert missing["channel"].tolist() == ["a [m]", "b"]


def test_attributions_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"Expected attribution of the shape of x, \(5, 4, 3\), got \(5, 3, 4\)"):
        replace(explanation(), attribution=explanation().attribution.transpose(0, 2, 1))
