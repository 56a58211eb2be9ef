"""Figures of explanations, of comparisons, of training and of landmarks.

Every function builds a `matplotlib.figure.Figure` and returns it: no pyplot, no window, no change of global settings.

Shapes: N samples, T time steps, S the steps of one sample that are drawn, D channels, Z the width of the embedding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from timex.report import style
from timex.report.geometry import drawn_steps, principal_plane, unit
from timex.report.page import check_same_samples
from timex.types import Explanation, atomic_path

if TYPE_CHECKING:
    import pandas as pd

    from timex.method.landmarks import Landmarks

CLASS_MARKERS = dict(zip(style.MARKERS, ("o", "s", "^", "D"), strict=True))
ABSENT = "0.88"
Curves = Mapping[str, Mapping[float, float]]
"""Values over x, by the name of the curve."""

LARGE, MEDIUM, SMALL = 11, 9.5, 8.5  # points
MAX_ROWS = 16  # channels of one explanation, one axes each
MAX_LANES = 8  # channels in one small panel
STRIP = 0.15  # inches given to the mask strip, and to the truth strip
ROUND = (1, 2, 2.5, 5, 10)  # ticks at multiples of these

SEQUENTIAL = LinearSegmentedColormap.from_list("white_to_orange", style.SEQUENTIAL)
DIVERGING = LinearSegmentedColormap.from_list("purple_to_orange", style.DIVERGING)
CURVES = (style.INK, *style.OKABE_ITO[:6])  # yellow is too faint for a line
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))  # so that print without colour still tells curves apart


# ---------------------------------------------------------------------------------------------------- public functions


def plot_explanation(explanation: Explanation, i: int = 0, truth: ArrayLike | None = None) -> Figure:
    """Draw one explained sample: a row per channel, the attribution as colour behind the series, and how far to trust it.

    Args:
        explanation: Explanations of N samples.
        i: Which of them.
        truth: Cells known to decide the class, (N, T, D) or (T, D), drawn as a strip above the series.

    Returns:
        One axes per channel (the 16 with the largest total attribution where there are more) and one colourbar.
    """
    sample = _Sample.of(explanation, i, truth)
    chosen = _largest(np.abs(sample.attribution).sum(axis=0), MAX_ROWS)
    norm, cmap = _scale(explanation, sample.attribution)
    row_height = float(np.clip(6.0 / len(chosen), 0.75, 2.2))
    figure = Figure(figsize=(8.0, 1.5 + row_height * len(chosen)), layout="constrained")
    axes = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
    for ax, k in zip(axes, chosen, strict=True):
        _draw_channel(ax, sample, k, norm, cmap, strip=min(STRIP / row_height, 0.13))
        ax.set_ylabel(sample.channels[k], rotation=0, ha="right", va="center", labelpad=9, fontsize=MEDIUM)
    figure.align_ylabels(axes)
    axes[-1].set_xlabel(sample.time_label, fontsize=MEDIUM)
    _head(axes[0], explanation, i, _channel_note(len(chosen), len(sample.channels)))
    _colourbar(figure, axes, norm, cmap, "attribution")
    _legend(figure, axes, absent=not sample.observed[:, chosen].all())
    return figure


def plot_comparison(explanations: Mapping[str, Explanation], indices: Sequence[int], truth: ArrayLike | None = None) -> Figure:
    """Draw the attributions of several methods for the same samples, one column a sample and one row a method.

    Args:
        explanations: Explanations of the same N samples, by the name of the method.
        indices: The samples to draw.
        truth: Cells known to decide the class, (N, T, D), shaded in the top row.

    Returns:
        (1 + methods) x samples axes, the series themselves in the top row, and a colourbar a row. Methods do not share a scale:
        attributions are min-max normalised per sample, signed ones divided by their largest size, so that zero stays white.
    """
    first = _check_comparable(explanations, indices)
    columns = [[_Sample.of(e, i, truth) for e in explanations.values()] for i in indices]
    every = [sample for column in columns for sample in column]
    signed = [e.signed for e in explanations.values()]
    scaled = [[_relative(s, sign) for s, sign in zip(column, signed, strict=True)] for column in columns]
    chosen = _largest(np.sum([np.abs(v).sum(axis=0) for column in scaled for v in column], axis=0), MAX_LANES)
    n_rows = 1 + len(explanations)
    size = (1.6 + 2.7 * len(columns), 1.2 + n_rows * _panel_height(len(chosen)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, len(columns), sharex="col", squeeze=False)
    scales = [(Normalize(-1.0, 1.0), DIVERGING) if sign else (Normalize(0.0, 1.0), SEQUENTIAL) for sign in signed]
    for i, column, values, cells in zip(indices, columns, scaled, axes.T, strict=True):
        _draw_lanes(cells[0], column[0], chosen, truth=True)
        cells[0].set_title(_caption(first, i), fontsize=MEDIUM)
        for ax, sample, value, scale in zip(cells[1:], column, values, scales, strict=True):
            _draw_lanes(ax, sample, chosen, value, *scale)
        cells[-1].set_xlabel(column[0].time_label, fontsize=MEDIUM)
    for ax, name in zip(axes[:, 0], ["series", *explanations], strict=True):
        _name_lanes(ax, every[0], chosen)
        ax.set_ylabel(name, fontsize=MEDIUM, fontweight="bold")
    figure.align_ylabels(axes[:, 0])
    for row, scale in zip(axes[1:], scales, strict=True):
        _colourbar(figure, row, *scale, "attribution,\nrelative", aspect=12)
    figure.suptitle(_channel_note(len(chosen), len(every[0].channels)), fontsize=MEDIUM)
    _legend(figure, axes[0], absent=not all(s.observed[:, chosen].all() for s in every))
    return figure


def plot_history(history: pd.DataFrame) -> Figure:
    """Draw a training: the terms of the loss, the validation values and the learning rate over the epochs.

    Args:
        history: One row per epoch, as `TimeX.history` gives it. Columns that are absent are left out.

    Returns:
        One axes per group of columns that is there, with the selected epoch marked in each.
    """
    if len(history) == 0:
        raise ValueError("Expected a history with at least one epoch, got an empty one: fit the explainer first.")
    panels = [(title, [c for c in names if c in history], names) for title, names in style.HISTORY.items()]
    panels = [(title, columns, names) for title, columns, names in panels if columns]
    if not panels:
        known = [c for names in style.HISTORY.values() for c in names]
        raise ValueError(f"Expected a history with columns among {known}, got {list(history.columns)}.")
    epoch = np.asarray(history["epoch"] if "epoch" in history else np.arange(len(history)))
    selected = epoch[np.asarray(history["selected"], dtype=bool)] if "selected" in history else epoch[:0]
    figure = Figure(figsize=(7.5, 0.6 + 2.1 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (title, columns, names) in zip(axes, panels, strict=True):
        _draw_curves(ax, epoch, {names[c]: np.asarray(history[c], dtype=float) for c in columns})
        if title.endswith("shares"):
            ax.set_ylim(-0.03, 1.03)
        for e in selected:
            ax.axvline(e, color=style.WARNING, linewidth=1.2, linestyle=(0, (4, 2)), label=f"selected: epoch {int(e)}")
        ax.set_title(title, loc="left", fontsize=MEDIUM, fontweight="bold")
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=SMALL, frameon=False)
    axes[-1].set_xlabel("epoch", fontsize=MEDIUM)
    axes[-1].xaxis.set_major_locator(MaxNLocator(10, steps=ROUND, integer=True))
    return figure


def plot_landmarks(
    explanation: Explanation, landmarks: Landmarks, n: int = 4, n_nearest: int = 3, x_train: ArrayLike | None = None
) -> Figure:
    """Draw the map of the explanations with the most used landmarks, and the explanations nearest to each of these.

    Args:
        explanation: Explanations of N samples, with embeddings.
        landmarks: The landmarks of the explainer that gave them.
        n: How many landmarks, those that are the nearest of most training explanations.
        n_nearest: How many of the N explanations to draw for each.
        x_train: The series the explainer was fitted on, (M, T, D), to draw the nearest of them in a column of its own.

    Returns:
        The map, n rows of small panels, and one colourbar.
    """
    embedding = _check_embedding(explanation, landmarks)
    if n < 1 or n_nearest < 1:
        raise ValueError(f"Expected n >= 1 and n_nearest >= 1, got n={n} and n_nearest={n_nearest}.")
    train = None if x_train is None else _check_train(np.asarray(x_train), explanation, landmarks)
    top = landmarks.ranking()[:n]
    z, vectors = unit(embedding), unit(landmarks.vectors[top])
    nearest = np.argsort(-(vectors @ z.T), axis=1, kind="stable")[:, :n_nearest]  # (n, n_nearest)
    shown = np.unique(nearest)
    chosen = _largest(np.abs(explanation.attribution[shown]).sum(axis=(0, 1)), MAX_LANES)
    norm, cmap = _scale(explanation, explanation.attribution[shown])
    n_panels = nearest.shape[1] + (train is not None)
    height = max(4.4, 0.9 + len(top) * (_panel_height(len(chosen)) + 0.3))
    figure = Figure(figsize=(6.2 + 2.1 * n_panels, height), layout="constrained")
    grid = figure.add_gridspec(len(top), 1 + n_panels, width_ratios=[2.1] + [1.0] * n_panels)
    overview = figure.add_subplot(grid[:, 0])
    _draw_map(overview, explanation, z, vectors, top)
    panels = np.array([[figure.add_subplot(grid[r, 1 + c]) for c in range(n_panels)] for r in range(len(top))])
    for row, number, neighbours in zip(panels, top, nearest, strict=True):
        _draw_neighbours(row[-len(neighbours) :], explanation, neighbours, chosen, norm, cmap)
        if train is not None:
            j = int(landmarks.nearest[number, 0])
            _draw_lanes(row[0], _Sample.plain(train[j], explanation.channels), chosen)
            row[0].set_title(f"training sample {j}", fontsize=SMALL)
        _name_lanes(row[0], _Sample.of(explanation, 0), chosen)
        label = _landmark_label(landmarks, int(number), explanation)
        row[0].set_ylabel(label, fontsize=SMALL, rotation=0, ha="right", va="center")
    for ax in panels[-1, -nearest.shape[1] :]:
        ax.set_xlabel(_Sample.of(explanation, 0).time_label, fontsize=SMALL)
    figure.align_ylabels(panels[:, 0])
    figure.suptitle(_channel_note(len(chosen), explanation.x.shape[2]), fontsize=MEDIUM)
    _colourbar(figure, panels, norm, cmap, "attribution")
    _legend(figure, [overview], absent=False)
    return figure


def plot_occlusion(curves: Curves, errors: Curves | None = None, metric: str = "AUROC") -> Figure:
    """Draw what the model still knows when all but the most important cells are hidden: a faithful method stays high longest.

    Args:
        curves: By method, the metric by the share of cells hidden.
        errors: Standard errors of the same points.
        metric: Name of the metric.

    Returns:
        One axes with a curve per method.
    """
    return _curve_figure(curves, errors, "share of cells hidden, least important first", metric)


def plot_r_sweep(curves: Curves, errors: Curves | None = None) -> Figure:
    """Draw how the scores of explanations depend on r, the prior probability that a cell is kept.

    Args:
        curves: By metric, its value by r.
        errors: Standard errors of the same points.

    Returns:
        One axes with a curve per metric.
    """
    return _curve_figure(curves, errors, "r, prior probability of keeping a cell", "score")


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format its suffix names (beside first, then renamed, so that no half file is ever seen)."""
    target = Path(path)
    known = sorted(figure.canvas.get_supported_filetypes())
    kind = target.suffix[1:].lower()
    if kind not in known:
        raise ValueError(f"Expected a file name that ends in one of {', '.join(known)}, got {target.name!r}: add the suffix.")
    with atomic_path(target) as beside:
        figure.savefig(beside, format=kind, dpi=200)
    return target


