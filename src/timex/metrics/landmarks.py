"""Whether landmarks gather explanations that belong together: DTW within their groups, and agreement with the labels.

Shapes: N samples, T time steps, D channels, Z the width of the embedding, L landmarks, P pairs, S salient steps.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Ranked(Protocol):
    """Landmarks as this file needs them: `timex.method.landmarks.Landmarks`."""

    vectors: NDArray[np.float32]

    def ranking(self) -> NDArray[np.int64]:
        """Landmark numbers, the one nearest to most explanations first."""


def dtw(a: ArrayLike, b: ArrayLike) -> Floats:
    """Dynamic time warping distances of pairs of series: the least sum of step distances over all monotone alignments.

    Args:
        a: Series, (P, S, D).
        b: Series to align each with, (P, R, D).

    Returns:
        (P,), the sum of Euclidean distances along the best path.

    >>> dtw([[[0.0], [1.0], [1.0]]], [[[0.0], [0.0], [1.0]]])
    array([0.])
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 3 or y.ndim != 3 or len(x) != len(y) or x.shape[2] != y.shape[2]:
        raise ValueError(f"Expected two arrays (P, S, D) and (P, R, D), got {x.shape} and {y.shape}.")
    step = np.linalg.norm(x[:, :, None] - y[:, None], axis=-1)  # (P, S, R)
    n, m = step.shape[1:]
    total = np.full((len(x), n + 1, m + 1), np.inf)
    total[:, 0, 0] = 0
    for i in range(n):
        for j in range(m):
            before = np.minimum(np.minimum(total[:, i, j], total[:, i, j + 1]), total[:, i + 1, j])
            total[:, i + 1, j + 1] = step[:, i, j] + before
    return total[:, n, m]


def salient_steps(x: ArrayLike, attribution: ArrayLike, n: int = 10) -> Floats:
    """The values of every sample at its `n` most salient steps, in the order of time, (N, n, D).

    A step is as salient as its most salient channel; the earlier of two equal ones comes first.
    """
    values, scores = np.asarray(x, dtype=np.float64), np.asarray(attribution).max(axis=2)  # (N, T, D), (N, T)
    chosen = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :n], axis=1)  # (N, n)
    return np.take_along_axis(values, chosen[:, :, None], axis=1)


def within_group_dtw(series: ArrayLike, groups: ArrayLike) -> Floats:
    """The mean DTW distance between the members of every group.

    Args:
        series: (N, S, D).
        groups: Indices of the members, (G, M).

    Returns:
        (G,).
    """
    values, members = np.asarray(series), np.asarray(groups)
    first, second = np.triu_indices(members.shape[1], k=1)
    pairs = dtw(values[members[:, first].reshape(-1)], values[members[:, second].reshape(-1)])
    return pairs.reshape(len(members), len(first)).mean(axis=1)


def landmark_dtw(
    x: ArrayLike,
    attribution: ArrayLike,
    embedding: ArrayLike,
    landmarks: Ranked,
    *,
    n_landmarks: int = 10,
    n_nearest: int = 5,
    n_steps: int = 10,
    n_random: int = 100,
    seed: int = 0,
) -> dict[str, Floats]:
    """DTW of the salient steps within groups of explanations: the nearest to each of the best landmarks, and random ones.

    The best landmarks are those that are the nearest of most training explanations; nearness is cosine similarity.

    Args:
        x: Explained series, (N, T, D).
        attribution: (N, T, D).
        embedding: Of the explanations, (N, Z).
        landmarks: Those of the explainer.
        n_landmarks: How many landmarks.
        n_nearest: Explanations in a group.
        n_steps: Salient steps taken from each.
        n_random: Random groups; more of them than landmarks make their mean steadier.
        seed: Seed of the random groups.

    Returns:
        The mean distance within every group, as `landmark` (n_landmarks,) and `random` (n_random,).
    """
    series = salient_steps(x, attribution, n_steps)
    if len(series) < n_nearest:
        raise ValueError(f"Expected at least {n_nearest} explanations to group, got {len(series)}.")
    best = landmarks.vectors[landmarks.ranking()[:n_landmarks]]
    near = np.argsort(-(unit(best) @ unit(embedding).T), axis=1, kind="stable")[:, :n_nearest]  # (n_landmarks, n_nearest)
    rng = np.random.default_rng(seed)
    random = np.stack([rng.choice(len(series), n_nearest, replace=False) for _ in range(n_random)])
    return {"landmark": within_group_dtw(series, near), "random": within_group_dtw(series, random)}


def cluster_scores(embedding: ArrayLike, centres: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """How well the nearest centre (by cosine) agrees with the labels.

    `nmi`, normalised mutual information; `ari`, the adjusted Rand index; `purity`, the share of samples that have the commonest
    label of their centre, which rises with the number of centres and is to be compared at equal numbers only.

    >>> cluster_scores([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [0, 0, 1])
    {'nmi': 1.0, 'ari': 1.0, 'purity': 1.0}
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    assigned = _nearest(embedding, centres)
    labels = np.asarray(y)
    return {
        "nmi": float(normalized_mutual_info_score(labels, assigned)),
        "ari": float(adjusted_rand_score(labels, assigned)),
        "purity": float(contingency_matrix(labels, assigned).max(axis=0).sum() / len(labels)),
    }


def landmark_clusters(
    train: ArrayLike, test: ArrayLike, y: ArrayLike, landmarks: ArrayLike, *, seed: int = 0
) -> dict[str, dict[str, float]]:
    """How well nearest centres agree with the labels: landmarks, K-means centres and random explanations, as many of each.

    All are found on training explanations and scored on other explanations, by cosine similarity.

    Args:
        train: Embeddings of training explanations, (N, Z).
        test: Embeddings of the explanations to assign, (M, Z).
        y: Their labels, (M,).
        landmarks: (L, Z).
        seed: Seed of K-means and of the random choice.

    Returns:
        `cluster_scores` by `landmark`, `kmeans`, `random`, and `kmeans_as_many`: as many K-means centres as there are landmarks
        that are the nearest of some training explanation, since the rest form no groups.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    directions, n = unit(train), len(np.asarray(landmarks))
    if len(directions) < n:
        raise ValueError(f"Expected at least as many training explanations as landmarks, {n}, got {len(directions)}.")
    chosen = np.random.default_rng(seed).choice(len(directions), n, replace=False)
    used = len(np.unique(_nearest(train, landmarks)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different explanations than centres: some are then equal
        means, as_many = (KMeans(k, n_init=1, random_state=seed).fit(directions).cluster_centers_ for k in (n, used))
    centres = {"landmark": np.asarray(landmarks), "kmeans": means, "kmeans_as_many": as_many, "random": directions[chosen]}
    return {name: cluster_scores(test, c, y) for name, c in centres.items()}


def _nearest(embedding: ArrayLike, centres: ArrayLike) -> NDArray[np.int64]:
    return (unit(embedding) @ unit(centres).T).argmax(axis=1)


def unit(vectors: ArrayLike) -> Floats:
    """Vectors along the last axis scaled to length 1; zero vectors stay zero."""
    v = np.asarray(vectors, dtype=np.float64)
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)
