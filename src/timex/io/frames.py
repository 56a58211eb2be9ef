"""Series to and from tables in memory, one row per cell (long) or per time step (wide).

Shapes: N samples, T time steps, D channels, R rows of a table; layout (N, T, D) everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.io.labels import encode
from timex.io.limits import Limit
from timex.records import Series

if TYPE_CHECKING:
    import pandas as pd

Layout = Literal["long", "wide"]
Ints = NDArray[np.int64]

CELL = ("sample", "time", "channel")
"""The columns that say which cell a row of a long table is about."""
TEXT = ("sample", "channel", "label")
"""Columns read from .csv as they stand, so that a sample 007 keeps its name."""
TRUTH = "truth:"
"""Starts the name of a wide table's truth column for one channel."""
RESERVED = ("sample", "time", "channel", "label", "truth")
"""Columns of a wide table that are never channels."""
LAYOUT = (
    "Expected a long table with the columns sample, time, channel, value (a row per cell; label and truth optional), "
    "or a wide table with sample, time and a column per channel (a row per time step; label, truth and "
    f"{TRUTH}CHANNEL optional)."
)


class Rows(NamedTuple):
    """Where the rows of a table belong in dense arrays.

    Attributes:
        place: The index of every row: sample and step, and channel in a long table; each (R,).
        shape: (N, T, D).
        times: (N, T), zero in the padding.
        ids: Sample names.
        channels: Channel names.
    """

    place: tuple[Ints, ...]
    shape: tuple[int, int, int]
    times: NDArray[np.float64]
    ids: tuple[str, ...]
    channels: tuple[str, ...]

    def dense(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """One value per row, (R,) or (R, D), as an array (N, T, D) of the same type."""
        array = np.full(self.shape, fill, dtype=values.dtype)
        array[self.place] = values
        return array

    def per_sample(self, values: NDArray[Any]) -> NDArray[Any]:
        """The value of each sample's first row, (N, ...)."""
        first = np.empty((self.shape[0], *values.shape[1:]), dtype=values.dtype)
        first[self.place[0][::-1]] = values[::-1]  # the last write wins, and so the first row
        return first


# ----------------------------------------------------------------------------------------------------- table to series


def check_columns(names: list[str]) -> None:
    """Refuse a table that is neither long nor wide, or has columns without a name of their own."""
    if "sample" not in names or "time" not in names or ("channel" in names and "value" not in names):
        raise ValueError(f"Found the columns {names[:20]}. {LAYOUT}")
    if "" in names or len(set(names)) != len(names):
        raise ValueError(
            f"Found the columns {names[:20]}. Expected distinct names that are not empty: "
            "leave out the row numbers (pandas: to_csv(path, index=False))."
        )


def rows_of(frame: pd.DataFrame, limit: Limit, channels: Sequence[str] = ()) -> Rows:
    """Locate the rows of a long or wide table.

    Args:
        frame: The table.
        limit: How much memory the arrays may need.
        channels: The channels of a long table of which this is a part; by default those of its own rows.
    """
    if frame.empty:
        raise ValueError(f"Found no rows. {LAYOUT}")
    sample, ids = _codes(frame["sample"])  # (R,)
    time = numbers(frame["time"])
    step = _step_of_rows(sample, time)
    place: tuple[Ints, ...] = (sample, step)
    if "channel" in frame:
        channel, found = _codes(frame["channel"])
        channels = tuple(channels) or found
        place = (sample, step, np.array([channels.index(name) for name in found])[channel])
    else:
        channels = tuple(name for name in frame.columns if name not in RESERVED and not name.startswith(TRUTH))
        if not channels:
            raise ValueError(f"Found the columns {list(frame.columns)} and so no channel. {LAYOUT}")
    shape = (len(ids), int(step.max()) + 1, len(channels))
    limit.check_cells(*shape)
    _check_distinct(place, shape, frame)
    times = np.zeros(shape[:2])
    times[sample, step] = time
    return Rows(place, shape, times, ids, channels)


def series_of(frame: pd.DataFrame, rows: Rows, classes: tuple[str, ...] = (), **rest: Any) -> Series:
    """The series of a long or wide table; `rest` are fields that the columns do not hold."""
    if "channel" in frame:
        values = numbers(frame["value"])  # (R,)
        truth = flags(frame["truth"]) if "truth" in frame else None
    else:
        values = np.stack([numbers(frame[name]) for name in rows.channels], axis=1)  # (R, D)
        truth = _wide_truth(frame, rows.channels)
    y = None
    if "label" in frame:
        y, classes = _labels(frame["label"], rows, classes)
    return Series.with_gaps(
        rows.dense(values, np.nan),
        rows.times,
        y=y,
        truth=None if truth is None else rows.dense(truth, False),
        ids=rows.ids,
        channels=rows.channels,
        classes=classes,
        **rest,
    )


def numbers(column: pd.Series) -> NDArray[np.float64]:
    """A column as floats, NaN where missing, (R,)."""
    import pandas as pd

    advice = "give seconds or steps since the sample's start" if column.name == "time" else "leave the field empty if missing"
    if column.dtype.kind in "mM":
        raise ValueError(f"Found dates in the column {column.name!r}. Expected numbers: {advice}.")
    converted = pd.to_numeric(column.astype(object) if column.dtype == "category" else column, errors="coerce")
    bad = (converted.isna() & column.notna()).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"Found {column.iloc[row]!r} in the column {column.name!r}, row {row}. Expected numbers: {advice}.")
    floats: NDArray[np.float64] = converted.to_numpy(dtype=np.float64, na_value=np.nan)
    if column.name == "time" and not np.isfinite(floats).all():
        row = int(np.argmin(np.isfinite(floats)))
        raise ValueError(f"Found no finite time in row {row}. Expected numbers: {advice}.")
    return floats


