"""Series in the user's own files: .npz, .parquet and .csv tables (long or wide), and aeon's and sktime's .ts.

Shapes: N samples, T time steps, D channels, R rows of a table; layout (N, T, D) everywhere. `docs/files.md` shows every
layout. Two rules hold for all of them: a missing value (NaN, an empty field, an absent row) becomes `observed=False`,
and samples of different length are left-aligned and padded with steps at time zero that hold nothing.
"""

from __future__ import annotations

import csv
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.types import Part, atomic_path, check_labels, check_series

if TYPE_CHECKING:
    import pandas as pd

Layout = Literal["long", "wide"]
Header = dict[str, list[str]]

ARRAYS = ("x", "times", "observed", "y", "truth", "channels", "classes", "ids")
LONG = ("sample", "time", "channel", "value")
TEXT = ("sample", "channel", "label")  # read from .csv as they stand, so that a sample 007 keeps its name
RESERVED = ("sample", "time", "channel", "label", "truth")  # columns of a wide table that are never channels
TRUTH = "truth:"  # starts the name of a wide table's truth column for one channel
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "None")
DIGITS = ".9g"  # enough decimal digits to get every float32 back exactly
MOST_CLASSES = 10_000  # more than this, and somebody's sample numbers came as labels

TABLE_LAYOUT = (
    "Expected a long table with the columns sample, time, channel, value (a row per cell; label and truth optional), "
    "or a wide table with sample, time and a column per channel (a row per time step; label, truth and "
    f"{TRUTH}CHANNEL optional)."
)
NPZ_LAYOUT = "Expected an array x of shape (N, T, D), and optionally times, observed, y, truth, channels, classes, ids."
TS_LAYOUT = (
    "Expected header lines such as '@classLabel true a b', a line '@data', then one line per sample: channels "
    "separated by ':', their values by ',', and the label last."
)


@dataclass(frozen=True)
class Series:
    """What a file of time series holds.

    Attributes:
        x: The series, (N, T, D) float32; zero where not observed.
        times: The time of every step, (N, T) float32, 1..T unless the file says otherwise; zero in the padding.
        observed: Which cells were measured, (N, T, D) bool; padding is a step with no observed cell.
        y: Class labels 0..C-1, (N,) int64, or None.
        truth: Cells known to decide the class, (N, T, D) bool, or None.
        channels: Names of the D channels; channel_0, channel_1, ... unless given.
        classes: Names of the classes, by label; empty without labels, "0", "1", ... unless given.
        ids: The samples' own names, or empty.

    >>> series = Series.of(np.zeros((3, 5, 2)), y=[0, 1, 0], classes=("rest", "walk"))
    >>> series.channels, len(series.as_part())
    (('channel_0', 'channel_1'), 3)
    """

    x: NDArray[np.float32]
    times: NDArray[np.float32]
    observed: NDArray[np.bool_]
    y: NDArray[np.int64] | None = None
    truth: NDArray[np.bool_] | None = None
    channels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        x, times, observed = check_series(self.x, self.times, self.observed)
        n, _, d = x.shape
        y = None if self.y is None else check_labels(self.y, n, len(self.classes) or None)
        truth = None if self.truth is None else np.asarray(self.truth, dtype=bool)
        if truth is not None and truth.shape != x.shape:
            raise ValueError(f"Expected truth of the shape of x, {x.shape}, got {truth.shape}.")
        values = {
            "x": x,
            "times": times,
            "observed": observed,
            "y": y,
            "truth": truth,
            "channels": _names(self.channels or [f"channel_{k}" for k in range(d)], "channel", d),
            "classes": () if y is None else _names(self.classes or _numbered_classes(int(y.max())), "class"),
            "ids": _names(self.ids, "sample", n) if len(self.ids) else (),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, x: ArrayLike, times: ArrayLike | None = None, observed: ArrayLike | None = None, **rest: Any) -> Series:
        """A series from x alone: times 1..T, and every cell observed that is not NaN, unless given."""
        with np.errstate(over="ignore"):  # what is too large for float32 becomes inf, which the check reports
            array = np.asarray(x, dtype=np.float32)
        seen = ~np.isnan(array) if observed is None else observed
        return cls(*check_series(array, times, seen), **rest)

    @classmethod
    def of_part(cls, part: Part, channels: Sequence[str], classes: Sequence[str]) -> Series:
        """A part of a data set, under the names of its channels and classes."""
        arrays = (part.x, part.times, part.observed, part.y, part.truth)
        return cls(*arrays, channels=tuple(channels), classes=tuple(classes))

    def __len__(self) -> int:
        return len(self.x)

    def as_part(self) -> Part:
        """The arrays as a part of a data set, which needs labels."""
        if self.y is None:
            raise ValueError(
                "Expected labels, got a series without y: add a label column (tables), y (.npz) or @classLabel (.ts)."
            )
        return Part(self.x, self.times, self.observed, self.y, self.truth)


