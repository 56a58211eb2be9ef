"""Series from a file or a data set, as `--data` names them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

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
    path = Path(data).absolute()  # workers on Ray have other current folders
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


def chosen_series(series: Series, limit: int | None, samples: str | None) -> Series:
    """The first `limit` series, or those that `samples` names: ids or numbers from 0, with commas between them."""
    if samples is None:
        return series if limit is None else series.take(slice(0, limit))
    places = {name: i for i, name in enumerate(series.ids)}
    rows = []
    for name in (part.strip() for part in samples.split(",")):
        row = places.get(name, int(name) if name.isdecimal() else -1)
        if not 0 <= row < len(series):
            raise ValueError(f"Expected --samples among the ids or 0..{len(series) - 1}, got {name!r}.")
        rows.append(row)
    return series.take(rows)


def labelled_dataset(path: str, seed: int, max_bytes: int | None) -> Dataset:
    """A file of labelled series in three parts: of every class 70 % to train on, 15 % to validate and 15 % to test."""
    series = read_series(path, max_bytes=max_bytes)
    if series.y is None:
        raise ValueError(f"Expected labelled series to train on: {path} has no labels (docs/files.md names them y or label).")
    order = np.random.default_rng(seed).permutation(len(series))
    order = order[np.argsort(series.y[order], kind="stable")]
    sizes = np.bincount(series.y)
    sizes = sizes[sizes > 0]
    if sizes.min() < PARTS_OF:
        raise ValueError(f"Expected at least {PARTS_OF} series of every class, got {sizes.min()} in {path}.")
    share = (np.arange(len(series)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 0.5) / np.repeat(sizes, sizes)
    parts = (share < 0.7, (share >= 0.7) & (share < 0.85), share >= 0.85)
    train, val, test = (series.take(np.sort(order[part])) for part in parts)
    channels = series.channels or tuple(f"channel {k}" for k in range(series.shape[2]))
    classes = series.classes or tuple(f"class {c}" for c in range(int(series.y.max()) + 1))
    return Dataset.named(Path(path).stem, train, val, test, channels, classes, seed=seed)


PARTS_OF = 7
"""Series of a class at least, so that every part has one."""


def _dataset(data: str, fold: int) -> Dataset | None:
    """The data set of this name; None for a file."""
    return None if is_file(data) else load_dataset(data, fold=fold)


def is_file(data: str) -> bool:
    """Whether an option names a file, not a data set."""
    return data not in LOADERS and bool(Path(data).suffix)


def warn_of_missing(model: Any, series: Series) -> None:
    """Warn of cells that were not measured if the model cannot know: only our own models and some foreign ones read them."""
    warn_of_missing_cells(model, int((~series.observed).sum()), series.observed.size)


def warn_of_missing_cells(model: Any, missing: int, cells: int) -> None:
    """Warn of so many cells of all that were not measured if the model cannot know."""
    foreign = not isinstance(model, ReferenceModel) or (isinstance(model, Wrapped) and "observed" not in model.extras)
    if missing and foreign:
        log.warning("%s of %s cells are missing; your model sees 0 there", f"{missing:,}", f"{cells:,}")
