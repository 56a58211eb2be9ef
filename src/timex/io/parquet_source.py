"""Tables in .parquet files, in chunks of whole samples.

Shapes: N samples, T time steps, D channels, R rows of a table; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from timex.io.frames import rows_of, series_of
from timex.io.limits import Limit
from timex.io.sources import CHUNK_CELLS, Chunk
from timex.io.tables import decoded, decoding, open_parquet, parquet_columns, parquet_facts
from timex.records import Series

if TYPE_CHECKING:
    import pandas as pd

BATCH = 2**17
"""Rows that are decoded at once."""
BUFFER = 2**20
"""Bytes of a column that are read ahead."""
HASHES = 2**21
"""Names of samples that are compared at once."""


class Apart(ValueError):
    """The rows of a sample do not stand together, so that the table cannot be read in chunks."""


class Once:
    """Checks that every sample of a long stream stands in it once. Hashes of the names wait in a temporary file."""

    def __enter__(self) -> Once:
        self.file = tempfile.TemporaryFile()
        self.n = 0
        return self

    def __exit__(self, *error: Any) -> None:
        self.file.close()

    def add(self, names: Sequence[Any]) -> None:
        """Add the next samples."""
        self.file.write(_hashes(names).tobytes())
        self.n += len(names)

    def check(self, again: Iterable[Sequence[Any]] = ()) -> None:
        """Raise `Apart` if a sample was added twice; `again` gives the names once more, for the message."""
        groups = -(-self.n // HASHES)
        for group in range(groups):  # so many at once that memory stays the same
            self.file.seek(0)
            parts = []
            while text := self.file.read(8 * BATCH):
                part = np.frombuffer(text, dtype=np.uint64)
                parts.append(part[part % np.uint64(groups) == group])
            values = np.sort(np.concatenate(parts))
            if (same := values[1:] == values[:-1]).any():
                twice = values[1:][same][0]
                found = (str(names[i]) for names in again for i in np.flatnonzero(_hashes(names) == twice).tolist())
                raise Apart(f"The rows of a sample do not stand together: {next(found, 'sort the table by sample')}.")


def _hashes(names: Sequence[Any]) -> NDArray[np.uint64]:
    import pandas as pd

    return pd.util.hash_array(np.array([str(name) for name in names], dtype=object), categorize=False)


class ParquetSource:
    """A long or wide table, in chunks of about `CHUNK_CELLS` cells.

    Opening reads the columns of samples and channels, to find where samples begin and to see that each stands together.

    Args:
        path: The file.
        classes: Class names in the order of the labels.
        max_bytes: Refuse chunks that need more memory; by default as `read_series` does for the file.

    Raises:
        Apart: If the rows of a sample do not stand together.
    """

    def __init__(self, path: Path, classes: tuple[str, ...] = (), max_bytes: int | None = None) -> None:
        self.path, self.classes = path, classes
        self.limit = Limit.of(path, max_bytes)
        with self._open() as file:
            self.columns = parquet_columns(file.schema_arrow)
            self.facts = parquet_facts(file.schema_arrow)
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            self.starts = np.cumsum([0, *groups])  # the first row of every row group, and the number of rows
            long = "channel" in self.columns
            self.channels = _distinct(file, "channel") if long else ()
            size = CHUNK_CELLS if long else max(1, CHUNK_CELLS // len(self.columns))  # rows
            with Once() as once:
                cuts, n = _cuts(_begun(file), once, size)
                once.check(samples_of(file))
        ends = [*cuts[1:], (int(self.starts[-1]), n)]
        self.chunks = tuple(Chunk(i, a, b, k, m - k) for i, ((a, k), (b, m)) in enumerate(zip(cuts, ends, strict=True)))

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Series]]:
        """The series of some chunks."""
        with self._open() as file:
            for chunk in chunks:
                frame = self._frame(file, chunk.start, chunk.stop)
                rows = rows_of(frame, self.limit, self.channels)
                yield chunk, series_of(frame, rows, self.classes, **self.facts)

    def _open(self) -> Any:
        return open_parquet(self.path, buffer_size=BUFFER)

    def _frame(self, file: Any, start: int, stop: int) -> pd.DataFrame:
        """The rows from `start` to `stop`."""
        import pyarrow as pa

        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        place, parts = int(self.starts[first]), []
        with decoding("parquet"):
            for batch in file.iter_batches(BATCH, row_groups=range(first, last), columns=self.columns, use_threads=False):
                part = batch.slice(max(0, start - place), max(0, stop - max(place, start)))
                place += len(batch)
                if len(part):
                    parts.append(_compact(part))
                if place >= stop:
                    break
            return decoded(pa.Table.from_batches(parts).unify_dictionaries())


def _compact(batch: Any) -> Any:
    """A batch of rows whose column of samples lists the names of these rows alone."""
    import pyarrow as pa

    i = batch.schema.get_field_index("sample")
    column = batch.column(i)
    if not pa.types.is_dictionary(column.type):
        return batch
    return batch.set_column(i, "sample", column.dictionary_decode().dictionary_encode())


def _distinct(file: Any, column: str) -> tuple[str, ...]:
    """The distinct values of a column, in the order in which they first appear."""
    found: dict[str, None] = {}
    for batch in _batches(file, column):
        found.update(dict.fromkeys(str(value) for value in batch.unique().to_pylist() if value is not None))
    return tuple(found)


def _batches(file: Any, column: str) -> Iterator[Any]:
    """A column of the file, some rows at a time."""
    with decoding("parquet"):
        for batch in file.iter_batches(BATCH, columns=[column], use_threads=False):
            yield batch.column(0)


def samples_of(file: Any) -> Iterator[list[Any]]:
    """The names of the samples of an open table, some at a time; each time that its rows begin."""
    return (names for _, names in _begun(file))


def _begun(file: Any) -> Iterator[tuple[NDArray[np.int64], list[Any]]]:
    """The samples that begin in every batch of rows: the row of each, and its name."""
    import pyarrow as pa

    place, last = 0, None
    for column in _batches(file, "sample"):
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if column.null_count:
            row = place + column.is_null().to_pylist().index(True)
            raise ValueError(f"Found no sample in row {row}: name the sample of every row.")
        codes = column.indices.to_numpy()
        changes = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        names = column.dictionary.take(pa.array(codes[changes])).to_pylist()
        skip = int(names[0] == last)
        yield place + changes[skip:], names[skip:]
        place, last = place + len(codes), names[-1]


def _cuts(begun: Iterator[tuple[NDArray[np.int64], list[Any]]], once: Once, size: int) -> tuple[list[tuple[int, int]], int]:
    """The first row of every chunk of `size` rows with the number of samples before it, and the number of all samples."""
    cuts: list[tuple[int, int]] = []
    n = 0
    for rows, names in begun:
        once.add(names)
        while len(rows) > (k := 0 if not cuts else int(np.searchsorted(rows, cuts[-1][0] + size))):
            cuts.append((int(rows[k]), n + k))
        n += len(rows)
    if not n:
        raise ValueError("Found no rows in the table.")
    return cuts, n
