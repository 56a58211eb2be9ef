"""The figure of landmarks: the map of explanations, and the explanations nearest to each landmark.

Shapes: N samples, Z the width of the embedding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from timex.metrics.landmarks import unit
from timex.records import Explanation
from timex.report.places import principal_plane
from timex.report.plots.drawing import MAX_LANES, channel_note, colourbar, draw_lanes, legend, name_lanes, panel_height
from timex.report.plots.sample import Sample, largest
from timex.report.plots.style import LARGE, MEDIUM, SMALL, class_look, colours
from timex.report.samples import caption, channel_names, class_name
from timex.report.style import INK

if TYPE_CHECKING:
    from timex.method.landmarks import Landmarks


def plot_landmarks(explanation: Explanation, landmarks: Landmarks, n: int = 4, n_nearest: int = 3) -> Figure:
    """Draw the map of the explanations with the most used landmarks, and the explanations nearest to each of these.

    Args:
        explanation: Explanations of N samples, with embeddings.
        landmarks: The landmarks of the explainer that gave them.
        n: How many landmarks: of every class in turn, the one that is the nearest of most training explanations.
        n_nearest: How many of the N explanations to draw for each.

    Returns:
        The map, n rows of small panels, and one colourbar.
    """
    embedding = _check_embedding(explanation, landmarks)
    if n < 1 or n_nearest < 1:
        raise ValueError(f"Expected n >= 1 and n_nearest >= 1, got n={n} and n_nearest={n_nearest}.")
    top = _most_used(landmarks, n)
    z, vectors = unit(embedding), unit(landmarks.vectors[top])
    nearest = np.argsort(-(vectors @ z.T), axis=1, kind="stable")[:, :n_nearest]  # (n, n_nearest)
    shown = np.unique(nearest)
    chosen = largest(np.abs(explanation.attribution[shown]).sum(axis=(0, 1)), MAX_LANES)
    norm, cmap = colours(explanation, explanation.attribution[shown])
    height = max(4.4, 0.9 + len(top) * (panel_height(len(chosen)) + 0.3))
    figure = Figure(figsize=(6.2 + 2.1 * nearest.shape[1], height), layout="constrained")
    grid = figure.add_gridspec(len(top), 1 + nearest.shape[1], width_ratios=[2.1] + [1.0] * nearest.shape[1])
    overview = figure.add_subplot(grid[:, 0])
    _draw_map(overview, explanation, z, vectors, top)
    panels = np.array([[figure.add_subplot(grid[r, 1 + c]) for c in range(nearest.shape[1])] for r in range(len(top))])
    for row, number, neighbours in zip(panels, top, nearest, strict=True):
        for ax, i in zip(row, neighbours, strict=True):
            sample = Sample.of(explanation, int(i))
            draw_lanes(ax, sample, chosen, sample.attribution, norm, cmap)
            ax.set_title(caption(explanation, int(i)), fontsize=SMALL)
        name_lanes(row[0], channel_names(explanation), chosen)
        label = _landmark_label(landmarks, int(number), explanation)
        row[0].set_ylabel(label, fontsize=SMALL, rotation=0, ha="right", va="center")
    for ax in panels[-1]:
        ax.set_xlabel(Sample.of(explanation, int(nearest[-1, 0])).clock.label, fontsize=SMALL)
    figure.align_ylabels(panels[:, 0])
    figure.suptitle(channel_note(len(chosen), explanation.x.shape[2]), fontsize=MEDIUM)
    colourbar(figure, panels, norm, cmap, "attribution")
    legend(figure, [overview], absent=False)
    return figure


def _most_used(landmarks: Landmarks, n: int) -> NDArray[np.int64]:
    """The numbers of at most `n` landmarks: the most used one of every class, then the second of every class, unused last."""
    order = landmarks.ranking()
    commonest = landmarks.composition[order].argmax(axis=1)
    turn = [int((commonest[:place] == c).sum()) for place, c in enumerate(commonest)]
    return order[np.lexsort((turn, landmarks.counts[order] == 0))][:n]


def _draw_map(
    ax: Axes, explanation: Explanation, z: NDArray[np.float64], vectors: NDArray[np.float64], numbers: NDArray[np.int64]
) -> None:
    """The first two principal components of the explanations' directions z (N, Z), and the landmarks among them."""
    plane = principal_plane(z)
    place, star, share = plane.place(z), plane.place(vectors), plane.share
    for c in np.unique(explanation.prediction):
        here = explanation.prediction == c
        look = class_look(int(c))
        ax.scatter(*place[here].T, s=16, alpha=0.65, linewidth=0, label=class_name(explanation, int(c)), **look)
    ax.scatter(*star.T, s=95, marker="D", color="white", edgecolor=INK, linewidth=1.3, zorder=4, label="landmark")
    for number, point in zip(numbers, star, strict=True):
        text = ax.annotate(str(number), point, xytext=(8, 6), textcoords="offset points", fontsize=LARGE, fontweight="bold")
        text.set(path_effects=[withStroke(linewidth=2.5, foreground="white")], zorder=5)
    ax.set_xlabel(f"first component ({share[0]:.0%} of variance)", fontsize=MEDIUM)
    ax.set_ylabel(f"second component ({share[1]:.0%} of variance)", fontsize=MEDIUM)
    ax.set_title(f"{len(z)} explanations, by predicted class", loc="left", fontsize=LARGE, fontweight="bold")
    ax.tick_params(labelsize=SMALL)
    ax.margins(0.1)


def _landmark_label(landmarks: Landmarks, number: int, explanation: Explanation) -> str:
    count = int(landmarks.counts[number])
    if count == 0:
        return f"landmark {number}\nunused"
    commonest = int(landmarks.composition[number].argmax())
    share = landmarks.composition[number, commonest] / count
    return f"landmark {number}\n{count} training samples\n{share:.0%} {class_name(explanation, commonest)}"


def _check_embedding(explanation: Explanation, landmarks: Landmarks) -> NDArray[np.float32]:
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
