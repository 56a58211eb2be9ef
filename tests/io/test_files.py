"""Files in, files out: round trips of every format, hand-written files, and the words of the errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from timex.io.files import read_series, write_series
from timex.records import Series

N, T, D = 4, 6, 3
TABLES = [(".parquet", "long"), (".parquet", "wide"), (".csv", "long"), (".csv", "wide")]


def make(regular: bool = True, truth: bool = True, labels: bool = True) -> Series:
    """Float32 values over many magnitudes, missing cells, a missing step, and lengths 6, 4, 5, 6."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(N, T, D)) * 10.0 ** rng.integers(-6, 7, size=(N, T, D))).astype(np.float32)
    observed = rng.random((N, T, D)) < 0.8
    observed[:, 0] = True
    observed[0, 2] = False  # a step that nobody measured
    observed[3, -1] = False  # the same at the end: a step, since it has a time
    times = np.tile(np.arange(1, T + 1, dtype=np.float32), (N, 1))
    if not regular:
        times = np.cumsum(rng.random((N, T)).astype(np.float32) + np.float32(0.1), axis=1) - np.float32(0.7)
    for i, length in {1: 4, 2: 5}.items():
        observed[i, length:] = False
        times[i, length:] = 0
    return Series(
        x,
        times,
        observed,
        y=np.array([2, 0, 2, 1]) if labels else None,
        truth=(rng.random((N, T, D)) < 0.3) & observed if truth else None,
        channels=("pulse, left", "channel", "z") if not regular else ("a", "b", "c"),
        classes=("rest", "run", "walk") if labels else (),
        ids=("s-3", "007", "NA", "s 1"),
    )


def assert_same(got: Series, expected: Series, names: bool = True) -> None:
    """Equal arrays and class names, and equal channel and sample names if the format keeps them."""
    for name in ("x", "times", "observed", "y", "truth"):
        left, right = getattr(got, name), getattr(expected, name)
        if right is None:
            assert left is None, name
        else:
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right, err_msg=name)
    assert got.classes == expected.classes
    if names:
        assert (got.channels, got.ids) == (expected.channels, expected.ids)


