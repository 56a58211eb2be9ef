"""The map: where explanations and landmarks lie in the plane, and which lie next to each other in the latent space.

Shapes: n explanations, L landmarks, Z the width of the embedding, D channels, S columns.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

FEATURES = 512
"""Width of the vectors that take the place of the embedding for methods without one."""
STRETCH = 3.0
"""Largest factor by which one axis of the map is drawn larger than the other."""

Projection = Literal["auto", "pca", "umap"]


class Plane(NamedTuple):
    """The first two principal components of a cloud of points."""

    centre: NDArray[np.float64]  # (Z,)
    axes: NDArray[np.float64]  # (2, Z)
    share: NDArray[np.float64]  # (2,) of the variance

    def place(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """Coordinates in the plane of points (n, Z), (n, 2)."""
        return (points - self.centre) @ self.axes.T


class Map(NamedTuple):
    """Points in the unit square.

    Attributes:
        place: (n + L, 2), explanations first.
        kind: "PCA" or "UMAP".
        share: The share of the variance along each axis, for PCA.
    """

    place: NDArray[np.float64]
    kind: str
    share: list[float]


def principal_plane(points: NDArray[Any]) -> Plane:
    """The plane that shows most of the variance of points (n, Z). Axes that do not exist are zero.

    >>> principal_plane(np.array([[0.0, 0.0], [0.0, 2.0]])).share
    array([1., 0.])
    """
    centre = points.mean(axis=0)
    scatter = (points - centre).T @ (points - centre)  # (Z, Z): faster than an SVD of n rows, and exact enough to draw
    variance, axes = np.linalg.eigh(scatter)
    variance = np.maximum(variance[::-1], 0.0)
    share = np.pad(variance / (variance.sum() or 1.0), (0, 2))[:2]
    return Plane(centre, np.pad(axes.T[::-1], ((0, 2), (0, 0)))[:2], share)


def features(attribution: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Vectors in place of an embedding, from attributions (n, D, S): the largest in every span of columns."""
    n, d, s = attribution.shape
    starts = np.arange(0, s, math.ceil(s / max(1, FEATURES // d)))
    return np.maximum.reduceat(attribution, starts, axis=2).reshape(n, -1).astype(np.float64)


def project(points: NDArray[np.float64], vectors: NDArray[np.float64], projection: Projection) -> Map:
    """Points (n, Z) and landmarks (L, Z) in one plane, scaled to fill the unit square."""
    if projection not in ("auto", "pca", "umap"):
        raise ValueError(f"Expected projection 'auto', 'pca' or 'umap', got {projection!r}.")
    umap = _umap() if projection != "pca" else None
    if projection == "umap" and umap is None:
        raise ValueError(
            "Expected umap-learn for projection='umap', got none: pip install 'timex-explain[embed]', or use 'pca'."
        )
    if umap is not None and len(points) >= 20:
        both = np.concatenate([points, vectors])
        place = umap(n_neighbors=15, metric="cosine", random_state=0, n_jobs=1).fit_transform(both)
        return Map(_filled(place), "UMAP", [])
    plane = principal_plane(points)
    place = np.concatenate([plane.place(points), plane.place(vectors)])
    return Map(_filled(place), "PCA", plane.share.tolist())


def _filled(place: NDArray[Any]) -> NDArray[np.float64]:
    """Points moved and scaled into the unit square."""
    low, high = place.min(axis=0), place.max(axis=0)
    span = high - low
    # A second component far smaller than the first would make the map a line: it is stretched by at most STRETCH.
    span = np.maximum(span, span.max() / STRETCH) if span.max() > 0 else np.ones(2)
    return (place - (low + high) / 2) / span + 0.5


def _umap() -> Any:
    """The class UMAP, or None if umap-learn is not installed."""
    try:
        from umap import UMAP
    except ImportError:
        return None
    return UMAP


def nearest(points: NDArray[np.float64], others: NDArray[np.float64], k: int, exclude_self: bool = False) -> NDArray[np.int64]:
    """The k of `others` with the largest inner product with each point, best first, (n, k).

    Args:
        points: (n, Z).
        others: (M, Z).
        k: How many at most.
        exclude_self: Whether `others` are the points, and a point does not count as its own neighbour.
    """
    k = min(k, len(others) - exclude_self)
    if k < 1:
        return np.zeros((len(points), 0), dtype=np.int64)
    table = others.astype(np.float32).T
    found = np.empty((len(points), k), dtype=np.int64)
    for start in range(0, len(points), 1024):
        s = points[start : start + 1024].astype(np.float32) @ table
        if exclude_self:
            s[np.arange(len(s)), np.arange(start, start + len(s))] = -np.inf
        top = np.argpartition(-s, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(s, top, axis=1), axis=1, kind="stable")
        found[start : start + 1024] = np.take_along_axis(top, order, axis=1)
    return found
