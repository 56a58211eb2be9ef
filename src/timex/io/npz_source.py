"""Arrays in .npz files, in chunks of samples: each array is unpacked as it is read.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.io.arrays import archive_members, header_of, read_arrays
from timex.io.limits import Limit
from timex.io.npz import LAYOUT, OF_EXPLANATION, series_of_arrays
from timex.io.sources import Chunk, even_chunks
from timex.records import Series
from timex.records.series import EXTRA

PER_SAMPLE = ("x", "X", "times", "observed", "y", "truth", "ids")
"""Arrays with a row per sample. The others are read whole."""
WHOLE = ("channels", "units", "classes", "sampling_rate", "scaling")


class Whole(ValueError):
    """The archive cannot be read in chunks."""


class _Rows(NamedTuple):
    """An array whose rows are read one after another."""

    file: IO[bytes]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begin: int

    def take(self, start: int, stop: int) -> NDArray[Any]:
        """The rows from `start` to `stop`."""
        size = math.prod(self.shape[1:]) * self.dtype.itemsize
        self.file.seek(self.begin + start * size)
        data = self.file.read((stop - start) * size)
        if len(data) != (stop - start) * size:
            raise ValueError(f"{self.file.name} ends early.")
        return np.frombuffer(data, dtype=self.dtype).reshape(-1, *self.shape[1:])


class NpzSource:
    """The series of a .npz file in chunks.

    Args:
        path: The file.
        classes: Class names in the order of the labels.
        max_bytes: Refuse chunks that need more memory; by default as `read_series` does for the file.

    Raises:
        Whole: If an array is stored by columns (Fortran order), so that its samples do not stand one after another.
    """

    def __init__(self, path: Path, classes: tuple[str, ...] = (), max_bytes: int | None = None) -> None:
        self.path, self.classes = path, classes
        limit = Limit.of(path, max_bytes)
        with archive_members(path) as (archive, members):
            found = {name.removeprefix(OF_EXPLANATION): (name, info) for name, info in members.items()}
            if not {"x", "X"} & {*found}:
                raise ValueError(f"Found no array x. {LAYOUT}")
            headers = {}
            for name in [name for name in found if name in PER_SAMPLE or name.startswith(EXTRA)]:
                with archive.open(found[name][1]) as file:
                    headers[name] = header_of(file, found[name][1])
        shape = headers["x" if "x" in found else "X"][0]
        if len(shape) != 3 or 0 in shape or any(by_columns and len(of) > 1 for of, _, by_columns in headers.values()):
            raise Whole("Expected an array x (N, T, D), and every array stored by rows.")
        self.members = {
            name: found[name][0]
            for name, (of, _, _) in headers.items()
            if of[:1] == shape[:1] and (len(of) > 1 or name in ("y", "ids") or name.startswith(EXTRA))
        }
        known = [name for name in found if name in WHOLE or name in headers]
        whole = [found[name][0] for name in known if name not in self.members]
        self.whole = {name.removeprefix(OF_EXPLANATION): v for name, v in read_arrays(path, whole, limit.max_bytes).items()}
        self.chunks = even_chunks(*shape)
        limit.check_cells(self.chunks[0].samples, *shape[1:])

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Series]]:
        """The series of some chunks."""
        with archive_members(self.path) as (archive, members), ExitStack() as stack:
            rows = {}
            for name, stored in self.members.items():
                file = stack.enter_context(archive.open(members[stored]))
                shape, dtype, _ = header_of(file, members[stored])
                rows[name] = _Rows(file, shape, dtype, file.tell())
            for chunk in chunks:
                values = {name: array.take(chunk.start, chunk.stop) for name, array in rows.items()}
                yield chunk, series_of_arrays({**self.whole, **values}, self.classes)