def read_series(path: str | Path, classes: Sequence[str] | None = None, channels: Sequence[str] | None = None) -> Series:
    """Read a file of time series; its suffix says which kind it is.

    Args:
        path: A .npz, .parquet, .csv or .ts file.
        classes: Class names in the order of the labels 0..C-1, for files that do not list them. Without it, a test file
            that lacks a class would number the others differently from the training file.
        channels: The channels wanted, in this order; all of them in the file's order when not given.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file does not fit; the message says what came and what was expected.
    """
    file = Path(path)
    read = _by_suffix(file)[0]
    if not file.is_file():
        raise FileNotFoundError(f"Expected a file of time series, found none at {file}.")
    try:
        series = read(file, tuple(classes or ()))
        return series if channels is None else _select(series, channels)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def write_series(path: str | Path, series: Series, layout: Layout = "long") -> Path:
    """Write a file of time series that `read_series` reads back; a failing write leaves what was there before.

    Args:
        path: A .npz, .parquet, .csv or .ts file; missing folders are made.
        series: What to write.
        layout: For .parquet and .csv: "long", a row per cell, or "wide", a row per time step with a column per channel.
    """
    file = Path(path)
    write = _by_suffix(file)[1]
    if layout not in ("long", "wide"):
        raise ValueError(f"Expected layout 'long' or 'wide', got {layout!r}.")
    try:
        with atomic_path(file) as beside:
            write(beside, series, layout, file.stem)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return file


# ----------------------------------------------------------------------------------------------- checks and small parts


def _by_suffix(path: Path) -> tuple[Reader, Writer]:
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ValueError(f"Expected a file ending in {', '.join(FORMATS)}, got {path.name!r}.") from None


def _names(names: Sequence[Any] | NDArray[Any], what: str, count: int | None = None) -> tuple[str, ...]:
    texts = tuple(str(name) for name in names)
    if count is not None and len(texts) != count:
        raise ValueError(f"Expected {count} {what} names, got {len(texts)}.")
    if len(set(texts)) != len(texts) or "" in texts:
        odd = next(name for name in texts if name == "" or texts.count(name) > 1)
        raise ValueError(f"Expected distinct {what} names that are not empty, got {odd!r}.")
    return texts


def _numbered_classes(top: int) -> tuple[str, ...]:
    if top >= MOST_CLASSES:
        raise ValueError(
            f"Expected whole-number labels to be class numbers 0..C-1, got {top}: "
            "name the classes with classes=, or renumber them."
        )
    return tuple(str(c) for c in range(top + 1))


