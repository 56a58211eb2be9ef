"""The visual language that figures and the page share: what a colour, a strip and a marker stand for."""

from __future__ import annotations

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""Class colours that colour-blind readers can tell apart; markers change when they have been used up."""
MARKERS = ("circle", "square", "triangle", "diamond")
"""Marker of a class: the next one each time the colours have been used up."""

INK = "#1a1a1a"
TRUTH = "#009E73"
KEPT = "#333333"
WARNING = "#B34700"  # Okabe-Ito's vermillion, darkened until small text reads well on white

# The dark ends of both scales are left out: they would swallow the series drawn on top.
SEQUENTIAL = ("#ffffff", "#fee9d4", "#fdd9b4", "#fdc38d", "#fda762", "#fd8e3d", "#f3701b", "#e25508")
"""Attribution as colour: none leaves no ink, much is orange."""
DIVERGING = ("#6a4c9a", "#9287b9", "#bcb7d8", "#dcddec", "#f7f7f6", "#fde3be", "#fdc278", "#ea9530", "#c96d0d")
"""Signed attribution: orange speaks for the class, as in SEQUENTIAL, purple against it."""

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
        "model": "the model's judgement (model)",
        "l_m": "mask prior (l_m)",
        "l_con": "connectedness (l_con)",
    },
    "validation": {
        "criterion": "criterion",
        "val_mbc": "behaviour consistency (mbc)",
        "val_lc": "label consistency (lc)",
        "val_model": "the model's judgement (model)",
        "val_l_m": "mask prior (l_m)",
    },
    "validation, shares": {"val_agreement": "surrogate agrees", "val_kept": "mean attribution (kept)"},
    "learning rate": {"lr": "learning rate"},
}
"""The panels of a training: the columns of `TimeX.history` in each, and what they are called."""
