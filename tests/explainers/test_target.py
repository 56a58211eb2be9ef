"""Which class is explained: index, name, one per sample, runner-up."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

from timex import Series, TimeX
from timex.explainers import GradientXInput, Saliency

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


def test_a_contrast_is_the_difference_of_two_targets(model):
    e = GradientXInput(model, device="cpu").explain(SERIES, target="fall", contrast="rest")
    np.testing.assert_allclose(e.attribution, of_class(model, 2) - of_class(model, 0), rtol=1e-4, atol=1e-6)
    assert (e.prediction.tolist(), e.contrast.tolist(), e.signed) == ([2] * N, [0] * N, True)
    assert e.to_frame()["contrast"].unique().tolist() == ["rest"]
    second = GradientXInput(model, device="cpu").explain(SERIES, contrast="runner-up")
    assert second.contrast.tolist() == np.argsort(second.probability, axis=1)[:, -2].tolist()


def test_a_contrast_of_unsigned_scores_is_signed(model):
    saliency, series = Saliency(model, device="cpu"), SERIES.take(slice(2))
    e = saliency.explain(series, target=1, contrast=2)
    one, other = (saliency.explain(series, target=c).attribution for c in (1, 2))
    np.testing.assert_array_equal(e.attribution, one - other)
    assert e.signed
    assert (e.attribution < 0).any()


def test_equal_classes_leave_nothing_to_contrast(model, caplog):
    explainer = GradientXInput(model, device="cpu")
    predicted = explainer.explain(SERIES).prediction
    with caplog.at_level(logging.WARNING):
        e = explainer.explain(SERIES, contrast=int(predicted[0]))
    same = predicted == predicted[0]
    assert f"{same.sum()} of {N} samples have the same class as target and contrast" in caplog.text
    assert (e.attribution[same] == 0).all()
    assert (e.attribution[~same] != 0).any()
    with pytest.raises(ValueError, match="got the same class in all of them"):
        explainer.explain(SERIES, target="walk", contrast=1)


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
    for asked in ({"target": "walk"}, {"contrast": "runner-up"}):
        with pytest.raises(ValueError, match="leave target= and contrast= out, or use a method that takes one, such as ig"):
            explainer.explain(SERIES, **asked)
