"""The look of the figures: colour maps, line styles and sizes, made from the palette of `timex.report.style`."""

from __future__ import annotations

from typing import Any

from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.style import DIVERGING as DIVERGING_STOPS
from timex.report.style import INK, MARKERS, OKABE_ITO, colour_scale
from timex.report.style import SEQUENTIAL as SEQUENTIAL_STOPS

SEQUENTIAL = LinearSegmentedColormap.from_list("white_to_orange", SEQUENTIAL_STOPS)
DIVERGING = LinearSegmentedColormap.from_list("purple_to_orange", DIVERGING_STOPS)
CURVES = (INK, *OKABE_ITO[:6])  # yellow is too faint for a line
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))  # tell curves apart in print without colour
CLASS_MARKERS = dict(zip(MARKERS, ("o", "s", "^", "D"), strict=True))
ABSENT = "0.88"

LARGE, MEDIUM, SMALL = 11, 9.5, 8.5  # points
ROUND = (1, 2, 2.5, 5, 10)  # ticks at multiples of these


def class_look(c: int) -> dict[str, Any]:
    """Colour and marker of class `c`."""
    turn, colour = divmod(c, len(OKABE_ITO))
    return {"color": OKABE_ITO[colour], "marker": CLASS_MARKERS[MARKERS[turn % len(MARKERS)]]}


def line_look(number: int) -> dict[str, Any]:
    """Colour, dashes and width of curve `number`: told apart without colour too."""
    return {"color": CURVES[number % len(CURVES)], "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.6}


def colours(e: Explanation, values: NDArray[Any]) -> tuple[Normalize, Colormap]:
    """The colour scale of some attributions of `e`, of any shape, and its colour map."""
    low, high = colour_scale(e, values[None])
    return Normalize(float(low[0]), float(high[0])), DIVERGING if e.signed else SEQUENTIAL
