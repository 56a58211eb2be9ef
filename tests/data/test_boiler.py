"""Boiler: both layouts by hand, windows inside days, parts without a common row."""

import numpy as np
import pandas as pd
import pytest

from timex.data import load_dataset
from timex.data.boiler import BLOCK, BOILER, LABEL, window_ends
from timex.data.prepare import prepare

SENSORS = [f"sensor {k}" for k in range(20)]


def table(boiler, n, rng):
    """Sensor 0 counts the rows of all boilers, so that a window tells where it is from."""
    x = rng.random((n, 20)).round(4)
    x[:, 0] = boiler * 10000 + np.arange(n)
    frame = pd.DataFrame(x, columns=SENSORS)
    frame.insert(0, "TIME", "11hh30mm")
    frame.insert(0, "boiler_no", boiler)
    frame[LABEL] = (np.arange(n) // 48 % 3 == 0).astype(int)
    return frame


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "Boiler"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for boiler, n in ((1, 970), (2, 1000)):
        table(boiler, n, rng).to_csv(folder / f"{boiler}.csv", index=False)
    return folder


def test_the_papers_layout_is_six_nested_suffixes(source, cache):
    facts, _ = prepare(BOILER, source)
    assert (facts["rows"], facts["boilers"]) == (1970, 2)
    data = load_dataset("boiler")
    assert data.train.x.shape[1:] == (36, 20)
    for part in (data.train, data.val, data.test):
        row = part.x[:, :, 0].reshape(-1, 6, 6)  # (n, suffix, place)
        last = row[:, 0, 0]
        for length in range(1, 7):
            assert (row[:, length - 1, length:] == 0).all()
            expected = last[:, None] - np.arange(length - 1, -1, -1)
            assert (row[:, length - 1, :length] == expected).all()


def test_plain_windows_are_36_rows_and_no_row_is_in_two_parts(source, cache):
    prepare(BOILER, source)
    for fold in range(5):
        data = load_dataset("boiler_plain", fold=fold)
        rows = []
        for part in (data.train, data.val, data.test):
            count = part.x[:, :, 0]
            assert (np.diff(count, axis=1) == 1).all()
            assert (part.y == ((count[:, -1] % 10000) // 48 % 3 == 0)).all()  # the label of the last row
            rows.append(set(count.ravel()))
        assert sum(map(len, rows)) == len(set.union(*rows))
        assert all(set(np.array(sorted(r)) // 10000) == {1, 2} for r in rows)  # every boiler in every part


def test_windows_do_not_cross_a_day_or_a_boiler():
    series = np.repeat([0, 1], [BLOCK + 5, 2 * BLOCK])
    ends, block = window_ends(series, length=6)
    slow = []
    for i in range(len(series)):
        start = 0 if series[i] == 0 else BLOCK + 5
        if i - 5 >= start and (i - start) // BLOCK == (i - 5 - start) // BLOCK:
            slow.append((i, series[i], (i - start) // BLOCK))
    assert ends.tolist() == [i for i, *_ in slow]
    assert len(set(zip(block.tolist(), ((s, b) for _, s, b in slow), strict=True))) == len(set(block)) == 3


def test_foreign_tables_are_named_and_the_cache_untouched(tmp_path, cache):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.csv").write_text("date,HUFL\n1,2\n")
    with pytest.raises(ValueError, match=r"Expected .*a\.csv with the columns boiler_no, TIME, 20 sensors"):
        prepare(BOILER, folder)
    np.savez(folder / "boiler.npz", a=1)
    with pytest.raises(ValueError, match="is no compact Boiler file"):
        prepare(BOILER, folder)
    assert not cache.exists()


def test_missing_values_are_named(source, cache):
    path = source / "1.csv"
    frame = pd.read_csv(path)
    frame.loc[3, "sensor 4"] = np.nan
    frame.to_csv(path, index=False)
    with pytest.raises(ValueError, match="Expected finite sensors"):
        prepare(BOILER, source)


@pytest.mark.slow
def test_real_rows(shared, cache):
    facts, _ = prepare(BOILER, shared)
    assert facts["rows"] == 53628
    assert facts["faults_per_boiler"] == {"0": 669, "1": 676, "2": 6084}
    data = load_dataset("boiler")
    assert "Steam Pressure" in data.channels
    assert 0.1 < data.test.y.mean() < 0.2
