"""Damaged files: whatever a disk or a stranger did to a file, reading it works or gives one `ValueError` that names it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from timex.io.explanations import read_explanation, write_explanation
from timex.io.files import read_series, write_series

CASES = ("series.npz", "series.parquet", "wide.parquet", "series.csv", "wide.csv", "series.ts")
CASES += ("explanation.npz", "explanation.parquet", "explanation.csv")


@pytest.fixture
def written(tmp_path, explanation):
    """Write the file of a case, and say how to read it."""

    def write(name):
        path = tmp_path / name
        if name.startswith("explanation"):
            return write_explanation(path, explanation), read_explanation
        series = replace(explanation.series, units=("bpm", "", "%"), scaling=((1.0,), (2.0,)))
        if name.endswith(".ts"):
            times = np.where(series.times > 0, np.arange(1, series.shape[1] + 1), 0)
            series = replace(series, truth=None, times=times)
        return write_series(path, series, "wide" if name.startswith("wide") else "long"), read_series

    return write


def damaged(whole: bytes, seed: int) -> bytes:
    """The bytes cut short, with flipped bits, with random bytes in the middle, or with a part left out."""
    rng = np.random.default_rng(seed)
    data = bytearray(whole)
    first, last = sorted(rng.integers(0, len(data), 2))
    match seed % 4:
        case 0:
            del data[first:]
        case 1:
            for i in rng.integers(0, len(data), rng.integers(1, 9)):
                data[i] ^= 1 << int(rng.integers(8))
        case 2:
            data[first : first + 16] = rng.bytes(int(rng.integers(1, 17)))
        case _:
            del data[first:last]
    return bytes(data)


def check(path, read, seeds):
    whole = path.read_bytes()
    refused = []
    for seed in seeds:
        path.write_bytes(damaged(whole, seed))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(path)
        except ValueError as error:
            refused.append(str(error))
    assert [message for message in refused if not message.startswith(str(path))] == []
    assert len(refused) > len(seeds) / 2


@pytest.mark.parametrize("name", CASES)
def test_damaged_files_are_read_or_refused_by_name(written, name):
    check(*written(name), range(120))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_thousands_of_damaged_files(written, name):
    check(*written(name), range(1000, 3000))


@pytest.mark.parametrize("name", ["series.npz", "series.parquet", "explanation.npz", "explanation.parquet"])
def test_a_flipped_bit_never_changes_a_value(written, name):
    path, read = written(name)
    expected, whole = read(path), path.read_bytes()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        try:
            got = read(path)
        except ValueError:
            continue
        np.testing.assert_array_equal(got.x, expected.x, err_msg=str(seed))


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv", ".ts"])
def test_random_and_empty_files(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    for size in (0, 1, 4, 100, 5000):
        path.write_bytes(np.random.default_rng(size).bytes(size))
        with pytest.raises(ValueError, match=f"data{suffix}"):
            read_series(path)


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "data.npz").mkdir()
    with pytest.raises(FileNotFoundError, match="found none at"):
        read_series(tmp_path / "data.npz")


def test_a_pickle_inside_an_npz_is_never_loaded(tmp_path):
    class Exploit:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((2, 3, 1)), channels=np.array([Exploit()], dtype=object))
    with pytest.raises(ValueError, match=r"channels\.npy holds Python objects"):
        read_series(path)
