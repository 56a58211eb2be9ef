"""Boiler: 20 sensors of heating boilers every 15 minutes; does the blowdown valve fail at the last step of the window?

The paper's window of "36 steps" holds six rows: its suffixes of 1 to 6 rows, each padded with zeros to 6, one after another.
The plain layout has 36 rows in a row. Windows lie inside one boiler and inside one block of a day, and whole blocks go to
train, validation or test, so that no row is in two of them. But every boiler is in every part: see docs/data.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.data.prepare import Arrays, Ints, Make, Origin, Prepared, found, make_dataset, read_compact, split_groups
from timex.records import Dataset

LABEL = "Abnormal Blow Down"
LEADING = ("boiler_no", "TIME")
N_SENSORS = 20
NESTED = 6
"""Rows behind the paper's window."""
BLOCK = 96
"""Rows of a block: a day."""


def find(source: Path) -> list[Path]:
    """Every .csv under the source, or the compact .npz."""
    files = found(source, "boiler*.npz", "*.csv")
    if not files:
        raise FileNotFoundError(f"{source} holds no .csv. To get it, {BOILER.download}.")
    return files


def build(files: list[Path]) -> tuple[Arrays, dict[str, Any]]:
    """Rows (N, 20), their labels, and the unbroken series (one boiler in one file) that each belongs to."""
    x, y, series, channels = _compact(files[0]) if files[0].suffix == ".npz" else _tables(files)
    if not np.isfinite(x).all() or not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"Expected finite sensors and labels 0 or 1 in {files[0]}, got {int((~np.isfinite(x)).sum())} that are not."
        )
    arrays: Arrays = {
        "x": x.astype(np.float32),
        "y": y.astype(np.int8),
        "series": series.astype(np.int16),
        "channels": channels,
    }
    positives = {str(s): int(y[series == s].sum()) for s in np.unique(series)}
    return arrays, {
        "rows": len(x),
        "boilers": len(positives),
        "faults_per_boiler": positives,
    }


def _compact(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    arrays = read_compact(path, "Boiler", ("X_T", "y", "segment_offset", "feature_names"))
    series = np.repeat(np.arange(len(arrays["segment_offset"]) - 1), np.diff(arrays["segment_offset"]))
    return arrays["X_T"].T, arrays["y"], series, arrays["feature_names"]


def _tables(files: list[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    import pandas as pd

    tables = [pd.read_csv(path) for path in files]
    for path, table in zip(files, tables, strict=True):
        columns = list(table.columns)
        if columns[:2] != list(LEADING) or columns[-1] != LABEL or len(columns) != N_SENSORS + 3:
            raise ValueError(
                f"Expected {path} with the columns {', '.join(LEADING)}, {N_SENSORS} sensors and {LABEL!r}, got {len(columns)} "
                f"columns, {columns[0]} ... {columns[-1]}. To get the data, {BOILER.download}."
            )
        if columns != list(tables[0].columns):
            raise ValueError(f"Expected the same sensors in {files[0]} and {path}: their columns differ.")
    whole = pd.concat(tables, keys=range(len(tables)))
    series = whole.groupby([whole.index.get_level_values(0), LEADING[0]], sort=False).ngroup().to_numpy()
    order = np.argsort(series, kind="stable")
    sensors = list(whole.columns[2:-1])
    return whole[sensors].to_numpy(float)[order], whole[LABEL].to_numpy()[order], series[order], np.array(sensors)


def nested(rows: NDArray[Any]) -> NDArray[Any]:
    """The paper's layout of six rows, (n, 6, D) -> (n, 36, D): suffixes of 1..6 rows, each zero-padded to 6.

    >>> nested(np.arange(1, 7).reshape(1, 6, 1))[0, :, 0].reshape(6, 6)[:3]
    array([[6, 0, 0, 0, 0, 0],
           [5, 6, 0, 0, 0, 0],
           [4, 5, 6, 0, 0, 0]])
    """
    out = np.zeros((len(rows), NESTED, NESTED, rows.shape[2]), dtype=rows.dtype)
    for length in range(1, NESTED + 1):
        out[:, length - 1, :length] = rows[:, NESTED - length :]
    return out.reshape(len(rows), NESTED * NESTED, rows.shape[2])


def window_ends(series: Ints, length: int) -> tuple[Ints, Ints]:
    """Last rows of all windows of `length` rows inside one block of one series, and their blocks, each (N,)."""
    first = np.flatnonzero(np.diff(series, prepend=series[0] - 1))  # of every series
    place = np.arange(len(series)) - first[np.searchsorted(first, np.arange(len(series)), side="right") - 1]
    ends = np.flatnonzero(place % BLOCK >= length - 1)
    return ends, series[ends] * (len(series) // BLOCK + 1) + place[ends] // BLOCK


def _make(plain: bool) -> Make:
    def make(arrays: Arrays, name: str, fold: int, seed: int) -> Dataset:
        length = NESTED * NESTED if plain else NESTED
        series = arrays["series"].astype(np.int64)
        ends, block = window_ends(series, length)
        y = arrays["y"].astype(np.int64)[ends]
        index = split_groups(2 * series[ends] + y, block, fold, seed)
        back = np.arange(1 - length, 1)

        def windows(i: Ints) -> tuple[NDArray[Any], None]:
            rows = arrays["x"][ends[i, None] + back]  # (n, length, D)
            return rows if plain else nested(rows), None

        return make_dataset(name, index, windows, y, arrays["channels"].tolist(), ("sound", "fault"), fold, seed)

    return make


BOILER = Origin(
    name="boiler",
    title="Boiler fault detection",
    page="https://dx.doi.org/10.21227/awav-bn36",
    needs="the .csv tables",
    find=find,
    build=build,
)
LOADERS = (
    Prepared("boiler", BOILER, _make(plain=False), (36, 20), 2, "the paper's layout of six nested suffixes"),
    Prepared("boiler_plain", BOILER, _make(plain=True), (36, 20), 2, "36 rows in a row"),
)
