"""The paper's figures, drawn from what a run kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from timex.bench.render import COLUMNS, display_name
from timex.bench.store import Result, Store
from timex.bench.summary import Block, blocks
from timex.bench.tables import ARMS, TABLES
from timex.types import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

Drawing = Callable[[Path, list[Block]], Iterator[tuple[str, "Figure"]]]


def draw(folder: Path, out: Path, names: Sequence[str] = (), datasets: Sequence[str] = ()) -> Iterator[Path]:
    """Draw every figure there is something for, and say where; one whose explanations were not kept is left out, with a word.

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
            log.warning("%s is not drawn: the explanations it shows are not there (%s)", name, error.filename)
            continue
        for suffix, figure in drawn:
            yield save(figure, out / f"{name}{suffix}.png")


def occlusion_curves(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """AUROC of the model over the share of cells occluded, one panel per data set; dashed: published values."""
    figure, axes = _panels(len(found))
    labels = dict.fromkeys(row.label for block in found for row in block.rows if row.stats)
    colours = {label: f"C{number}" for number, label in enumerate(labels)}
    for ax, block in zip(axes, found, strict=True):
        for row in (r for r in block.rows if r.stats):
            _curve(ax, row.stats, [float(m) for m in row.stats], display_name(row.label), colours[row.label])
            if row.paper:
                ax.plot([float(m) for m in row.paper], list(row.paper.values()), "--", color=colours[row.label], lw=1)
        if any(row.paper for row in block.rows):
            ax.plot([], [], "--", color="grey", lw=1, label="dashed: paper")
        ax.set(title=block.title, xlabel="share of cells occluded", ylabel="AUROC of the model")
    entries = dict(entry for ax in axes for entry in zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=min(3, 2 * len(axes)))
    yield "", figure


def r_sweep(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """AUPRC, AUP and AUR over r, one figure per data set."""
    from timex.report.plots import plot_r_sweep

    for number, block in enumerate(found):
        rows = {ARMS[row.label.partition(":")[2]]["r"]: row for row in block.rows if row.stats}
        means, errors = (
            {
                COLUMNS.get(m, m.upper()): {r: float(np.nan_to_num(getattr(row.stats[m], of))) for r, row in rows.items()}
                for m in block.metrics
            }
            for of in ("mean", "se_folds")
        )
        yield f"-{number}" if number else "", plot_r_sweep(means, errors)


def dtw_distributions(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """The mean DTW within groups around landmarks, and within random groups, of all folds."""
    figure, axes = _panels(len(found))
    for ax, block in zip(axes, found, strict=True):
        groups = {name: [v for r in block.results for v in r.detail.get(name, ())] for name in ("landmark", "random")}
        edges = np.histogram_bin_edges([v for values in groups.values() for v in values], bins=20)
        for name, values in groups.items():
            ax.hist(values, bins=edges.tolist(), density=True, alpha=0.6, label=f"{display_name(name)} ({len(values)} groups)")
        ax.set(title=block.title, xlabel="mean DTW within a group", ylabel="density")
        ax.legend()
    yield "", figure


def explanation_panels(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """The same samples explained by several methods, one figure per data set and architecture."""
    from timex.report.plots import plot_comparison

    for block in found:
        kept = {_label(r): r for r in block.results if r.error is None}
        explanations = {display_name(label): Explanation.load(folder / r.facts["panel"]) for label, r in kept.items()}
        first = next(iter(explanations.values()))
        truth = _truth(next(iter(kept.values())), first.x.shape)
        yield f"-{block.title.replace(', ', '-')}", plot_comparison(explanations, range(len(first)), truth=truth)


def landmark_map(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """The latent map with four landmarks, and the explanations nearest to them."""
    from safetensors.numpy import load_file

    from timex.method.landmarks import Landmarks
    from timex.report.plots import plot_landmarks

    for block in found:
        result = next(r for r in block.results if r.error is None)
        tensors = load_file(folder / result.facts["explainer"] / "explainer.safetensors")
        own = {name.removeprefix("landmarks."): v for name, v in tensors.items() if name.startswith("landmarks.")}
        yield "", plot_landmarks(Explanation.load(folder / result.facts["panel"]), Landmarks(**own))


def forecast_panels(folder: Path, found: list[Block]) -> Iterator[tuple[str, Figure]]:
    """Two windows with their attribution, and the forecast that each leads to."""
    from timex.report.plots import SEQUENTIAL

    for block in found:
        result = next(r for r in block.results if r.error is None)
        e = Explanation.load(folder / result.facts["panel"])
        figure, axes = _panels(2, len(e))
        for (left, right), x, p, ahead in zip(axes, e.x, e.attribution, result.detail["forecast"], strict=True):
            n = len(x)
            left.imshow(p.T, aspect="auto", cmap=SEQUENTIAL, extent=(0, n, x.min(), x.max()), vmin=0, vmax=1)
            left.plot(np.arange(n) + 0.5, x[:, 0], color="black", lw=0.8)
            left.set(xlabel="hour", ylabel="oil temperature, standardised", title="attribution")
            right.plot(np.arange(n, n + len(ahead)) + 0.5, ahead)
            right.set(xlabel="hour", title="forecast")
        yield "", figure


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


def _curve(ax: Axes, stats: Any, x: Sequence[float], label: str, colour: str) -> None:
    """Means with a band of one standard error over folds."""
    mean = np.array([s.mean for s in stats.values()])
    error = np.nan_to_num([s.se_folds for s in stats.values()])
    ax.plot(x, mean, "o-", ms=3, color=colour, label=label)
    ax.fill_between(x, mean - error, mean + error, color=colour, alpha=0.2, lw=0)


def _label(result: Result) -> str:
    return f"{result.cell['method']}:{result.cell['arm']}" if result.cell["arm"] else result.cell["method"]


def _truth(result: Result, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    if result.detail.get("truth") is None:
        return None
    truth = np.zeros(shape, dtype=bool)
    for sample, cells in zip(truth, result.detail["truth"], strict=True):
        sample[tuple(np.array(cells, dtype=int).reshape(-1, 2).T)] = True
    return truth
