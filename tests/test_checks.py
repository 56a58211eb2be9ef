"""Checks of the users' data: what is accepted, what it becomes, and what the errors say."""

import numpy as np
import pytest
import torch

from timex.checks import check_labels, check_names, check_rate, check_scaling, check_series, check_truth, warn_caller
from timex.records import Series

N, T, D = 3, 4, 2


def series(n=N, t=T, d=D):
    return np.random.default_rng(0).normal(size=(n, t, d)).astype(np.float32)


def test_bare_arrays_are_regular():
    x, times, observed = check_series(series().tolist())
    assert (x.dtype, times.dtype, observed.dtype) == (np.float32, np.float32, bool)
    np.testing.assert_array_equal(x, series())
    assert times.tolist() == [[1, 2, 3, 4]] * N
    assert observed.all()


def test_missing_cells_become_zero():
    observed = np.ones((N, T, D), dtype=bool)
    observed[1, 2, 0] = False
    x, _, seen = check_series(np.where(observed, series(), np.nan), None, observed)
    assert x[1, 2, 0] == 0
    np.testing.assert_array_equal(x[seen], series()[seen])
    steps = np.array([[True, True, False, True]] * N)
    assert check_series(series(), None, steps)[2][:, 2].any() == np.False_  # (N, T) holds for every channel


def test_a_single_series_may_lack_the_batch_axis():
    observed = np.array([True, False, True, True])
    x, times, seen = check_series(series()[0], [2.0, 9.0, 5.0, 6.0], observed)
    assert (x.shape, times.shape, seen.shape) == ((1, T, D), (1, T), (1, T, D))
    assert not seen[0, 1].any()


def test_tensors_of_any_type():
    for dtype in (torch.float64, torch.bfloat16, torch.int32):
        x = torch.arange(N * T * D).reshape(N, T, D).to(dtype).requires_grad_(dtype.is_floating_point)
        assert check_series(x)[0][2, 3, 1] == 23


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones(5), r"Expected x of shape \(N, T, D\), or \(T, D\) for one sample, got \(5,\): add the channels with"),
        (np.ones((2, 3, 4, 5)), r"got \(2, 3, 4, 5\)\."),
        (np.ones((0, 4, 2)), r"at least 1 sample, 2 time steps and 1 channel, got x of shape \(0, 4, 2\)"),
        (np.ones((3, 1, 2)), "check the order of the axes"),
        (np.full((2, 3, 1), np.inf), r"got inf at sample 0, step 0, channel 0 \(6 such cells\): fill them, or pass observed="),
        ([[[1.0]], [[1.0], [2.0]]], "Expected x as a rectangular array of numbers, got list"),
        ("text", "Expected x as numbers, got texts"),
    ],
)
def test_series_that_are_refused(x, words):
    with pytest.raises(ValueError, match=words):
        check_series(x)


def test_shapes_of_times_and_observed():
    with pytest.raises(ValueError, match=r"Expected observed of shape \(3, 4, 2\) or \(3, 4\), got \(4, 2\)"):
        check_series(series(), None, np.ones((T, D), dtype=bool))
    with pytest.raises(ValueError, match=r"Expected times of shape \(3, 4\) or \(4,\), got \(3,\)"):
        check_series(series(), np.arange(3))
    with pytest.raises(ValueError, match="Expected finite times, got NaN or inf"):
        check_series(series(), [1.0, 2.0, np.nan, 4.0])


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([4.0, 3.0, 2.0, 1.0], "got 3 after 4 at sample 0, step 1: sort the steps by time"),
        ([7.0, 7.0, 7.0, 7.0], "got 7 after 7 at sample 0, step 1"),
    ],
)
def test_times_that_do_not_increase_are_refused(times, words):
    with pytest.raises(ValueError, match=words):
        check_series(series(), times)


def test_only_measured_steps_have_an_order():
    observed = np.array([[True, False, True, False]])
    _, times, _ = check_series(series(1), [1.0, 9.0, 2.0, 0.0], observed)
    assert times.tolist() == [[1.0, 9.0, 2.0, 0.0]]
    with pytest.raises(ValueError, match="got 2 after 3 at sample 0, step 2"):
        check_series(series(1), [3.0, 9.0, 2.0, 0.0], observed)


def test_dates_count_from_the_first_step():
    """32 bits cannot hold the difference of neighbouring seconds since 1970."""
    seconds = 1.7e9 + np.array([[0.0, 1.0, 2.0, 4.0], [5.0, 6.0, 8.0, 9.0]])
    _, times, _ = check_series(series(2), seconds)
    assert times.tolist() == [[0, 1, 2, 4], [0, 1, 3, 4]]
    observed = np.array([[True] * 4, [False, True, True, True]])
    assert check_series(series(2), seconds, observed)[1].tolist() == [[0, 1, 2, 4], [0, 0, 2, 3]]


