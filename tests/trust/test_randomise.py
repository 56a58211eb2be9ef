"""Explanations of models with shuffled layers."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from windows import windows_series

from timex import Series
from timex.explainers import Amplitude, Gradients, IntegratedGradients, Saliency
from timex.trust.randomise import layers_of, parameter_randomisation, shuffled

T, D = 24, 2
SERIES = windows_series(12, seed=1)


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 7), nn.Tanh(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)).eval()


def test_layers_stand_in_the_order_of_the_model(model):
    assert layers_of(model) == ["1", "3", "5"]


def test_only_the_named_layers_are_shuffled(model):
    other = shuffled(model, 0, ["3"])
    assert torch.equal(other[1].weight, model[1].weight)
    assert not torch.equal(other[3].weight, model[3].weight)
    assert torch.equal(other[3].weight.flatten().sort().values, model[3].weight.flatten().sort().values)


@pytest.mark.parametrize(("order", "names"), [("top down", ["5", "3", "1"]), ("bottom up", ["1", "3", "5"])])
def test_correlations_are_those_of_a_loop(model, order, names):
    found = parameter_randomisation(Saliency(model, device="cpu"), SERIES, order=order, seed=3)
    assert list(found) == names
    before = Saliency(model, device="cpu").explain(SERIES).attribution
    for i, name in enumerate(names):
        other = Saliency(shuffled(model, 3, names[: i + 1]), device="cpu")
        pairs = zip(before, other.explain(SERIES).attribution, strict=True)
        expected = np.mean([spearmanr(a.ravel(), b.ravel()).statistic for a, b in pairs])
        assert found[name].mean == pytest.approx(expected)


def test_what_does_not_see_the_model_does_not_change(model):
    assert [v.mean for v in parameter_randomisation(Amplitude(model, device="cpu"), SERIES).values()] == pytest.approx(
        [1, 1, 1]
    )
    assert parameter_randomisation(IntegratedGradients(model, device="cpu"), SERIES)["1"].mean < 0.6


def test_a_method_that_is_fitted_is_fitted_again(model):
    explainer = Gradients(model, device="cpu").fit(SERIES, progress=False)
    before = copy.copy(explainer.fitted)
    with pytest.raises(ValueError, match="Expected train= for a refit"):
        parameter_randomisation(explainer, SERIES)
    found = parameter_randomisation(explainer, SERIES, SERIES, layers=["5"])
    assert list(found) == ["5"]
    assert found["5"].mean < 0.99
    assert explainer.fitted == before


def test_wrong_arguments_are_named(model):
    saliency = Saliency(model, device="cpu")
    with pytest.raises(ValueError, match="Expected layers among 1, 3, 5, got 7"):
        parameter_randomisation(saliency, SERIES, layers=["7"])
    with pytest.raises(ValueError, match="Expected order as 'top down' or 'bottom up', got 'up'"):
        parameter_randomisation(saliency, SERIES, order="up")
    from timex.explainers import Occlusion

    box = Occlusion(lambda x: np.tile([0.3, 0.7], (len(x), 1)), device="cpu")
    with pytest.raises(ValueError, match="got one of a black box"):
        parameter_randomisation(box, Series(np.ones((3, T, D))))
