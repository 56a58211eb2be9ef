"""What every figure of explanations is drawn from: bands of attribution, series, strips, legends.

Shapes: S steps of one sample, D channels, K of them drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from timex.report.plots.sample import Sample, min_max
from timex.report.plots.style import ABSENT, MEDIUM, ROUND, SEQUENTIAL, SMALL
from timex.report.spans import runs
from timex.report.style import INK, TRUTH

MAX_LANES = 8  # channels in one small panel


def draw_lanes(
    ax: Axes,
    sample: Sample,
    chosen: Iterable[int],
    attribution: NDArray[np.float64] | None = None,
    norm: Normalize | None = None,
    cmap: Colormap = SEQUENTIAL,
    truth: bool = False,
) -> None:
    """Several channels on one small axes, each scaled into a lane of height 1, the first channel on top."""
    channels = list(chosen)
    values = np.zeros_like(sample.attribution) if attribution is None else attribution
    bounds = np.arange(len(channels) + 1.0)
    draw_band(ax, sample, values[:, channels], channels, bounds, norm or Normalize(0.0, 1.0), cmap)
    for lane, k in enumerate(channels):
        height = min_max(sample.x[:, k], sample.observed[:, k])
        y = np.where(sample.observed[:, k], lane + 0.88 - 0.76 * height, np.nan)
        draw_series(ax, sample, k, y, linewidth=0.9)
        if truth and sample.truth is not None:
            look = {"facecolor": TRUTH, "alpha": 0.35, "linewidth": 0, "zorder": 1.5, "label": "ground truth"}
            draw_runs(ax, sample.truth[:, k], sample.edges, lane, lane + 1.0, ax.transData, **look)
    ax.hlines(np.arange(1, len(channels)), *sample.edges[[0, -1]], color="0.6", linewidth=0.5)
    ax.set_ylim(len(channels), 0)
    ax.set_yticks([])
    tidy(ax, sample)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=ROUND))


def draw_band(
    ax: Axes,
    sample: Sample,
    values: NDArray[np.float64],
    channels: Sequence[int],
    bounds: NDArray[np.float64],
    norm: Normalize,
    cmap: Colormap,
    **look: Any,
) -> None:
    """Values (S, K) as colour; cells that were not observed keep the grey of the axes."""
    ax.set_facecolor(ABSENT)
    cells = np.ma.masked_array(values, ~sample.observed[:, channels]).T
    # rasterized: most viewers show hairlines between neighbouring vector cells
    ax.pcolormesh(sample.edges, bounds, cells, norm=norm, cmap=cmap, rasterized=True, **look)


def draw_series(ax: Axes, sample: Sample, k: int, y: NDArray[np.float64], linewidth: float) -> None:
    """The series as a line with gaps; an observed step between two gaps gets a dot, since it has no line."""
    seen = np.concatenate([[False], sample.observed[:, k], [False]])
    alone = np.flatnonzero(seen[1:-1] & ~seen[:-2] & ~seen[2:])
    look = {"marker": ".", "markevery": alone.tolist(), "markersize": 4} if len(alone) else {}
    ax.plot(sample.times, y, color=INK, linewidth=linewidth, label="series", **look)


def draw_runs(
    ax: Axes, cells: NDArray[np.bool_], edges: NDArray[np.float64], low: float, high: float, transform: Any, **look: Any
) -> None:
    """A rectangle from `low` to `high` over every run of true cells (S,)."""
    found = runs(cells[:, None])
    corners = [[(a, low), (a, high), (b, high), (b, low)] for a, b in zip(edges[found.first], edges[found.after], strict=True)]
    ax.add_collection(PolyCollection(corners, transform=transform, **look), autolim=False)


def draw_strip(ax: Axes, sample: Sample, cells: NDArray[np.bool_], low: float, high: float, **look: Any) -> None:
    """A white strip along the axes, between two shares of their height, marked where `cells` (S,) are true."""
    axis, thin = ax.get_xaxis_transform(), (high - low) * 0.22
    draw_runs(ax, np.ones_like(cells), sample.edges, low, high, axis, facecolor="white", zorder=2.5)
    draw_runs(ax, cells, sample.edges, low + thin, high - thin, axis, zorder=3, **look)


def tidy(ax: Axes, sample: Sample) -> None:
    """Limits, ticks and frame of an axes over time."""
    ax.set_xlim(*sample.edges[[0, -1]])
    ax.tick_params(labelsize=SMALL)
    ax.spines[:].set(linewidth=0.6, color="0.4")


def tidy_curves(ax: Axes) -> None:
    """Ticks, grid and legend of an axes with curves."""
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.6)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=SMALL, frameon=False)


def name_lanes(ax: Axes, names: Sequence[str], chosen: NDArray[np.int64]) -> None:
    """Channel names beside the lanes; a single channel needs none."""
    if len(chosen) > 1:
        ax.set_yticks(np.arange(len(chosen)) + 0.5, [names[k] for k in chosen], fontsize=SMALL)
        ax.tick_params(axis="y", length=0)


def panel_height(n_lanes: int) -> float:
    """Inches of a small panel."""
    return 1.1 if n_lanes == 1 else 0.5 + 0.33 * n_lanes


def channel_note(n_shown: int, n_channels: int) -> str:
    """Which channels are left out; empty if none."""
    return "" if n_shown == n_channels else f"{n_shown} of {n_channels} channels: those with the largest total attribution"


def colourbar(figure: Figure, axes: Any, norm: Normalize, cmap: Colormap, label: str, aspect: float = 30) -> None:
    """The colour scale beside some axes."""
    bar = figure.colorbar(ScalarMappable(norm, cmap), ax=axes, pad=0.015, aspect=aspect, shrink=0.9)
    bar.set_label(label, fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_linewidth(0.6)


def legend(figure: Figure, axes: Iterable[Axes], absent: bool) -> None:
    """One entry for everything that is drawn on any of the axes."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if absent:
        handles["not observed"] = Patch(facecolor=ABSENT)
    place = {"loc": "outside lower center", "ncols": min(len(handles), 6)}
    figure.legend(handles.values(), handles.keys(), fontsize=SMALL, frameon=False, **place)