# ------------------------------------------------------------------------------------------------- one sample, to draw


@dataclass(frozen=True)
class _Sample:
    """The steps of one sample that can be drawn, in the order of time; cells that were not observed hold NaN and 0.

    Attributes:
        times: (S,), increasing.
        time_label: What the time axis is called.
        x: (S, D), NaN where not observed.
        attribution: (S, D), 0 where not observed.
        observed: (S, D).
        mask: (S, D) or None.
        truth: (S, D) or None.
        channels: D names.
    """

    times: NDArray[np.float64]
    time_label: str
    x: NDArray[np.float64]
    attribution: NDArray[np.float64]
    observed: NDArray[np.bool_]
    mask: NDArray[np.bool_] | None
    truth: NDArray[np.bool_] | None
    channels: tuple[str, ...]

    @classmethod
    def of(cls, explanation: Explanation, i: int, truth: ArrayLike | None = None) -> _Sample:
        """Sample `i` of an explanation."""
        _check_index(explanation, i)
        _, t, d = explanation.x.shape
        steps = np.arange(1, t + 1, dtype=np.float64)
        times = steps if explanation.times is None else explanation.times[i].astype(np.float64)
        observed = np.ones((t, d), dtype=bool) if explanation.observed is None else explanation.observed[i]
        order = drawn_steps(times, observed)
        cells = None if truth is None else _check_truth(np.asarray(truth, dtype=bool), explanation, i)
        return cls(
            times=times[order],
            # regular data may come with the times 1..T, which are steps by another name
            time_label="step" if np.array_equal(times[order], steps[order]) else "time",
            x=np.where(observed, explanation.x[i], np.nan)[order],
            attribution=np.where(observed, explanation.attribution[i], 0.0)[order],
            observed=observed[order],
            mask=None if explanation.mask is None else (explanation.mask[i] & observed)[order],
            truth=None if cells is None else (cells & observed)[order],
            channels=explanation.channels or tuple(f"channel {k}" for k in range(d)),
        )

    @classmethod
    def plain(cls, x: NDArray[Any], channels: tuple[str, ...]) -> _Sample:
        """A series (T, D) without an explanation, NaN where not observed."""
        steps = np.arange(1.0, len(x) + 1)
        return cls(steps, "step", x, np.zeros(x.shape), np.isfinite(x), None, None, channels)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Where the coloured cell of every step begins and ends, half way between steps, (S + 1,)."""
        if len(self.times) == 1:
            return self.times[0] + np.array([-0.5, 0.5])
        middle = (self.times[1:] + self.times[:-1]) / 2
        return np.concatenate([[2 * self.times[0] - middle[0]], middle, [2 * self.times[-1] - middle[-1]]])


def _largest(total: NDArray[np.floating[Any]], limit: int) -> NDArray[np.int64]:
    """The `limit` channels with the largest totals, in their own order."""
    return np.sort(np.argsort(-total, kind="stable")[:limit])


def _min_max(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Values scaled so that the observed ones span 0..1; zero where they are all the same, and where not observed."""
    if not observed.any():
        return np.zeros_like(values)
    low, high = values[observed].min(), values[observed].max()
    return np.where(observed, (values - low) / (high - low), 0.0) if high > low else np.zeros_like(values)


