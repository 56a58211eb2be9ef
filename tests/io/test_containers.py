"""Series from what other libraries hold them in."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from timex import Explanation, Series, TimeX, TimeXConfig
from timex.io.pieces import pieces_of

N, T, D = 5, 7, 3
X = np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)
Y = ["up", "down", "up", "up", "down"]
CODES = [1, 0, 1, 1, 0]


class Columns:
    """What a Hugging Face data set offers."""

    def __init__(self, **columns):
        self.columns, self.column_names = columns, list(columns)

    def with_format(self, kind):
        assert kind == "numpy"
        return self.columns


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return {"past_values": torch.tensor(X[i]), "label": CODES[i]}


def panel():
    index = pd.MultiIndex.from_product([[f"p{i}" for i in range(N)], range(T)])
    return pd.DataFrame(X.reshape(-1, D), index=index, columns=["a", "b", "c"])


LOADER = DataLoader(TensorDataset(torch.tensor(X), torch.tensor(CODES)), batch_size=2)


@pytest.mark.parametrize(
    ("data", "y", "options"),
    [
        (X, Y, {}),
        (torch.tensor(X), np.array(CODES)[:, None], {}),
        (X.transpose(0, 2, 1), Y, {"layout": "BDT"}),  # aeon, sktime, tsai
        (list(X), Y, {}),
        ([x.T for x in X], Y, {"layout": "BDT"}),  # a list of aeon
        (panel(), Y, {}),  # sktime
        (Columns(x=X, label=CODES, id=np.arange(N)), None, {}),
        (Columns(past=list(X), other=list(X), label=CODES), None, {"column": "past"}),
        (LOADER, None, {}),
        (Items(), None, {}),
        (TensorDataset(torch.tensor(X), torch.tensor(CODES)), None, {}),
        ([(x, y) for x, y in zip(X, CODES, strict=True)], None, {}),
        ({"x": X, "y": CODES}, None, {}),
    ],
)
def test_the_same_series_from_every_container(data, y, options):
    series = Series.from_(data, y, **options)
    np.testing.assert_array_equal(series.x, X)
    assert series.regular
    assert series.y.tolist() == CODES
    assert series.classes == (("down", "up") if y is Y else ("0", "1"))


def test_a_panel_keeps_its_names():
    series = Series.from_(panel(), units=("m", "s", "g"))
    assert series.ids == ("p0", "p1", "p2", "p3", "p4")
    assert series.channel_labels == ("a [m]", "b [s]", "c [g]")


def test_series_of_different_length_are_padded():
    rows = [X[0, :4], X[1], X[2, :2]]
    for data, layout in ((rows, "BTD"), ([row.T for row in rows], "BDT")):
        series = Series.from_(data, layout=layout)
        assert series.shape == (3, T, D)
        assert series.observed[:, :, 0].sum(1).tolist() == [4, 7, 2]
        np.testing.assert_array_equal(series.x[0, :4], X[0, :4])
    univariate = Series.from_([X[0, :4, 0], X[1, :, 0]])
    assert univariate.shape == (2, T, 1)


def test_labels_that_are_no_class_numbers_become_names():
    series = Series.from_(X, [-1, 1, 1, -1, 10])
    assert series.classes == ("-1", "1", "10")
    assert series.y.tolist() == [0, 1, 1, 0, 2]


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        ([X[0], X[1][:, :2]], {}, r"equal numbers of channels, got \[\(2,\), \(3,\)\]: pass layout='BDT'"),
        (Columns(a=X, b=X), {}, r"Expected the column with the series as column=, one of a, b, got None"),
        (panel().reset_index(drop=True), {}, r"indexed by \(sample, time\), got 1 level: use set_index"),
        (3, {}, r"Expected arrays, a list of them, a panel, a data set or a loader, got int"),
        (Series(X), {}, r"got a Series: use it as it is"),
        ({"x": X, "y": CODES}, {"label": "kind"}, r"Expected the column with the labels as label=, one of x, y, got 'kind'"),
        ({"x": X, "y": 1}, {}, r"Expected one label of every series as y, \(N,\), got \(\)"),
        ({"y": None, "z": 3}, {}, r"Expected the column with the series as column=, one of y, z, got None"),
        (X, {"y": CODES, "classes": False}, r"Expected classes as a list of names, got False"),
        ([np.array(["2020-01-01"] * T, "M8[D]")] * 2, {}, r"Expected x as numbers, got dates"),
        (np.float32(3), {}, r"Expected x of shape \(N, T, D\)"),
    ],
)
def test_what_cannot_be_read(data, options, text):
    with pytest.raises(ValueError, match=text):
        Series.from_(data, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_data_set_of_hugging_face():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = datasets.Dataset.from_dict({"past_values": X.tolist(), "label": CODES, "id": list(range(N))})
    series = Series.from_(rows)
    np.testing.assert_array_equal(series.x, X)
    assert series.y.tolist() == CODES
    named = datasets.Dataset.from_dict({"past_values": [x.tolist() for x in (X[0, :4], X[1])], "label": [1, 0]})
    assert Series.from_(named).observed[:, :, 0].sum(1).tolist() == [4, T]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_panel_of_sktime():
    panel_of = pytest.importorskip("sktime.datatypes", reason="sktime is not installed").convert_to
    frame = panel_of(X.transpose(0, 2, 1), to_type="pd-multiindex")
    np.testing.assert_array_equal(Series.from_(frame, Y).x, X)


MASKED = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
MASKED[1, 2, 0] = np.ma.masked


@pytest.mark.parametrize(
    "made",
    [
        lambda: Series.from_(MASKED),
        lambda: Series.from_(list(MASKED)),
        lambda: Series.from_({"x": MASKED, "y": CODES}),
        lambda: Series.from_({"x": list(MASKED), "y": CODES}),
        lambda: Series.from_(list(zip(MASKED, CODES, strict=True))),
        lambda: Series.joined(list(pieces_of(MASKED, size=2))),
        lambda: Series.joined(list(pieces_of([MASKED[:3], (MASKED[3:], [0, 1])]))),
        lambda: next(pieces_of([{"x": MASKED}])),
    ],
)
def test_cells_under_a_mask_are_missing(made):
    found = made()
    np.testing.assert_array_equal(~found.observed, MASKED.mask)
    np.testing.assert_array_equal(found.x[found.observed], X[found.observed])


@pytest.mark.parametrize("size", [0, -1, 1.5, float("inf"), True, "2"])
def test_a_wrong_size_of_pieces(size):
    with pytest.raises(ValueError, match="Expected size as a whole number of at least 1 sample, got"):
        pieces_of(X, size)


def test_pieces_of_what_is_no_series():
    for data in (np.array(3.0), [[]], [None], [(X,), ()]):
        with pytest.raises(ValueError, match="Expected"):
            list(pieces_of(data))


def test_half_precision_of_torch_is_read():
    x = torch.tensor(X).bfloat16()
    for data in (x, [x], [(x, torch.tensor(CODES))]):
        np.testing.assert_array_equal(next(pieces_of(data)).x, x.float().numpy())


def test_an_array_of_hdf5(tmp_path):
    """The explanations and the fit are those of the array in memory."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(T * D, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    x = np.random.default_rng(1).normal(size=(20, T, D)).astype(np.float32)
    with h5py.File(tmp_path / "windows.h5", "w") as file:
        stored = file.create_dataset("x", data=x, chunks=(4, T, D))
        fits = [TimeX(model, config=TimeXConfig(epochs=1), device="cpu").fit(data, progress=False) for data in (stored, x)]
        parts = [list(fit.explain_stream(stored, size=8)) for fit in fits]
    assert [len(part) for part in parts[0]] == [8, 8, 4]
    of_stored, of_array = (Explanation.joined(part) for part in parts)
    np.testing.assert_array_equal(of_stored.x, x)
    np.testing.assert_array_equal(of_stored.attribution, of_array.attribution)
