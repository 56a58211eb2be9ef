"""Series to and from .npz files, which keep everything a `Series` knows."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.checks import check_labels
from timex.io.arrays import read_arrays, write_arrays
from timex.io.labels import encode
from timex.io.limits import Limit
from timex.records import Series
from timex.records.series import EXTRA, taken_extras

FIELDS = tuple(f.name for f in fields(Series) if f.name != "extras")
OF_EXPLANATION = "series."
"""`Explanation.save` puts this before the names of its series' arrays."""
LAYOUT = f"Expected an array x of shape (N, T, D), and optionally {', '.join(FIELDS[1:])}, {EXTRA}NAME."


def read_npz(path: Path, classes: tuple[str, ...], limit: Limit) -> Series:
    """The series of a .npz file, which may be a saved explanation."""
    known = {"X", *FIELDS, EXTRA, OF_EXPLANATION + EXTRA, *(OF_EXPLANATION + name for name in FIELDS)}
    values: dict[str, Any] = read_arrays(path, known, limit.max_bytes)
    return series_of_arrays({name.removeprefix(OF_EXPLANATION): array for name, array in values.items()}, classes)


def series_of_arrays(values: dict[str, Any], classes: tuple[str, ...]) -> Series:
    """The series of named arrays, as a .npz file holds them."""
    if "X" in values:
        values.setdefault("x", values.pop("X"))
    if "x" not in values:
        raise ValueError(f"Found no array x. {LAYOUT}")
    for name in {"ids", "channels", "units", "classes"} & set(values):
        values[name] = tuple(np.ravel(values[name]).astype(str).tolist())
    if "sampling_rate" in values:
        values["sampling_rate"] = float(values["sampling_rate"].reshape(()))
    own = values.pop("classes", ())
    values["extras"] = taken_extras(values)
    if "y" in values:
        values["y"], classes = _labels(values["y"], own, classes)
    return Series.with_gaps(**values, classes=classes or own)


def _labels(y: NDArray[Any], own: tuple[str, ...], classes: tuple[str, ...]) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Labels as numbers of `classes` if given, else of the file's `own` classes."""
    if y.dtype.kind in "US":
        return encode(y.astype(str).ravel().tolist(), classes or own)
    if own and classes and own != classes:  # the file numbers its classes in another order
        return encode([own[c] for c in check_labels(y, y.size, len(own))], classes)
    return y, classes or own


def write_npz(path: Path, series: Series) -> None:
    """Write every field that has a value."""
    values = {name: getattr(series, name) for name in FIELDS} | {EXTRA + name: v for name, v in series.extras.items()}
    write_arrays(path, {name: np.asarray(v) for name, v in values.items() if v is not None and np.size(v)})
