"""DTW against a slow recursion, and landmark analyses on groups planted by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from timex.metrics.landmarks import cluster_scores, dtw, landmark_clusters, landmark_dtw, salient_steps, within_group_dtw


def slow_dtw(a, b):
    """The textbook recursion, one pair."""

    def best(i, j):
        if i < 0 or j < 0:
            return 0.0 if i == j == -1 else math.inf
        return math.dist(a[i], b[j]) + min(best(i - 1, j - 1), best(i - 1, j), best(i, j - 1))

    return best(len(a) - 1, len(b) - 1)


def test_dtw_is_the_recursion():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 5, 2))
    np.testing.assert_allclose(dtw(a, b), [slow_dtw(x.tolist(), y.tolist()) for x, y in zip(a, b, strict=True)])


def test_dtw_by_hand():
    # 0 1 3 against 0 3: 0-0, then 1 goes with 0 (cost 1), 3-3
    np.testing.assert_allclose(dtw([[[0.0], [1.0], [3.0]]], [[[0.0], [3.0]]]), [1.0])


def test_dtw_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"Expected two arrays \(P, S, D\) and \(P, R, D\), got \(2, 3, 1\) and \(1, 3, 1\)"):
        dtw(np.zeros((2, 3, 1)), np.zeros((1, 3, 1)))


def test_salient_steps_keep_the_order_of_time():
    x = np.array([[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]]])
    attribution = np.array([[[0.0, 0.9], [0.1, 0.1], [0.2, 0.0], [0.8, 0.3]]])  # steps 0 and 3, by their best channel
    assert salient_steps(x, attribution, 2).tolist() == [[[1.0, 10.0], [4.0, 40.0]]]


def test_within_group_is_the_mean_over_pairs():
    series = np.array([0.0, 1.0, 3.0, 7.0]).reshape(4, 1, 1)  # of one step, DTW is the difference
    np.testing.assert_allclose(within_group_dtw(series, [[0, 1, 2], [1, 2, 3]]), [(1 + 3 + 2) / 3, (2 + 6 + 4) / 3])


def planted(rng, n=60, steps=30):
    """Two kinds of series far apart in value and in the space of embeddings."""
    kind = np.arange(n) % 2
    x = rng.normal(scale=0.1, size=(n, steps, 1)) + 10 * kind[:, None, None]
    embedding = np.stack([1 - kind, kind], axis=1) + rng.normal(scale=0.05, size=(n, 2))
    return x, rng.random((n, steps, 1)), embedding, kind


def test_groups_around_landmarks_are_closer_than_random_ones():
    x, attribution, embedding, _ = planted(np.random.default_rng(0))
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], dtype=np.float32)
    landmarks = SimpleNamespace(vectors=vectors, ranking=lambda: np.array([1, 0, 2]))
    found = landmark_dtw(x, attribution, embedding, landmarks, n_landmarks=2, n_random=20)
    assert found["landmark"].shape == (2,)
    assert found["random"].shape == (20,)
    assert found["landmark"].max() < 5  # ten steps, noise of .1
    assert found["random"].mean() > 20  # pairs across kinds differ by 10 at each of ten steps
    again = landmark_dtw(x, attribution, embedding, landmarks, n_landmarks=2, n_random=20)
    assert (again["random"] == found["random"]).all()


def test_too_few_explanations_to_group():
    landmarks = SimpleNamespace(vectors=np.ones((1, 2)), ranking=lambda: np.array([0]))
    with pytest.raises(ValueError, match="Expected at least 5 explanations to group, got 3"):
        landmark_dtw(np.zeros((3, 12, 1)), np.zeros((3, 12, 1)), np.zeros((3, 2)), landmarks)


def test_cluster_scores_use_directions():
    embedding = [[5.0, 0.1], [0.2, 0.0], [0.0, 3.0], [0.1, 9.0]]
    assert cluster_scores(embedding, [[1.0, 0.0], [0.0, 0.1]], [1, 1, 0, 0]) == {"nmi": 1.0, "ari": 1.0, "purity": 1.0}
    mixed = cluster_scores(embedding, [[1.0, 0.0], [0.0, 0.1]], [0, 1, 0, 1])
    assert mixed["nmi"] == pytest.approx(0, abs=1e-9)
    assert mixed["ari"] == pytest.approx(-0.5)
    assert mixed["purity"] == 0.5
    # two of the three at the first centre are of one class, and the one at the other
    assert cluster_scores([[1, 0], [2, 0], [3, 1], [0, 1]], [[1, 0], [0, 1]], [5, 5, 7, 7])["purity"] == 0.75


def test_landmarks_against_kmeans_and_chance():
    rng = np.random.default_rng(1)
    _, _, embedding, kind = planted(rng)
    scores = landmark_clusters(embedding[:40], embedding[40:], kind[40:], [[1.0, 0.0], [0.0, 1.0]], seed=3)
    assert set(scores) == {"landmark", "kmeans", "kmeans_as_many", "random"}
    assert scores["landmark"] == scores["kmeans"] == {"nmi": 1.0, "ari": 1.0, "purity": 1.0}
    idle = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [-1.0, -2.0]])  # two are nobody's nearest
    scores = landmark_clusters(embedding[:40], embedding[40:], kind[40:], idle, seed=3)
    assert scores["kmeans"]["nmi"] < scores["kmeans_as_many"]["nmi"] == scores["landmark"]["nmi"] == 1.0
    with pytest.raises(ValueError, match="at least as many training explanations as landmarks, 3, got 2"):
        landmark_clusters(embedding[:2], embedding, kind, np.ones((3, 2)))
