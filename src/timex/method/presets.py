"""The paper's settings of TimeX, by data set and architecture.

The numbers are those of the paper's hyperparameter tables. Where its equations and its published code differ, the preset takes
what reproduces the paper's results; `docs/reproduction.md` lists them, switch by switch.
"""

from __future__ import annotations

from typing import Any

from timex.method.config import TimeXConfig
from timex.reference.train import preset

PAPER = TimeXConfig(objective="paper", lr=1e-3, epochs=50, smoothing=0).replaced(
    {"mask.hide": "auto", "mask.fill": "draw", "training.scheduler": "plateau", "training.max_series": None}
)
"""What the tables of all data sets share, and FreqShapes' and SeqComb-UV's whole row."""

ROWS: dict[str, dict[str, Any]] = {
    "freqshapes": {},
    "seqcomb_uv": {},
    "seqcomb_mv": {"epochs": 100, "training.scheduler": "none"},
    "lowvar": {
        "lr": 3e-3,
        "epochs": 100,
        "training.weight_decay": 1e-4,
        "training.scheduler": "none",
        "loss.consistency": "mbc_normalised",
    },
    "ecg": {
        "lr": 5e-4,
        "batch_size": 16,
        "epochs": 5,
        "training.weight_decay": 1e-4,
        "training.scheduler": "none",
    },
    "epilepsy": {"lr": 1e-4, "batch_size": 32},
    "pam": {
        "loss.r": 0.1,
        "lr": 2e-3,
        "batch_size": 32,
        "epochs": 100,
        "training.scheduler": "none",
        "loss.consistency": "mbc_normalised",
        "loss.lam_con": 0.0,
    },
    "boiler": {"lr": 1e-4, "batch_size": 32},
    "seqcomb_mv_irregular": {
        "lr": 3e-3,
        "epochs": 100,
        "training.scheduler": "none",
        "loss.lam_con": 0.0,
        "mask.hide": "value",
    },
    "ett": {"task": "forecast"},
}
"""What each data set's row of the paper's tables changes."""


def paper_config(dataset: str, arch: str = "transformer") -> TimeXConfig:
    """The paper's settings for a data set, or a `ValueError` where the paper has none.

    The paper lists one set of settings per data set. CNN and LSTM take the same, without attention to mask, and with the
    generator that the data set's transformer has: the paper changes G and G^E alone. Other splits of a data set
    (`ecg_by_patient`) take those of the data set.

    Args:
        dataset: One of the paper's data sets.
        arch: The architecture of the model that is explained.

    Example:
        >>> paper_config("lowvar").lr, paper_config("ecg_by_patient").batch_size
        (0.003, 16)
    """
    name = max((row for row in ROWS if dataset == row or dataset.startswith(f"{row}_")), key=len, default=None)
    if name is None:
        raise ValueError(f"The paper's settings of TimeX are known for {', '.join(ROWS)}, not for {dataset!r}.")
    config = PAPER.replaced(ROWS[name])
    if arch.startswith(("transformer", "forecaster")):
        return config
    sizes = preset(dataset, "transformer").model
    return config.replaced({"mask.hide": "value", "generator.layers": sizes["n_layers"], "generator.hidden": sizes["d_hidden"]})
