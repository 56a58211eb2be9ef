"""Explanations in files: every format keeps the series' ids, labels, truth and times, and what the explainer found."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

from timex.io.explanations import read_explanation, write_explanation
from timex.io.files import read_series
from timex.records import Explanation, Series

N, T, D = 4, 6, 3


def assert_same(got: Explanation, expected: Explanation) -> None:
    for left, right in ((got, expected), (got.series, expected.series)):
        for f in fields(left):
            a, b = getattr(left, f.name), getattr(right, f.name)
            if isinstance(b, np.ndarray):
                assert a.dtype == b.dtype, f.name
                np.testing.assert_array_equal(a, b, err_msg=f.name)
            elif f.name != "series":
                assert a == b, f.name


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_round_trip_keeps_every_bit(tmp_path, suffix, explanation):
    assert_same(read_explanation(write_explanation(tmp_path / f"e{suffix}", explanation)), explanation)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_round_trip_of_the_least_there_can_be(tmp_path, suffix):
    rng = np.random.default_rng(2)
    series = Series(rng.normal(size=(N, T, D)), channels=("a", "b", "c"), ids=("0", "1", "2", "3"), classes=("no", "yes"))
    least = Explanation(
        series=series,
        attribution=rng.random((N, T, D)).astype(np.float32),
        prediction=np.array([1, 1, 0, 1]),
        probability=np.full((N, 2), 0.5, np.float32),
    )
    got = read_explanation(write_explanation(tmp_path / f"e{suffix}", least))
    assert_same(replace(got, method=""), least)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_numbers_of_a_regression_stay(tmp_path, suffix):
    rng = np.random.default_rng(3)
    e = Explanation(
        series=Series(rng.normal(size=(N, T, D))),
        attribution=rng.random((N, T, D)).astype(np.float32),
        prediction=np.zeros(N, np.int64),
        probability=np.ones((N, 1), np.float32),
        numbers=rng.normal(size=(N, 12)).astype(np.float32),
    )
    got = read_explanation(write_explanation(tmp_path / f"e{suffix}", e))
    np.testing.assert_array_equal(got.numbers, e.numbers)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_the_file_is_a_file_of_its_series_too(tmp_path, suffix, explanation):
    series = read_series(write_explanation(tmp_path / f"e{suffix}", explanation), classes=explanation.classes)
    assert_same(replace(explanation, series=series), explanation)


def test_units_and_scaling_stay_in_npz_and_parquet(tmp_path, explanation):
    facts = {"units": ("bpm", "%", ""), "sampling_rate": 4.0, "scaling": ((1.0,), (2.0,))}
    explanation = replace(explanation, series=replace(explanation.series, **facts))
    for suffix in (".npz", ".parquet"):
        assert_same(read_explanation(write_explanation(tmp_path / f"e{suffix}", explanation)), explanation)


def test_a_row_of_the_table_by_hand(tmp_path, explanation):
    frame = pd.read_csv(write_explanation(tmp_path / "e.csv", explanation), keep_default_na=False)
    assert len(frame) == (T + T + 4 + T) * D
    row = frame[(frame["sample"] == "007") & (frame["channel"] == "spo2")].iloc[2]
    assert float(row["time"]) == pytest.approx(float(explanation.times[1, 2]))
    assert float(row["attribution"]) == pytest.approx(float(explanation.attribution[1, 2, 1]))
    assert (row["label"], row["prediction"], row["landmark"], row["agreement"], row["method"]) == ("rest", "NA", 0, 0, "ig")
    assert float(row["probability:jump"]) == pytest.approx(float(explanation.probability[1, 4]))
    assert (row["truth"], row["mask"]) == (explanation.series.truth[1, 2, 1], explanation.mask[1, 2, 1])


def test_words_of_errors(tmp_path, explanation):
    with pytest.raises(ValueError, match=r"ending in \.npz, \.parquet, \.csv, got 'e\.ts'"):
        write_explanation(tmp_path / "e.ts", explanation)
    with pytest.raises(FileNotFoundError, match=r"found none at .*e\.csv"):
        read_explanation(tmp_path / "e.csv")
    path = tmp_path / "series.csv"
    path.write_text("sample,time,channel,value\n0,1,a,2\n0,2,a,2\n")
    with pytest.raises(ValueError, match=r"series\.csv: Expected a table .* without attribution, prediction, method, prob"):
        read_explanation(path)
    frame = pd.read_csv(write_explanation(path, explanation), keep_default_na=False)
    frame.loc[5, "attribution"] = np.nan
    frame.to_csv(path, index=False, na_rep="NaN")
    with pytest.raises(ValueError, match=r"Found nan in the column 'attribution', row 5\. Expected a finite number"):
        read_explanation(path)
    np.savez(tmp_path / "series.npz", x=np.zeros((2, 3, 1)))
    with pytest.raises(ValueError, match=r"is no saved explanation: it lacks attribution, prediction, probability, series\.x"):
        read_explanation(tmp_path / "series.npz")