def _encode(labels: Sequence[Any], classes: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels of any kind as class numbers, (N,), and class names.

    Names found in `classes` count from there. Otherwise whole numbers from 0 up are class numbers already, so that a
    file without some class keeps the numbers of the others, and anything else is a name, numbered in sorted order.
    """
    texts = [_label_name(label) for label in labels]
    names = sorted(set(texts))
    whole = all(name.isdecimal() for name in names)
    if not classes:
        classes = _numbered_classes(max(map(int, names))) if whole else tuple(sorted(names, key=_sort_key(names)))
    number = {name: c for c, name in enumerate(classes)}
    if whole and not all(name in number for name in names):
        number = {name: int(name) for name in names if int(name) < len(classes)}
    odd = [name for name in names if name not in number]
    if odd:
        raise ValueError(f"Expected labels among the classes {list(classes)}, got {odd}.")
    return np.array([number[text] for text in texts], dtype=np.int64), classes


def _label_name(label: Any) -> str:
    # a gap elsewhere in a column makes pandas read its whole numbers as floats
    return str(int(label)) if isinstance(label, float | np.floating) and label.is_integer() else str(label)


def _sort_key(names: list[str]) -> Callable[[str], Any]:
    """Numbers sort as numbers (-1 before 2 before 10), anything else as text."""
    try:
        for name in names:
            float(name)
    except ValueError:
        return str
    return float


def _select(series: Series, channels: Sequence[str]) -> Series:
    """The named channels, in that order."""
    lacking = [name for name in channels if name not in series.channels]
    if lacking:
        raise ValueError(f"Expected the channels {list(channels)}, found {list(series.channels)}.")
    k = [series.channels.index(name) for name in channels]
    truth = None if series.truth is None else series.truth[:, :, k]
    return replace(series, x=series.x[:, :, k], observed=series.observed[:, :, k], truth=truth, channels=tuple(channels))


def _steps(series: Series) -> NDArray[np.bool_]:
    """The steps of every sample without its padding, (N, T): up to the last step with a cell, a time or a truth."""
    used = series.observed.any(axis=2) | (series.times != 0)  # (N, T)
    if series.truth is not None:
        used |= series.truth.any(axis=2)
    used[:, 0] = True  # a sample without any cell still needs a row, or it would be gone
    return np.flip(np.logical_or.accumulate(np.flip(used, axis=1), axis=1), axis=1)


# ------------------------------------------------------------------------------------------------------------------ npz


def _read_npz(path: Path, classes: tuple[str, ...]) -> Series:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"No .npz archive. {NPZ_LAYOUT}")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name in (*ARRAYS, "X")}
            found = sorted(file.files)
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"Could not be read: {error} Object arrays and pickles are never loaded, since loading one can run "
            f"any code: save plain arrays of numbers, bools or strings. {NPZ_LAYOUT}"
        ) from None
    if "X" in arrays:
        arrays.setdefault("x", arrays.pop("X"))
    if "x" not in arrays:
        raise ValueError(f"Found no array x, only {found}. {NPZ_LAYOUT}")
    values: dict[str, Any] = dict(arrays)
    for name in ("channels", "classes", "ids"):
        values[name] = tuple(np.ravel(arrays.get(name, ())).astype(str).tolist())
    values["classes"] = classes or values["classes"]
    if "y" in values and values["y"].dtype.kind in "US":
        values["y"], values["classes"] = _encode(values["y"].astype(str).tolist(), values["classes"])
    return Series.of(**values)


def _write_npz(beside: Path, series: Series, _layout: Layout, _name: str) -> None:
    held = {name: getattr(series, name) for name in ARRAYS}
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in held.items() if value is not None and len(value)}
    with open(beside, "wb") as file:  # a handle, since savez would add .npz to the temporary name
        np.savez_compressed(file, **arrays)


# --------------------------------------------------------------------------------------------------------------- tables


def _read_csv(path: Path, classes: tuple[str, ...]) -> Series:
    import pandas as pd

    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            names = [name.strip() for name in next(csv.reader(file), [])]
        _check_columns(names)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with more fields than the header
            frame = pd.read_csv(
                path,
                header=0,
                names=names,
                index_col=False,
                dtype=dict.fromkeys(TEXT, str),
                keep_default_na=False,  # a class may be called NA
                na_values={name: list(MISSING) for name in names if name not in TEXT},
                skipinitialspace=True,
                low_memory=False,
                encoding="utf-8-sig",
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"Could not be read as a comma-separated table: {error}. {TABLE_LAYOUT}") from None
    return _from_frame(frame, classes)


def _read_parquet(path: Path, classes: tuple[str, ...]) -> Series:
    import pandas as pd
    from pyarrow import ArrowException

    try:
        frame = pd.read_parquet(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"Could not be read as a parquet table: {error} {TABLE_LAYOUT}") from None
    frame = frame.reset_index(drop=list(frame.index.names) == [None])  # sample and time may have been the index
    _check_columns([str(name) for name in frame.columns])
    return _from_frame(frame.rename(columns=str), classes)


def _check_columns(names: list[str]) -> None:
    if "sample" not in names or "time" not in names or ("channel" in names and "value" not in names):
        raise ValueError(f"Found the columns {names}. {TABLE_LAYOUT}")
    if "" in names or len(set(names)) != len(names):
        raise ValueError(
            f"Found the columns {names}. Expected distinct names that are not empty: "
            "leave out the row numbers (pandas: to_csv(path, index=False))."
        )


def _from_frame(frame: pd.DataFrame, classes: tuple[str, ...]) -> Series:
    """The dense arrays of a long or wide table."""
    if frame.empty:
        raise ValueError(f"Found no rows. {TABLE_LAYOUT}")
    sample, ids = _codes(frame["sample"])  # (R,)
    step, times = _align(sample, _numbers(frame["time"]), ids)
    if "channel" in frame:
        channel, channels = _codes(frame["channel"])
        place: tuple[NDArray[np.int64], ...] = (sample, step, channel)
        values = _numbers(frame["value"])  # (R,)
        truth = _flags(frame["truth"]) if "truth" in frame else None
    else:
        channels = [name for name in frame.columns if name not in RESERVED and not name.startswith(TRUTH)]
        if not channels:
            raise ValueError(f"Found the columns {list(frame.columns)} and so no channel. {TABLE_LAYOUT}")
        place = (sample, step)
        values = np.stack([_numbers(frame[name]) for name in channels], axis=1)  # (R, D)
        truth = _wide_truth(frame, channels)
    _check_distinct(place, frame)
    shape = (*times.shape, len(channels))
    x = np.full(shape, np.nan, dtype=np.float32)  # (N, T, D)
    with np.errstate(over="ignore"):
        x[place] = values
    y = None
    if "label" in frame:
        y, classes = _labels(frame["label"], sample, ids, classes)
    dense = _scatter(truth, place, shape)
    return Series.of(x, times, y=y, truth=dense, channels=tuple(channels), classes=classes, ids=tuple(ids))


def _scatter(
    truth: NDArray[np.bool_] | None, place: tuple[NDArray[np.int64], ...], shape: tuple[int, ...]
) -> NDArray[np.bool_] | None:
    if truth is None:
        return None
    dense = np.zeros(shape, dtype=bool)  # (N, T, D)
    dense[place] = truth
    return dense


def _factorize(column: pd.Series) -> tuple[NDArray[np.int64], list[Any]]:
    """Every row's value as a number, (R,), -1 where missing, and the distinct values in the order they first appear."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    values = list(distinct)
    return (np.where(codes == values.index(""), -1, codes) if "" in values else codes), values


def _codes(column: pd.Series) -> tuple[NDArray[np.int64], list[str]]:
    """Names as numbers, (R,), and the distinct names; none may be missing."""
    codes, values = _factorize(column)
    if codes.min() < 0:
        raise ValueError(f"Found no {column.name} in row {int(codes.argmin())}: name the {column.name} of every row.")
    return codes, [str(value) for value in values]


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    """A column as floats, NaN where missing, (R,)."""
    import pandas as pd

    advice = "give seconds or steps since the sample's start" if column.name == "time" else "leave the field empty if missing"
    if column.dtype.kind in "mM":
        raise ValueError(f"Found dates in the column {column.name!r}. Expected numbers: {advice}.")
    numbers = pd.to_numeric(column.astype(object) if column.dtype == "category" else column, errors="coerce")
    bad = (numbers.isna() & column.notna()).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"Found {column.iloc[row]!r} in the column {column.name!r}, row {row}. Expected numbers: {advice}.")
    floats: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    if column.name == "time" and not np.isfinite(floats).all():
        row = int(np.argmin(np.isfinite(floats)))
        raise ValueError(f"Found no finite time in row {row}. Expected numbers: {advice}.")
    return floats