def text_file(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize(("suffix", "layout"), [(".npz", "long"), *TABLES])
@pytest.mark.parametrize("truth", [True, False])
def test_round_trip_keeps_every_bit(tmp_path, suffix, layout, truth):
    series = make(truth=truth)
    assert_same(read_series(write_series(tmp_path / f"data{suffix}", series, layout)), series)


@pytest.mark.parametrize(("suffix", "layout"), [(".npz", "long"), (".parquet", "long"), (".csv", "long")])
def test_round_trip_of_irregular_times_odd_names_and_no_labels(tmp_path, suffix, layout):
    series = make(regular=False, labels=False)
    assert_same(read_series(write_series(tmp_path / f"data{suffix}", series, layout)), series)


@pytest.mark.parametrize("labels", [True, False])
def test_round_trip_of_ts(tmp_path, labels):
    series = make(truth=False, labels=labels)
    got = read_series(write_series(tmp_path / "my data.ts", series))
    assert_same(got, series, names=False)
    assert (got.channels, got.ids) == ((), ())


@pytest.mark.parametrize(("suffix", "layout"), TABLES)
def test_round_trip_of_a_sample_without_any_cell(tmp_path, suffix, layout):
    series = make(truth=False)
    observed, times = series.observed.copy(), series.times.copy()
    observed[1], times[1] = False, 0
    series = replace(series, observed=observed, times=times)
    assert_same(read_series(write_series(tmp_path / f"data{suffix}", series, layout)), series)


def test_parquet_keeps_the_order_of_classes_and_those_without_a_sample(tmp_path):
    series = replace(make(), classes=("walk", "2", "rest", "jump"))
    for layout in ("long", "wide"):
        assert_same(read_series(write_series(tmp_path / "data.parquet", series, layout)), series)


def test_reading_and_writing_agree_with_a_slow_loop(tmp_path):
    series = make(regular=False)
    frame = pd.read_csv(write_series(tmp_path / "data.csv", series), keep_default_na=False, dtype=str)
    cells = {(r.sample, r.channel, float(r.time)): r for r in frame.itertuples()}
    for i, name in enumerate(series.ids):
        for t in range({1: 4, 2: 5}.get(i, T)):
            for k, channel in enumerate(series.channels):
                row = cells.pop((name, channel, float(f"{series.times[i, t]:.9g}")))
                assert row.label == series.classes[series.y[i]]
                assert row.truth == str(int(series.truth[i, t, k]))
                assert (row.value != "") == series.observed[i, t, k]
                assert row.value == "" or np.float32(row.value) == series.x[i, t, k]
    assert not cells


# --------------------------------------------------------------------------------------------------- hand-written files


def test_long_csv_by_hand(tmp_path):
    path = text_file(
        tmp_path,
        "data.csv",
        "sample,time,channel,value,label,truth\n"
        "b,0.5,hr,60,sick,\n"
        "b,2,hr,62,sick,True\n"  # no spo2 at time 2
        "b,0.5,spo2,97,sick,False\n"
        "a,3,hr,71,well,0\n"  # a's rows come out of order
        "a,1,spo2,?,well,0\n"
        "a,2,hr,70,well,1\n",
    )
    s = read_series(path)
    assert (s.ids, s.channels, s.classes) == (("b", "a"), ("hr", "spo2"), ("sick", "well"))
    np.testing.assert_array_equal(s.x, [[[60, 97], [62, 0], [0, 0]], [[0, 0], [70, 0], [71, 0]]])
    np.testing.assert_array_equal(s.times, [[0.5, 2, 0], [1, 2, 3]])
    np.testing.assert_array_equal(s.observed, [[[1, 1], [1, 0], [0, 0]], [[0, 0], [1, 0], [1, 0]]])
    np.testing.assert_array_equal(s.truth, [[[0, 0], [1, 0], [0, 0]], [[0, 0], [1, 0], [0, 0]]])
    np.testing.assert_array_equal(s.y, [0, 1])


def test_wide_csv_by_hand(tmp_path):
    path = text_file(
        tmp_path,
        "data.csv",
        "sample, time, x, y, label, truth\n7, 1, 1.5, , 2, 0\n7, 2, NaN, 4, 2, 1\n8, 1, 5, 6, 0, 0\n",
    )
    s = read_series(path)
    assert (s.ids, s.channels, s.classes) == (("7", "8"), ("x", "y"), ("0", "1", "2"))
    np.testing.assert_array_equal(s.x, [[[1.5, 0], [0, 4]], [[5, 6], [0, 0]]])
    np.testing.assert_array_equal(s.observed, [[[1, 0], [0, 1]], [[1, 1], [0, 0]]])
    np.testing.assert_array_equal(s.truth, [[[0, 0], [1, 1]], [[0, 0], [0, 0]]])
    np.testing.assert_array_equal(s.y, [2, 0])  # whole numbers are class numbers and stay what they are


def test_a_wide_csv_of_one_channel_called_value(tmp_path):
    s = read_series(text_file(tmp_path, "data.csv", "sample,time,value\n0,1,3\n0,2,4\n"))
    assert s.channels == ("value",)
    assert s.y is None
    np.testing.assert_array_equal(s.x, [[[3], [4]]])


def test_ts_by_hand(tmp_path):
    path = text_file(
        tmp_path,
        "Toy_TRAIN.ts",
        "# a comment\n@problemName Toy\n@timeStamps false\n@univariate false\n@dimensions 2\n@equalLength false\n"
        "@classLabel true up down\n\n@data\n1,2,?:4,5,6:down\n# in between\n7,8:9,1e1:up\n",
    )
    s = read_series(path)
    np.testing.assert_array_equal(s.x, [[[1, 4], [2, 5], [0, 6]], [[7, 9], [8, 10], [0, 0]]])
    np.testing.assert_array_equal(s.observed, [[[1, 1], [1, 1], [0, 1]], [[1, 1], [1, 1], [0, 0]]])
    np.testing.assert_array_equal(s.times, [[1, 2, 3], [1, 2, 0]])
    np.testing.assert_array_equal(s.y, [1, 0])
    assert s.classes == ("up", "down")


def test_ts_as_written(tmp_path):
    series = Series.with_gaps([[[1.5, 0.1], [np.nan, 3]], [[2, 4], [1e-20, 5]]], y=[1, 0], classes=("no", "yes"))
    assert write_series(tmp_path / "toy set.ts", series).read_text() == (
        "@problemName toy_set\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n@equalLength true\n"
        "@seriesLength 2\n@classLabel true no yes\n@data\n1.5,?:0.100000001,3:yes\n2,9.99999968e-21:4,5:no\n"
    )


def test_npz_by_hand(tmp_path):
    x = np.arange(24.0).reshape(2, 4, 3)
    x[1, 2, 0] = np.nan
    np.savez(tmp_path / "data.npz", X=x, y=np.array(["b", "a"]), channels=np.array(["p", "q", "r"]))
    s = read_series(tmp_path / "data.npz")
    np.testing.assert_array_equal(s.observed, ~np.isnan(x))
    np.testing.assert_array_equal(s.times, [[1, 2, 3, 4]] * 2)
    np.testing.assert_array_equal(s.y, [1, 0])
    assert (s.classes, s.channels, s.ids) == (("a", "b"), ("p", "q", "r"), ())


def test_parquet_with_sample_and_time_as_index(tmp_path):
    frame = pd.DataFrame({"sample": [3, 3], "time": [1, 2], "a": [1, 2], "label": [1.0, 1.0]})
    frame.set_index(["sample", "time"]).to_parquet(tmp_path / "data.parquet")
    s = read_series(tmp_path / "data.parquet")
    np.testing.assert_array_equal(s.x, [[[1], [2]]])
    assert (s.ids, s.classes, s.y.tolist()) == (("3",), ("0", "1"), [1])


def test_npz_and_parquet_keep_everything(tmp_path):
    everything = {"units": ("mV", "", "s"), "sampling_rate": 12.5, "scaling": ((1.0, 2.0, -3.0), (0.5, 1.0, 4.0))}
    series = replace(make(regular=False), **everything)
    for name in ("data.npz", "long.parquet"):
        got = read_series(write_series(tmp_path / name, series))
        assert_same(got, series)
        assert {name: getattr(got, name) for name in everything} == everything
    picked = read_series(tmp_path / "data.npz", channels=("z", "channel"))
    assert (picked.units, picked.scaling) == (("s", ""), ((-3.0, 2.0), (4.0, 1.0)))


def test_a_csv_and_a_ts_hold_no_units(tmp_path):
    series = replace(make(truth=False), units=("mV", "", "s"), sampling_rate=2.0)
    for suffix in (".csv", ".ts"):
        got = read_series(write_series(tmp_path / f"data{suffix}", series))
        assert (got.units, got.sampling_rate, got.scaling) == ((), None, None)


def test_times_too_large_for_float32_count_from_the_first_step(tmp_path):
    path = text_file(tmp_path, "data.csv", "sample,time,a\n0,1700000000,2\n0,1700000001,3\n0,1700000003,4\n")
    np.testing.assert_array_equal(read_series(path).times, [[0, 1, 3]])


def test_unnamed_channels_and_samples_get_numbers_in_a_table(tmp_path):
    series = Series(np.arange(12).reshape(2, 3, 2), y=[0, 2])
    got = read_series(write_series(tmp_path / "data.csv", series))
    assert (got.channels, got.ids, got.classes) == (("channel_0", "channel_1"), ("0", "1"), ("0", "1", "2"))
    np.testing.assert_array_equal(got.x, series.x)


# ---------------------------------------------------------------------------------------------------- classes, channels


@pytest.mark.parametrize(
    ("labels", "classes", "y", "names"),
    [
        (("c", "a"), None, [1, 0], ("a", "c")),
        (("c", "a"), ("c", "b", "a"), [0, 2], ("c", "b", "a")),
        (("2", "0"), None, [2, 0], ("0", "1", "2")),
        (("1", "0"), ("no", "yes"), [1, 0], ("no", "yes")),
        (("10", "-2"), None, [1, 0], ("-2", "10")),
        (("1", "2"), ("1", "2"), [0, 1], ("1", "2")),
    ],
)
def test_how_labels_become_numbers(tmp_path, labels, classes, y, names):
    rows = "".join(f"{i},{t},0,{label}\n" for i, label in enumerate(labels) for t in range(2))
    s = read_series(text_file(tmp_path, "data.csv", "sample,time,a,label\n" + rows), classes=classes)
    assert (s.y.tolist(), s.classes) == (y, names)


def test_channels_in_the_order_asked_for(tmp_path):
    series = make()
    got = read_series(write_series(tmp_path / "data.csv", series), channels=("c", "a"))
    np.testing.assert_array_equal(got.x, series.x[:, :, [2, 0]])
    np.testing.assert_array_equal(got.truth, series.truth[:, :, [2, 0]])
    with pytest.raises(ValueError, match=r"Expected the channels \['a', 'q'\], found \['a', 'b', 'c'\]"):
        read_series(tmp_path / "data.csv", channels=("a", "q"))


def test_unnamed_channels_are_taken_in_their_order(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 4, 3)))
    assert read_series(tmp_path / "data.npz", channels=("p", "q", "r")).channels == ("p", "q", "r")
    with pytest.raises(ValueError, match=r"Expected the channels \['p', 'q'\], found 3 without names"):
        read_series(tmp_path / "data.npz", channels=("p", "q"))