def flags(column: pd.Series) -> NDArray[np.bool_]:
    """A column of true and false (or 1 and 0) as bools, False where missing, (R,)."""
    codes, values = _factorize(column)
    texts = [str(value).lower() for value in values]
    odd = [text for text in texts if text not in ("true", "1", "1.0", "false", "0", "0.0", "")]
    if odd:
        raise ValueError(f"Found {odd[:3]} in the column {column.name!r}. Expected true or false, or 1 or 0.")
    table = np.array([text in ("true", "1", "1.0") for text in texts] + [False])  # the last for the code -1
    return table[codes]


def _factorize(column: pd.Series) -> tuple[Ints, list[Any]]:
    """Every row's value as a number, (R,), -1 where missing, and the distinct values in the order they first appear."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    values = list(distinct)
    return (np.where(codes == values.index(""), -1, codes) if "" in values else codes), values


def _codes(column: pd.Series) -> tuple[Ints, tuple[str, ...]]:
    """Names as numbers, (R,), and the distinct names; none may be missing."""
    codes, values = _factorize(column)
    if codes.min() < 0:
        raise ValueError(f"Found no {column.name} in row {int(codes.argmin())}: name the {column.name} of every row.")
    return codes, tuple(str(value) for value in values)


def _step_of_rows(sample: Ints, time: NDArray[np.float64]) -> Ints:
    """The step of every row within its sample, in the order of time, (R,)."""
    order = np.lexsort((time, sample))
    s, t = sample[order], time[order]
    new_sample = np.r_[True, s[1:] != s[:-1]]
    new_step = new_sample | np.r_[True, t[1:] != t[:-1]]
    count = np.cumsum(new_step) - 1  # steps so far, over all samples
    first = count[new_sample]  # (N,), since sorted samples are 0..N-1
    step = np.empty_like(sample)
    step[order] = count - first[s]
    return step


def _check_distinct(place: tuple[Ints, ...], shape: tuple[int, ...], frame: pd.DataFrame) -> None:
    import pandas as pd

    keys = np.ravel_multi_index(place, shape[: len(place)])
    twice = pd.Series(keys).duplicated().to_numpy()
    if twice.any():
        names = CELL[: len(place)]
        cell = ", ".join(f"{name} {frame[name].iloc[int(twice.argmax())]}" for name in names)
        raise ValueError(
            f"Found more than one row for {cell} ({int(twice.sum())} such rows). "
            f"Expected one row per {', '.join(names)}: drop the repeated rows or average them."
        )


def _wide_truth(frame: pd.DataFrame, channels: tuple[str, ...]) -> NDArray[np.bool_] | None:
    """The truth of every row and channel, (R, D): from truth:CHANNEL, else from truth, which is for all channels."""
    own = {name.removeprefix(TRUTH) for name in frame.columns if name.startswith(TRUTH)}
    stray = sorted(own - set(channels))
    if stray:
        raise ValueError(f"Found {TRUTH} columns for the channels {stray}, which it does not have; it has {list(channels)}.")
    if not own and "truth" not in frame:
        return None
    common = flags(frame["truth"]) if "truth" in frame else np.zeros(len(frame), dtype=bool)
    return np.stack([flags(frame[TRUTH + c]) if c in own else common for c in channels], axis=1)


def _labels(column: pd.Series, rows: Rows, classes: tuple[str, ...]) -> tuple[Ints, tuple[str, ...]]:
    """One label per sample, (N,), from one label per row, and the class names."""
    sample = rows.place[0]
    codes, values = _factorize(column)
    if codes.min() < 0:
        raise ValueError(
            f"Found no label in a row of the sample {rows.ids[sample[int(codes.argmin())]]!r}. "
            "Expected the sample's label in each of its rows, or no column label."
        )
    first = rows.per_sample(codes)
    varies = codes != first[sample]
    if varies.any():
        row = int(varies.argmax())
        raise ValueError(
            f"Found the labels {str(values[first[sample[row]]])!r} and {str(values[codes[row]])!r} for the sample "
            f"{rows.ids[sample[row]]!r}. Expected one label per sample: cut the series where its label changes."
        )
    if column.dtype == "category" and not classes:
        classes = tuple(str(name) for name in column.cat.categories)
    return encode([values[code] for code in first.tolist()], classes)


# ----------------------------------------------------------------------------------------------------- series to table


def used_steps(series: Series) -> NDArray[np.bool_]:
    """The steps of every sample without its padding, (N, T): up to the last step with a cell, a time or a truth."""
    used = series.observed.any(axis=2) | (series.times != 0)  # (N, T)
    if series.truth is not None:
        used |= series.truth.any(axis=2)
    used[:, 0] = True  # a sample without any cell still needs a row
    return np.flip(np.logical_or.accumulate(np.flip(used, axis=1), axis=1), axis=1)


def frame_of(series: Series, layout: Layout = "long", **cells: NDArray[Any]) -> pd.DataFrame:
    """A row per cell (long) or per step (wide), without padding. Missing cells have a row, or steps would be lost.

    Args:
        series: What the table holds.
        layout: "long" or "wide".
        cells: Further columns of a long table, one value per cell, (N, T, D).
    """
    import pandas as pd

    n, _, d = series.shape
    keep = used_steps(series)
    if (keep[:, 1:] & (np.diff(series.times, axis=1) <= 0)).any():
        raise ValueError(
            "Expected times that increase within each sample, as a table's rows are ordered by them: sort the "
            "steps, or write .npz."
        )
    names = series.channels or tuple(f"channel_{k}" for k in range(d))
    sample, step = np.nonzero(keep)  # (R,)
    repeats = d if layout == "long" else 1
    sample_row = np.repeat(sample, repeats)
    columns: dict[str, Any] = {
        "sample": pd.Categorical.from_codes(sample_row, list(series.ids or map(str, range(n)))),
        "time": np.repeat(series.times[sample, step], repeats),
    }
    values = np.where(series.observed, series.x, np.float32(np.nan))[sample, step]  # (R, D)
    truth = None if series.truth is None else series.truth[sample, step]  # (R, D)
    if layout == "long":
        columns["channel"] = pd.Categorical.from_codes(np.tile(np.arange(d), len(sample)), list(names))
        columns["value"] = values.reshape(-1)
        columns |= {} if truth is None else {"truth": truth.reshape(-1)}
        columns |= {name: value[sample, step].reshape(-1) for name, value in cells.items()}
    else:
        _check_wide_names(names)
        columns |= {name: values[:, k] for k, name in enumerate(names)}
        columns |= {} if truth is None else {TRUTH + name: truth[:, k] for k, name in enumerate(names)}
    if series.y is not None:  # as a category, which keeps the order of the classes, and those without a sample
        columns["label"] = pd.Categorical.from_codes(series.y[sample_row], class_names(series))
    return pd.DataFrame(columns)


def class_names(series: Series, n_classes: int = 0) -> list[str]:
    """The class names, or "0", "1", ... for series without them."""
    largest = -1 if series.y is None else int(series.y.max())
    return list(series.classes) or [str(c) for c in range(max(largest + 1, n_classes))]


def _check_wide_names(channels: tuple[str, ...]) -> None:
    taken = [name for name in channels if name in RESERVED or name.startswith(TRUTH)]
    if taken:
        raise ValueError(
            f"Expected channel names other than {', '.join(RESERVED)} and {TRUTH}... in a wide table, "
            f'got {taken}: rename them, or write layout="long".'
        )