def _flags(column: pd.Series) -> NDArray[np.bool_]:
    """A column of true and false (or 1 and 0) as bools, False where missing, (R,)."""
    codes, values = _factorize(column)
    texts = [str(value).lower() for value in values]
    odd = [text for text in texts if text not in ("true", "1", "1.0", "false", "0", "0.0", "")]
    if odd:
        raise ValueError(f"Found {odd[:3]} in the column {column.name!r}. Expected true or false, or 1 or 0.")
    table = np.array([text in ("true", "1", "1.0") for text in texts] + [False])  # the last for the code -1
    return table[codes]


def _wide_truth(frame: pd.DataFrame, channels: list[str]) -> NDArray[np.bool_] | None:
    """The truth of every row and channel, (R, D): from truth:CHANNEL, else from truth, which is for all channels."""
    own = [name for name in frame.columns if name.startswith(TRUTH)]
    stray = [name for name in own if name.removeprefix(TRUTH) not in channels]
    if stray:
        raise ValueError(f"Found the columns {stray} for channels it does not have; its channels are {channels}.")
    if not own and "truth" not in frame:
        return None
    common = _flags(frame["truth"]) if "truth" in frame else np.zeros(len(frame), dtype=bool)
    return np.stack([_flags(frame[TRUTH + c]) if TRUTH + c in own else common for c in channels], axis=1)