def _relative(sample: _Sample, signed: bool) -> NDArray[np.float64]:
    """A sample's attribution on a scale that methods can share: 0..1, or -1..1 about zero where it is signed."""
    if not signed:
        return _min_max(sample.attribution, sample.observed)
    return sample.attribution / (np.abs(sample.attribution).max() or 1.0)


def _scale(explanation: Explanation, values: NDArray[Any]) -> tuple[Normalize, Colormap]:
    """The colour scale: 0..1 for probabilities, symmetric about 0 for signed attributions, else that of the values."""
    low, high = float(values.min()), float(values.max())
    if explanation.signed:
        top = max(abs(low), abs(high)) or 1.0
        return Normalize(-top, top), DIVERGING
    if explanation.method in ("", "timex") and low >= 0 and high <= 1:
        return Normalize(0.0, 1.0), SEQUENTIAL
    low = min(low, 0.0)
    return Normalize(low, high if high > low else low + 1.0), SEQUENTIAL


# ------------------------------------------------------------------------------------------------------------- drawing


def _draw_channel(ax: Axes, sample: _Sample, k: int, norm: Normalize, cmap: Colormap, strip: float) -> None:
    """One channel on its own axes, the mask strip along the bottom and the truth strip along the top."""
    axis = ax.get_xaxis_transform()  # x in data units, y in shares of the height
    _band(ax, sample, sample.attribution[:, [k]], [k], np.array([0.0, 1.0]), norm, cmap, transform=axis)
    _series(ax, sample, k, sample.x[:, k], linewidth=1.3)
    values = sample.x[sample.observed[:, k], k]
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    share = strip + 0.04  # of the height, kept free of the series at both ends
    margin = ((high - low) or 1.0) * share / (1 - 2 * share)
    ax.set_ylim(low - margin, high + margin)
    if sample.mask is not None:
        _strip(ax, sample, sample.mask[:, k], 0.0, strip, facecolor=style.KEPT, linewidth=0, label="mask (kept cells)")
    if sample.truth is not None:
        look = {"facecolor": "#A6DCCB", "edgecolor": style.TRUTH, "hatch": "/////", "linewidth": 0.8, "label": "ground truth"}
        _strip(ax, sample, sample.truth[:, k], 1.0 - strip, 1.0, **look)
    _tidy(ax, sample)
    ax.xaxis.set_major_locator(MaxNLocator(8, steps=ROUND))
    ax.yaxis.set_major_locator(MaxNLocator(4, steps=ROUND))


