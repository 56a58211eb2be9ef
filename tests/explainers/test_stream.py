"""`explain_stream`: whatever holds the series, the explanations are those of `explain`."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from timex import Explanation, Series, TimeX, TimeXConfig
from timex.explainers import Saliency
from timex.explainers.controls import Random
from timex.io import pieces
from timex.io.files import write_series
from timex.io.parquet_source import Apart
from timex.io.pieces import pieces_of


class Sliced:
    """What Zarr and HDF5 arrays have in common: shape and slices."""

    def __init__(self, x):
        self.x, self.shape, self.largest = x, x.shape, 0

    def __getitem__(self, index):
        part = self.x[index]
        self.largest = max(self.largest, len(part))
        return part


class Streamed(IterableDataset):
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return iter(self.x)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(23, 6, 2)).astype("float32")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


@pytest.fixture(scope="module")
def fitted(model, x):
    return TimeX(model, config=TimeXConfig(epochs=1), device="cpu").fit(x, progress=False)


def table_of(x, tmp_path, layout):
    path = tmp_path / f"{layout}.parquet"
    write_series(path, Series(x, y=np.arange(len(x)) % 3, ids=[f"s{i}" for i in range(len(x))]), layout)
    return path


def holders(x, tmp_path):
    """Every kind of data, and the sizes of the pieces it is explained in."""
    np.save(tmp_path / "x.npy", x)
    disk = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.savez(tmp_path / "x.npz", x=x)
    data = TensorDataset(torch.from_numpy(x), torch.arange(len(x)) % 3)
    names = [f"n{i}" for i in range(len(x))]
    eights = [8, 8, 7]
    return {
        "array": (x, eights),
        "tensor": (torch.from_numpy(x), eights),
        "series": (Series(x), eights),
        "memory map": (disk, eights),
        "sliced": (Sliced(x), eights),
        "loader": (DataLoader(data, batch_size=5), [5] * 4 + [3]),
        "data set": (data, eights),
        "iterable data set": (Streamed(x), eights),
        "arrays": ((x[i : i + 9] for i in range(0, 23, 9)), [9, 9, 5]),
        "dicts": ([{"x": x[:20], "ids": names[:20]}, {"x": x[20:], "ids": names[20:], "other": 1}], [20, 3]),
        "path": (tmp_path / "x.npz", [23]),
        "long table": (pa.dataset.dataset(table_of(x, tmp_path, "long")), [8, 9, 6]),
        "wide table": (pa.Table.from_pandas(pd.read_parquet(table_of(x, tmp_path, "wide"))), [8, 9, 6]),
    }


NAMES = (
    *("array", "tensor", "series", "memory map", "sliced", "loader", "data set", "iterable data set", "arrays", "dicts"),
    *("path", "long table", "wide table"),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_holder(fitted, x, tmp_path, name, monkeypatch):
    monkeypatch.setattr(pieces, "CHUNK_CELLS", 9 * 6 * (2 if name == "long table" else 1) - 1)  # rows of a table
    data, sizes = holders(x, tmp_path)[name]
    size = 8 if name in ("array", "tensor", "series", "memory map", "sliced", "data set", "iterable data set") else None
    parts = list(fitted.explain_stream(data, size=size))
    assert [len(e) for e in parts] == sizes
    e, whole = Explanation.joined(parts), fitted.explain(x)
    np.testing.assert_array_equal(e.x, whole.x)
    np.testing.assert_allclose(e.attribution, whole.attribution, atol=2e-6)
    if name in ("loader", "data set", "long table", "wide table"):
        assert e.series.y.tolist() == [i % 3 for i in range(23)]
    if name == "sliced":
        assert data.largest == 8


def test_random_numbers_do_not_depend_on_pieces(model, x):
    method = Random(model, device="cpu")
    parts = method.explain_stream(x, size=7)
    np.testing.assert_array_equal(Explanation.joined(list(parts)).attribution, method.explain(x).attribution)


def test_targets(model, x):
    method = Saliency(model, device="cpu")
    target = np.arange(23) % 3
    for given in (target, torch.from_numpy(target), "runner-up", 1):
        parts = method.explain_stream(x, given, contrast=None if given is not target else 0, size=7)
        whole = method.explain(x, given, contrast=None if given is not target else 0)
        e = Explanation.joined(list(parts))
        np.testing.assert_array_equal(e.prediction, whole.prediction)
        np.testing.assert_allclose(e.attribution, whole.attribution, atol=1e-6)


def test_nothing_is_read_ahead(fitted, x):
    asked = []

    def batches():
        for i in range(3):
            asked.append(i)
            yield x[:4]

    stream = fitted.explain_stream(batches())
    assert asked == []
    next(stream)
    assert asked == [0]


def test_wrong_uses(fitted, model, x):
    with pytest.raises(ValueError, match="takes no target"):
        fitted.explain_stream(x, target=1)  # at once, not at the first piece
    with pytest.raises(ValueError, match="Expected arrays, a file, a loader"):
        fitted.explain_stream(5)
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 6, 2\) as in fit"):
        next(fitted.explain_stream([x[:, :5]]))
    with pytest.raises(RuntimeError, match="has not been fitted"):
        TimeX(model, device="cpu").explain_stream("a.parquet")


def test_a_table_in_which_samples_stand_apart(x, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "CHUNK_CELLS", 150)
    frame = pd.read_parquet(table_of(x, tmp_path, "long")).sort_values("time", kind="stable")
    with pytest.raises(Apart, match="sort the table by sample"):
        list(pieces_of(pa.Table.from_pandas(frame, preserve_index=False)))


def test_a_wide_sample_is_one_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "CHUNK_CELLS", 10)
    whole = np.arange(80, dtype="float32").reshape(2, 20, 2)
    found = list(pieces_of(pa.Table.from_pandas(pd.read_parquet(table_of(whole, tmp_path, "long")))))
    np.testing.assert_array_equal(np.concatenate([part.x for part in found]), whole)


def test_texts_and_numbers_to_forecast_are_no_labels():
    zeros = np.zeros((2, 4, 1))
    assert [part.y for part in pieces_of([(zeros, ["a", "b"]), (zeros, [0.5, 1.5]), (zeros, zeros)])] == [None] * 3
