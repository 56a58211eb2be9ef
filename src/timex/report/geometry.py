"""Where things are drawn: the plane of a map, and the order of a sample's steps.

Shapes: N samples, T time steps, D channels, Z the width of the embedding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Plane(NamedTuple):
    """The first two principal components of a cloud of points."""

    centre: NDArray[np.float64]  # (Z,)
    axes: NDArray[np.float64]  # (2, Z)
    share: NDArray[np.float64]  # (2,) of the variance

    def place(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """Where points (N, Z) lie in the plane, (N, 2)."""
        return (points - self.centre) @ self.axes.T


def principal_plane(points: NDArray[Any]) -> Plane:
    """The plane that shows most of the variance of points (N, Z); axes that do not exist are zero.

    >>> principal_plane(np.array([[0.0, 0.0], [0.0, 2.0]])).share
    array([1., 0.])
    """
    centre = points.mean(axis=0)
    scatter = (points - centre).T @ (points - centre)  # (Z, Z): cheaper than an SVD of N rows, and exact enough to draw
    variance, axes = np.linalg.eigh(scatter)
    variance = np.maximum(variance[::-1], 0.0)
    share = np.pad(variance / (variance.sum() or 1.0), (0, 2))[:2]
    return Plane(centre, np.pad(axes.T[::-1], ((0, 2), (0, 0)))[:2], share)


def unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Rows scaled to length 1, zero rows left alone: landmarks are matched by cosine, which knows no length."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(length > 0, length, 1.0)


def drawn_steps(times: NDArray[Any], observed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The steps of one sample to draw, in the order of time: gaps inside the series stay, the padding around it goes.

    Padding may carry any time (zero, usually), so that a step without an observed cell counts as a gap only where both its
    place and its time lie among the observed ones.

    Args:
        times: (T,).
        observed: (T, D).

    Returns:
        Indices of steps.
    """
    seen = observed.any(axis=1)
    if not seen.any():
        return np.arange(len(times))
    first, last = np.flatnonzero(seen)[[0, -1]]
    place = np.arange(len(times))
    inside = (place > first) & (place < last) & (times > times[seen].min()) & (times < times[seen].max())
    kept = np.flatnonzero(seen | inside)
    return kept[np.argsort(times[kept], kind="stable")]