def _draw_lanes(
    ax: Axes,
    sample: _Sample,
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
    _band(ax, sample, values[:, channels], channels, bounds, norm or Normalize(0.0, 1.0), cmap)
    for lane, k in enumerate(channels):
        height = _min_max(sample.x[:, k], sample.observed[:, k])
        y = np.where(sample.observed[:, k], lane + 0.88 - 0.76 * height, np.nan)
        _series(ax, sample, k, y, linewidth=0.9)
        if truth and sample.truth is not None:
            look = {"facecolor": style.TRUTH, "alpha": 0.35, "linewidth": 0, "zorder": 1.5, "label": "ground truth"}
            _runs(ax, sample.truth[:, k], sample.edges, lane, lane + 1.0, ax.transData, **look)
    ax.hlines(np.arange(1, len(channels)), *sample.edges[[0, -1]], color="0.6", linewidth=0.5)
    ax.set_ylim(len(channels), 0)
    ax.set_yticks([])
    _tidy(ax, sample)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=ROUND))


def _band(
    ax: Axes,
    sample: _Sample,
    values: NDArray[np.float64],
    channels: Sequence[int],
    bounds: NDArray[np.float64],
    norm: Normalize,
    cmap: Colormap,
    **look: Any,
) -> None:
    """Values (S, K) as colour, cells that were not observed left to the grey of the axes."""
    ax.set_facecolor(ABSENT)
    cells = np.ma.masked_array(values, ~sample.observed[:, channels]).T
    # rasterized: as vectors, neighbouring cells show hairlines between them in most viewers
    ax.pcolormesh(sample.edges, bounds, cells, norm=norm, cmap=cmap, rasterized=True, **look)


