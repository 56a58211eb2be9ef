"""The figure of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from timex.report.plots.drawing import tidy_curves
from timex.report.plots.style import CURVES, DASHES, MEDIUM, ROUND
from timex.report.style import HISTORY, WARNING

if TYPE_CHECKING:
    import pandas as pd


def plot_history(history: pd.DataFrame) -> Figure:
    """Draw a training: the terms of the loss, the validation values and the learning rate over the epochs.

    Args:
        history: One row per epoch, as `TimeX.history` gives it. Absent columns are left out.

    Returns:
        One axes per group of columns that is present, with the selected epoch marked in each.
    """
    if len(history) == 0:
        raise ValueError("Expected a history with at least one epoch, got an empty one: fit the explainer first.")
    panels = [(title, [c for c in names if c in history], names) for title, names in HISTORY.items()]
    panels = [(title, columns, names) for title, columns, names in panels if columns]
    if not panels:
        known = [c for names in HISTORY.values() for c in names]
        raise ValueError(f"Expected a history with columns among {known}, got {list(history.columns)}.")
    epoch = np.asarray(history["epoch"] if "epoch" in history else np.arange(len(history)))
    selected = epoch[np.asarray(history["selected"], dtype=bool)] if "selected" in history else epoch[:0]
    figure = Figure(figsize=(7.5, 0.6 + 2.1 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (title, columns, names) in zip(axes, panels, strict=True):
        _draw_terms(ax, epoch, {names[c]: np.asarray(history[c], dtype=float) for c in columns})
        if title.endswith("shares"):
            ax.set_ylim(-0.03, 1.03)
        for e in selected:
            ax.axvline(e, color=WARNING, linewidth=1.2, linestyle=(0, (4, 2)), label=f"selected: epoch {int(e)}")
        ax.set_title(title, loc="left", fontsize=MEDIUM, fontweight="bold")
        tidy_curves(ax)
    axes[-1].set_xlabel("epoch", fontsize=MEDIUM)
    axes[-1].xaxis.set_major_locator(MaxNLocator(10, steps=ROUND, integer=True))
    return figure


def _draw_terms(ax: Axes, epoch: NDArray[Any], curves: dict[str, NDArray[np.float64]]) -> None:
    """Values over epochs, on a log scale if they are positive and span more than a factor of 20."""
    for (label, values), colour, dash in zip(curves.items(), CURVES, DASHES, strict=False):
        known = np.isfinite(values)
        marker = "o" if known.sum() < 2 else None
        ax.plot(epoch[known], values[known], label=label, color=colour, linestyle=dash, linewidth=1.4, marker=marker)
    every = np.concatenate([v[np.isfinite(v)] for v in curves.values()])
    if len(every) and every.min() > 0 and every.max() > 20 * every.min():
        ax.set_yscale("log")
