"""The figure of one explained sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from timex.records import Explanation
from timex.report.plots.drawing import (
    channel_note,
    colourbar,
    draw_band,
    draw_lanes,
    draw_series,
    draw_strip,
    legend,
    name_lanes,
    tidy,
)
from timex.report.plots.sample import Sample, largest
from timex.report.plots.style import LARGE, MEDIUM, ROUND, SMALL, colours
from timex.report.samples import caption, channel_indices, class_name, numbers_in_words, sample_name
from timex.report.style import INK, KEPT, TRUTH, WARNING, is_probability

MAX_ROWS = 16  # channels drawn, one axes each
STRIP = 0.15  # inches of the mask strip, and of the truth strip


def plot_explanation(
    explanation: Explanation,
    i: int = 0,
    *,
    channels: Sequence[str | int] | None = None,
    time: tuple[float, float] | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one explained sample: a row per channel, the attribution as colour behind the series, and how far to trust it.

    Where the explanation has a direction, orange cells speak for the prediction and purple ones against it.

    The cells known to decide the class, if the series have them, are a strip above each channel, the mask a strip below.

    Args:
        explanation: Explanations of N samples.
        i: Which of them.
        channels: Names or numbers of the channels to draw; by default the 16 with the largest total attribution.
        time: (first, last) time to draw.
        ax: Axes to draw into: one channel with its values and strips, or several as lanes; by default a new figure.
        title: The title, instead of the classes in words.

    Returns:
        One axes per channel and one colourbar, or the figure of `ax`.
    """
    directed = explanation.direction is not None
    shown = explanation.directed() if directed else explanation
    sample = Sample.of(shown, i)
    norm, cmap = colours(shown, sample.attribution)
    if directed and is_probability(explanation):
        norm = Normalize(-1.0, 1.0)
    sample = sample if time is None else sample.between(*time)
    if channels is None:
        chosen = largest(np.abs(sample.attribution).sum(axis=0), MAX_ROWS)
        note = channel_note(len(chosen), len(sample.channels))
    else:
        chosen, note = channel_indices(explanation, channels), ""
    if ax is not None:
        return _draw_into(ax, sample, chosen, norm, cmap, title or caption(explanation, i))
    row_height = float(np.clip(6.0 / len(chosen), 0.75, 2.2))
    figure = Figure(figsize=(8.0, 1.5 + row_height * len(chosen)), layout="constrained")
    axes = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
    for row, k in zip(axes, chosen, strict=True):
        _draw_channel(row, sample, k, norm, cmap, strip=min(STRIP / row_height, 0.13))
        row.set_ylabel(sample.channels[k], rotation=0, ha="right", va="center", labelpad=9, fontsize=MEDIUM)
    figure.align_ylabels(axes)
    axes[-1].set_xlabel(sample.clock.label, fontsize=MEDIUM)
    _head(axes[0], explanation, i, title or f"Sample {sample_name(explanation, i)}, {_classes(explanation, i)}", note)
    colourbar(figure, axes, norm, cmap, "attribution, for (+) or against (-)" if directed else "attribution")
    legend(figure, axes, absent=not sample.observed[:, chosen].all())
    return figure


