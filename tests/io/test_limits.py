"""A small file cannot ask for much memory: every way to ask is refused before the memory is taken."""

from __future__ import annotations

import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest

from timex.io.arrays import read_arrays
from timex.io.files import read_series
from timex.io.limits import FLOOR, Limit

ALLOWED = 40 * 2**20
"""Bytes that a refused file may take: the text of the file in Python objects."""


def long_csv(path):
    """20,000 samples of two steps, each with a channel of its own."""
    rows = "".join(f"{i},{i},c{i},1\n{i},{i + 1},c{i},1\n" for i in range(20_000))
    path.write_text("sample,time,channel,value\n" + rows)


def ragged_csv(path):
    """A wide table of 5,000 channels whose 100,000 rows have one field or two."""
    path.write_text("sample,time," + ",".join(f"c{k}" for k in range(5000)) + "\n" + "0,1\n" * 100_000)


def ragged_ts(path):
    """20,000 samples of one value and one of 20,000."""
    path.write_text("@classLabel false\n@data\n" + "1\n" * 20_000 + ",".join(["1"] * 20_000) + "\n")


def zip_bomb(path):
    """300 MB of zeros in 300 kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (300, 250, 1000)})
        for _ in range(300):
            file.write(bytes(1_000_000))


def lying_header(path):
    """Eight bytes of data under a header of a petabyte."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**5, 1)})
        file.write(bytes(8))


def long_parquet(path):
    """Two million equal rows, which run-length encoding packs into a few kilobytes."""
    n = 2_000_000
    columns = {"sample": np.zeros(n, np.int8), "time": np.zeros(n, np.int8), "a": np.zeros(n, np.int8)}
    pd.DataFrame(columns).to_parquet(path, compression="zstd")


@pytest.mark.parametrize(
    ("name", "write", "words", "limit"),
    [
        ("data.csv", long_csv, r"20000 samples x 2 steps x 20000 channels, which need 6\.4 GB", None),
        ("data.csv", ragged_csv, r"100\d\d\d rows x 5002 columns, which need 4 GB", None),
        ("data.ts", ragged_ts, r"20001 samples x 20000 steps x 1 channels, which need 3\.2 GB", None),
        ("data.npz", zip_bomb, r"the arrays x, which need 300 MB", None),
        ("data.npz", lying_header, r"x\.npy holds 8 bytes, and its header describes 800000000000000", None),
        ("data.parquet", long_parquet, r"2000000 rows x 3 columns, which need 48 MB", 10**7),
    ],
)
def test_a_small_file_that_asks_for_gigabytes_is_refused(tmp_path, name, write, words, limit):
    path = tmp_path / name
    write(path)
    assert path.stat().st_size < 2_000_000
    read_series_of_nothing(tmp_path, name)  # the imports do not count
    tracemalloc.start()
    with pytest.raises(ValueError, match=words) as caught:
        read_series(path, max_bytes=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    assert peak < ALLOWED


def read_series_of_nothing(tmp_path, name):
    empty = tmp_path / f"empty-{name}"
    empty.write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        read_series(empty)


def test_the_limit_can_be_raised(tmp_path):
    np.savez_compressed(tmp_path / "data.npz", x=np.zeros((20, 50, 10)))
    with pytest.raises(ValueError, match="pass max_bytes=80128 to allow it") as caught:
        read_series(tmp_path / "data.npz", max_bytes=80_000)
    assert "need at most 80 kB of memory, got the arrays x, which need 80.1 kB" in str(caught.value)
    assert read_series(tmp_path / "data.npz", max_bytes=80_128).shape == (20, 50, 10)


def test_the_limit_grows_with_the_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    assert Limit.of(path).max_bytes == FLOOR
    path.write_bytes(bytes(2_000_000))
    assert Limit.of(path).max_bytes == 400_000_000
    Limit(10, 8 * 2 * 3 * 4).check_cells(2, 3, 4)
    with pytest.raises(ValueError, match="2 samples x 3 steps x 4 channels"):
        Limit(10, 8 * 2 * 3 * 4 - 1).check_cells(2, 3, 4)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".ts"])
def test_no_memory_is_a_message(tmp_path, monkeypatch, suffix):
    def full(*arguments, **options):
        raise MemoryError

    np.savez(tmp_path / "data.npz", x=np.zeros((2, 3, 1)))
    (tmp_path / "data.csv").write_text("sample,time,a\n0,1,2\n0,2,2\n")
    (tmp_path / "data.ts").write_text("@data\n1,2\n")
    monkeypatch.setattr("numpy.lib.format.read_array", full)
    monkeypatch.setattr("numpy.full", full)
    with pytest.raises(ValueError, match=rf"data\{suffix}: The (arrays|series) need more memory than there is"):
        read_series(tmp_path / f"data{suffix}")


def test_only_the_arrays_wanted_count(tmp_path):
    np.savez(tmp_path / "data.npz", small=np.arange(3), large=np.zeros(10_000))
    assert read_arrays(tmp_path / "data.npz", ["small"], max_bytes=1000)["small"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="the arrays small, large"):
        read_arrays(tmp_path / "data.npz", max_bytes=1000)