def _series(ax: Axes, sample: _Sample, k: int, y: NDArray[np.float64], linewidth: float) -> None:
    """The series as a line with gaps; an observed step between two gaps would be no line at all, so it gets a dot."""
    seen = np.concatenate([[False], sample.observed[:, k], [False]])
    alone = np.flatnonzero(seen[1:-1] & ~seen[:-2] & ~seen[2:])
    look = {"marker": ".", "markevery": alone.tolist(), "markersize": 4} if len(alone) else {}
    ax.plot(sample.times, y, color=style.INK, linewidth=linewidth, label="series", **look)


def _runs(
    ax: Axes, cells: NDArray[np.bool_], edges: NDArray[np.float64], low: float, high: float, transform: Any, **look: Any
) -> None:
    """A rectangle from `low` to `high` over every run of true cells."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], cells.astype(np.int8), [0]]))).reshape(-1, 2)
    corners = [[(a, low), (a, high), (b, high), (b, low)] for a, b in edges[change]]
    ax.add_collection(PolyCollection(corners, transform=transform, **look), autolim=False)


def _strip(ax: Axes, sample: _Sample, cells: NDArray[np.bool_], low: float, high: float, **look: Any) -> None:
    """A strip along the axes, between two shares of their height: white, and marked where `cells` are true."""
    axis, thin = ax.get_xaxis_transform(), (high - low) * 0.22
    _runs(ax, np.ones_like(cells), sample.edges, low, high, axis, facecolor="white", zorder=2.5)
    _runs(ax, cells, sample.edges, low + thin, high - thin, axis, zorder=3, **look)


def _draw_curves(ax: Axes, epoch: NDArray[Any], curves: dict[str, NDArray[np.float64]]) -> None:
    """Values over epochs, on a log scale where they are positive and far apart."""
    for (label, values), colour, dash in zip(curves.items(), CURVES, DASHES, strict=False):
        known = np.isfinite(values)
        marker = "o" if known.sum() < 2 else None
        ax.plot(epoch[known], values[known], label=label, color=colour, linestyle=dash, linewidth=1.4, marker=marker)
    every = np.concatenate([v[np.isfinite(v)] for v in curves.values()])
    if len(every) and every.min() > 0 and every.max() > 20 * every.min():
        ax.set_yscale("log")
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.6)


def _curve_figure(curves: Curves, errors: Curves | None, across: str, up: str) -> Figure:
    """A curve for every entry, in the order given, with a dot at every point that was measured."""
    if not curves or not all(curves.values()):
        raise ValueError(f"Expected curves with at least one point each, got {dict(curves)}.")
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    ax = figure.subplots()
    for j, (name, points) in enumerate(curves.items()):
        x = sorted(points)
        spread = None if errors is None or name not in errors else [errors[name].get(v, np.nan) for v in x]
        ax.errorbar(
            x,
            [points[v] for v in x],
            yerr=spread,
            label=name,
            color=CURVES[j % len(CURVES)],
            linestyle=DASHES[j % len(DASHES)],
            linewidth=1.6,
            marker="o",
            markersize=4,
            capsize=2.5,
        )
    ax.set_xlabel(across, fontsize=MEDIUM)
    ax.set_ylabel(up, fontsize=MEDIUM)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=SMALL, frameon=False)
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.6)
    return figure


def _draw_map(
    ax: Axes, explanation: Explanation, z: NDArray[np.float64], vectors: NDArray[np.float64], numbers: NDArray[np.int64]
) -> None:
    """The first two principal components of the explanations' directions, and where the landmarks lie among them."""
    plane = principal_plane(z)
    place, star, share = plane.place(z), plane.place(vectors), plane.share
    for c in np.unique(explanation.prediction):
        here = explanation.prediction == c
        turn, colour = divmod(int(c), len(style.OKABE_ITO))
        marker = CLASS_MARKERS[style.MARKERS[turn % len(style.MARKERS)]]
        look = {"color": style.OKABE_ITO[colour], "marker": marker}
        ax.scatter(*place[here].T, s=16, alpha=0.65, linewidth=0, label=_class_name(explanation, int(c)), **look)
    ax.scatter(*star.T, s=95, marker="D", color="white", edgecolor=style.INK, linewidth=1.3, zorder=4, label="landmark")
    for number, point in zip(numbers, star, strict=True):
        text = ax.annotate(str(number), point, xytext=(8, 6), textcoords="offset points", fontsize=LARGE, fontweight="bold")
        text.set(path_effects=[withStroke(linewidth=2.5, foreground="white")], zorder=5)
    ax.set_xlabel(f"first component ({share[0]:.0%} of variance)", fontsize=MEDIUM)
    ax.set_ylabel(f"second component ({share[1]:.0%} of variance)", fontsize=MEDIUM)
    ax.set_title(f"{len(z)} explanations, by predicted class", loc="left", fontsize=LARGE, fontweight="bold")
    ax.tick_params(labelsize=SMALL)
    ax.margins(0.1)