def _align(
    sample: NDArray[np.int64], time: NDArray[np.float64], ids: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The step of every row within its sample, (R,), and the time of every step, (N, T), zero in the padding."""
    order = np.lexsort((time, sample))
    s, t = sample[order], time[order]
    new_sample = np.r_[True, s[1:] != s[:-1]]
    new_step = new_sample | np.r_[True, t[1:] != t[:-1]]
    count = np.cumsum(new_step) - 1  # steps so far, over all samples
    first = count[new_sample]  # (N,), since sorted samples are 0..N-1
    step = np.empty_like(sample)
    step[order] = count - first[s]
    rows = order[new_step]
    times = np.zeros((len(ids), int(step.max()) + 1), dtype=np.float32)
    times[sample[rows], step[rows]] = time[rows]
    used = np.zeros(times.shape, dtype=bool)
    used[sample, step] = True
    close = used[:, 1:] & (np.diff(times, axis=1) <= 0)
    if close.any():
        raise ValueError(
            f"Found times of the sample {ids[int(close.any(axis=1).argmax())]!r} that are one and the same in "
            "float32: give the time since the sample's start instead of a date's number."
        )
    return step, times


def _check_distinct(place: tuple[NDArray[np.int64], ...], frame: pd.DataFrame) -> None:
    import pandas as pd

    keys = np.ravel_multi_index(place, tuple(int(index.max()) + 1 for index in place))
    twice = pd.Series(keys).duplicated().to_numpy()
    if twice.any():
        names = LONG[: len(place)]
        cell = ", ".join(f"{name} {frame[name].iloc[int(twice.argmax())]}" for name in names)
        raise ValueError(
            f"Found more than one row for {cell} ({int(twice.sum())} such rows). "
            f"Expected one row per {', '.join(names)}: drop or average the others."
        )


def _labels(
    column: pd.Series, sample: NDArray[np.int64], ids: list[str], classes: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """One label per sample, (N,), from one label per row, and the class names."""
    codes, values = _factorize(column)
    if codes.min() < 0:
        raise ValueError(
            f"Found no label in a row of the sample {ids[sample[int(codes.argmin())]]!r}. "
            "Expected the sample's label in each of its rows, or no column label."
        )
    first = np.empty(len(ids), dtype=np.int64)
    first[sample[::-1]] = codes[::-1]  # the last write wins, and so the first row
    varies = codes != first[sample]
    if varies.any():
        row = int(varies.argmax())
        raise ValueError(
            f"Found the labels {str(values[first[sample[row]]])!r} and {str(values[codes[row]])!r} for the sample "
            f"{ids[sample[row]]!r}. Expected one label per sample: cut the series where its label changes."
        )
    if column.dtype == "category" and not classes:
        classes = tuple(str(name) for name in column.cat.categories)
    return _encode([values[code] for code in first.tolist()], classes)


def _write_csv(beside: Path, series: Series, layout: Layout, _name: str) -> None:
    frame = _to_frame(series, layout)
    flags = {name: np.uint8 for name in frame.columns if frame[name].dtype == bool}
    frame.astype(flags).to_csv(beside, index=False, float_format=f"%{DIGITS}")


def _write_parquet(beside: Path, series: Series, layout: Layout, _name: str) -> None:
    _to_frame(series, layout).to_parquet(beside, index=False)


def _to_frame(series: Series, layout: Layout) -> pd.DataFrame:
    """A row per cell (long) or per step (wide), without padding; missing cells have a row, or steps would be lost."""
    import pandas as pd

    n, _, d = series.x.shape
    keep = _steps(series)
    if (keep[:, 1:] & (np.diff(series.times, axis=1) <= 0)).any():
        raise ValueError(
            "Expected times that increase within each sample, as a table's rows are ordered by them: sort the "
            "steps, or write .npz."
        )
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
        columns["channel"] = pd.Categorical.from_codes(np.tile(np.arange(d), len(sample)), list(series.channels))
        columns["value"] = values.reshape(-1)
        columns |= {} if truth is None else {"truth": truth.reshape(-1)}
    else:
        _check_wide_names(series.channels)
        columns |= {name: values[:, k] for k, name in enumerate(series.channels)}
        columns |= {} if truth is None else {TRUTH + name: truth[:, k] for k, name in enumerate(series.channels)}
    if series.y is not None:  # as a category, which keeps the order of the classes, and those without a sample
        columns["label"] = pd.Categorical.from_codes(series.y[sample_row], list(series.classes))
    return pd.DataFrame(columns)


def _check_wide_names(channels: tuple[str, ...]) -> None:
    taken = [name for name in channels if name in RESERVED or name.startswith(TRUTH)]
    if taken:
        raise ValueError(
            f"Expected channel names other than {', '.join(RESERVED)} and {TRUTH}... in a wide table, "
            f'got {taken}: rename them, or write layout="long".'
        )


# ------------------------------------------------------------------------------------------------------------------- ts


def _read_ts(path: Path, classes: tuple[str, ...]) -> Series:
    # some archives have a Latin-1 name in a comment, which is no reason to refuse the numbers
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header, n_header = _ts_header(file)
        listed = _ts_classes(header)
        cases, labels = [], []
        for number, line in enumerate(file, start=n_header + 1):
            text = line.strip()
            if text and not text.startswith("#"):
                case, label = _ts_case(text, listed is not None, f"line {number}")
                cases.append(case)
                labels.append(label)
    if not cases:
        raise ValueError(f"Found no line of data. {TS_LAYOUT}")
    _check_ts_channels(header, cases)
    lengths = np.array([[len(values) for values in case] for case in cases])  # (N, D)
    n, d = lengths.shape
    t = int(lengths.max())
    x = np.full((n, d, t), np.nan, dtype=np.float32)
    x[np.arange(t) < lengths[:, :, None]] = np.concatenate([values for case in cases for values in case])
    steps = np.arange(1, t + 1, dtype=np.float32)
    times = np.where(steps <= lengths.max(axis=1, keepdims=True), steps, np.float32(0))  # (N, T)
    y = None
    if listed is not None:
        odd = sorted(set(labels) - set(listed))
        if listed and odd:  # a bare "@classLabel true" leaves the naming to the labels
            raise ValueError(f"Found the labels {odd}. Expected those that @classLabel lists: {list(listed)}.")
        y, classes = _encode(labels, classes or listed)
    return Series.of(x.transpose(0, 2, 1), times, y=y, classes=classes)


def _ts_header(file: TextIO) -> tuple[Header, int]:
    """The @ lines up to @data by lower-case name, and how many lines that took."""
    header: Header = {}
    for number, line in enumerate(file, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if not words[0].startswith("@"):
            raise ValueError(f"line {number} is {line.strip()[:40]!r} before any @data. {TS_LAYOUT}")
        if words[0].lower() == "@data":
            _check_ts_header(header)
            return header, number
        header[words[0][1:].lower()] = words[1:]
    raise ValueError(f"Found no line @data. {TS_LAYOUT}")


def _check_ts_header(header: Header) -> None:
    if _ts_flag(header, "timestamps"):
        raise ValueError(
            "Found @timeStamps true, which is not supported: convert it to a .parquet or .csv table with the "
            "columns sample, time, channel, value."
        )
    if _ts_flag(header, "targetlabel"):
        raise ValueError("Found @targetLabel true, a regression target. Expected classes (@classLabel) or no label.")


def _ts_flag(header: Header, name: str) -> bool:
    return [word.lower() for word in header.get(name, [])[:1]] == ["true"]


def _ts_classes(header: Header) -> tuple[str, ...] | None:
    return tuple(header["classlabel"][1:]) if _ts_flag(header, "classlabel") else None


def _ts_case(text: str, labelled: bool, where: str) -> tuple[list[NDArray[np.float32]], str]:
    """The channels of one sample, each (its length,), and its label."""
    parts = text.split(":")
    label = parts.pop().strip() if labelled else ""
    if labelled and (not parts or not label):
        raise ValueError(f"{where} has no label after the last ':', though @classLabel is true. {TS_LAYOUT}")
    try:
        with np.errstate(over="ignore"):
            return [np.array(part.replace("?", "nan").split(","), dtype=np.float32) for part in parts], label
    except ValueError as error:
        raise ValueError(f"{where}: {error}. {TS_LAYOUT}") from None


def _check_ts_channels(header: Header, cases: list[list[NDArray[np.float32]]]) -> None:
    counts = sorted({len(case) for case in cases})
    said = header.get("dimensions") or header.get("dimension") or (["1"] if _ts_flag(header, "univariate") else [])
    if len(counts) > 1 or (said and said[0] != str(counts[0])):
        says = f"the header says {said[0]}" if said else "the header does not say how many"
        raise ValueError(
            f"Found samples of {' and '.join(map(str, counts))} channels ({says}). Expected the same number "
            "everywhere, and @classLabel true if the last part is a label."
        )


def _write_ts(beside: Path, series: Series, _layout: Layout, name: str) -> None:
    _check_ts_fits(series)
    lengths = _steps(series).sum(axis=1)  # (N,)
    x = np.where(series.observed, series.x, np.float32(np.nan))
    with open(beside, "w", encoding="utf-8") as file:
        file.write(_ts_header_text(series, lengths, name))
        for i, length in enumerate(lengths.tolist()):
            parts = [",".join("?" if v != v else f"{v:{DIGITS}}" for v in x[i, :length, k].tolist()) for k in range(x.shape[2])]
            if series.y is not None:
                parts.append(series.classes[series.y[i]])
            file.write(":".join(parts) + "\n")


def _check_ts_fits(series: Series) -> None:
    advice = "write .npz, .parquet or .csv instead"
    if series.truth is not None:
        raise ValueError(f"A .ts file cannot hold truth: {advice}, or leave it out with replace(series, truth=None).")
    steps = np.arange(1, series.x.shape[1] + 1)
    if (_steps(series) & (series.times != steps)).any():
        raise ValueError(f"A .ts file cannot hold times other than 1, 2, ..., T: {advice}.")
    odd = [name for name in series.classes if ":" in name or len(name.split()) != 1]
    if odd:
        raise ValueError(f"A .ts file cannot hold class names with spaces or ':', got {odd}: {advice}, or rename them.")


def _ts_header_text(series: Series, lengths: NDArray[np.int64], name: str) -> str:
    n_channels = series.x.shape[2]
    equal = bool((lengths == lengths[0]).all())
    flags = {False: "false", True: "true"}
    missing = bool((_steps(series)[:, :, None] & ~series.observed).any())
    lines = [
        f"@problemName {'_'.join(name.split())}",
        "@timeStamps false",
        f"@missing {flags[missing]}",
        f"@univariate {flags[n_channels == 1]}",
        f"@dimensions {n_channels}",
        f"@equalLength {flags[equal]}",
        *([f"@seriesLength {lengths[0]}"] if equal else []),
        "@classLabel false" if series.y is None else f"@classLabel true {' '.join(series.classes)}",
        "@data",
    ]
    return "\n".join(lines) + "\n"


Reader = Callable[[Path, tuple[str, ...]], Series]
Writer = Callable[[Path, Series, Layout, str], None]
FORMATS: dict[str, tuple[Reader, Writer]] = {
    ".npz": (_read_npz, _write_npz),
    ".parquet": (_read_parquet, _write_parquet),
    ".csv": (_read_csv, _write_csv),
    ".ts": (_read_ts, _write_ts),
}
