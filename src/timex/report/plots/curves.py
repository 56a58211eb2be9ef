"""The figure of scores over one setting, such as the prior r or the share of cells hidden."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from timex.report.plots.drawing import tidy_curves
from timex.report.plots.style import MEDIUM, line_look

Curves = Mapping[str, Mapping[float, float]]
"""Values over x, by the name of the curve."""


def plot_curves(curves: Curves, errors: Curves | None = None, *, across: str, up: str) -> Figure:
    """Draw scores over one setting, with a dot at every measured point.

    Args:
        curves: By name, the score by the value of the setting.
        errors: Standard errors of the same points.
        across: Label of the setting.
        up: Label of the score.

    Returns:
        One axes with a curve per name.
    """
    if not curves or not all(curves.values()):
        raise ValueError(f"Expected curves with at least one point each, got {dict(curves)}.")
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    ax = figure.subplots()
    for j, (name, points) in enumerate(curves.items()):
        x = sorted(points)
        spread = None if errors is None or name not in errors else [errors[name].get(v, np.nan) for v in x]
        look = line_look(j)
        ax.errorbar(x, [points[v] for v in x], yerr=spread, label=name, marker="o", markersize=4, capsize=2.5, **look)
    ax.set_xlabel(across, fontsize=MEDIUM)
    ax.set_ylabel(up, fontsize=MEDIUM)
    tidy_curves(ax)
    return figure