def _draw_neighbours(
    axes: Iterable[Axes],
    explanation: Explanation,
    neighbours: Iterable[int],
    chosen: NDArray[np.int64],
    norm: Normalize,
    cmap: Colormap,
) -> None:
    for ax, i in zip(axes, neighbours, strict=True):
        sample = _Sample.of(explanation, int(i))
        _draw_lanes(ax, sample, chosen, sample.attribution, norm, cmap)
        ax.set_title(_caption(explanation, int(i)), fontsize=SMALL)


def _tidy(ax: Axes, sample: _Sample) -> None:
    ax.set_xlim(*sample.edges[[0, -1]])
    ax.tick_params(labelsize=SMALL)
    ax.spines[:].set(linewidth=0.6, color="0.4")


def _name_lanes(ax: Axes, sample: _Sample, chosen: NDArray[np.int64]) -> None:
    """Channel names beside the lanes; one channel alone needs none."""
    if len(chosen) > 1:
        ax.set_yticks(np.arange(len(chosen)) + 0.5, [sample.channels[k] for k in chosen], fontsize=SMALL)
        ax.tick_params(axis="y", length=0)


def _panel_height(n_lanes: int) -> float:
    return 1.1 if n_lanes == 1 else 0.5 + 0.33 * n_lanes


def _colourbar(figure: Figure, axes: Any, norm: Normalize, cmap: Colormap, label: str, aspect: float = 30) -> None:
    bar = figure.colorbar(ScalarMappable(norm, cmap), ax=axes, pad=0.015, aspect=aspect, shrink=0.9)
    bar.set_label(label, fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_linewidth(0.6)


def _legend(figure: Figure, axes: Iterable[Axes], absent: bool) -> None:
    """One entry for everything that was drawn, whichever axes it is on."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if absent:
        handles["not observed"] = Patch(facecolor=ABSENT)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 6), fontsize=SMALL, frameon=False
    )


# --------------------------------------------------------------------------------------------------------------- words


def _class_name(explanation: Explanation, c: int) -> str:
    return explanation.classes[c] if c < len(explanation.classes) else f"class {c}"


def _caption(explanation: Explanation, i: int) -> str:
    return f"sample {i}: {_class_name(explanation, int(explanation.prediction[i]))}"


def _verdict(explanation: Explanation, i: int) -> str:
    """Which class is explained, and what the model thinks of it; these differ when a target was asked for."""
    p, c = explanation.probability[i], int(explanation.prediction[i])
    top = int(p.argmax())
    if p[c] == p[top]:
        return f"predicted: {_class_name(explanation, c)} (confidence {p[c]:.2f})"
    return f"explained: {_class_name(explanation, c)} ({p[c]:.2f}), predicted: {_class_name(explanation, top)} ({p[top]:.2f})"


def _trust(explanation: Explanation, i: int) -> str:
    """What the explainer knows about its own explanation; empty for methods that know nothing."""
    parts = []
    if explanation.agreement is not None:
        parts.append("surrogate agrees" if explanation.agreement[i] else "surrogate disagrees: treat with care")
    if explanation.divergence is not None:
        parts.append(f"JS divergence {explanation.divergence[i]:.3f}")
    if explanation.landmark is not None:
        parts.append(f"landmark {int(explanation.landmark[i])}")
    return "  ·  ".join(parts)


def _channel_note(n_shown: int, n_channels: int) -> str:
    return "" if n_shown == n_channels else f"{n_shown} of {n_channels} channels: those with the largest total attribution"


def _head(ax: Axes, explanation: Explanation, i: int, note: str) -> None:
    """The title of one explanation, in bold what was predicted, below it how far to trust it and what was left out."""
    lines = [line for line in (_trust(explanation, i), note) if line]
    doubtful = explanation.agreement is not None and not explanation.agreement[i]
    height = SMALL * 1.45
    ax.set_title(
        f"Sample {i}, {_verdict(explanation, i)}", loc="left", fontsize=LARGE, fontweight="bold", pad=6 + height * len(lines)
    )
    for place, line in enumerate(reversed(lines)):
        colour = style.WARNING if doubtful and line != note else style.INK
        above = (0, 5 + height * place)
        ax.annotate(
            line, (0, 1), xytext=above, xycoords="axes fraction", textcoords="offset points", fontsize=MEDIUM, color=colour
        )


def _landmark_label(landmarks: Landmarks, number: int, explanation: Explanation) -> str:
    count = int(landmarks.counts[number])
    if count == 0:
        return f"landmark {number}\nunused"
    commonest = int(landmarks.composition[number].argmax())
    share = landmarks.composition[number, commonest] / count
    return f"landmark {number}\n{count} training samples\n{share:.0%} {_class_name(explanation, commonest)}"


# -------------------------------------------------------------------------------------------------------------- checks


def _check_index(explanation: Explanation, i: int) -> None:
    if len(explanation) == 0:
        raise ValueError("Expected at least one explained sample, got none.")
    if not 0 <= i < len(explanation):
        raise ValueError(f"Expected a sample index 0..{len(explanation) - 1}, got {i}.")


def _check_truth(truth: NDArray[np.bool_], explanation: Explanation, i: int) -> NDArray[np.bool_]:
    """The ground truth of sample `i`, (T, D)."""
    if truth.shape == explanation.x.shape:
        return truth[i]
    if truth.shape == explanation.x.shape[1:]:
        return truth
    raise ValueError(
        f"Expected truth of the shape of x, {explanation.x.shape}, or of one sample, {explanation.x.shape[1:]}, "
        f"got {truth.shape}."
    )


def _check_comparable(explanations: Mapping[str, Explanation], indices: Sequence[int]) -> Explanation:
    """The first of several explanations, all of them of the same samples."""
    first = check_same_samples(explanations)
    if len(indices) == 0:
        raise ValueError("Expected at least one sample index, got none.")
    for i in indices:
        _check_index(first, i)
    return first


def _check_embedding(explanation: Explanation, landmarks: Landmarks) -> NDArray[np.float32]:
    if len(explanation) == 0:
        raise ValueError("Expected at least one explained sample, got none.")
    if len(landmarks) == 0:
        raise ValueError("Expected at least one landmark, got none: fit with n_landmarks >= 1.")
    if explanation.embedding is None:
        raise ValueError(
            f"Expected explanations with an embedding, got none from method {explanation.method!r}: "
            "only explainers with a latent space of explanations, such as timex, have landmarks."
        )
    width, expected = explanation.embedding.shape[1], landmarks.vectors.shape[1]
    if width != expected:
        raise ValueError(
            f"Expected embeddings as wide as the landmarks, {expected}, got {width}: "
            "pass the landmarks of the explainer that gave the explanations."
        )
    return explanation.embedding


def _check_train(x: NDArray[Any], explanation: Explanation, landmarks: Landmarks) -> NDArray[Any]:
    if x.ndim != 3 or x.shape[1:] != explanation.x.shape[1:]:
        raise ValueError(f"Expected x_train of shape (M, T, D) with (T, D) = {explanation.x.shape[1:]}, got {x.shape}.")
    needed = int(landmarks.nearest.max()) + 1
    if len(x) < needed:
        raise ValueError(f"Expected the x_train the explainer was fitted on, with at least {needed} samples, got {len(x)}.")
    return x
