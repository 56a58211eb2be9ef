"""Fits on data that stays on disk: equal to fits on the same series in memory, reading only what they use."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from timex import Series, TimeX, TimeXConfig
from timex.explainers import SGTConfig, SGTGrad
from timex.io import stored
from timex.io.files import write_series
from timex.io.stored import Stored
from timex.method import outputs


class Sliced:
    """What Zarr and HDF5 arrays have in common: shape and slices."""

    def __init__(self, x):
        self.x, self.shape, self.read = x, x.shape, 0

    def __getitem__(self, index):
        part = self.x[index]
        self.read += len(part)
        return part


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(60, 6, 2)).astype("float32")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


def config(most):
    base = TimeXConfig(epochs=1, seed=3)
    return dataclasses.replace(base, training=dataclasses.replace(base.training, max_series=most))


def fit(model, data, most=20, **more):
    return TimeX(model, config=config(most), device="cpu").fit(data, progress=False, **more)


def holder(name, x, folder):
    np.save(folder / "x.npy", x)
    write_series(folder / "x.npz", Series(x))
    return {
        "memory map": lambda: np.load(folder / "x.npy", mmap_mode="r"),
        "sliced": lambda: Sliced(x),
        "loader": lambda: DataLoader(TensorDataset(torch.from_numpy(x)), batch_size=7),
        "iterable": lambda: (x[i : i + 8] for i in range(0, len(x), 8)),
        "path": lambda: folder / "x.npz",
    }[name]()


@pytest.mark.parametrize("name", ["memory map", "sliced", "loader", "iterable", "path"])
@pytest.mark.parametrize("validated", [False, True])
def test_a_fit_is_that_of_the_array(model, x, tmp_path, monkeypatch, name, validated):
    monkeypatch.setattr(stored, "CHUNK_CELLS", 5 * 12)
    more = {"x_val": x[:12]} if validated else {}
    inside = fit(model, x, **more)
    more = {"x_val": holder("memory map", x, tmp_path)[:12]} if validated else {}
    outside = fit(model, holder(name, x, tmp_path), **more)
    for key, value in inside.fitted.model.state_dict().items():
        assert torch.equal(outside.fitted.model.state_dict()[key], value), key
    np.testing.assert_array_equal(outside.landmarks.nearest, inside.landmarks.nearest)
    assert inside.landmarks.nearest.max() >= 20  # indices of all series, not of those drawn
    np.testing.assert_array_equal(outside.explain(x[:3]).attribution, inside.explain(x[:3]).attribution)


def test_only_slices_with_wanted_series_are_read(model, x, monkeypatch):
    monkeypatch.setattr(stored, "CHUNK_CELLS", 12)
    data = Sliced(x)
    fit(model, data, most=10)
    assert data.read == 10 + 6


def test_labels_and_other_explainers(model, x, tmp_path):
    y = np.arange(60) % 3
    inside, outside = (
        SGTGrad(model, SGTConfig(epochs=1), device="cpu").fit(data, y, progress=False)
        for data in (x, holder("memory map", x, tmp_path))
    )
    np.testing.assert_array_equal(outside.explain(x[:4]).attribution, inside.explain(x[:4]).attribution)


def test_stored_series_keep_gaps_times_and_labels():
    rng = np.random.default_rng(1)
    whole = Series.with_gaps(
        np.where(rng.random((20, 4, 2)) < 0.2, np.nan, rng.normal(size=(20, 4, 2))),
        np.sort(rng.random((20, 4)), axis=1),
        y=np.arange(20) % 3,
        channels=("a", "b"),
        classes=("u", "v", "w"),
    )
    with Stored(iter([whole.take(slice(0, 7)), whole.take(slice(7, 20))])) as stored_series:
        found = stored_series.take([3, 8, 19])
    for name in ("x", "times", "observed", "y", "channels", "classes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole.take([3, 8, 19]), name))


def test_outputs_above_the_budget_are_on_disk(model, x, monkeypatch):
    inside = fit(model, x)
    monkeypatch.setattr(outputs, "CACHE_BYTES", 100)
    outside = fit(model, x)
    for key, value in inside.fitted.model.state_dict().items():
        assert torch.equal(outside.fitted.model.state_dict()[key], value), key
    assert outputs.room(3, 2).untyped_storage().filename is None
    on_disk = outputs.room(60, 2)
    assert "timex-outputs-" in on_disk.untyped_storage().filename
    assert not Path(on_disk.untyped_storage().filename).exists()  # it ends with the tensor


def test_explaining_what_holds_more(model, x):
    explainer = fit(model, x)
    e = explainer.explain(DataLoader(TensorDataset(torch.from_numpy(x)), batch_size=7))
    np.testing.assert_allclose(e.attribution, explainer.explain(x).attribution, atol=2e-6)


def test_wrong_uses(model):
    with pytest.raises(ValueError, match="Expected at least 1 sample, got none"):
        fit(model, iter([]))
    with pytest.raises(ValueError, match=r"Expected pieces alike, got \(6, 2\) and then \(5, 2\)"):
        fit(model, iter([np.zeros((2, 6, 2)), np.zeros((2, 5, 2))]))
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, T, D\), got \(6, 2\)"):
        fit(model, Sliced(np.zeros((6, 2))))
