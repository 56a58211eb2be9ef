"""Which class is explained: index, name, one per sample, runner-up."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

from timex import Series, TimeX, TimeXConfig, adapt, check
from timex.explainers import GradientXInput, Saliency
from timex.reference.base import initialised

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
        with pytest.raises(ValueError, match=r"fit another for that class \(target= of the fit\)"):
            explainer.explain(SERIES, **asked)


# ------------------------------------------------------------------------------------- an explainer of one class, or of two


def log_odds(model, c, other=None):
    """Of a linear model, by hand: class c against all others, or against one."""
    logits = model(torch.tensor(SERIES.x)).detach().numpy().astype(np.float64)
    rest = np.log(np.exp(np.delete(logits, c, axis=1)).sum(1)) if other is None else logits[:, other]
    return logits[:, c] - rest


@pytest.mark.parametrize(("target", "classes"), [(2, ("not fall", "fall")), ((2, 1), ("walk", "fall"))])
def test_answers_about_one_class_or_two(model, target, classes):
    e = GradientXInput(model, target=target, device="cpu").explain(SERIES)
    odds = log_odds(model, *(target if isinstance(target, tuple) else (target,)))
    np.testing.assert_allclose(e.probability[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-5)
    assert e.prediction.tolist() == (odds > 0).astype(int).tolist()
    assert e.classes == classes


def test_probabilities_and_black_boxes_answer_about_a_class_too(model):
    soft = nn.Sequential(model, nn.Softmax(-1))
    box = lambda x: soft(torch.tensor(x, dtype=torch.float32)).detach().numpy()  # noqa: E731
    expected = 1 / (1 + np.exp(-log_odds(model, 0)))
    for asked in (soft, box):
        adapted = adapt(asked, SERIES, target=0)
        assert adapted.n_classes == 2
        np.testing.assert_allclose(adapted(torch.tensor(SERIES.x)).softmax(-1)[:, 1].detach(), expected, rtol=1e-4)


def test_a_reference_model_of_ours_answers_about_a_class(model):
    ours = initialised("lstm", {"n_channels": D, "n_classes": C, "n_steps": T, "hidden": 5, "n_layers": 1}, 0).eval()
    x = torch.tensor(SERIES.x)
    found, logits = adapt(ours, SERIES, target=(0, 2)).output(x), ours(x)
    np.testing.assert_allclose(
        (found.logits[:, 1] - found.logits[:, 0]).detach(), (logits[:, 0] - logits[:, 2]).detach(), rtol=1e-4
    )
    assert found.z.shape == ours.output(x).z.shape


@pytest.fixture(scope="module")
def one_class():
    """Three classes by the sign of one channel each: class c where channel c is high at steps 3..5."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.3, size=(120, 12, 3))
    y = np.arange(120) % 3
    for c in range(3):
        x[y == c, 3:6, c] += 2

    class Means(nn.Module):
        def forward(self, x):
            return 4 * x[:, 3:6].mean(1)

    return Means(), Series(x, y=y, classes=CLASSES)


SHORT = TimeXConfig(epochs=50, n_landmarks=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model has no linear layer")
def test_timex_fitted_on_one_class_points_at_its_cells(one_class, tmp_path):
    means, series = one_class
    explainer = TimeX(means, target=2, config=SHORT, device="cpu").fit(series, progress=False)
    e = explainer.explain(series)
    assert e.classes == ("not fall", "fall")
    assert e.series.y.tolist() == (series.labels == 2).astype(int).tolist()
    own = e.attribution[series.labels == 2].mean(0)
    assert own[3:6, 2].mean() > own[3:6, :2].mean()  # low values of the other channels speak for the class too
    assert own[3:6, 2].mean() > 2 * own[6:].mean()
    explainer.save(tmp_path / "fall")
    again = TimeX.load(tmp_path / "fall", means, device="cpu")
    assert again.how.target == 2
    np.testing.assert_allclose(again.explain(series).attribution, e.attribution, atol=1e-5)
    assert check(explainer, series, seed=1).overall["accuracy"].value == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model has no linear layer")
def test_timex_fitted_on_two_classes_leaves_the_third_out(one_class):
    means, series = one_class
    explainer = TimeX(means, target=(2, 1), classes=CLASSES, config=SHORT, device="cpu").fit(series.x, progress=False)
    e = explainer.explain(series)
    assert e.classes == ("walk", "fall")
    by_channel = e.attribution[:, 3:6].mean((0, 1))
    assert by_channel[0] < 0.5 * by_channel[1:].min()


@pytest.mark.parametrize(
    ("target", "words"),
    [(3, "Expected target= among"), ((1, 1), "two different classes"), ((0, 1, 2), "two different classes")],
)
def test_wrong_classes_end_before_a_fit(model, target, words):
    with pytest.raises(ValueError, match=words):
        TimeX(model, target=target, device="cpu", config=TimeXConfig(epochs=1)).fit(SERIES, progress=False)
