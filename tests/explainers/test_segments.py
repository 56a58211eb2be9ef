"""LIME against scikit-learn's ridge, KernelSHAP against all subsets, segmentations by hand and against a slow search."""

import itertools

import numpy as np
import pytest
import torch
from loops import shapley_by_enumeration
from sklearn.linear_model import Ridge
from torch import nn

from timex.explainers import KernelShap, Lime, LimeConfig, SegmentsConfig
from timex.explainers.batch import uniform_per_sample
from timex.explainers.segmentation import change_points, labels_of, uniform_cuts
from timex.explainers.segments import all_sets, random_sets

N, T, D, C, M = 4, 11, 2, 3, 6


def series(n=N, t=T, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 8), nn.Tanh(), nn.Linear(8, C)).eval().requires_grad_(False)


def cut(x, n_segments):
    """The segment of every cell, (T, D), where channels are cut into equal pieces."""
    return labels_of(uniform_cuts(torch.tensor(x[None]), None, n_segments))[0].numpy()


def test_lime_is_a_weighted_ridge_regression(model):
    x, config = series(), LimeConfig(n_segments=3, n_samples=40, seed=5, ridge=0.3, width=0.5)
    e = Lime(model, config, device="cpu").explain(x)
    drawn = (uniform_per_sample(5, torch.arange(N), 40, M) < 0.5).numpy()
    labels = cut(x[0], 3)
    for i in range(N):
        sets = np.concatenate([np.ones((1, M), bool), drawn[i]])
        answers = [model(torch.tensor(np.where(z[labels], x[i], 0))[None])[0, e.prediction[i]].item() for z in sets]
        weight = np.exp(-((1 - np.sqrt(sets.mean(1))) ** 2) / 0.5**2)
        expected = Ridge(alpha=0.3).fit(sets, answers, sample_weight=weight).coef_
        np.testing.assert_allclose(e.attribution[i], expected[labels], atol=1e-4)


@pytest.mark.parametrize("fill", ["zero", "mean"])
def test_kernel_shap_of_few_segments_is_exact(model, fill):
    x = series()
    e = KernelShap(model, SegmentsConfig(n_segments=3, fill=fill), device="cpu").explain(x)  # 62 sets
    labels = cut(x[0], 3)
    for i in range(N):
        filling = x[i].mean(0) if fill == "mean" else 0.0

        def value(kept, i=i, filling=filling):
            return model(
                torch.tensor(np.where(kept.numpy()[0].astype(bool)[labels], x[i], filling), dtype=torch.float32)[None]
            )[0]

        exact = shapley_by_enumeration(value, torch.ones(1, M))[0, :, e.prediction[i]].numpy()
        np.testing.assert_allclose(e.attribution[i], exact[labels], atol=1e-4)


def test_kernel_shap_by_samples_nears_the_exact_values(model):
    x = series()
    exact = KernelShap(model, SegmentsConfig(n_segments=3), device="cpu").explain(x)
    few, many = (KernelShap(model, SegmentsConfig(n_segments=3, n_samples=n), device="cpu").explain(x) for n in (14, 60))
    far, near = (np.abs(e.attribution - exact.attribution).max() for e in (few, many))
    assert near < far < 0.5 * np.abs(exact.attribution).max()
    first = [np.argmax(cut(x[0], 3) == m) for m in range(M)]
    with torch.no_grad():
        gain = model(torch.tensor(x)) - model(torch.zeros(N, T, D))
    for e in (few, many, exact):  # the constraint holds for any sets
        np.testing.assert_allclose(e.attribution.reshape(N, -1)[:, first].sum(1), gain[np.arange(N), e.prediction], atol=1e-4)


def test_one_segment_has_all_of_the_gain(model):
    x = series(t=T, d=D)[:, :, :1]
    narrow = nn.Sequential(nn.Flatten(), nn.Linear(T, C)).eval()
    e = KernelShap(narrow, SegmentsConfig(n_segments=1), device="cpu").explain(x)
    with torch.no_grad():
        gain = (narrow(torch.tensor(x)) - narrow(torch.zeros(N, T, 1)))[np.arange(N), e.prediction]
    np.testing.assert_allclose(e.attribution, np.broadcast_to(gain[:, None, None], x.shape), atol=1e-5)


def test_sizes_of_random_sets_follow_the_kernel():
    sets = random_sets(0, torch.arange(200), 100, 5)
    assert (sets[:, 0::2] == ~sets[:, 1::2]).all()
    found = torch.bincount(sets.sum(2).flatten(), minlength=6).double() / 20_000
    expected = np.array([0, 1 / 4, 1 / 6, 1 / 6, 1 / 4, 0])  # 1 / (k (5 - k))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.02)
    assert len(all_sets(5, 100)) == 30
    assert all_sets(8, 100) is None


def test_segments_of_equal_length_by_hand():
    labels = labels_of(uniform_cuts(torch.zeros(1, 5, 2), None, 2))[0]
    assert labels[:, 0].tolist() == [0, 0, 1, 1, 1]
    assert labels[:, 1].tolist() == [2, 2, 3, 3, 3]
    assert labels_of(uniform_cuts(torch.zeros(1, 3, 1), None, 10))[0, :, 0].tolist() == [0, 1, 2]


def change_points_by_search(x, n_segments):
    """First steps of the segments of one channel (T,), every possible cut tried every time."""
    firsts = [0]
    while len(firsts) < n_segments:
        trials = {}
        for new in set(range(len(x))) - set(firsts):
            edges = [*sorted([*firsts, new]), len(x)]
            trials[new] = sum(((x[a:b] - x[a:b].mean()) ** 2).sum() for a, b in itertools.pairwise(edges))
        firsts.append(min(trials, key=trials.get))
    return sorted(firsts)


def test_change_points_are_those_of_a_slow_search():
    x = series(3, 15, 2, seed=2).astype(np.float64)
    first = change_points(torch.tensor(x), None, 5)
    for i in range(3):
        for k in range(2):
            assert first[i, :, k].nonzero().flatten().tolist() == change_points_by_search(x[i, :, k], 5)


def test_missing_cells_do_not_move_change_points():
    """A gap beside a jump: with its weight of 0 the cut is at the jump, wherever the gap's value lies."""
    observed = torch.tensor([True, True, True, False, True, True, True])[None, :, None]
    for value in (0.0, 100.0):
        x = torch.tensor([0.0, 1.0, 0.0, value, 4.0, 5.0, 4.0])[None, :, None]
        first = change_points(torch.where(observed, x, 0.0), observed, 2)
        assert first.flatten().tolist() in ([True, *[False] * 2, True, *[False] * 3], [True, *[False] * 3, True, *[False] * 2])
