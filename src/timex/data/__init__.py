"""Where x comes from: every data set by name, as a `Dataset` of train, validation and test parts."""

from __future__ import annotations

import difflib
from typing import Protocol

from timex.data import boiler, ecg, epilepsy, pam
from timex.data.battery import BATTERY
from timex.data.ett import ETT
from timex.data.prepare import Origin
from timex.data.synthetic import SYNTHETIC
from timex.records import Dataset


class Loader(Protocol):
    """Makes or reads one fold of a data set."""

    def __call__(self, seed: int, fold: int) -> Dataset:
        """The data set of this seed and fold."""


ORIGINS: dict[str, Origin] = {o.name: o for o in (ecg.ECG, epilepsy.EPILEPSY, boiler.BOILER, pam.PAM, ETT)}
"""Real data, to be prepared once; what a loader of real data reads is its `origin`."""
REAL = {loader.name: loader for module in (ecg, epilepsy, boiler, pam) for loader in module.LOADERS}
LOADERS: dict[str, Loader] = {**SYNTHETIC, **BATTERY, **REAL}


def load_dataset(name: str, fold: int = 0, seed: int = 0) -> Dataset:
    """The data set called `name`.

    Args:
        name: A key of `LOADERS`.
        fold: Which of the independent draws (synthetic data) or splits (real data), from 0.
        seed: Seed of the draws, or of the splits.

    >>> load_dataset("freqshapes", fold=2).test.x.shape
    (1000, 50, 1)
    """
    if name not in LOADERS:
        near = difflib.get_close_matches(str(name), LOADERS)
        hint = f": did you mean {' or '.join(near)}?" if near else "."
        raise ValueError(f"Expected a data set among {', '.join(sorted(LOADERS))}, got {name!r}{hint}")
    if not isinstance(fold, int) or isinstance(fold, bool) or fold < 0:
        raise ValueError(f"Expected fold as a whole number 0, 1, 2, ..., got {fold!r}.")
    return LOADERS[name](seed=seed, fold=fold)
