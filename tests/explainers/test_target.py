"""Which class is explained: index, name, one per sample, runner-up."""

import numpy as np
import pytest
import torch
from torch import nn

from timex import Series, TimeX
from timex.explainers import GradientXInput

N, T, D, C = 5, 4, 2, 3
CLASSES = ("rest", "walk", "fall")
RNG = np.random.default_rng(0)
SERIES = Series(RNG.normal(size=(N, T, D)), classes=CLASSES)


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(T * D, C))


def of_class(model, c):
    """Gradient times value of logit c of a linear model, by hand."""
    weight = model[1].weight.detach().numpy()[c].reshape(-1, T, D)
    return weight * SERIES.x


@pytest.mark.parametrize(
    ("target", "classes"),
    [
        (2, [2] * N),
        ("walk", [1] * N),
        (["fall", "rest", "rest", "walk", "fall"], [2, 0, 0, 1, 2]),
        (np.array([0, 1, 2, 1, 0]), [0, 1, 2, 1, 0]),
        (torch.tensor([2, 1, 2, 1, 0]), [2, 1, 2, 1, 0]),
    ],
)
def test_indices_and_names(model, target, classes):
    e = GradientXInput(model, device="cpu").explain(SERIES, target=target, chunk=2)
    assert e.prediction.tolist() == classes
    np.testing.assert_allclose(e.attribution, of_class(model, np.array(classes)), rtol=1e-5)


def test_the_runner_up_is_the_second_most_probable_class(model):
    e = GradientXInput(model, device="cpu").explain(SERIES, target="runner-up", chunk=2)
    second = np.argsort(e.probability, axis=1)[:, -2]
    assert e.prediction.tolist() == second.tolist()
    np.testing.assert_allclose(e.attribution, of_class(model, second), rtol=1e-5)


@pytest.mark.parametrize(
    ("series", "target", "words"),
    [
        (SERIES, "run", "Expected target among rest, walk, fall, or 'runner-up', got 'run'"),
        (Series(SERIES.x), "walk", "Expected target as a number, since the series name no classes"),
        (SERIES, 3, "Expected labels 0..2, got 3..3"),
        (SERIES, ["walk"], "Expected one label per sample"),
    ],
)
def test_wrong_targets_are_named(model, series, target, words):
    with pytest.raises(ValueError, match=words):
        GradientXInput(model, device="cpu").explain(series, target=target)


def test_timex_refuses_a_target_and_names_methods_that_take_one(model):
    explainer = TimeX(model, embedding="1", device="cpu")  # not fitted: the error comes before a fit
    with pytest.raises(ValueError, match="leave target= out, or use a method that takes one, such as ig"):
        explainer.explain(SERIES, target="walk")
