"""The split of series into a part that a fit trains on and a part that it is validated on.

Shapes: N samples, T time steps, D channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.io.pieces import holds_more
from timex.io.stored import Stored
from timex.records import Series

Indices = NDArray[np.int64]

VAL_SHARE = 0.1
"""Share of the training data held out for selection when no validation data is given."""


def labelled(series: Series, y: ArrayLike | Tensor | None) -> Series:
    """The series with labels, if given beside them."""
    return series if y is None else replace(series, y=y)  # type: ignore[arg-type]


def split(train: Series, val: Series | None, seed: int, most: int) -> tuple[Series, Series, NDArray[np.int64]]:
    """Series to train on, at most `most` to validate on, and the indices of the former in `train`.

    Without validation series, a random tenth of `train` is held out.
    """
    if val is not None:
        if val.shape[1:] != train.shape[1:]:
            raise ValueError(f"Expected x_val with (T, D) = {train.shape[1:]}, got {val.shape[1:]}.")
        return train, _sample(val, most, seed), np.arange(len(train))
    kept, held = parts_of(len(train), seed, most)
    return train.take(kept), train.take(held), kept


def drawn(x: Any, x_val: Any, y: Any, seed: int, most: int | None, most_val: int) -> tuple[Series, Any, Any, Indices]:
    """The series that a fit uses of those that are stored: to train and to validate on, labels, and the former's indices.

    A fit to the same series in memory uses the same ones.
    """
    with Stored(x) as stored:
        if x_val is None:
            kept, held = parts_of(len(stored), seed, most_val)
            kept, val = kept[some_of(len(kept), most, seed)], stored.take(held)
        else:
            kept, val = some_of(len(stored), most, seed), x_val
            if holds_more(x_val):
                with Stored(x_val) as other:
                    val = other.take(some_of(len(other), most_val, seed))
        return stored.take(kept), val, None if y is None else np.asarray(y)[kept], kept


def parts_of(n: int, seed: int, most: int) -> tuple[Indices, Indices]:
    """The indices of the series to train on among n, and of those to validate on: at most `most` of a random tenth."""
    n_val = max(2, round(VAL_SHARE * n))
    if n - n_val < 2:
        raise ValueError(f"Expected at least 4 samples to fit and validate on, got {n}: pass more, or x_val=.")
    order = np.random.default_rng(seed).permutation(n)
    held, kept = np.sort(order[:n_val]), np.sort(order[n_val:])
    return kept, held[some_of(len(held), most, seed)]


def some_of(n: int, most: int | None, seed: int) -> Indices:
    """The indices of at most `most` of n series, at random and in order; of all by None."""
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def _sample(series: Series, most: int, seed: int) -> Series:
    """At most `most` random series, in their order."""
    return series if len(series) <= most else series.take(some_of(len(series), most, seed))
