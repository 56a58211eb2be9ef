"""PAM: which of eight activities, from the 17 columns of the hand's inertial unit in PAMAP2, in windows of 6 s.

Eight subjects (the ninth is too short), windows of 600 rows at 100 Hz inside one activity, half overlapping; activities with
fewer than 500 windows are left out. Values lost on the radio link are filled with the last one received.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.data.prepare import Arrays, Ints, Origin, Prepared, found, make_dataset, progress, split_samples
from timex.records import Dataset

RATE = 100
WINDOW = 600
STRIDE = 300
MIN_WINDOWS = 500
SUBJECTS = tuple(range(101, 109))
N_COLUMNS = 54
HAND = slice(3, 20)
CHANNELS = (
    "temperature",
    *(f"{name} {axis}" for name in ("acceleration 16g", "acceleration 6g", "gyroscope", "magnetometer") for axis in "xyz"),
    *(f"orientation {i}" for i in range(4)),
)
ACTIVITIES = {
    1: "lying", 2: "sitting", 3: "standing", 4: "walking", 5: "running", 6: "cycling", 7: "Nordic walking", 9: "watching TV",
    10: "computer work", 11: "car driving", 12: "ascending stairs", 13: "descending stairs", 16: "vacuum cleaning",
    17: "ironing", 18: "folding laundry", 19: "house cleaning", 20: "playing soccer", 24: "rope jumping",
}  # fmt: skip


def find(source: Path) -> list[Path]:
    """Protocol/subject101.dat to subject108.dat."""
    names = {f"subject{s}.dat" for s in SUBJECTS}
    files = [path for path in found(source, "Protocol/*.dat", "subject*.dat") if path.name in names]
    if not files:
        raise FileNotFoundError(f"{source} holds no Protocol/subject101.dat ... subject108.dat. To get them, {PAM.download}.")
    return files


def build(files: list[Path], min_windows: int = MIN_WINDOWS) -> tuple[Arrays, dict[str, Any]]:
    """The rows of the kept activities, and first row, activity and subject of every window."""
    rows, starts, activity, subject, offset = [], [], [], [], 0
    for path in progress(files, "reading PAMAP2"):
        table = _read(path)
        label = table[:, 1].astype(np.int64)
        edges = np.flatnonzero(np.diff(label)) + 1
        for first, last in zip([0, *edges], [*edges, len(label)], strict=True):
            if label[first] == 0 or last - first < WINDOW:  # 0: between activities
                continue
            begin = np.arange(first, last - WINDOW + 1, STRIDE)
            starts.append(begin + offset)
            activity.append(np.full(len(begin), label[first]))
            subject.append(np.full(len(begin), int(path.stem[-3:])))
        rows.append(_filled(table[:, HAND]))
        offset += len(table)
    kinds, sizes = np.unique(np.concatenate(activity), return_counts=True)
    kept = kinds[sizes >= min_windows]
    if len(kept) < 2:
        sizes_of = dict(zip(kinds.tolist(), sizes.tolist(), strict=True))
        raise ValueError(
            f"Expected at least two activities with {min_windows} windows or more, got {sizes_of} (activity: windows): "
            "give the files of all subjects."
        )
    label = np.concatenate(activity)
    chosen = np.isin(label, kept)
    arrays = {
        "x": np.concatenate(rows).astype(np.float32),
        "start": np.concatenate(starts)[chosen],
        "activity": label[chosen].astype(np.int8),
        "subject": np.concatenate(subject)[chosen].astype(np.int16),
    }
    windows = {ACTIVITIES[int(k)]: int(n) for k, n in zip(kinds, sizes, strict=True) if k in kept}
    return arrays, {"subjects": len(files), "windows": windows}


def _read(path: Path) -> NDArray[np.float64]:
    """One subject's table, checked: 54 columns, 100 Hz, known activities."""
    import pandas as pd

    try:
        table = pd.read_csv(path, sep=r"\s+", header=None).to_numpy(dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{path} is no PAMAP2 table of numbers ({error}): to get it, {PAM.download}.") from None
    if table.shape[1] != N_COLUMNS:
        raise ValueError(f"Expected {N_COLUMNS} columns in {path}, got {table.shape[1]}: to get the data, {PAM.download}.")
    step = np.median(np.diff(table[:, 0]))
    if not np.isclose(step, 1 / RATE, rtol=0.05):
        raise ValueError(f"Expected a row every {1 / RATE} s in {path}, got every {step:g} s.")
    if unknown := set(table[:, 1]) - {0, *ACTIVITIES}:
        raise ValueError(f"Expected the activity numbers of PAMAP2 in {path}, got {sorted(unknown)}.")
    return table


def _filled(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Missing values replaced by the last known of their column; before the first, by the first."""
    import pandas as pd

    return pd.DataFrame(x).ffill().bfill().fillna(0).to_numpy()


def _make(arrays: Arrays, name: str, fold: int, seed: int) -> Dataset:
    kinds, y = np.unique(arrays["activity"], return_inverse=True)
    index = split_samples(y, fold, seed)
    step = np.arange(WINDOW)
    train = arrays["x"][arrays["start"][index[0], None] + step].reshape(-1, len(CHANNELS))
    centre, scale = train.mean(axis=0), np.maximum(train.std(axis=0), 1e-6)

    def windows(i: Ints) -> tuple[NDArray[Any], None]:
        return (arrays["x"][arrays["start"][i, None] + step] - centre) / scale, None

    return make_dataset(name, index, windows, y, CHANNELS, [ACTIVITIES[int(k)] for k in kinds], fold, seed)


PAM = Origin(
    name="pam",
    title="PAMAP2 (PAM)",
    page="https://archive.ics.uci.edu/dataset/231/pamap2+physical+activity+monitoring",
    needs="the archive, unpacked (PAMAP2_Dataset/Protocol/subject101.dat ... subject108.dat)",
    find=find,
    build=build,
)
LOADERS = (Prepared("pam", PAM, _make, (WINDOW, len(CHANNELS)), 8, "split by window, as the paper"),)