def test_cells_under_a_mask_are_not_observed():
    x = series()
    masked = np.ma.masked_array(x, mask=x > 0.5, fill_value=1e9)
    values, _, seen = check_series(masked)
    np.testing.assert_array_equal(seen, x <= 0.5)
    np.testing.assert_array_equal(values, np.where(x <= 0.5, x, 0))
    gaps = Series.with_gaps(np.ma.masked_array(np.where(x < -0.5, np.nan, x), mask=x > 0.5))
    np.testing.assert_array_equal(gaps.observed, abs(x) <= 0.5)
    with pytest.raises(ValueError, match=r"missing cells marked once, got a masked array as x and observed="):
        check_series(masked, None, np.ones(x.shape))
    for name in ("times", "observed"):
        with pytest.raises(ValueError, match=rf"Expected {name} without a mask, got a masked array: fill it with {name}\."):
            check_series(x, **{name: np.ma.masked_array(np.ones((N, T)), mask=False)})
    with pytest.raises(ValueError, match="Expected a label for every sample, got a masked array"):
        check_labels(np.ma.masked_array([0, 1], mask=[False, True]), 2)


DAYS = np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("x", series().astype(complex), "complex numbers: pass their real and imaginary parts as two channels"),
        ("x", np.tile(DAYS[:, None], (N, 1, D)), "dates: subtract the first one"),
        ("x", series().astype(str), "texts: convert them to numbers first"),
        ("x", np.zeros((N, T, D), dtype=[("a", "f4"), ("b", "f4")]), "records of several fields"),
        ("x", np.array([[["1", 2.0]] * T] * N, dtype=object), "texts"),
        ("x", torch.ones(N, T, D).to_sparse(), r"a dense tensor with values, got one with layout torch\.sparse_coo"),
        ("x", torch.empty(N, T, D, device="meta"), "got one with no values"),
        ("times", DAYS, "dates: subtract the first one"),
        ("times", DAYS - DAYS[0], "durations: divide them by a unit"),
        ("times", ["1", "2", "3", "4"], "texts"),
        ("observed", np.full((N, T), "yes"), "texts"),
        ("observed", np.full((N, T), np.nan), "Expected observed as True and False, or 1 and 0, got nan"),
        ("observed", np.full((N, T), 2), "or 1 and 0, got 2: pass a comparison"),
    ],
)
def test_values_that_are_no_plain_numbers_are_refused(name, value, words):
    with pytest.raises(ValueError, match=words):
        check_series(**{"x": series(), name: value})


def test_python_objects_are_read_as_the_numbers_they_are():
    x = series().astype(object)
    np.testing.assert_array_equal(check_series(x)[0], series())
    x[0, 0, 0] = None
    assert not Series.with_gaps(x).observed[0, 0, 0]
    x[0, 0, 0] = {}
    with pytest.raises(ValueError, match="a cell holds a dict"):
        check_series(x)


def test_values_too_large_for_float32_are_named():
    with pytest.raises(ValueError, match=r"got inf at sample 0, step 0, channel 0 \(24 such cells\)"):
        check_series(np.full((N, T, D), 1e300))


def test_labels():
    for y in ([0, 2, 1], [0.0, 2.0, 1.0], torch.tensor([0, 2, 1]), np.array([0, 2, 1], dtype=np.uint8)):
        labels = check_labels(y, 3, 3)
        assert (labels.tolist(), labels.dtype) == ([0, 2, 1], np.int64)
    with pytest.raises(ValueError, match=r"Expected one label per sample, shape \(4,\), got \(3,\)"):
        check_labels([0, 1, 2], 4)
    with pytest.raises(ValueError, match=r"Expected labels 0\.\.1, got 0\.\.2: renumber"):
        check_labels([0, 1, 2], 3, 2)
    with pytest.raises(ValueError, match="got values such as inf"):
        check_labels([np.inf], 1)
    with pytest.raises(ValueError, match="got values such as 'sick'"):
        check_labels(["sick", "well"], 2)


def test_truth_names_and_scaling():
    assert check_truth(np.ones((T, D)), (1, T, D)).shape == (1, T, D)
    with pytest.raises(ValueError, match=r"Expected truth of the shape of x, \(3, 4, 2\), got \(3, 4\)"):
        check_truth(np.ones((N, T)), (N, T, D))
    with pytest.raises(ValueError, match="Expected channels as a list of names, got the text 'flow'"):
        check_names("flow", "channels", 4)
    with pytest.raises(ValueError, match="Expected one name for each of 2 in channels, or none, got 3"):
        check_names(["a", "b", "c"], "channels", 2)
    assert check_names(["m", "m"], "units", 2, unique=False) == ("m", "m")
    assert check_scaling((1, np.array([2.0, 3.0])), 2) == ((1.0,), (2.0, 3.0))
    with pytest.raises(ValueError, match="Expected scaling as one number or 2, one per channel, got 3"):
        check_scaling(([1.0, 2.0, 3.0], 1.0), 2)
    for scaling in (5, (1, 2, 3)):
        with pytest.raises(ValueError, match=r"Expected scaling as \(offset, scale\), got"):
            check_scaling(scaling)
    for scaling in ((0, 0), (np.nan, 1)):
        with pytest.raises(ValueError, match="a finite offset and a finite scale other than 0"):
            check_scaling(scaling)
    with pytest.raises(ValueError, match="Expected channels as a list of names, got 3"):
        check_names(3, "channels")


def test_sampling_rates():
    assert check_rate(np.float32(2)) == 2
    for rate in (0, -1, np.nan, np.inf, "100", True):
        with pytest.raises(ValueError, match="Expected sampling_rate as a positive number of steps per second"):
            check_rate(rate)


def test_warnings_point_at_the_users_line():
    with pytest.warns(UserWarning, match="look here") as caught:
        warn_caller("look here")
    assert caught[0].filename == __file__
