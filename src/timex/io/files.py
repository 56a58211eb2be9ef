"""Series in the user's own files: the suffix says whether .npz, .parquet, .csv or .ts.

`docs/files.md` shows every layout. Two rules hold for all of them. A missing value (NaN, an empty field, an absent row)
becomes `observed=False`. Samples of different length are left-aligned and padded with steps at time zero that hold nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from timex.io.frames import Layout
from timex.io.labels import numbered
from timex.io.limits import Limit
from timex.io.npz import read_npz, write_npz
from timex.io.npz_source import NpzSource, Whole
from timex.io.parquet_source import Apart, ParquetSource
from timex.io.sources import Chunk, SeriesSource, Source
from timex.io.tables import read_csv, read_parquet, write_csv, write_parquet
from timex.io.ts import read_ts, write_ts
from timex.records import Series

log = logging.getLogger(__name__)

Reader = Callable[[Path, tuple[str, ...], Limit], Series]
READERS: dict[str, Reader] = {".npz": read_npz, ".parquet": read_parquet, ".csv": read_csv, ".ts": read_ts}


def read_series(
    path: str | Path,
    classes: Sequence[str] | None = None,
    channels: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> Series:
    """Read a file of time series.

    A file with labels but without class names gets the names "0", "1", ...

    Args:
        path: A .npz, .parquet, .csv or .ts file.
        classes: Class names in the order of the labels 0..C-1, for files that do not list them. Without it, a test file
            that lacks a class would number the remaining ones differently from the training file.
        channels: The channels wanted, in this order; all of them in the file's order when not given.
        max_bytes: Refuse files whose arrays need more memory. By default 200 times the file's size, and at least 256 MiB.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file does not fit or is damaged; the message names the file.
    """
    file = Path(path)
    _check_suffix(file)
    if not file.is_file():
        raise FileNotFoundError(f"Expected a file of time series, found none at {file}.")
    try:
        series = READERS[file.suffix.lower()](file, tuple(classes or ()), Limit.of(file, max_bytes))
        return _finished(series, channels)
    except MemoryError:
        raise ValueError(f"{file}: The series need more memory than there is. Split the file.") from None
    except ValueError as error:
        raise ValueError(_with_name(file, str(error))) from error


def open_series(
    path: str | Path,
    classes: Sequence[str] | None = None,
    channels: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> Source:
    """The series of a file in chunks, which are read when they are needed; the arguments are those of `read_series`.

    .parquet and .npz files are read in chunks. A .csv or .ts file, a table in which the rows of a sample stand apart, and
    arrays stored by columns are read whole.
    """
    file = Path(path)
    _check_suffix(file)
    given = tuple(classes or ())
    opened: Source | None = None
    try:
        if file.is_file() and file.suffix.lower() == ".parquet":
            opened = ParquetSource(file, given, max_bytes)
        elif file.is_file() and file.suffix.lower() == ".npz":
            opened = NpzSource(file, given, max_bytes)
    except (Apart, Whole) as error:
        log.warning("%s is read into memory as a whole. %s", file, error)
    except ValueError as error:
        raise ValueError(_with_name(file, str(error))) from error
    if opened is None:
        return SeriesSource(read_series(file, classes, channels, max_bytes))
    return _Selected(opened, file, tuple(channels or ()))


class _Selected(NamedTuple):
    """A source of the wanted channels, whose errors name the file."""

    source: Source
    file: Path
    channels: tuple[str, ...]

    @property
    def chunks(self) -> Sequence[Chunk]:
        return self.source.chunks

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Series]]:
        """The series of some chunks."""
        try:
            for chunk, series in self.source.read(chunks):
                yield chunk, _finished(series, self.channels)
        except ValueError as error:
            raise ValueError(_with_name(self.file, str(error))) from error


def _finished(series: Series, channels: Sequence[str] | None) -> Series:
    """The series with class names if they have labels, and with the wanted channels alone."""
    if series.y is not None and not series.classes:
        series = series.named(classes=numbered(int(series.y.max())))
    return series if not channels else _select(series, tuple(channels))


def write_series(path: str | Path, series: Series, layout: Layout = "long") -> Path:
    """Write a file of time series that `read_series` reads back; a failing write leaves what was there before.

    Args:
        path: A .npz, .parquet, .csv or .ts file; missing folders are made.
        series: What to write.
        layout: For .parquet and .csv: "long", a row per cell, or "wide", a row per time step with a column per channel.
    """
    file = Path(path)
    _check_suffix(file)
    if layout not in ("long", "wide"):
        raise ValueError(f"Expected layout 'long' or 'wide', got {layout!r}.")
    if series.extras and file.suffix.lower() != ".npz":
        kept = "write .npz, or leave them out with replace(series, extras={})"
        raise ValueError(f"{file}: A {file.suffix} file cannot hold the extras {', '.join(series.extras)}: {kept}.")
    try:
        match file.suffix.lower():
            case ".npz":
                write_npz(file, series)
            case ".parquet":
                write_parquet(file, series, layout)
            case ".csv":
                write_csv(file, series, layout)
            case _:
                write_ts(file, series)
    except ValueError as error:
        raise ValueError(_with_name(file, str(error))) from error
    return file


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in READERS:
        raise ValueError(f"Expected a file ending in {', '.join(READERS)}, got {path.name!r}.")


def _with_name(path: Path, message: str) -> str:
    return message if message.startswith(str(path)) else f"{path}: {message}"


def _select(series: Series, channels: tuple[str, ...]) -> Series:
    """The named channels, in that order; channels without names count in the order of the file."""
    found = series.channels or channels
    if missing := [name for name in channels if name not in found]:
        raise ValueError(f"Expected the channels {list(channels)}, found {list(found)}: {missing} are missing.")
    if len(found) != series.shape[2]:
        raise ValueError(
            f"Expected the channels {list(channels)}, found {series.shape[2]} without names: name them in the file."
        )
    k = [found.index(name) for name in channels]

    def of_channels(values: tuple[float, ...]) -> tuple[float, ...]:
        return values if len(values) == 1 else tuple(values[i] for i in k)

    return replace(
        series,
        x=series.x[:, :, k],
        observed=series.observed[:, :, k],
        truth=None if series.truth is None else series.truth[:, :, k],
        channels=channels,
        units=tuple(series.units[i] for i in k) if series.units else (),
        scaling=series.scaling and (of_channels(series.scaling[0]), of_channels(series.scaling[1])),
    )
