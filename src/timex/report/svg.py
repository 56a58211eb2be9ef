"""One explained sample as a small SVG, for notebooks: no script, no style sheet, legible on light and dark backgrounds.

Shapes: T time steps, D channels, S columns of one sample.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.embed import Columns
from timex.report.samples import channel_names
from timex.report.spans import runs
from timex.report.style import SEQUENTIAL, TRUTH, colour_scale, is_probability

WIDTH, GUTTER, RIGHT, AXIS = 860, 130, 14, 34  # pixels: the figure, names on its left, room for a tick, the time axis
CHANNELS = 6
"""Channels drawn at most: those with the largest total attribution."""
COLUMNS = 400
"""Columns of time at most; a longer series is drawn as the minimum and maximum of intervals."""
SHADES = 20
"""Levels of colour. Neighbouring columns of one level are one rectangle."""
FOR, AGAINST = SEQUENTIAL[-1], "#7a5cb4"
TICKS = 6


@dataclass(frozen=True)
class _Lanes:
    """What is drawn of one sample: columns of time from left to right, channels from top to bottom."""

    low: NDArray[np.float64]  # (D, S), as high, shade and the cells below
    high: NDArray[np.float64]
    attribution: NDArray[np.float64]  # the strongest of every column
    shade: NDArray[np.int64]  # -SHADES..SHADES
    observed: NDArray[np.bool_]
    mask: NDArray[np.bool_] | None
    truth: NDArray[np.bool_] | None
    times: NDArray[np.float64]  # (S,)
    label: str
    score: str  # what the attribution is called

    @property
    def edges(self) -> NDArray[np.float64]:
        """Where the colour of every column begins and ends, half way between columns, (S + 1,)."""
        t = self.times
        inner = (t[1:] + t[:-1]) / 2
        return (
            np.concatenate([[2 * t[0] - inner[0]], inner, [2 * t[-1] - inner[-1]]])
            if len(t) > 1
            else t[0] + np.array([-0.5, 0.5])
        )

    @classmethod
    def of(cls, e: Explanation, i: int) -> _Lanes:
        one = np.array([i])
        columns = Columns.of(e, one, COLUMNS)
        s = int(columns.length[0])
        low, high = (v[0, :, :s] for v in columns.envelope(e.x[one]))
        strongest = columns.strongest(e.attribution[one])
        truth = e.series.truth
        return cls(
            low=low,
            high=high,
            attribution=strongest[0, :, :s],
            shade=_shades(e, strongest)[0, :, :s],
            observed=columns.observed[0, :, :s],
            mask=None if e.mask is None else columns.any(e.mask[one])[0, :, :s],
            truth=None if truth is None else columns.any(truth[one])[0, :, :s],
            times=np.atleast_2d(columns.times)[0, :s],
            label=columns.clock.label,
            score="p" if is_probability(e) else "attribution",
        )

    def when(self, first: int, after: int) -> str:
        """The time of some columns in words: one number, or the first and the last."""
        start, end = self.times[first], self.times[after - 1]
        return f"{start:g}" if after == first + 1 else f"{start:g} to {end:g}"


def sample_svg(e: Explanation, i: int) -> str:
    """Sample `i` as an SVG: every channel with its attribution as colour, kept cells below it, known cells above it."""
    lanes = _Lanes.of(e, i)
    names = channel_names(e)
    strongest = np.argsort(-np.abs(lanes.shade).sum(axis=1), kind="stable")[:CHANNELS]
    height = 110 if len(names) == 1 else 64
    parts = [_lane(lanes, int(k), row * (height + 6), height, names[k]) for row, k in enumerate(sorted(strongest))]
    bottom = len(strongest) * (height + 6)
    title = f"Attribution as colour behind {len(strongest)} of {len(names)} channels"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" viewBox="0 0 {WIDTH} {bottom + AXIS}" '
        f'width="100%" style="max-width:{WIDTH}px" font-family="system-ui,sans-serif" font-size="12" fill="currentColor">'
        f"{''.join(parts)}{_axis(lanes, bottom)}</svg>"
    )


def _shades(e: Explanation, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Levels of colour, -SHADES to SHADES. Probabilities up to .5 are faint, since those cells are not kept."""
    low, high = colour_scale(e, values)
    share = values / np.maximum(np.abs(low), np.abs(high))[:, None, None]
    if is_probability(e):
        share = np.where(share > 0.5, share, 0.7 * share)
    return np.rint(share * SHADES).astype(np.int64)


