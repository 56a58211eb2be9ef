"""Recipes: the settings of models and explainers that every run starts from, the arms of TimeX, and the sizes of data.

An arm is a variant of a method. TimeX has `paper`, the paper's objective and settings, and arms that swap a setting:
`no_gradients` swaps one of our default (`SWAPS`), `paper_no_ste` one of the paper's (`PAPER_SWAPS`).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from timex.data.battery import BATTERY
from timex.method.config import TimeXConfig
from timex.records import Dataset, Series
from timex.reference.train import TrainConfig, preset
from timex.registry import EXPLAINERS

TIMEX = "timex"
PAPER = "paper"
REFERENCE = "reference"
"""The method of a row that measures the model itself."""

R_VALUES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
AS_OCCLUDED = {"mask.hide": "both", "mask.fill": "draw"}
"""Cells hidden as the occlusion experiment hides them."""
SWAPS: dict[str, dict[str, Any]] = {
    "as_occluded": AS_OCCLUDED,
    "forecast": {"task": "forecast"},
    "no_gradients": {"generator.gradient_points": 0},
    "sampled": {"evidence.sampled": 1.0},
    "blended": {"evidence.sampled": 0.0},
    "one_price": {"evidence.price_low": 0.11, "evidence.price_high": 0.11},
    "mean_fill": {"mask.fill": "mean"},
    "unsmoothed": {"smoothing": 0},
}
"""What an arm changes in our default."""
PAPER_SWAPS: dict[str, dict[str, Any]] = {
    "as_occluded": AS_OCCLUDED,
    "no_ste": {"mask.sampling": "soft"},
    "simclr": {"loss.consistency": "simclr"},
    "mbc_only": {"loss.label": "none"},
    "lc_only": {"loss.consistency": "none"},
    **{f"r{r:g}": {"loss.r": r} for r in R_VALUES},
}
"""What an arm changes in the paper's settings."""

QUICK = {
    "cnn": TrainConfig(model={"width": 32}, epochs=30, patience=10, lr=3e-3),
    "lstm": TrainConfig(model={"hidden": 16, "n_layers": 1}, epochs=20, lr=5e-3),
    "transformer_residual": TrainConfig(model={"n_layers": 1, "d_hidden": 32, "dropout": 0.1}, epochs=40, patience=10, lr=2e-3),
}
"""How the models of the battery are trained: each within a minute of one CPU core."""
REFERENCE_EPOCHS = {"ecg": 8, "ecg_five": 8, "ecg_by_patient": 8, "heldout_long": 6}
"""Ceilings on the epochs of models that would take too long otherwise."""
MAX_FIT = 10_000
"""Training samples for explainers other than TimeX: some need seconds for every thousand."""

SMOKE_SIZES = (96, 48, 16)
"""Samples of train, val and test that a smoke run keeps."""
SMOKE_EPOCHS = 2
SMOKE: dict[str, Any] = {
    "epochs": SMOKE_EPOCHS,
    "pretrain_epochs": 1,
    "permutations": 1,
    "draws": 1,
    "window": 2,
    "steps": 3,
    "fit_steps": 3,
    "n_steps": 5,
}
"""What a smoke run sets in the settings of an explainer that has such a field."""


# ------------------------------------------------------------------------------------------------------------ settings


def reference_config(dataset: str, arch: str, seed: int = 0, smoke: bool = False) -> TrainConfig:
    """How the model of a data set is trained."""
    config = QUICK[arch] if dataset in BATTERY and arch in QUICK else preset(dataset, arch)
    config = replace(config, seed=seed, epochs=min(config.epochs, REFERENCE_EPOCHS.get(dataset, config.epochs)))
    return replace(config, epochs=SMOKE_EPOCHS, attempts=1) if smoke else config


def explainer_config(dataset: str, arch: str, method: str, arm: str = "", seed: int = 0, smoke: bool = False) -> Any:
    """The settings of an explainer on a data set and architecture; None for a method without settings.

    >>> explainer_config("freqshapes", "transformer", "timex", "paper_r0.1").loss.r
    0.1
    """
    config = _timex(dataset, arch, arm) if method == TIMEX else _other(method, arm)
    if config is None:
        return None
    changed = {"seed": seed, **(SMOKE if smoke else {})}
    return replace(config, **{f.name: changed[f.name] for f in fields(config) if f.name in changed})


def _timex(dataset: str, arch: str, arm: str) -> TimeXConfig:
    objective, swap = split_arm(arm)
    known = PAPER_SWAPS if objective == PAPER else SWAPS
    if swap and swap not in known:
        names = ", ".join([*SWAPS, PAPER, *(f"{PAPER}_{name}" for name in PAPER_SWAPS)])
        raise ValueError(f"Unknown arm {arm!r} of TimeX; known: {names}.")
    config = TimeXConfig.paper(dataset, arch) if objective == PAPER else TimeXConfig()
    return config.replaced(known[swap]) if swap else config


def _other(method: str, arm: str) -> Any:
    if arm not in ("", "absolute"):
        raise ValueError(f"Expected {method} alone or {method}:absolute, got {method}:{arm}.")
    return None if method == REFERENCE else EXPLAINERS[method].config_class()


def split_arm(arm: str) -> tuple[str, str]:
    """The objective of an arm of TimeX, `paper` or ours (empty), and the swap.

    >>> split_arm("paper_no_ste"), split_arm("blended"), split_arm("paper")
    (('paper', 'no_ste'), ('', 'blended'), ('paper', ''))
    """
    head, _, rest = arm.partition("_")
    return (PAPER, rest) if head == PAPER else ("", arm)


def in_paper(dataset: str) -> bool:
    """Whether the paper has settings of TimeX for a data set."""
    try:
        TimeXConfig.paper(dataset)
    except ValueError:
        return False
    return True


# --------------------------------------------------------------------------------------------------------------- sizes


def shrunk(data: Dataset) -> Dataset:
    """A few samples of every part."""
    train, val, test = (few(part, n) for part, n in zip((data.train, data.val, data.test), SMOKE_SIZES, strict=True))
    return replace(data, train=train, val=val, test=test)


def few(part: Series, n: int) -> Series:
    """At most `n` samples of a part, the classes in turn: the parts of real data may be sorted by class."""
    turn = np.empty(len(part), dtype=np.int64)
    for c in np.unique(part.labels):
        members = np.flatnonzero(part.labels == c)
        turn[members] = np.arange(len(members))
    return part.take(np.sort(np.argsort(turn, kind="stable")[:n]))
