"""The paper's figures, drawn from what a run kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timex.bench.names import method_name, metric_name
from timex.bench.recipes import PAPER_SWAPS, split_arm
from timex.bench.store import Result, Store
from timex.bench.summary import Block, Row, blocks
from timex.bench.tables import TABLES
from timex.records import Explanation
from timex.report.scores import CONTROLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

SMALL = 8.5  # points of ticks and legends
GROUPS = {"landmark": "groups around landmarks", "random": "random groups"}
Drawing = Callable[[Path, list[Block]], Iterator[tuple[str, "Figure"]]]


def draw(folder: Path, out: Path, names: Sequence[str] = (), datasets: Sequence[str] = ()) -> Iterator[Path]:
    """Draw every figure that has measured cells, and yield its path; a figure without kept explanations is left out.

    Args:
        folder: The run directory.
        out: Where to write the pictures.
        names: Of which tables; all by default.
        datasets: Data sets instead of the tables' own.
    """
    from timex.report.plots import save

    results = list(Store(folder).results())
    for name in names or TABLES:
        if name not in FIGURES:
            continue
        found = [b for b in blocks(TABLES[name], results, datasets) if any(r.error is None for r in b.results)]
        try:
            drawn = list(FIGURES[name](folder, found)) if found else []
        except FileNotFoundError as error:  # an export has no panels
            log.warning("%s is not drawn, since its explanations were not kept: %s", name, error)
            continue
        for suffix, figure in drawn:
            yield save(figure, out / f"{name}{suffix}.svg")


def occlusion_curves(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """AUROC of the model over the share of cells occluded, one panel per data set; dotted: published values."""
    from timex.report.plots import line_look

    figure, axes = _panels(len(found))
    labels = dict.fromkeys(row.label for block in found for row in block.rows if row.stats)
    looks = {label: line_look(number) for number, label in enumerate(labels)}
    looks |= {label: {**look, "color": "0.6"} for label, look in looks.items() if label in CONTROLS}
    for ax, block in zip(axes, found, strict=True):
        for row in (r for r in block.rows if r.stats):
            _curve(ax, row.stats, [float(m) for m in row.stats], method_name(row.label), looks[row.label])
            if row.paper:
                look = {**looks[row.label], "linestyle": ":", "marker": "x", "markersize": 4, "linewidth": 1}
                ax.plot([float(m) for m in row.paper], list(row.paper.values()), **look)
        if any(row.paper for row in block.rows):
            ax.plot([], [], ":", marker="x", markersize=4, color="grey", linewidth=1, label="dotted: published")
        ax.set(title=block.title, xlabel="share of cells occluded", ylabel="AUROC of the model")
        _tidy(ax)
    entries = dict(entry for ax in axes for entry in zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    place = {"loc": "outside lower center", "ncols": min(3, 2 * len(axes))}
    figure.legend(entries.values(), entries.keys(), fontsize=SMALL, frameon=False, **place)
    yield "", figure


def r_sweep(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """AUPRC, AUP and AUR over r, by the paper's objective, one figure per data set and model."""
    from timex.report.plots import plot_curves

    for block in found:
        swaps = {split_arm(row.label.partition(":")[2])[1]: row for row in block.rows if row.stats}
        rows = {PAPER_SWAPS[swap]["loss.r"]: row for swap, row in swaps.items()}
        if rows:
            curves, errors = (_over_r(block, rows, statistic) for statistic in ("mean", "se_folds"))
            yield "-".join(["", *block.title.split(", ")]), plot_curves(curves, errors, across="prior r", up="score")


def _over_r(block: Block, rows: Mapping[float, Row], statistic: str) -> dict[str, dict[float, float]]:
    return {
        metric_name(m): {r: float(np.nan_to_num(getattr(row.stats[m], statistic))) for r, row in rows.items()}
        for m in block.metrics
    }


