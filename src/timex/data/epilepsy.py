"""Epilepsy: one second of EEG, seizure or not, from the Bonn recordings (the UCI "Epileptic Seizure Recognition" windows).

Each of 500 recordings of 4,097 samples gives 23 windows of 178. Windows of one recording look alike, so a split by row lets a
model recognise the recording; the split by recording does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.data.prepare import (
    Arrays,
    Ints,
    Make,
    Origin,
    Prepared,
    counts,
    found,
    make_dataset,
    read_compact,
    split_groups,
    split_samples,
)
from timex.records import Dataset

WINDOW = 178
CHUNKS = 23
RECORDING = 4097
SETS = {"S": 1, "F": 2, "N": 3, "O": 4, "Z": 5}  # the letter of a Bonn file and UCI's label; 1 is the seizure


def find(source: Path) -> list[Path]:
    """The UCI table, the Bonn text files, or the compact .npz, whichever exists."""
    files = found(source, "epilepsy.npz", "*.csv", "[ZONFS][0-9][0-9][0-9].[tT][xX][tT]")
    if not files:
        raise FileNotFoundError(
            f"{source} holds neither a .csv nor Bonn text files (Z001.txt ...). To get them, {EPILEPSY.download}."
        )
    return files[:1] if files[0].suffix == ".csv" else files


def build(files: list[Path]) -> tuple[Arrays, dict[str, Any]]:
    """Windows (N, 178), UCI's labels 1..5, and the recording of each (empty names where the source does not list it)."""
    suffix = files[0].suffix.lower()
    x, label, recording = {".npz": _compact, ".csv": _uci, ".txt": _bonn}.get(suffix, _foreign)(files)
    if x.shape[1:] != (WINDOW,) or len(x) == 0 or not np.isin(label, list(SETS.values())).all():
        raise ValueError(
            f"Expected windows of {WINDOW} samples with labels 1..5, got {x.shape} with {counts(label)} in {files[0]}."
        )
    arrays: Arrays = {"x": x.astype(np.int16), "label": label.astype(np.int8), "recording": recording}
    known = len(np.unique(recording)) if recording[0] else "unknown"
    return arrays, {"windows": len(x), "labels": counts(label), "recordings": known}


def _compact(files: list[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    arrays = read_compact(files[0], "Epilepsy", ("X", "y", "source"))
    return arrays["X"], arrays["y"], arrays["source"].astype(str)


def _uci(files: list[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The table has a row name such as X21.V1.791 (chunk, then recording), X1..X178, and y."""
    import pandas as pd

    table = pd.read_csv(files[0])
    columns = [f"X{i}" for i in range(1, WINDOW + 1)]
    if missing := [c for c in [*columns, "y"] if c not in table]:
        raise ValueError(
            f"Expected the UCI table with columns X1..X{WINDOW} and y, got {files[0]} without {', '.join(missing[:3])}"
            f"{' ...' if len(missing) > 3 else ''}: to get it, {EPILEPSY.download}."
        )
    if len(table) != len(SETS) * 100 * CHUNKS:
        raise ValueError(f"Expected {len(SETS) * 100 * CHUNKS:,} rows in {files[0]}, got {len(table):,}: download it again.")
    recording = table.iloc[:, 0].astype(str).str.partition(".")[2].to_numpy(dtype=str)
    sizes = np.unique(recording, return_counts=True)[1]
    if not (sizes == CHUNKS).all():  # the row names do not identify recordings
        recording = np.full(len(table), "")
    return table[columns].to_numpy(), table["y"].to_numpy(), recording


def _bonn(files: list[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows = []
    for path in files:
        try:
            values = np.loadtxt(path, dtype=np.float64, ndmin=1)
        except ValueError as error:
            raise ValueError(f"{path} is no Bonn recording, one number a line ({error}): download it again.") from None
        if values.shape != (RECORDING,):
            raise ValueError(f"Expected {RECORDING:,} samples in {path}, got {values.shape}: download it again.")
        rows.append(values[: CHUNKS * WINDOW].reshape(CHUNKS, WINDOW))
    names = [path.stem.upper() for path in files]
    label = np.repeat([SETS[name[0]] for name in names], CHUNKS)
    return np.concatenate(rows), label, np.repeat(names, CHUNKS)


def _foreign(files: list[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    raise ValueError(f"Expected a .csv, .txt or .npz file, got {files[0]}: {EPILEPSY.download}.")


def _make(by_recording: bool) -> Make:
    def make(arrays: Arrays, name: str, fold: int, seed: int) -> Dataset:
        y = (arrays["label"] == SETS["S"]).astype(np.int64)
        if by_recording:
            if not arrays["recording"][0]:
                raise ValueError("The prepared table does not say which recording a row is from: prepare the Bonn files.")
            index = split_groups(y, arrays["recording"], fold, seed)
        else:
            index = split_samples(y, fold, seed)
        x = arrays["x"].astype(np.float32)
        # One scale for all: the size of a seizure belongs to the signal.
        centre, scale = x[index[0]].mean(), x[index[0]].std()

        def windows(i: Ints) -> tuple[NDArray[Any], None]:
            return ((x[i] - centre) / scale)[:, :, None], None

        return make_dataset(name, index, windows, y, ("EEG",), ("no seizure", "seizure"), fold, seed)

    return make


EPILEPSY = Origin(
    name="epilepsy",
    title="The Bonn EEG recordings (Epilepsy)",
    page="https://archive.ics.uci.edu/dataset/388/epileptic+seizure+recognition",
    needs="data.csv (or the five sets of text files Z, O, N, F, S of the University of Bonn)",
    find=find,
    build=build,
)
LOADERS = (
    Prepared("epilepsy", EPILEPSY, _make(by_recording=False), (WINDOW, 1), 2, "split by row, as the paper"),
    Prepared("epilepsy_by_recording", EPILEPSY, _make(by_recording=True), (WINDOW, 1), 2, "split by recording"),
)
