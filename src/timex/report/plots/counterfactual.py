"""The figure of a counterfactual: a series and its edit, marked as another kind of answer than an attribution."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.plots.drawing import channel_note, draw_runs, draw_series, legend, tidy
from timex.report.plots.sample import Sample, largest
from timex.report.plots.style import LARGE, MEDIUM, ROUND, SMALL
from timex.report.samples import drawn_steps, sample_name
from timex.report.style import INK

MAX_ROWS = 8
"""Channels drawn: those with the most edited cells."""
EDIT = "#0072B2"
"""Colour of the edited series; no colour of an attribution."""


def plot_counterfactual(
    explanation: Explanation, edited: NDArray[np.float32], cells: NDArray[np.bool_], i: int, words: str
) -> Figure:
    """Draw sample `i` and its edited form, a row per channel, the edited cells shaded.

    Args:
        explanation: Explanations of N samples, for the series and their names.
        edited: The edited series in the user's own units, (T, D).
        cells: The edited cells, (T, D).
        i: Which sample.
        words: What the edit reaches, below the title.
    """
    sample = Sample.of(explanation, i)
    order = drawn_steps(explanation.times[i].astype(np.float64), explanation.observed[i])
    edit, changed = edited[order], cells[order]
    chosen = largest(changed.sum(axis=0).astype(float), MAX_ROWS)
    row_height = float(np.clip(6.0 / len(chosen), 0.75, 2.2))
    figure = Figure(figsize=(8.0, 1.4 + row_height * len(chosen)), layout="constrained")
    axes = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
    for ax, k in zip(axes, chosen, strict=True):
        look = {"facecolor": EDIT, "alpha": 0.12, "linewidth": 0, "label": "edited cells"}
        draw_runs(ax, changed[:, k], sample.edges, 0.0, 1.0, ax.get_xaxis_transform(), **look)
        draw_series(ax, sample, k, sample.x[:, k], linewidth=1.0)
        near = changed[:, k].copy()  # with a step to either side, so that the line joins the series
        near[1:] |= changed[:-1, k]
        near[:-1] |= changed[1:, k]
        values = np.where(near & sample.observed[:, k], edit[:, k], np.nan)
        ax.plot(sample.times, values, color=EDIT, linewidth=1.6, label="edited series")
        ax.set_ylabel(sample.channels[k], rotation=0, ha="right", va="center", labelpad=9, fontsize=MEDIUM)
        tidy(ax, sample)
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=ROUND))
    axes[-1].set_xlabel(sample.clock.label, fontsize=MEDIUM)
    note = channel_note(len(chosen), len(sample.channels))
    lines = [words, "What would change the answer, not what the answer rests on." + (f" {note}" if note else "")]
    title = f"Counterfactual of sample {sample_name(explanation, i)}"
    axes[0].set_title(title, loc="left", fontsize=LARGE, fontweight="bold", pad=6 + SMALL * 1.45 * len(lines))
    for place, line in enumerate(reversed(lines)):
        above = (0, 5 + SMALL * 1.45 * place)
        axes[0].annotate(
            line, (0, 1), xytext=above, xycoords="axes fraction", textcoords="offset points", fontsize=MEDIUM, color=INK
        )
    legend(figure, axes, absent=False)
    return figure
