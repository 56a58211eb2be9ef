"""Series to and from .ts, the text format of the UCR and UEA archives that aeon and sktime read."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from timex.io.atomic import atomic_path
from timex.io.frames import class_names, used_steps
from timex.io.labels import encode
from timex.io.limits import Limit
from timex.io.tables import DIGITS
from timex.records import Series

Header = dict[str, list[str]]
Case = list[NDArray[np.float32]]
"""The channels of one sample, each (its length,)."""

LAYOUT = (
    "Expected header lines such as '@classLabel true a b', a line '@data', then one line per sample: channels "
    "separated by ':', their values by ',', and the label last."
)


def read_ts(path: Path, classes: tuple[str, ...], limit: Limit) -> Series:
    """The series of a .ts file."""
    # some archives have a Latin-1 name in a comment, which is no reason to refuse the numbers
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header, n_header = _header(file)
        listed = tuple(header["classlabel"][1:]) if _flag(header, "classlabel") else None
        cases, labels = _cases(file, n_header, labelled=listed is not None)
    _check_channels(header, cases)
    lengths = np.array([[len(values) for values in case] for case in cases])  # (N, D)
    n, d = lengths.shape
    t = int(lengths.max())
    limit.check_cells(n, t, d)
    x = np.full((n, d, t), np.nan, dtype=np.float32)
    x[np.arange(t) < lengths[:, :, None]] = np.concatenate([values for case in cases for values in case])
    steps = np.arange(1, t + 1, dtype=np.float32)
    times = np.where(steps <= lengths.max(axis=1, keepdims=True), steps, np.float32(0))  # (N, T)
    y = None
    if listed is not None:
        odd = sorted(set(labels) - set(listed))
        if listed and odd:  # a bare "@classLabel true" leaves the naming to the labels
            raise ValueError(f"Found the labels {odd[:10]}. Expected those that @classLabel lists: {list(listed)}.")
        y, classes = encode(labels, classes or listed)
    return Series.with_gaps(x.transpose(0, 2, 1), times, y=y, classes=classes)


def _header(file: TextIO) -> tuple[Header, int]:
    """The @ lines up to @data by lower-case name, and how many lines that took."""
    header: Header = {}
    for number, line in enumerate(file, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if not words[0].startswith("@"):
            raise ValueError(f"line {number} is {line.strip()[:40]!r} before any @data. {LAYOUT}")
        if words[0].lower() == "@data":
            _check_header(header)
            return header, number
        header[words[0][1:].lower()] = words[1:]
    raise ValueError(f"Found no line @data. {LAYOUT}")


def _check_header(header: Header) -> None:
    if _flag(header, "timestamps"):
        raise ValueError(
            "Found @timeStamps true, which is not supported: convert it to a .parquet or .csv table with the "
            "columns sample, time, channel, value."
        )
    if _flag(header, "targetlabel"):
        raise ValueError("Found @targetLabel true, a regression target. Expected classes (@classLabel) or no label.")


def _flag(header: Header, name: str) -> bool:
    return [word.lower() for word in header.get(name, [])[:1]] == ["true"]


def _cases(file: TextIO, n_header: int, labelled: bool) -> tuple[list[Case], list[str]]:
    """Every sample's channels and label; the label is empty in a file without labels."""
    cases, labels = [], []
    for number, line in enumerate(file, start=n_header + 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parts = text.split(":")
        label = parts.pop().strip() if labelled else ""
        if labelled and (not parts or not label):
            raise ValueError(f"line {number} has no label after the last ':', though @classLabel is true. {LAYOUT}")
        try:
            with np.errstate(over="ignore"):
                cases.append([np.array(part.replace("?", "nan").split(","), dtype=np.float32) for part in parts])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}. {LAYOUT}") from None
        labels.append(label)
    if not cases:
        raise ValueError(f"Found no line of data. {LAYOUT}")
    return cases, labels


def _check_channels(header: Header, cases: list[Case]) -> None:
    counts = sorted({len(case) for case in cases})
    stated = header.get("dimensions") or header.get("dimension") or (["1"] if _flag(header, "univariate") else [])
    if len(counts) > 1 or (stated and stated[0] != str(counts[0])):
        source = f"the header says {stated[0]}" if stated else "the header does not say how many"
        raise ValueError(
            f"Found samples of {' and '.join(map(str, counts[:10]))} channels ({source}). Expected the same number "
            "everywhere, and @classLabel true if the last part is a label."
        )


def write_ts(path: Path, series: Series) -> None:
    """Write a .ts file. It does not hold names of channels and samples, units, sampling rate and scaling."""
    _check_fits(series)
    lengths = used_steps(series).sum(axis=1)  # (N,)
    x = np.where(series.observed, series.x, np.float32(np.nan))
    with atomic_path(path) as beside, open(beside, "w", encoding="utf-8") as file:
        file.write(_header_text(series, lengths, path.stem))
        for i, length in enumerate(lengths.tolist()):
            parts = [",".join("?" if v != v else f"{v:{DIGITS}}" for v in x[i, :length, k].tolist()) for k in range(x.shape[2])]
            if series.y is not None:
                parts.append(class_names(series)[series.y[i]])
            file.write(":".join(parts) + "\n")


def _check_fits(series: Series) -> None:
    advice = "write .npz, .parquet or .csv instead"
    if series.truth is not None:
        raise ValueError(f"A .ts file cannot hold truth: {advice}, or leave it out with replace(series, truth=None).")
    steps = np.arange(1, series.x.shape[1] + 1)
    if (used_steps(series) & (series.times != steps)).any():
        raise ValueError(f"A .ts file cannot hold times other than 1, 2, ..., T: {advice}.")
    odd = [name for name in series.classes if ":" in name or len(name.split()) != 1]
    if odd:
        raise ValueError(f"A .ts file cannot hold class names with spaces or ':', got {odd}: {advice}, or rename them.")


def _header_text(series: Series, lengths: NDArray[np.int64], name: str) -> str:
    n_channels = series.shape[2]
    equal = bool((lengths == lengths[0]).all())
    missing = bool((used_steps(series)[:, :, None] & ~series.observed).any())
    lines = [
        f"@problemName {'_'.join(name.split())}",
        "@timeStamps false",
        f"@missing {str(missing).lower()}",
        f"@univariate {str(n_channels == 1).lower()}",
        f"@dimensions {n_channels}",
        f"@equalLength {str(equal).lower()}",
        *([f"@seriesLength {lengths[0]}"] if equal else []),
        "@classLabel false" if series.y is None else f"@classLabel true {' '.join(class_names(series))}",
        "@data",
    ]
    return "\n".join(lines) + "\n"
