"""ETTh1: windows of the past and the hours after, part by part."""

import numpy as np
import pandas as pd
import pytest

from timex.data.ett import COLUMNS, ETT, MONTH, ROWS, load_ett
from timex.data.prepare import prepare


@pytest.fixture
def frame():
    """The oil temperature counts the hours."""
    table = pd.DataFrame(np.zeros((ROWS, 6)), columns=COLUMNS[1:-1]).assign(OT=np.arange(ROWS, dtype=float))
    table.insert(0, "date", pd.date_range("2016-07-01", periods=ROWS, freq="h"))
    return table


def test_windows_and_parts(frame, tmp_path, cache):
    frame.to_csv(tmp_path / "ETTh1.csv", index=False)
    prepare(ETT, tmp_path)
    parts = load_ett(past=48, ahead=6, stride=5)
    known = np.arange(12 * MONTH)
    for name, (first, last) in {"train": (0, 12), "val": (12, 16), "test": (16, 20)}.items():
        x, y = (np.round(v[:, :, 0] * known.std() + known.mean()) for v in parts[name])
        assert x.shape[1:] == (48,)
        assert y.shape[1:] == (6,)
        assert (y[:, 0] == x[:, -1] + 1).all()
        assert (np.diff(x[:, 0]) == 5).all()
        assert y.min() >= first * MONTH
        assert y.max() < last * MONTH
        if first:
            assert y.min() == first * MONTH  # looks back into the part before
    assert len(load_ett()["train"].x) == 12 * MONTH - 720 - 24 + 1


def test_windows_that_do_not_fit_are_named(frame, tmp_path, cache):
    frame.to_csv(tmp_path / "ETTh1.csv", index=False)
    prepare(ETT, tmp_path)
    with pytest.raises(ValueError, match="Expected windows that fit into 12 months"):
        load_ett(past=12 * MONTH)


def test_foreign_tables_are_named_and_the_cache_untouched(frame, tmp_path, cache):
    source = tmp_path / "source"
    source.mkdir()
    for change, words in (
        (lambda f: f.rename(columns={"OT": "temperature"}), "with the columns date, HUFL"),
        (lambda f: f.drop(index=7), "Expected 17,420 hourly rows without gaps"),
        (lambda f: f.assign(OT=f["OT"].where(f["OT"] != 3)), "without gaps"),
    ):
        change(frame).to_csv(source / "ETTh1.csv", index=False)
        with pytest.raises(ValueError, match=words):
            prepare(ETT, source)
    assert not cache.exists()


@pytest.mark.slow
def test_real_hours(shared, cache):
    facts, _ = prepare(ETT, shared)
    assert facts["rows"] == ROWS
    parts = load_ett(stride=24)
    assert parts["train"].x.shape[1:] == (720, 1)
