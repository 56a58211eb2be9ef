"""Explanations to and from files. A table of explanations is the long table of their series with more columns.

So `read_series` reads the series back from it, and a spreadsheet shows value, attribution, label and prediction in one row.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from timex.io.frames import class_names, flags, frame_of, numbers, rows_of, series_of
from timex.io.labels import encode
from timex.io.limits import Limit
from timex.io.tables import csv_frame, parquet_frame, write_csv_frames, write_parquet_frame
from timex.records import Explanation

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".npz", ".parquet", ".csv")
PROBABILITY = "probability:"
"""Starts the name of the column with the model's probability of one class."""
NUMBER = "number:"
"""Starts the name of the column with one of the model's numbers, for a regression or forecast."""
COLUMNS = (
    "attribution",
    "prediction",
    "contrast",
    "method",
    "mask",
    "direction",
    "landmark",
    "agreement",
    "divergence",
    "unfamiliar",
    "model_hash",
    PROBABILITY,
    NUMBER,
)
"""Starts of the names of the columns that a long table of series does not have."""
TEXT_COLUMNS = ("prediction", "contrast", "method", "model_hash")
PER_SAMPLE = ("prediction", "contrast", "landmark", "agreement", "divergence", "unfamiliar")


def write_explanation(path: str | Path, explanation: Explanation) -> Path:
    """Write explanations to .npz, .parquet or .csv; a failing write leaves what was there before.

    All three keep the series' ids, labels, truth and times. Only .npz keeps the explanations' embedding, and .csv does not
    keep units, sampling rate and scaling.
    """
    file = Path(path)
    match _suffix(file):
        case ".npz":
            explanation.save(file)
        case ".parquet":
            write_parquet_frame(file, explanation_frame(explanation), explanation.series)
        case _:
            write_csv_frames(file, [explanation_frame(explanation)])
    return file


def read_explanation(path: str | Path, max_bytes: int | None = None) -> Explanation:
    """Read what `write_explanation` wrote.

    Args:
        path: A .npz, .parquet or .csv file.
        max_bytes: Refuse files whose arrays need more memory. By default 200 times the file's size, and at least 256 MiB.
    """
    file = Path(path)
    suffix = _suffix(file)
    if not file.is_file():
        raise FileNotFoundError(f"Expected a file of explanations, found none at {file}.")
    if suffix == ".npz":
        return Explanation.load(file, max_bytes)
    limit = Limit.of(file, max_bytes)
    try:
        frame, facts = (csv_frame(file, limit, TEXT_COLUMNS), {}) if suffix == ".csv" else parquet_frame(file, limit, COLUMNS)
        return _explanation_of(frame, limit, facts)
    except MemoryError:
        raise ValueError(f"{file}: The explanations need more memory than there is. Split the file.") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def explanation_frame(explanation: Explanation) -> pd.DataFrame:
    """The long table of the explained series with the explanation's columns, one row per cell."""
    import pandas as pd

    e = explanation
    names = class_names(e.series, e.probability.shape[1])
    per_cell = {"attribution": e.attribution, "mask": e.mask, "direction": e.direction}
    per_sample = {name: getattr(e, name) for name in PER_SAMPLE}
    per_sample |= {f"{PROBABILITY}{name}": e.probability[:, c] for c, name in enumerate(names)}
    if e.numbers is not None:
        per_sample |= {f"{NUMBER}{h}": e.numbers[:, h] for h in range(e.numbers.shape[1])}
    spread = {name: np.broadcast_to(v[:, None, None], e.x.shape) for name, v in per_sample.items() if v is not None}
    frame = frame_of(e.series, "long", **{name: v for name, v in per_cell.items() if v is not None}, **spread)
    frame["prediction"] = pd.Categorical.from_codes(frame["prediction"], names)
    if e.contrast is not None:
        frame["contrast"] = pd.Categorical.from_codes(frame["contrast"], names)
    return frame.assign(method=e.method, **({"model_hash": e.model_hash} if e.model_hash else {}))


def _explanation_of(frame: pd.DataFrame, limit: Limit, facts: dict[str, Any]) -> Explanation:
    classes = tuple(name.removeprefix(PROBABILITY) for name in frame.columns if name.startswith(PROBABILITY))
    missing = [name for name in ("channel", "attribution", "prediction", "method") if name not in frame]
    if missing or not classes:
        missing += [] if classes else [f"{PROBABILITY}CLASS"]
        raise ValueError(f"Expected a table of explanations, got one without {', '.join(missing)}: see docs/files.md.")
    rows = rows_of(frame, limit)
    attribution = rows.dense(_finite(frame["attribution"]).astype(np.float32), 0)

    def of_classes(column: str) -> NDArray[np.int64]:
        return encode(rows.per_sample(frame[column].to_numpy(dtype=object)).tolist(), classes)[0]

    values: dict[str, Any] = {
        "contrast": of_classes("contrast") if "contrast" in frame else None,
        "mask": rows.dense(flags(frame["mask"]), False) if "mask" in frame else None,
        "direction": rows.dense(_finite(frame["direction"]).astype(np.int8), 0) if "direction" in frame else None,
        "landmark": rows.per_sample(_finite(frame["landmark"]).astype(np.int64)) if "landmark" in frame else None,
        "agreement": rows.per_sample(flags(frame["agreement"])) if "agreement" in frame else None,
        "unfamiliar": rows.per_sample(flags(frame["unfamiliar"])) if "unfamiliar" in frame else None,
        "divergence": rows.per_sample(_finite(frame["divergence"]).astype(np.float32)) if "divergence" in frame else None,
    }
    columns = [name for name in frame.columns if name.startswith(NUMBER)]
    if columns:
        answers = np.stack([_finite(frame[name]) for name in columns], axis=1)  # (R, H)
        values["numbers"] = rows.per_sample(answers).astype(np.float32)
    probability = np.stack([_finite(frame[f"{PROBABILITY}{name}"]) for name in classes], axis=1)  # (R, C)
    return Explanation(
        series=series_of(frame, rows, classes, **facts),
        attribution=attribution,
        prediction=of_classes("prediction"),
        probability=rows.per_sample(probability).astype(np.float32),
        signed=bool((attribution < 0).any()),
        method=str(frame["method"].iloc[0]),
        model_hash=str(frame["model_hash"].iloc[0]) if "model_hash" in frame else "",
        **values,
    )


def _finite(column: pd.Series) -> NDArray[np.float64]:
    """A column of numbers without gaps."""
    values = numbers(column)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"Found {values[row]:g} in the column {column.name!r}, row {row}. Expected a finite number.")
    return values


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"Expected a file ending in {', '.join(SUFFIXES)}, got {path.name!r}.")
    return suffix
