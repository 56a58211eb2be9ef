"""ETTh1: hourly load and oil temperature of a power transformer over two years, for forecasting.

Forecasts are numbers, not classes, so this is no `Dataset`: `load_ett` gives past windows and the hours after them.

Shapes: N windows, T hours of the past, H hours to forecast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.data.prepare import Arrays, Origin, found

COLUMNS = ("date", "HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
ROWS = 17420
MONTH = 30 * 24
SPLITS = {"train": (0, 12), "val": (12, 16), "test": (16, 20)}
"""Months of each part, as usual for this data set."""


def find(source: Path) -> list[Path]:
    """ETTh1.csv, packed or not."""
    files = found(source, "ETTh1.csv", "ETTh1.csv.gz")
    if not files:
        raise FileNotFoundError(f"{source} holds no ETTh1.csv. To get it, {ETT.download}.")
    return files[:1]


def build(files: list[Path]) -> tuple[Arrays, dict[str, Any]]:
    """The seven variables by the hour, (n, 7)."""
    import pandas as pd

    table = pd.read_csv(files[0])
    if tuple(table.columns) != COLUMNS:
        raise ValueError(
            f"Expected {files[0]} with the columns {', '.join(COLUMNS)}, got {', '.join(map(str, table.columns[:8]))}."
        )
    hours = pd.to_datetime(table["date"]).diff().iloc[1:]
    if len(table) != ROWS or not (hours == pd.Timedelta(hours=1)).all() or table.isna().any(axis=None):
        raise ValueError(f"Expected {ROWS:,} hourly rows without gaps in {files[0]}, got {len(table):,}: download it again.")
    arrays = {"x": table[list(COLUMNS[1:])].to_numpy(dtype=np.float32)}
    return arrays, {"rows": len(table), "first": str(table["date"].iloc[0]), "last": str(table["date"].iloc[-1])}


class Forecasts(NamedTuple):
    """Past windows, (N, T, 1), and the hours after them, (N, H, 1)."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]


def load_ett(past: int = 720, ahead: int = 24, stride: int = 1) -> dict[str, Forecasts]:
    """Train, validation and test windows of the oil temperature, standardised with the training months.

    A validation or test window may begin in the months before its part; the hours to forecast lie in its part.

    Args:
        past: T.
        ahead: H.
        stride: Hours from one window to the next.
    """
    series = ETT.read()["x"][:, -1:]
    known = series[: SPLITS["train"][1] * MONTH]
    series = (series - known.mean()) / known.std()
    parts = {}
    for name, (first, last) in SPLITS.items():
        starts = np.arange(max(first * MONTH - past, 0), last * MONTH - past - ahead + 1, stride)
        if len(starts) == 0:
            raise ValueError(f"Expected windows that fit into {last - first} months, got {past} + {ahead} hours.")
        window = starts[:, None] + np.arange(past + ahead)
        parts[name] = Forecasts(series[window[:, :past]], series[window[:, past:]])
    return parts


ETT = Origin(
    name="ett",
    title="ETTh1",
    page="https://github.com/zhouhaoyi/ETDataset",
    needs="ETT-small/ETTh1.csv",
    find=find,
    build=build,
)
