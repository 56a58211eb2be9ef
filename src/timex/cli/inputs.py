"""Series from a file or a data set, as `--data` names them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from timex.data import LOADERS, load_dataset
from timex.io.files import open_series, read_series
from timex.io.sources import ManySources, SeriesSource, Source, fingerprint
from timex.method.task import Names
from timex.records import Dataset, Series
from timex.reference.base import ReferenceModel
from timex.reference.wrapped import Wrapped

log = logging.getLogger(__name__)


def training_series(data: str, val: str | None, fold: int, max_bytes: int | None) -> tuple[Series, Series | None]:
    """Series to fit on, and to validate on where there are any."""
    dataset = _dataset(data, fold)
    if dataset is not None:
        return dataset.train, dataset.val
    train = read_series(data, max_bytes=max_bytes)
    return train, None if val is None else read_series(val, train.classes, train.channels, max_bytes)


def explained_series(data: str, fold: int, names: Names, max_bytes: int | None) -> Series:
    """Series to explain, with a file's channels and classes in the order of the fit."""
    dataset = _dataset(data, fold)
    if dataset is not None:
        return dataset.test
    return read_series(data, names.classes, names.channels, max_bytes)


def opened_series(data: str, fold: int, names: Names, max_bytes: int | None) -> tuple[Source, dict[str, Any]]:
    """The series to explain in chunks, and what tells them from others: from a file, a folder of files, or a data set."""
    path = Path(data)
    if path.is_dir() and data not in LOADERS:
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in (".parquet", ".npz"))
        if not files:
            raise ValueError(f"Expected .parquet or .npz files in the folder {path}, found none.")
        sources = [open_series(file, names.classes, names.channels, max_bytes) for file in files]
        return ManySources(sources), {file.name: fingerprint(file) for file in files}
    dataset = _dataset(data, fold)
    if dataset is not None:
        return SeriesSource(dataset.test), {"data set": data, "sha256": dataset.test.digest}
    return open_series(path, names.classes, names.channels, max_bytes), fingerprint(path)


def _dataset(data: str, fold: int) -> Dataset | None:
    """The data set of this name; None for a file."""
    return load_dataset(data, fold=fold) if data in LOADERS or not Path(data).suffix else None


def warn_of_missing(model: Any, series: Series) -> None:
    """Warn of cells that were not measured if the model cannot know: only our own models and some foreign ones read them."""
    warn_of_missing_cells(model, int((~series.observed).sum()), series.observed.size)


def warn_of_missing_cells(model: Any, missing: int, cells: int) -> None:
    """Warn of so many cells of all that were not measured if the model cannot know."""
    foreign = not isinstance(model, ReferenceModel) or (isinstance(model, Wrapped) and "observed" not in model.extras)
    if missing and foreign:
        log.warning("%s of %s cells are missing; your model sees 0 there", f"{missing:,}", f"{cells:,}")
