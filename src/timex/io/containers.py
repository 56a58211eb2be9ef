"""Series from what other libraries hold them in: arrays with channels first, lists, panels, data sets, loaders.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from timex.checks import check_names
from timex.conversions import as_numbers, without_mask
from timex.io.labels import encode
from timex.records import Series

LABELS = ("label", "labels", "y", "target", "targets")
"""Columns that hold the class, in the order in which they are looked for."""


def series_from(
    data: Any,
    y: Any = None,
    *,
    layout: Literal["BTD", "BDT"] = "BTD",
    column: str | None = None,
    label: str | None = None,
    **fields: Any,
) -> Series:
    """Series from arrays, lists, panels, data sets and loaders.

    Args:
        data: One of: an array or tensor; a list of arrays of different length; a pandas frame indexed by (sample, time) with
            a column per channel; a Hugging Face data set; a torch data set or loader of x, (x, y) or dicts.
        y: Labels of any type, (N,): texts and numbers that do not start at 0 become classes with names.
        layout: How arrays in `data` lie: "BTD", or channels first, "BDT", as in aeon, sktime and tsai.
        column: The column or key that holds the series, where there are several.
        label: The column or key that holds the labels; by default label, labels, y, target or targets.
        fields: Other fields of `Series`: channels, units, classes, sampling_rate, ...

    Example:
        >>> s = series_from([np.ones((2, 5)), np.ones((2, 3))], ["up", "down"], layout="BDT")
        >>> s.shape, s.classes, s.observed[1, :, 0].tolist()
        ((2, 5, 2), ('down', 'up'), [True, True, True, False, False])
    """
    if isinstance(data, Series):
        raise ValueError("Expected data of another library, got a Series: use it as it is.")
    if hasattr(data, "index") and hasattr(data, "columns"):
        return _of_panel(data, y, fields)
    x, found = _read(data, column, label)
    y = found if y is None else y
    if not isinstance(x, np.ndarray):
        x = _padded([_values(v) for v in x], layout)
    elif layout == "BDT":
        x = np.swapaxes(x, -1, -2)
    return _series(x, y, fields)


def _series(x: NDArray[Any], y: Any, fields: dict[str, Any]) -> Series:
    """Series whose NaN cells are missing, with labels of any type."""
    if y is not None:
        labels = _array(y)
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.ndim != 1 or len(labels) == 0:
            raise ValueError(f"Expected one label of every series as y, (N,), got {labels.shape}.")
        fields["y"], fields["classes"] = encode(labels.tolist(), check_names(fields.get("classes", ()), "classes"))
    return Series.with_gaps(x, **fields)


def _read(data: Any, column: str | None, label: str | None) -> tuple[Any, Any]:
    """The series (an array or a list of arrays) and the labels or None."""
    if hasattr(data, "column_names") and hasattr(data, "with_format"):  # Hugging Face
        rows = data.with_format("numpy")
        return _columns({name: rows[name][:] for name in data.column_names}, column, label)
    if isinstance(data, Mapping):
        return _columns(data, column, label)
    if isinstance(data, np.ndarray | np.generic | Tensor):
        array = _array(data)
        return array if array.dtype != object else list(array), None
    if isinstance(data, Sequence) and len(data) and not _is_item(data[0]):
        return list(data), None
    if isinstance(data, Iterable) or hasattr(data, "__getitem__"):
        return _items(data, column, label)
    raise ValueError(f"Expected arrays, a list of them, a panel, a data set or a loader, got {type(data).__name__}.")


def _of_panel(frame: Any, y: Any, fields: dict[str, Any]) -> Series:
    """Series of a frame indexed by (sample, time), with their names and those of the channels."""
    levels = getattr(frame.index, "nlevels", 1)
    if levels != 2:
        raise ValueError(
            f"Expected a frame indexed by (sample, time), got {levels} level: use set_index(['sample', 'time']), or write a "
            "table as docs/files.md describes."
        )
    groups = list(frame.groupby(level=0, sort=False))
    names = {"ids": [str(name) for name, _ in groups], "channels": [str(c) for c in frame.columns]}
    x = _padded([part.to_numpy(dtype=np.float32) for _, part in groups], "BTD")
    return _series(x, y, {**names, **fields})


def _columns(columns: Mapping[str, Any], column: str | None, label: str | None) -> tuple[Any, Any]:
    """The column of the series and that of the labels, or None."""
    names = list(columns)
    label = label or next((name for name in LABELS if name in columns and name != column), None)
    rest = [name for name in names if name != label and _holds_series(columns[name])]
    if column is None and len(rest) == 1:
        column = rest[0]
    values = columns[_named(column, names, "the series as column=")]
    if not isinstance(values, Iterable):
        raise ValueError(f"Expected series in the column {column!r}, got {type(values).__name__}.")
    values = values if isinstance(values, np.ndarray) and values.dtype != object else [_array(v) for v in values]
    return values, None if label is None else columns[_named(label, names, "the labels as label=")]


def _named(name: str | None, names: list[str], what: str) -> str:
    """The name of a column, or a `ValueError` that lists the names there are."""
    if name is None or name not in names:
        raise ValueError(f"Expected the column with {what}, one of {', '.join(map(str, names))}, got {name!r}.")
    return name


def _items(data: Any, column: str | None, label: str | None) -> tuple[Any, Any]:
    """Series and labels of a torch data set (items) or loader (batches)."""
    batched = hasattr(data, "batch_size") and hasattr(data, "dataset")
    source = data if batched or not hasattr(data, "__len__") else (data[i] for i in range(len(data)))
    xs: list[NDArray[Any]] = []
    ys: list[Any] = []
    for item in source:
        if isinstance(item, Mapping):
            one = {name: _array(v) if batched else _array(v)[None] for name, v in item.items()}
            x, y = _columns(one, column, label)
        else:
            x, y = (item[0], item[1] if len(item) > 1 else None) if isinstance(item, tuple | list) else (item, None)
            x = _array(x) if batched else _array(x)[None]
            y = y if y is None or batched else [y.item() if isinstance(y, Tensor) else y]
        xs += list(x)
        ys += [] if y is None else _array(y).reshape(-1).tolist()
    return xs, ys or None


def _is_item(value: Any) -> bool:
    """Whether an element is a pair or dict of a data set, and not a series."""
    return isinstance(value, Mapping) or (isinstance(value, tuple) and np.ndim(value[0]) >= 2)


def _padded(rows: list[NDArray[Any]], layout: str) -> NDArray[np.float32]:
    """Series of different length, (T, D) or (D, T) each, as (N, T, D) with NaN behind their ends."""
    if any(row.ndim == 1 for row in rows):
        rows = [row[:, None] if row.ndim == 1 else row for row in rows]
        layout = "BTD"
    rows = [row.T if layout == "BDT" else row for row in rows]
    widths = {row.shape[1:] for row in rows}
    if not rows or len(widths) > 1 or any(row.ndim != 2 for row in rows):
        raise ValueError(
            f"Expected series with equal numbers of channels, got {sorted(widths) or 'none'}: pass layout='BDT' if channels "
            "come first."
        )
    x = np.full((len(rows), max(len(row) for row in rows), rows[0].shape[1]), np.nan, dtype=np.float32)
    for i, row in enumerate(rows):
        x[i, : len(row)] = row
    return x


def _holds_series(column: Any) -> bool:
    """Whether the first value of a column is an array, and not one number or text."""
    try:
        return np.ndim(column[0]) > 0
    except (TypeError, LookupError):
        return False


def _values(value: Any) -> NDArray[Any]:
    """The numbers of one series, NaN where a mask hides them."""
    shown, visible = without_mask(value)
    numbers = as_numbers(shown, None, "x")
    return numbers if visible is None else np.where(visible, numbers, np.nan)


def _array(value: Any) -> NDArray[Any]:
    """A numpy array, with its mask if it has one."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asanyarray(value)
