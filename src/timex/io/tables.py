"""Tables in .csv and .parquet files: reading them into frames, and frames into series."""

from __future__ import annotations

import contextlib
import csv
import json
import warnings
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timex.io.atomic import atomic_path
from timex.io.frames import CELL, LAYOUT, TEXT, Layout, check_columns, frame_of, rows_of, series_of
from timex.io.limits import CELL as CELL_BYTES
from timex.io.limits import Limit
from timex.records import Series

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
DIGITS = ".9g"
"""Enough decimal digits to get every float32 back exactly."""
LONG = (*CELL, "value", "label", "truth")
"""The columns that are read of a long table."""
FACTS = b"timex"
"""Key of what a parquet file keeps beside its columns: units, sampling rate and scaling."""


def read_csv(path: Path, classes: tuple[str, ...], limit: Limit) -> Series:
    """The series of a comma-separated table."""
    frame = csv_frame(path, limit)
    return series_of(frame, rows_of(frame, limit), classes)


def write_csv(path: Path, series: Series, layout: Layout = "long") -> None:
    """Write a comma-separated table. It does not hold units, sampling rate and scaling."""
    write_csv_frames(path, [frame_of(series, layout)])


def read_parquet(path: Path, classes: tuple[str, ...], limit: Limit) -> Series:
    """The series of a parquet table."""
    frame, facts = parquet_frame(path, limit)
    return series_of(frame, rows_of(frame, limit), classes, **facts)


def write_parquet(path: Path, series: Series, layout: Layout = "long") -> None:
    """Write a parquet table; units, sampling rate and scaling go into the file's metadata."""
    write_parquet_frame(path, frame_of(series, layout), series)


def csv_frame(path: Path, limit: Limit, text: tuple[str, ...] = ()) -> pd.DataFrame:
    """The table of a .csv file; `TEXT` and the columns `text` stay text, the rest are numbers where possible."""
    import pandas as pd

    text = (*TEXT, *text)
    with decoding("comma-separated"), open(path, newline="", encoding="utf-8-sig") as file:
        names = [name.strip() for name in next(csv.reader(file), [])]
    check_columns(names)
    n_rows = _count_lines(path)
    limit.check(CELL_BYTES * n_rows * len(names), f"{n_rows} rows x {len(names)} columns")  # short rows are filled up
    with decoding("comma-separated"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with more fields than the header
        return pd.read_csv(
            path,
            header=0,
            names=names,
            index_col=False,
            dtype=dict.fromkeys(text, str),
            keep_default_na=False,  # a class may be called NA
            na_values={name: list(MISSING) for name in names if name not in text},
            skipinitialspace=True,
            low_memory=False,
            encoding="utf-8-sig",
        )


def _count_lines(path: Path) -> int:
    """The number of lines, whichever way they end."""
    with open(path, "rb") as file:
        ends = np.array([(part.count(b"\n"), part.count(b"\r")) for part in iter(lambda: file.read(2**20), b"")])
    return int(ends.sum(axis=0).max()) + 1


def write_csv_frames(path: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Write tables of equal columns below each other, with bools as 1 and 0, and every float32 exactly."""
    with atomic_path(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        for i, frame in enumerate(frames):
            bools = {name: np.uint8 for name in frame.columns if frame[name].dtype == bool}
            frame.astype(bools).to_csv(file, index=False, header=i == 0, float_format=f"%{DIGITS}")


def parquet_frame(path: Path, limit: Limit, more: Collection[str] = ()) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table of a .parquet file, and the units, sampling rate and scaling if the file has them.

    Args:
        path: The file.
        limit: How much memory the columns may need.
        more: Starts of the names of further columns wanted from a long table.
    """
    with open_parquet(path) as file:
        names = parquet_columns(file.schema_arrow, more)
        n_rows = file.metadata.num_rows
        limit.check(CELL_BYTES * n_rows * len(names), f"{n_rows} rows x {len(names)} columns")
        with decoding("parquet"):
            frame = decoded(file.read(columns=names))
        return frame, parquet_facts(file.schema_arrow)


def open_parquet(path: Path, **how: Any) -> Any:
    """An open .parquet file; `how` are options of `pyarrow.parquet.ParquetFile`."""
    import pyarrow.parquet as pq

    with decoding("parquet"):
        file = pq.ParquetFile(path, page_checksum_verification=True, **how)
        _ = file.schema_arrow, file.metadata.num_rows  # a damaged description is noticed here
        return file


def parquet_columns(schema: Any, more: Collection[str] = ()) -> list[str]:
    """The columns that are read of a long or wide table; `more` are starts of the names of further ones of a long table."""
    # sample and time may have been a pandas index: they are columns here; an index without a name is dropped
    names = [name for name in schema.names if not name.startswith("__index_level_")]
    check_columns(names)
    if "channel" in names:
        names = [name for name in names if name in LONG or name.startswith(tuple(more))]
    _check_flat(schema, names)
    return names


def parquet_facts(schema: Any) -> dict[str, Any]:
    """The units, sampling rate and scaling if the file has them."""
    return _facts((schema.metadata or {}).get(FACTS))


def decoded(table: Any) -> pd.DataFrame:
    """The frame of an arrow table whose content is checked."""
    table.validate(full=True)
    return table.to_pandas(ignore_metadata=True)


@contextlib.contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Turn whatever a reader raises for a damaged file into one `ValueError`."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # pandas and pyarrow raise errors of many kinds
        raise ValueError(f"Could not be read as a {kind} table: {error}. {LAYOUT}") from error


def _check_flat(schema: Any, names: list[str]) -> None:
    """Refuse columns of lists or records, which are no cells."""
    import pyarrow as pa

    for name in names:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or (pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type)):
            raise ValueError(f"Found {kind} in the column {name!r}. Expected one number or text per row. {LAYOUT}")


def _facts(text: bytes | None) -> dict[str, Any]:
    """Fields of a `Series` that its table has no columns for."""
    if text is None:
        return {}
    try:
        facts = json.loads(text)
        return {
            "units": tuple(map(str, facts["units"])),
            "sampling_rate": None if facts["sampling_rate"] is None else float(facts["sampling_rate"]),
            "scaling": facts["scaling"] and tuple(tuple(map(float, values)) for values in facts["scaling"]),
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"The file's metadata {FACTS.decode()!r} is damaged: {error!r}. Write the file again.") from None


def write_parquet_frame(path: Path, frame: pd.DataFrame, series: Series, **more: Any) -> None:
    """Write a table with the facts about its series that are no columns; `more` are further facts that JSON can hold."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = _with_wide_codes(pa.Table.from_pandas(frame, preserve_index=False))
    facts = {"units": series.units, "sampling_rate": series.sampling_rate, "scaling": series.scaling, **more}
    table = table.replace_schema_metadata({**table.schema.metadata, FACTS: json.dumps(facts).encode()})
    with atomic_path(path) as beside:
        pq.write_table(table, beside, write_page_checksum=True)


def _with_wide_codes(table: Any) -> Any:
    """The table with categories of 32 bits: parts of one table then have equal types, however many names they hold."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(i).combine_chunks()
            column = column if isinstance(column, pa.DictionaryArray) else column.chunk(0)
            wide = pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary)
            table = table.set_column(i, field.name, wide)
    return table
