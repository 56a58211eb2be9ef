"""Figures of explanations, comparisons, landmarks, trainings and scores.

Every function builds a `matplotlib.figure.Figure` and returns it: no pyplot, no window, no change of global settings.
"""

from timex.report.plots.comparison import plot_comparison
from timex.report.plots.counterfactual import plot_counterfactual
from timex.report.plots.curves import plot_curves
from timex.report.plots.disagreement import plot_disagreement
from timex.report.plots.explanation import plot_explanation
from timex.report.plots.files import save
from timex.report.plots.landmarks import plot_landmarks
from timex.report.plots.style import DIVERGING, SEQUENTIAL, line_look
from timex.report.plots.training import plot_history

__all__ = [
    "DIVERGING",
    "SEQUENTIAL",
    "line_look",
    "plot_comparison",
    "plot_counterfactual",
    "plot_curves",
    "plot_disagreement",
    "plot_explanation",
    "plot_history",
    "plot_landmarks",
    "save",
]
