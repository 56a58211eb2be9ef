"""The figure of where methods disagree.

Shapes: N samples, T time steps, D channels, M methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from timex.metrics.agreement import disagreement
from timex.records import Explanation
from timex.report.plots.drawing import MAX_LANES, channel_note, colourbar, draw_lanes, name_lanes
from timex.report.plots.sample import Sample, check_index, largest
from timex.report.plots.style import MEDIUM, SEQUENTIAL, SMALL
from timex.report.samples import caption, channel_names, check_same_samples

MOST = 0.35
"""Disagreement at the end of the colour scale: two methods with opposite orders have .5, random ones about .2."""


def plot_disagreement(explanations: Mapping[str, Explanation], correlation: ArrayLike, index: int | None = None) -> Figure:
    """Draw the rank correlation of every two methods, and at which cells the methods disagree.

    Args:
        explanations: Explanations of the same N samples, by the name of the method; at least two.
        correlation: Rank correlation of every two methods, (M, M).
        index: A sample whose cells are shown; by default the mean over all samples.

    Returns:
        A matrix of correlations beside a map over steps and channels of the standard deviation of a cell's rank (from 0 to 1)
        over the methods.
    """
    first = check_same_samples(explanations)
    if len(explanations) < 2:
        raise ValueError(f"Expected explanations by at least two methods, got {len(explanations)}.")
    if index is not None:
        check_index(first, index)
    cells = disagreement([e.attribution for e in explanations.values()], first.observed)  # (N, T, D)
    chosen = largest((cells.mean(axis=0) if index is None else cells[index]).sum(axis=0), MAX_LANES)
    names = list(explanations)
    figure = Figure(figsize=(3.4 + 0.28 * len(names) + 6, 1.6 + 0.34 * max(len(names), 2 * len(chosen))), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    matrix = np.asarray(correlation, dtype=np.float64)
    left.imshow(matrix, cmap=SEQUENTIAL, norm=Normalize(0, 1), aspect="auto")
    for (i, j), value in np.ndenumerate(matrix):
        left.text(j, i, "-" if np.isnan(value) else f"{value:.2f}", ha="center", va="center", fontsize=SMALL)
    left.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=SMALL)
    left.set_yticks(range(len(names)), names, fontsize=SMALL)
    left.set_title("rank correlation", fontsize=MEDIUM)
    scale = Normalize(0, MOST)
    if index is None:
        edges, bounds = np.arange(cells.shape[1] + 1) + 0.5, np.arange(len(chosen) + 1.0)
        mean = cells[:, :, chosen].mean(axis=0).T  # (K, T)
        right.pcolormesh(edges, bounds, mean, norm=scale, cmap=SEQUENTIAL, rasterized=True)
        right.set_ylim(len(chosen), 0)
        right.set_yticks([])
        label, where = "step", f"mean of {len(first)} samples"
    else:
        sample = Sample.of(replace(first, attribution=cells.astype(np.float32), signed=False, mask=None), index)
        draw_lanes(right, sample, chosen, sample.attribution, scale, SEQUENTIAL)
        label, where = sample.clock.label, caption(first, index)
    name_lanes(right, channel_names(first), chosen)
    right.set_xlabel(label, fontsize=MEDIUM)
    right.set_title(f"where methods disagree: {where}", fontsize=MEDIUM)
    colourbar(figure, right, scale, SEQUENTIAL, "deviation of a cell's rank", aspect=15)
    figure.suptitle(channel_note(len(chosen), cells.shape[2]), fontsize=MEDIUM)
    return figure