def _places(lanes: _Lanes, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pixels of some times."""
    edges = lanes.edges
    return GUTTER + (times - edges[0]) * (WIDTH - GUTTER - RIGHT) / (edges[-1] - edges[0])


def _lane(lanes: _Lanes, k: int, y: int, height: int, name: str) -> str:
    """One channel: its name, its colours, its line, and the strips of known and kept cells."""
    edges = _places(lanes, lanes.edges)
    parts = [
        f'<text x="{GUTTER - 8}" y="{y + height / 2 + 4}" text-anchor="end">{escape(_short(name))}<title>{escape(name)}'
        "</title></text>"
    ]
    for first, after, shade in _equal_runs(lanes.shade[k]):
        if shade:
            fill, opacity = (FOR if shade > 0 else AGAINST), abs(shade) / SHADES
            values = lanes.attribution[k, first:after]
            note = f"<title>{lanes.when(first, after)}: {lanes.score} = {values[np.abs(values).argmax()]:.2g}</title>"
            parts.append(_rect(edges, first, after, y, height, f'fill="{fill}" fill-opacity="{opacity:.2f}"', note))
    for cells, top, thick, fill in ((lanes.truth, y, 5, TRUTH), (lanes.mask, y + height - 5, 5, "currentColor")):
        if cells is not None:
            found = runs(cells[k][:, None])
            for first, after in zip(found.first, found.after, strict=True):
                when = lanes.when(first, after)
                what = "known to decide" if cells is lanes.truth else "kept"
                note = f"<title>{escape(name)}, {when}: {what}</title>"
                parts.append(_rect(edges, first, after, top, thick, f'fill="{fill}"', note))
    frame = f'<rect x="{GUTTER}" y="{y}" width="{edges[-1] - GUTTER:.1f}" height="{height}" fill="none" stroke="currentColor" '
    parts.append(f'{frame}stroke-opacity=".25"/>')
    parts.append(_line(lanes, k, _places(lanes, lanes.times), y + 8, height - 16))
    return f'<g shape-rendering="crispEdges">{"".join(parts[:-1])}</g>{parts[-1]}'


def _rect(edges: NDArray[np.float64], first: int, after: int, y: float, height: float, look: str, note: str = "") -> str:
    place = f'x="{edges[first]:.1f}" y="{y}" width="{max(edges[after] - edges[first], 0.8):.1f}" height="{height}"'
    return f"<rect {place} {look}>{note}</rect>"


def _line(lanes: _Lanes, k: int, x: NDArray[np.float64], y: float, height: float) -> str:
    """The series, with gaps where nothing was observed."""
    seen = lanes.observed[k]
    if not seen.any():
        return ""
    bottom, top = lanes.low[k][seen].min(), lanes.high[k][seen].max()
    scale = height / ((top - bottom) or 1.0)
    path = []
    for run in range(len((found := runs(seen[:, None])).first)):
        points = []
        for c in range(found.first[run], found.after[run]):
            points += [f"{x[c]:.1f},{y + (top - v) * scale:.1f}" for v in dict.fromkeys((lanes.low[k, c], lanes.high[k, c]))]
        path.append("M" + "L".join(points if len(points) > 1 else points * 2))
    look = 'fill="none" stroke="currentColor" stroke-width="1.2" stroke-linejoin="round" stroke-linecap="round"'
    return f'<path d="{"".join(path)}" {look}/>'


def _axis(lanes: _Lanes, y: int) -> str:
    marks = np.array(_ticks(lanes.times[0], lanes.times[-1]))
    at = zip(_places(lanes, marks), marks, strict=True)
    ticks = [f'<text x="{x:.1f}" y="{y + 12}" text-anchor="middle">{v:.6g}</text>' for x, v in at]
    label = f'<text x="{(GUTTER + WIDTH) / 2}" y="{y + 28}" text-anchor="middle">{escape(lanes.label)}</text>'
    return f'<g fill-opacity=".7">{"".join(ticks)}{label}</g>'


def _ticks(low: float, high: float) -> list[float]:
    """About TICKS round numbers from `low` to `high`.

    >>> _ticks(1.0, 200.0)
    [50.0, 100.0, 150.0, 200.0]
    """
    rough = (high - low) / TICKS or 1.0
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [float(k * step) for k in range(int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9)) + 1)]


def _equal_runs(values: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Runs of equal values: first place, the place after the last, the value.

    >>> _equal_runs(np.array([0, 0, 3]))
    [(0, 2, 0), (2, 3, 3)]
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1, [len(values)]])
    return [(int(a), int(b), int(values[a])) for a, b in itertools.pairwise(starts)]


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:17] + "…"