def dtw_distributions(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """The mean DTW within groups around landmarks, and within random groups, of all folds."""
    from timex.report.plots import line_look

    figure, axes = _panels(len(found))
    for ax, block in zip(axes, found, strict=True):
        groups = {name: [v for r in block.results for v in r.detail.get(name, ())] for name in GROUPS}
        edges = np.histogram_bin_edges([v for values in groups.values() for v in values], bins=20)
        for number, (name, values) in enumerate(groups.items()):
            label = f"{GROUPS[name]} ({len(values)})"
            look = {**line_look(number), "linewidth": 1.8}
            ax.hist(values, bins=edges.tolist(), density=True, histtype="step", label=label, **look)
            ax.axvline(float(np.mean(values)) if values else np.nan, color=look["color"], linewidth=0.8, alpha=0.6)
        ax.set(title=block.title, xlabel="mean DTW within a group (thin line: mean)", ylabel="density")
        _tidy(ax)
        ax.legend(fontsize=SMALL, frameon=False)
    yield "", figure


def explanation_panels(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """The same samples explained by several methods, one figure per data set and architecture."""
    from timex.report.plots import plot_comparison

    for block in found:
        kept = {_label(r): r for r in block.results if r.error is None}
        explanations = {method_name(label): Explanation.load(folder / r.facts["panel"]) for label, r in kept.items()}
        n = len(next(iter(explanations.values())))
        yield f"-{block.title.replace(', ', '-')}", plot_comparison(explanations, range(n))


def landmark_map(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """The latent map with four landmarks and the explanations nearest to them, one figure per method."""
    from timex.method.explainer import TimeX
    from timex.reference import load_reference
    from timex.report.plots import plot_landmarks

    for block in found:
        for result in (r for r in block.results if r.error is None):
            explanation = Explanation.load(folder / result.facts["panel"])
            model = load_reference(folder / result.facts["reference"])
            explainer = TimeX.load(folder / result.facts["explainer"], model, device="cpu")
            suffix = f"-{result.cell['arm']}" if result.cell["arm"] else ""
            yield suffix, plot_landmarks(explanation, explainer.landmarks)


def forecast_panels(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """Two windows with their attribution and the forecast of each, one figure per method."""
    for block in found:
        for result in (r for r in block.results if r.error is None):
            e = Explanation.load(folder / result.facts["panel"])
            yield f"-{result.cell['arm']}", _forecasts(e, result.detail["forecast"])


def _forecasts(e: Explanation, forecasts: Sequence[Sequence[float]]) -> Figure:
    """A row per window: its attribution, and its last hours with the forecast."""
    from timex.report.plots import line_look
    from timex.report.plots.style import MEDIUM

    figure, axes = _panels(2, len(e))
    for i, ((left, right), ahead) in enumerate(zip(axes, forecasts, strict=True)):
        e.plot(i, ax=left, title="attribution")
        left.set(xlabel="hour", ylabel="oil temperature, standardised")
        past = e.x[i, -len(ahead) :, 0]
        hours = np.arange(e.x.shape[1] - len(ahead), e.x.shape[1] + len(ahead)) + 1
        right.plot(hours[: len(ahead)], past, label="past", **line_look(0))
        right.plot(hours[len(ahead) :], ahead, label="forecast", **line_look(1))
        right.set(xlabel="hour")
        right.set_title("forecast", loc="left", fontsize=MEDIUM)
        _tidy(right)
        right.legend(fontsize=SMALL, frameon=False)
    return figure


FIGURES: dict[str, Drawing] = {
    "occlusion": occlusion_curves,
    "r-sweep": r_sweep,
    "landmarks-dtw": dtw_distributions,
    "explanations": explanation_panels,
    "architectures-figure": explanation_panels,
    "landmark-figure": landmark_map,
    "forecasting": forecast_panels,
}
"""The tables that have a figure."""


def _panels(columns: int, rows: int = 1) -> tuple[Figure, Any]:
    """A figure and its axes, (columns,) if there is one row, else (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * columns, 3.5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, axes[0] if rows == 1 else axes


def _tidy(ax: Axes) -> None:
    """The frame and the grid of every figure with curves."""
    ax.tick_params(labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.6)


def _curve(ax: Axes, stats: Any, x: Sequence[float], label: str, look: dict[str, Any]) -> None:
    """Means with a band of one standard error over folds."""
    mean = np.array([s.mean for s in stats.values()])
    error = np.nan_to_num([s.se_folds for s in stats.values()])
    ax.plot(x, mean, marker="o", markersize=3, label=label, **look)
    ax.fill_between(x, mean - error, mean + error, color=look["color"], alpha=0.15, linewidth=0)


def _label(result: Result) -> str:
    return f"{result.cell['method']}:{result.cell['arm']}" if result.cell["arm"] else result.cell["method"]
