"""Series piece by piece from what holds more than memory does: arrays on disk, loaders, data sets, tables, iterables.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from timex.io.containers import series_from
from timex.io.files import open_series
from timex.io.frames import rows_of, series_of
from timex.io.limits import Limit
from timex.io.parquet_source import Once
from timex.io.sources import CHUNK_CELLS
from timex.io.tables import check_columns, decoded
from timex.records import Series

FIELDS = {f.name for f in fields(Series)}
ITEMS = 1024
"""Items of a data set in one piece."""


def pieces_of(
    data: Any, size: int | None = None, classes: Sequence[str] = (), channels: Sequence[str] = ()
) -> Iterator[Series]:
    """The series that `data` holds, in order, some at a time.

    Args:
        data: A `Series`; an array, or anything with shape and slices (a memory-mapped array, Zarr, HDF5); a path of a file; a
            pyarrow data set or table; a torch loader or data set; or an iterable of batches, each an array (B, T, D), a pair
            (x, y), a dict with fields of `Series`, or a `Series`.
        size: Samples of a piece, where the data does not come in batches; by default about 260,000 cells.
        classes: Class names in the order of the labels, for tables.
        channels: The channels wanted of a table, in this order.

    Example:
        >>> [len(piece) for piece in pieces_of(np.zeros((5, 4, 1)), size=2)]
        [2, 2, 1]
        >>> [piece.y.tolist() for piece in pieces_of([(np.zeros((2, 4, 1)), [0, 1]), (np.zeros((1, 4, 1)), [1])])]
        [[0, 1], [1]]
    """
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ValueError(f"Expected size as a whole number of at least 1 sample, got {size!r}.")
    if isinstance(data, Series):
        return data.chunks(size or _size(data.shape))
    if isinstance(data, str | Path):
        source = open_series(data, classes, channels)
        return (series for _, series in source.read(source.chunks))
    if hasattr(data, "to_batches"):
        return _of_table(data.to_batches(), tuple(classes))
    if (shape := sliced_shape(data)) is not None:
        return _slices(data, shape, size or _size(shape))
    if hasattr(data, "batch_size") and hasattr(data, "dataset"):
        return (_of_batch(batch) for batch in data)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, Sequence):
        return _of_items((data[i] for i in range(len(data))), size or ITEMS)
    if type(data).__module__.split(".")[0] == "torch" or "IterableDataset" in _names_of(type(data)):
        return _of_items(iter(data), size or ITEMS)
    if isinstance(data, Iterable):
        return (_of_batch(batch) for batch in data)
    raise ValueError(
        f"Expected arrays, a file, a loader, a data set, a table, or an iterable of batches, got {type(data).__name__}."
    )


def holds_more(data: Any) -> bool:
    """Whether data is no array in memory, but something that `pieces_of` reads piece by piece.

    >>> holds_more(np.zeros((3, 5, 1))), holds_more("windows.parquet"), holds_more(iter([np.zeros((3, 5, 1))]))
    (False, True, True)
    """
    if isinstance(data, np.memmap | str | Path) or hasattr(data, "to_batches"):
        return True
    if isinstance(data, Series | np.ndarray | Tensor | Sequence | Mapping) or hasattr(data, "__array_interface__"):
        return False
    return isinstance(data, Iterable) or (hasattr(data, "__getitem__") and not hasattr(data, "columns"))


def sliced_shape(data: Any) -> tuple[int, ...] | None:
    """The shape of an array, or of anything with shape and slices; None for other data."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and hasattr(data, "__getitem__") and not hasattr(data, "columns"):
        return tuple(int(n) for n in shape)
    return None


def _size(shape: tuple[int, ...]) -> int:
    return max(1, CHUNK_CELLS // max(1, int(np.prod(shape[1:]))))


def _names_of(kind: type) -> set[str]:
    return {base.__name__ for base in kind.__mro__}


def _slices(data: Any, shape: tuple[int, ...], size: int) -> Iterator[Series]:
    """Slices of an array; a single series (T, D) is one piece."""
    if len(shape) < 3:
        yield Series(data[:] if shape else data)
        return
    for start in range(0, shape[0], size):
        yield Series(data[start : start + size])


def _of_items(items: Iterator[Any], size: int) -> Iterator[Series]:
    """Items of a data set, each one sample."""
    while batch := list(islice(items, size)):
        yield series_from(_Items(batch))


class _Items:
    """Some items, as a data set."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


def _of_batch(batch: Any) -> Series:
    """The series of one batch: an array, a pair of series and labels, or a dict."""
    if isinstance(batch, Series):
        return batch
    if isinstance(batch, Mapping):
        if "x" not in batch:
            return series_from(batch)
        return Series(**{name: value for name, value in batch.items() if name in FIELDS})
    x, y = (*batch, None, None)[:2] if isinstance(batch, tuple | list) else (batch, None)
    labels = None if y is None else _array(y)
    whole = labels is None or (labels.ndim == 1 and labels.dtype.kind in "iu")
    return Series(x, y=labels if whole else None)  # numbers to forecast and texts are no class numbers


def _array(value: Any) -> NDArray[Any]:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _of_table(batches: Iterable[Any], classes: tuple[str, ...]) -> Iterator[Series]:
    """The series of a long or wide table in record batches, in which the rows of a sample stand together."""
    import pyarrow as pa

    waiting: list[Any] = []
    channels: tuple[str, ...] = ()
    with Once() as once:

        def series(table: Any) -> Series:
            nonlocal channels
            frame = decoded(table.unify_dictionaries())
            check_columns(list(frame.columns))
            rows = rows_of(frame, Limit(table.nbytes, 2**63), channels)
            channels = rows.channels  # a later piece may begin with another channel
            once.add(rows.ids)
            return series_of(frame, rows, classes)

        for batch in batches:
            for start in range(0, len(batch), CHUNK_CELLS):
                waiting.append(batch.slice(start, CHUNK_CELLS))
                if sum(map(len, waiting)) >= CHUNK_CELLS:
                    table = pa.Table.from_batches(waiting)
                    if cut := _last_sample(table):
                        yield series(table.slice(0, cut))
                    waiting = table.slice(cut).to_batches()
        if sum(map(len, waiting)):
            yield series(pa.Table.from_batches(waiting))
        once.check()


def _last_sample(table: Any) -> int:
    """The row at which the last sample of a table begins."""
    samples = table.column("sample").to_pandas().astype(object).to_numpy()
    other = np.flatnonzero(samples != samples[-1])
    return int(other[-1]) + 1 if len(other) else 0
