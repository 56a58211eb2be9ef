"""Series that stay where they are until some of them are asked for: what a fit draws its samples from.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.io.files import open_series
from timex.io.pieces import pieces_of, sliced_shape
from timex.io.sources import CHUNK_CELLS
from timex.records import Series

PER_SAMPLE = ("x", "times", "observed", "y")


class Stored:
    """Series on disk, or in a loader, that are read a piece at a time.

    Data that can be read only once is copied to temporary files as it is read, which last as long as the block.

    Args:
        data: As `timex.io.pieces.pieces_of` takes it.
    """

    def __init__(self, data: Any) -> None:
        if sliced_shape(data) is not None or isinstance(data, str | Path):
            self.data: Any = data
            self.n = _length(data)
        else:
            self.data = _Spilled(pieces_of(data))
            self.n = self.data.n

    def __enter__(self) -> Stored:
        return self

    def __exit__(self, *error: Any) -> None:
        if isinstance(self.data, _Spilled):
            self.data.close()

    def __len__(self) -> int:
        return self.n

    def take(self, index: ArrayLike) -> Series:
        """The series at some indices, which increase."""
        wanted = np.asarray(index)
        found = []
        for start, stop, piece in self._pieces(wanted):
            inside = wanted[(wanted >= start) & (wanted < stop)] - start
            found.append(piece.take(inside))
        return Series.joined(found)

    def _pieces(self, wanted: NDArray[np.int64]) -> Iterator[tuple[int, int, Series]]:
        """The pieces that hold some of the wanted series: first index, the index after the last, and the series."""

        def holds(start: int, stop: int) -> bool:
            return bool(np.searchsorted(wanted, stop) > np.searchsorted(wanted, start))

        if isinstance(self.data, str | Path):
            source = open_series(self.data)
            chunks = [c for c in source.chunks if holds(c.first, c.first + c.samples)]
            for chunk, series in source.read(chunks):
                yield chunk.first, chunk.first + chunk.samples, series
            return
        shape = self.data.shape
        size = max(1, CHUNK_CELLS // int(np.prod(shape[1:])))
        for start in range(0, self.n, size):
            stop = min(start + size, self.n)
            if holds(start, stop):
                part = self.data[start:stop]
                yield start, stop, part if isinstance(part, Series) else Series(np.asarray(part))


def _length(data: Any) -> int:
    if isinstance(data, str | Path):
        last = open_series(data).chunks[-1]
        return last.first + last.samples
    shape = sliced_shape(data) or ()
    if len(shape) != 3:
        raise ValueError(f"Expected x of shape (N, T, D), got {shape}: add the missing axis.")
    return shape[0]


class _Spilled:
    """Pieces in temporary files, one for each field."""

    def __init__(self, pieces: Iterator[Series]) -> None:
        self.files: dict[str, Any] = {}
        self.kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self.n = 0
        try:
            self.first = self._filled(pieces)
        except BaseException:
            self.close()
            raise
        self.shape = (self.n, *self.first.shape[1:])

    def close(self) -> None:
        """Remove the files."""
        for file in self.files.values():
            file.close()

    def _filled(self, pieces: Iterator[Series]) -> Series:
        """Write all pieces; gives the first sample."""
        first: Series | None = None
        for piece in pieces:
            first = first or piece.take([0])
            if piece.shape[1:] != first.shape[1:] or (piece.y is None) != (first.y is None):
                raise ValueError(f"Expected pieces alike, got {first.shape[1:]} and then {piece.shape[1:]} as (T, D).")
            self._append(piece)
        if first is None:
            raise ValueError("Expected at least 1 sample, got none.")
        return first

    def _append(self, piece: Series) -> None:
        for name in PER_SAMPLE:
            value = getattr(piece, name)
            if value is not None:
                if name not in self.files:
                    self.files[name] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `close`)
                    self.kinds[name] = value.dtype, value.shape[1:]
                self.files[name].write(np.ascontiguousarray(value).tobytes())
        self.n += len(piece)

    def __getitem__(self, rows: slice) -> Series:
        values: dict[str, Any] = {}
        for name, file in self.files.items():
            dtype, shape = self.kinds[name]
            size = int(np.prod(shape)) * dtype.itemsize
            file.seek(rows.start * size)
            values[name] = np.frombuffer(file.read((rows.stop - rows.start) * size), dtype=dtype).reshape(-1, *shape)
        names = {name: getattr(self.first, name) for name in ("channels", "units", "classes", "sampling_rate", "scaling")}
        return Series(**values, **names)
