"""The figure that compares methods on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.plots.drawing import MAX_LANES, channel_note, colourbar, draw_lanes, legend, name_lanes, panel_height
from timex.report.plots.sample import Sample, check_index, largest, min_max
from timex.report.plots.style import DIVERGING, MEDIUM, SEQUENTIAL
from timex.report.samples import caption, check_same_samples


def plot_comparison(explanations: Mapping[str, Explanation], indices: Sequence[int]) -> Figure:
    """Draw the attributions of several methods for the same samples, one column per sample and one row per method.

    Cells known to decide the class are shaded in the top row, if the series of the first explanations have them.

    Args:
        explanations: Explanations of the same N samples, by the name of the method.
        indices: The samples to draw.

    Returns:
        (1 + methods) x samples axes, with the series alone in the top row, and a colourbar per row. Methods do not share a
        scale: attributions are min-max normalised per sample. Signed ones are divided by their largest size, so zero is white.
    """
    first = check_same_samples(explanations)
    if len(indices) == 0:
        raise ValueError("Expected at least one sample index, got none.")
    for i in indices:
        check_index(first, i)
    columns = [[Sample.of(e, i) for e in explanations.values()] for i in indices]
    every = [sample for column in columns for sample in column]
    signed = [e.signed for e in explanations.values()]
    scaled = [[_relative(s, sign) for s, sign in zip(column, signed, strict=True)] for column in columns]
    chosen = largest(np.sum([np.abs(v).sum(axis=0) for column in scaled for v in column], axis=0), MAX_LANES)
    n_rows = 1 + len(explanations)
    size = (1.6 + 2.7 * len(columns), 1.2 + n_rows * panel_height(len(chosen)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, len(columns), sharex="col", squeeze=False)
    scales = [(Normalize(-1.0, 1.0), DIVERGING) if sign else (Normalize(0.0, 1.0), SEQUENTIAL) for sign in signed]
    for i, column, values, cells in zip(indices, columns, scaled, axes.T, strict=True):
        draw_lanes(cells[0], column[0], chosen, truth=True)
        cells[0].set_title(caption(first, i), fontsize=MEDIUM)
        for ax, sample, value, scale in zip(cells[1:], column, values, scales, strict=True):
            draw_lanes(ax, sample, chosen, value, *scale)
        cells[-1].set_xlabel(column[0].clock.label, fontsize=MEDIUM)
    for ax, name in zip(axes[:, 0], ["series", *explanations], strict=True):
        name_lanes(ax, every[0].channels, chosen)
        ax.set_ylabel(name, fontsize=MEDIUM, fontweight="bold")
    figure.align_ylabels(axes[:, 0])
    for row, scale in zip(axes[1:], scales, strict=True):
        colourbar(figure, row, *scale, "attribution,\nrelative", aspect=12)
    figure.suptitle(channel_note(len(chosen), len(every[0].channels)), fontsize=MEDIUM)
    legend(figure, axes[0], absent=not all(s.observed[:, chosen].all() for s in every))
    return figure


def _relative(sample: Sample, signed: bool) -> NDArray[np.float64]:
    """A sample's attribution on a scale that methods share: 0..1, or -1..1 about zero if it is signed."""
    if not signed:
        return min_max(sample.attribution, sample.observed)
    return sample.attribution / (np.abs(sample.attribution).max() or 1.0)