def _draw_into(ax: Axes, sample: Sample, chosen: NDArray[np.int64], norm: Normalize, cmap: Colormap, heading: str) -> Figure:
    """One channel with its values, or several as lanes, on axes of the user's own figure."""
    if len(chosen) == 1:
        _draw_channel(ax, sample, int(chosen[0]), norm, cmap, strip=0.06)
        ax.set_ylabel(sample.channels[chosen[0]], fontsize=MEDIUM)
    else:
        draw_lanes(ax, sample, chosen, sample.attribution, norm, cmap)
        name_lanes(ax, sample.channels, chosen)
    ax.set_title(heading, loc="left", fontsize=MEDIUM)
    ax.set_xlabel(sample.clock.label, fontsize=MEDIUM)
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def _draw_channel(ax: Axes, sample: Sample, k: int, norm: Normalize, cmap: Colormap, strip: float) -> None:
    """One channel on its own axes, the mask strip along the bottom and the truth strip along the top."""
    axis = ax.get_xaxis_transform()  # x in data units, y in shares of the height
    draw_band(ax, sample, sample.attribution[:, [k]], [k], np.array([0.0, 1.0]), norm, cmap, transform=axis)
    draw_series(ax, sample, k, sample.x[:, k], linewidth=1.3)
    values = sample.x[sample.observed[:, k], k]
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    share = strip + 0.04  # of the height, kept free of the series at both ends
    margin = ((high - low) or 1.0) * share / (1 - 2 * share)
    ax.set_ylim(low - margin, high + margin)
    if sample.mask is not None:
        draw_strip(ax, sample, sample.mask[:, k], 0.0, strip, facecolor=KEPT, linewidth=0, label="mask (kept cells)")
    if sample.truth is not None:
        look = {"facecolor": "#A6DCCB", "edgecolor": TRUTH, "hatch": "/////", "linewidth": 0.8, "label": "ground truth"}
        draw_strip(ax, sample, sample.truth[:, k], 1.0 - strip, 1.0, **look)
    tidy(ax, sample)
    ax.xaxis.set_major_locator(MaxNLocator(8, steps=ROUND))
    ax.yaxis.set_major_locator(MaxNLocator(4, steps=ROUND))


def _head(ax: Axes, explanation: Explanation, i: int, title: str, note: str) -> None:
    """The title in bold, below it how far to trust the explanation and which channels are left out."""
    trust = _trust(explanation, i)
    lines = [line for line in (trust, note) if line]
    doubtful = explanation.agreement is not None and not explanation.agreement[i]
    ax.set_title(title, loc="left", fontsize=LARGE, fontweight="bold", pad=6 + SMALL * 1.45 * len(lines))
    for place, line in enumerate(reversed(lines)):
        look = {"fontsize": MEDIUM, "color": WARNING if doubtful and line == trust else INK}
        above = (0, 5 + SMALL * 1.45 * place)
        ax.annotate(line, (0, 1), xytext=above, xycoords="axes fraction", textcoords="offset points", **look)


def _classes(explanation: Explanation, i: int) -> str:
    """The predicted class, the explained one and its contrast if there are any, and the true one; or the model's numbers."""
    if explanation.numbers is not None:
        return f"predicted: {numbers_in_words(explanation.numbers[i])}"
    p, c = explanation.probability[i], int(explanation.prediction[i])
    top = c if p[c] == p.max() else int(p.argmax())
    words = f"predicted: {class_name(explanation, top)} ({p[top]:.2f})"
    if c != top:
        words = f"explained: {class_name(explanation, c)} ({p[c]:.2f}), {words}"
    if explanation.contrast is not None:
        words = f"{words}, contrast: {class_name(explanation, int(explanation.contrast[i]))}"
    y = explanation.series.y
    return words if y is None else f"{words}, true: {class_name(explanation, int(y[i]))}"


def _trust(explanation: Explanation, i: int) -> str:
    """What the explainer knows about its own explanation; empty for methods without a surrogate."""
    parts = []
    if explanation.unfamiliar is not None and explanation.unfamiliar[i]:
        parts.append("unlike the training series: do not trust")
    if explanation.mask is not None and not explanation.mask[i].any():
        parts.append("no cell kept (p > .5)")
    if explanation.agreement is not None:
        parts.append("surrogate agrees" if explanation.agreement[i] else "surrogate disagrees: treat with care")
    if explanation.divergence is not None:
        parts.append(f"JS divergence {explanation.divergence[i]:.3f}")
    if explanation.landmark is not None:
        parts.append(f"landmark {int(explanation.landmark[i])}")
    return "  ·  ".join(parts)