def test_an_npz_that_numbers_its_classes_in_another_order(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 4, 2)), y=[0, 1, 1], classes=["walk", "rest"])
    assert read_series(tmp_path / "data.npz").y.tolist() == [0, 1, 1]
    got = read_series(tmp_path / "data.npz", classes=("rest", "run", "walk"))
    assert (got.y.tolist(), got.classes) == ([2, 0, 0], ("rest", "run", "walk"))
    with pytest.raises(ValueError, match=r"Expected labels among the classes \['rest', 'run'\], got \['walk'\]"):
        read_series(tmp_path / "data.npz", classes=("rest", "run"))


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"Found the columns \[\]"),
        ("a;b\n1;2\n", r"Found the columns \['a;b'\]. Expected a long table with the columns sample, time, channel"),
        ("sample,time,channel\n0,1,a\n", "Found the columns .* Expected a long table"),
        ("sample,time,label\n0,1,a\n", "and so no channel"),
        ("sample,time,a\n", "Found no rows"),
        (",sample,time,a\n0,0,1,2\n", r"leave out the row numbers \(pandas: to_csv\(path, index=False\)\)"),
        ("sample,time,a,a\n0,1,2,3\n", "Expected distinct names"),
        ("sample,time,a\n0,1,2,3\n0,2,2,3\n", "Could not be read as a comma-separated table"),
        ("sample,time,a\n0,1,2\n,2,2\n", "Found no sample in row 1"),
        ("sample,time,a\n0,1,2\n0,,2\n", "Found no finite time in row 1"),
        ("sample,time,a\n0,2024-01-01,2\n", "'2024-01-01' in the column 'time', row 0. .* since the sample's start"),
        ("sample,time,a\n0,1,2\n0,2,high\n", "Found 'high' in the column 'a', row 1"),
        ("sample,time,a\n0,1,2\n0,2,1e99\n", "Expected finite values, got inf"),
        ("sample,time,a\n0,1,2\n", "2 time steps"),
        ("sample,time,a\n0,1,2\n0,1,3\n", r"more than one row for sample 0, time 1 \(1 such rows\)"),
        (
            "sample,time,channel,value\ns,1,a,2\ns,1,b,2\ns,1,a,2\n",
            "more than one row for sample s, time 1, channel a .* Expected one row per sample, time, channel",
        ),
        ("sample,time,a,label\ns1,1,2,x\ns2,1,2,x\ns2,2,2,y\n", "the labels 'x' and 'y' for the sample 's2'"),
        ("sample,time,a,label\ns1,1,2,x\ns1,2,2,\n", "no label in a row of the sample 's1'"),
        ("sample,time,a,label\n0,1,2,99999\n0,2,2,99999\n", "class numbers 0..C-1, got 99999"),
        ("sample,time,a,truth\n0,1,2,maybe\n", r"Found \['maybe'\] in the column 'truth'"),
        ("sample,time,a,truth:b\n0,1,2,1\n", r"truth: columns for the channels \['b'\], which it does not have"),
    ],
)
def test_words_of_csv_errors(tmp_path, text, words):
    path = text_file(tmp_path, "data.csv", text)
    with pytest.raises(ValueError, match=words) as caught:
        read_series(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_labels_outside_the_classes_given(tmp_path):
    path = write_series(tmp_path / "data.csv", make())
    with pytest.raises(ValueError, match=r"Expected labels among the classes \['run', 'walk'\], got \['rest'\]"):
        read_series(path, classes=("run", "walk"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2:a\n", "line 1 is '1,2:a' before any @data"),
        ("@classLabel true a\n", "Found no line @data"),
        ("@classLabel true a\n@data\n", "Found no line of data"),
        ("@timeStamps true\n@data\n(0,1),(1,2):a\n", "@timeStamps true, which is not supported: convert it to"),
        ("@targetLabel true\n@data\n1,2:0.5\n", "a regression target"),
        ("@classLabel true a\n@data\n1,2\n", "line 3 has no label after the last ':'"),
        ("@classLabel true a\n@data\n1,x:a\n", "line 3: could not convert string to float: 'x'"),
        ("@classLabel true a b\n@data\n1,2:c\n", r"Found the labels \['c'\]. Expected those that @classLabel lists"),
        ("@dimensions 2\n@data\n1,2\n", r"Found samples of 1 channels \(the header says 2\)"),
        ("@data\n1,2\n1,2:3,4\n", "Found samples of 1 and 2 channels"),
    ],
)
def test_words_of_ts_errors(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        read_series(text_file(tmp_path, "data.ts", text))


def test_words_of_npz_errors(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"x\.npy holds Python objects\. Loading them can run any code"):
        read_series(path)
    np.savez(path, data=np.zeros(3))
    with pytest.raises(ValueError, match=r"data.npz: Found no array x. Expected an array x of shape"):
        read_series(path)
    np.savez(path, x=np.zeros(5))
    with pytest.raises(ValueError, match=r"data.npz: Expected x of shape \(N, T, D\), .* got \(5,\)"):
        read_series(path)
    path.write_bytes(np.zeros((5, 4)).dumps())
    with pytest.raises(ValueError, match=r"No \.npz archive"):
        read_series(path)


def test_words_of_parquet_errors(tmp_path):
    path = text_file(tmp_path, "data.parquet", "no parquet")
    with pytest.raises(ValueError, match="Could not be read as a parquet table"):
        read_series(path)
    pd.DataFrame({"sample": [0], "time": [pd.Timestamp(2024, 1, 1)], "a": [1]}).to_parquet(path)
    with pytest.raises(ValueError, match="Found dates in the column 'time'"):
        read_series(path)


def test_a_column_of_lists_is_refused(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame({"sample": [0, 0], "time": [1, 2], "a": [[1.0, 2.0], [3.0]]}).to_parquet(path)
    with pytest.raises(ValueError, match=r"Found list<.*> in the column 'a'. Expected one number or text per row"):
        read_series(path)


def test_unknown_suffix_layout_and_missing_file(tmp_path):
    for call in (read_series, lambda path: write_series(path, make())):
        with pytest.raises(ValueError, match=r"ending in \.npz, \.parquet, \.csv, \.ts, got 'data\.xlsx'"):
            call(tmp_path / "data.xlsx")
    with pytest.raises(ValueError, match="Expected layout 'long' or 'wide', got 'tall'"):
        write_series(tmp_path / "data.csv", make(), layout="tall")
    with pytest.raises(FileNotFoundError, match=r"found none at .*data\.csv"):
        read_series(tmp_path / "data.csv")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"channels": ("a", "a", "b")}, "Expected different names in channels, got 'a' twice"),
        ({"channels": ("a", "b")}, "Expected one name for each of 3 in channels, or none, got 2"),
        ({"ids": ("1", "2", "3")}, "Expected one name for each of 4 in ids, or none, got 3"),
        ({"classes": ("a", "b")}, r"Expected labels 0\.\.1, got 0\.\.2"),
        ({"truth": np.zeros((N, T))}, r"Expected truth of the shape of x, \(4, 6, 3\), got \(4, 6\)"),
    ],
)
def test_a_series_that_does_not_fit_itself(change, words):
    with pytest.raises(ValueError, match=words):
        replace(make(), **change)


@pytest.mark.parametrize(
    ("suffix", "layout", "change", "words"),
    [
        (".ts", "long", {}, "cannot hold truth"),
        (
            ".ts",
            "long",
            {"truth": None, "classes": ("a b", "c", "d")},
            r"class names with spaces or ':', got \['a b'\]",
        ),
        (".ts", "long", {"truth": None, "times": np.tile(np.arange(2, T + 2), (N, 1))}, "times other than 1, 2"),
        (".csv", "wide", {"channels": ("a", "label", "truth:a")}, r"wide table, got \['label', 'truth:a'\]"),
        (".parquet", "long", {"times": np.ones((N, T))}, "Expected times that increase"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_the_old_file_stays(tmp_path, suffix, layout, change, words):
    path = text_file(tmp_path, f"data{suffix}", "old")
    with pytest.raises(ValueError, match=words):
        write_series(path, replace(make(), **change), layout)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "old"


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv", ".ts"])
def test_a_failing_write_leaves_no_partial_file(tmp_path, monkeypatch, suffix):
    def full(*paths):
        raise OSError("disk full")

    monkeypatch.setattr("timex.io.atomic.os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_series(tmp_path / f"data{suffix}", make(truth=False))
    assert list(tmp_path.iterdir()) == []
