"""What figures and the page share: colours, markers, colour scales and the panels of a training.

Shapes: n samples, any further axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""Class colours that colour-blind readers can tell apart. With more classes the colours repeat with another marker."""
MARKERS = ("circle", "square", "triangle", "diamond")
"""Markers of classes, one for each round of colours."""

INK = "#1a1a1a"
TRUTH = "#009E73"
KEPT = "#333333"
WARNING = "#B34700"  # Okabe-Ito's vermillion, darkened for contrast of small text on white

# Both scales leave out their dark ends, which would hide the series drawn on top.
SEQUENTIAL = ("#ffffff", "#fee9d4", "#fdd9b4", "#fdc38d", "#fda762", "#fd8e3d", "#f3701b", "#e25508")
"""Attribution as colour: white is none, orange is much."""
DIVERGING = ("#6a4c9a", "#9287b9", "#bcb7d8", "#dcddec", "#f7f7f6", "#fde3be", "#fdc278", "#ea9530", "#c96d0d")
"""Signed attribution: orange speaks for the class, purple against it."""

SEQUENTIAL_DARK = ("#171c22", "#332a22", "#55371f", "#7b461a", "#a15614", "#c4660f", "#dd7611")
"""SEQUENTIAL on a dark page, where the series is light."""
DIVERGING_DARK = ("#8a6cc4", "#69569a", "#493f6c", "#2d2c42", "#171c22", "#3b2d20", "#6b401b", "#a15614", "#d0700f")
"""DIVERGING on a dark page."""

HISTORY = {
    "training": {
        "loss": "total loss",
        "mbc": "behaviour consistency (mbc)",
        "landmarks": "landmark consistency",
        "lc": "label consistency (lc)",
        "model": "the model's evidence (model)",
        "l_m": "mask prior (l_m)",
        "l_con": "connectedness (l_con)",
    },
    "validation": {
        "criterion": "criterion",
        "val_mbc": "behaviour consistency (mbc)",
        "val_lc": "label consistency (lc)",
        "val_model": "the model's evidence (model)",
        "val_l_m": "mask prior (l_m)",
    },
    "validation, shares": {"val_agreement": "surrogate agrees", "val_kept": "mean attribution (kept)"},
    "learning rate": {"lr": "learning rate"},
}
"""The panels of a training: the columns of `TimeX.history` in each, and their labels."""


def is_probability(e: Explanation) -> bool:
    """Whether attributions are probabilities of being kept: the method has a mask, and every value lies in [0, 1]."""
    if e.signed or e.mask is None or e.attribution.size == 0:
        return False
    return bool(e.attribution.min() >= 0 and e.attribution.max() <= 1)


def colour_scale(e: Explanation, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends of every sample's colour scale for its attributions `values`, (n,) each.

    Probabilities span 0 to 1. Signed attributions span a symmetric interval. Others start at 0 or their smallest value.
    """
    flat = values.reshape(len(values), -1).astype(np.float64)
    low, high = flat.min(axis=1), flat.max(axis=1)
    if e.signed:
        top = np.maximum(np.abs(low), np.abs(high))
        top = np.where(top > 0, top, 1.0)
        return -top, top
    if is_probability(e):
        return np.zeros_like(low), np.ones_like(high)
    low = np.minimum(low, 0.0)
    return low, np.where(high > low, high, low + 1.0)
