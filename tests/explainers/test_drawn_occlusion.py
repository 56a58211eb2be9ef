"""Augmented occlusion and feature permutation against loops over windows, features and training series."""

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers import (
    AugmentedOcclusion,
    AugmentedOcclusionConfig,
    FeaturePermutation,
    FeaturePermutationConfig,
)
from timex.explainers.batch import uniform_per_sample

N, T, D, C, R = 4, 9, 2, 3, 3


def series(n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, T, D)).astype(np.float32)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 8), nn.Tanh(), nn.Linear(8, C)).eval().requires_grad_(False)


def loss(model, x, donors, group, target):
    """Mean fall of the logit of one series when a group of cells comes from each of the donors."""
    copies = np.where(group, donors, x)
    return float(model(torch.tensor(x[None]))[0, target] - model(torch.tensor(copies))[:, target].mean())


def donors_of(explainer, i):
    which = (uniform_per_sample(explainer.config.seed, torch.tensor([i]), R) * len(explainer.fitted.x)).long()[0]
    return explainer.fitted.x[which].numpy()


def test_augmented_occlusion_is_the_mean_over_windows_and_draws(model):
    explainer = AugmentedOcclusion(model, AugmentedOcclusionConfig(draws=R, width=4, seed=1), device="cpu")
    e = explainer.fit(series(30, seed=1)).explain(series())
    for i, x in enumerate(series()):
        total, count = np.zeros((T, D)), np.zeros((T, D))
        for start in range(T - 3):
            for k in range(D):
                group = np.zeros((T, D), bool)
                group[start : start + 4, k] = True
                total[group] += loss(model, x, donors_of(explainer, i), group, e.prediction[i])
                count += group
        np.testing.assert_allclose(e.attribution[i], total / count, atol=1e-5)


@pytest.mark.parametrize("feature", ["cell", "step", "channel"])
def test_feature_permutation_is_the_loop_over_features(model, feature):
    explainer = FeaturePermutation(model, FeaturePermutationConfig(draws=R, feature=feature), device="cpu")
    e = explainer.fit(series(30, seed=1)).explain(series())
    cells = [np.ix_([t], [k]) for t in range(T) for k in range(D)]
    places = {"cell": cells, "step": [np.s_[t] for t in range(T)], "channel": [np.s_[:, k] for k in range(D)]}[feature]
    for i, x in enumerate(series()):
        for place in places:
            group = np.zeros((T, D), bool)
            group[place] = True
            expected = loss(model, x, donors_of(explainer, i), group, e.prediction[i])
            np.testing.assert_allclose(e.attribution[i][group], expected, atol=1e-5)


def test_values_come_from_training_series_alone(model):
    """Where all training series agree with x nothing changes; missing cells of theirs are the training mean."""
    x = series(1)
    same = np.repeat(x, 20, axis=0)
    observed = np.ones(same.shape, bool)
    observed[::2, 3] = False
    explainer = AugmentedOcclusion(model, AugmentedOcclusionConfig(draws=R), device="cpu")
    explainer.fit(same, observed=observed)
    np.testing.assert_allclose(explainer.explain(x).attribution, 0, atol=1e-5)
