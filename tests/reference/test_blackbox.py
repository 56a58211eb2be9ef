"""Models that can only be asked: how they are called, what a call costs, and the student that stands in for them."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, RidgeClassifier
from torch import nn

from timex import Series, TimeX, TimeXConfig, adapt
from timex.explainers import Gradients, IntegratedGradients, Occlusion, ShapleySampling
from timex.explainers.cortx import CoRTXConfig
from timex.explainers.winit import WinITConfig
from timex.reference.adapt import tried
from timex.reference.blackbox import BlackBox
from timex.reference.student import Distilled, altered_copies, distil
from timex.registry import EXPLAINERS

N, T, D = 40, 9, 2
QUICK = TimeXConfig(epochs=1)
X = np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)
Y = (X[:, 3:6, 1].sum(1) > 0).astype(int)
FLAT = X.reshape(N, -1)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Counted:
    """A model that answers with the mean of channel 1 and keeps what it was asked."""

    def __init__(self):
        self.given = []

    def __call__(self, x):
        self.given.append(np.array(x))
        mean = x[:, :, 1].mean(1)
        return softmax(np.stack([-mean, mean], -1))


# ------------------------------------------------------------------------------------------------------------- answers


def expected_probabilities():
    forest = RandomForestClassifier(5, random_state=0).fit(FLAT, Y)
    boosted = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5).fit(FLAT, Y)
    ridge = RidgeClassifier().fit(FLAT, Y)
    function = lambda x: softmax(x.sum(1))  # noqa: E731
    margin = ridge.decision_function(FLAT)
    return {
        "random forest": (forest, forest.predict_proba(FLAT), {}),
        "boosted trees": (boosted, boosted.predict_proba(FLAT), {}),
        "decision_function": (ridge, np.stack([1 / (1 + np.exp(margin)), 1 / (1 + np.exp(-margin))], -1), {}),
        "function": (function, function(X), {}),
        "channels first": (lambda x: softmax(x.sum(2)), softmax(X.sum(1)), {"layout": "BDT"}),
        "torch": (lambda x: torch.as_tensor(x).sum(1), softmax(X.sum(1)), {}),
        "one logit": (lambda x: x.sum((1, 2)), None, {"task": "binary"}),
        "a part": (lambda x: {"other": x, "p": softmax(x.sum(1))}, softmax(X.sum(1)), {"output": "p"}),
        "labels": (Labels(), np.stack([Y == 0, Y == 1], -1), {}),
    }


class Labels:
    """Predicts and does nothing else."""

    classes_ = np.array(["no", "yes"])

    def predict(self, x):
        return np.where(x[:, 3:6, 1].sum(1) > 0, "yes", "no")


@pytest.mark.parametrize("name", expected_probabilities())
def test_answers_are_those_of_the_model(name):
    model, expected, how = expected_probabilities()[name]
    if expected is None:
        p = 1 / (1 + np.exp(-X.sum((1, 2))))
        expected = np.stack([1 - p, p], -1)
    found = adapt(model, X, **how)(torch.tensor(X)).softmax(-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_trees_that_read_nan_get_it_as_the_warning_says():
    gaps = np.where((Y == 1)[:, None, None] & (np.arange(T)[:, None] == 4), np.nan, X)
    trees = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5).fit(gaps.reshape(N, -1), Y)
    series = Series.with_gaps(gaps)
    with pytest.warns(UserWarning, match=r"^The model reads NaN .*: pass lambda x, observed: model\.predict_proba\(np\.where"):
        adapt(trees, series)
    read = adapt(lambda x, observed: trees.predict_proba(np.where(observed, x, np.nan).reshape(len(x), -1)), series)
    found = read(torch.tensor(series.x), None, torch.tensor(series.observed)).softmax(-1)
    np.testing.assert_allclose(found, trees.predict_proba(gaps.reshape(N, -1)), atol=1e-5)


def test_an_estimator_that_refuses_nan_sees_zeros():
    gaps = np.where(np.arange(T)[:, None] == 4, np.nan, X)
    ridge = RidgeClassifier().fit(np.nan_to_num(gaps).reshape(N, -1), Y)
    adapt(ridge, Series.with_gaps(gaps))  # a warning would be an error


def test_sigmoids_of_a_function_are_noticed():
    with pytest.warns(UserWarning, match=r"lie between 0 and 1 and do not sum to 1, so they are no logits of classes"):
        adapt(lambda x: 1 / (1 + np.exp(-9 * x.mean(1))), X)


def test_numbers_of_a_regressor():
    model = LinearRegression().fit(FLAT, 100 + 10 * X[:, 4, 0])
    np.testing.assert_allclose(adapt(model, X, task="regress")(torch.tensor(X))[:, 0], model.predict(FLAT), rtol=1e-5)
    with pytest.raises(ValueError, match=r"LinearRegression has predict alone: pass task='regress' if it gives numbers"):
        adapt(model, X)


class Session:
    """An ONNX Runtime session as far as it is used: labels, then probabilities."""

    def get_inputs(self):
        return [type("Input", (), {"name": "input"})]

    def run(self, outputs, given):
        p = softmax(given["input"].sum(1))
        return [p.argmax(-1), p]


def test_a_session():
    np.testing.assert_allclose(adapt(Session(), X)(torch.tensor(X)).softmax(-1), softmax(X.sum(1)), atol=1e-6)


# ------------------------------------------------------------------------------------------------------------ the cost


def test_each_series_is_asked_about_once():
    asked = Counted()
    model = adapt(asked, X[:3])
    before = model.asked
    first = model(torch.tensor(X[:10]))
    assert model.asked == before + 7  # three are known
    again = model(torch.tensor(np.concatenate([X[5:10], X[5:12]])))
    assert model.asked == before + 9  # and of the twins in a call one is asked about
    assert torch.equal(again[:5], first[5:])
    assert sum(len(given) for given in asked.given) == model.asked
    assert len(asked.given) == model.calls


def test_long_batches_are_cut(monkeypatch):
    monkeypatch.setattr("timex.reference.blackbox.BATCH", 8)
    asked = Counted()
    model = adapt(asked, X[:2])
    expected = adapt(lambda x: asked(x), X[:2])(torch.tensor(X))
    asked.given.clear()
    assert torch.equal(model(torch.tensor(X)), expected)
    assert [len(given) for given in asked.given] == [8, 8, 8, 8, 6]


# ---------------------------------------------------------------------------------------------------------- explainers


def test_occlusion_and_shapley_values_need_no_student():
    """For log-odds that are linear in x both are known: a cell counts as far as its value does."""
    model = lambda x: np.stack([np.zeros(len(x)), x[:, 2, 1] * 3 + x[:, 5, 0]], -1)  # noqa: E731
    exact = np.zeros((4, T, D), dtype=np.float32)
    exact[:, 2, 1], exact[:, 5, 0] = 3 * X[:4, 2, 1], X[:4, 5, 0]
    values = ShapleySampling(model).explain(X[:4], target=1).attribution
    np.testing.assert_allclose(values, exact, atol=1e-5)
    width = Occlusion.config_class(width=1)
    np.testing.assert_allclose(Occlusion(model, width).explain(X[:4], target=1).attribution, exact, atol=1e-5)


def test_gradients_of_a_black_box_are_refused():
    forest = RandomForestClassifier(5).fit(FLAT, Y)
    for method in (IntegratedGradients, Gradients):
        with pytest.raises(ValueError, match=r"needs gradients, and RandomForestClassifier is explained as a black box"):
            method(forest)


class Rounding(nn.Module):
    def forward(self, x):
        return x.round().sum(1)


@pytest.mark.parametrize("method", [TimeX, Gradients])
def test_a_module_without_gradients_is_refused(method):
    with pytest.raises(ValueError, match=rf"^No gradient of the model's output reaches x, and {method.__name__} learns"):
        method(Rounding()).fit(X, progress=False)


# ------------------------------------------------------------------------------------------------------------- student


def test_copies_keep_pieces_of_one_channel():
    x = torch.arange(6 * 16 * 2, dtype=torch.float32).view(6, 16, 2)
    copies = altered_copies(x, 5, torch.Generator().manual_seed(0))
    assert copies.shape == (6, 5, 16, 2)
    kept = copies == x[:, None]
    assert 0.3 < kept.float().mean() < 0.7
    changes = (kept[:, :, 1:] != kept[:, :, :-1]).float().mean()
    assert changes < 0.3  # pieces of two steps: a change at half of the borders, at most
    others = {tuple(row) for row in x.transpose(1, 2).flatten(0, 1).tolist()} | {tuple(row) for row in x.mean(0).T.tolist()}
    values = {value for row in others for value in row}
    assert set(copies.flatten().tolist()) <= values


@pytest.mark.slow
def test_a_student_learns_the_answers(caplog):
    x = np.random.default_rng(1).normal(size=(400, 12, 2)).astype(np.float32)
    box = tried(adapt(Counted()), Series(x))
    with caplog.at_level("INFO"):
        student = distil(box, Series(x), progress=False)
    new = torch.tensor(np.random.default_rng(2).normal(size=(200, 12, 2)), dtype=torch.float32)
    agree = (student(new).argmax(-1) == student.answers(new).argmax(-1)).float().mean()
    assert agree > 0.9
    assert "a student agrees on" in caplog.text


@pytest.fixture(scope="module")
def fitted():
    forest = RandomForestClassifier(20, random_state=0).fit(FLAT, Y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("timex.reference.student.STEPS", 60)
        patch.setattr("timex.reference.student.FAITHFUL", 0)
        return forest, TimeX(forest, config=QUICK).fit(X, progress=False)


def test_timex_explains_the_answers_of_the_black_box(fitted):
    forest, explainer = fitted
    e = explainer.explain(X[:6])
    np.testing.assert_allclose(e.probability, forest.predict_proba(FLAT[:6]), atol=1e-5)
    assert isinstance(explainer.fitted.reference, Distilled)
    assert isinstance(explainer.model, BlackBox)


def test_a_fit_on_a_black_box_is_saved(fitted, tmp_path):
    forest, explainer = fitted
    loaded = TimeX.load(explainer.save(tmp_path), forest)
    np.testing.assert_allclose(loaded.explain(X[:6]).attribution, explainer.explain(X[:6]).attribution, atol=1e-6)


def test_long_series_are_fewer(monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 1)
    monkeypatch.setattr("timex.reference.student.FAITHFUL", 0)
    monkeypatch.setattr("timex.reference.student.LEAST", 3)
    for cells, used in ((5 * 20 * T * D, 20), (1, 3)):
        monkeypatch.setattr("timex.reference.student.MOST_CELLS", cells)
        model = Counted()
        distil(tried(adapt(model), Series(X)), Series(X), progress=False)
        assert used < sum(map(len, model.given)) <= 2 + N + 5 * used


def test_the_black_box_itself_chooses_the_smoothing(monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 20)
    monkeypatch.setattr("timex.reference.student.FAITHFUL", 0)
    monkeypatch.setattr("timex.method.finish.MAX_ASKED", 2)
    asked = {}
    for smoothing in (None, 0):
        model = Counted()
        TimeX(model, config=TimeXConfig(epochs=1, smoothing=smoothing)).fit(X, progress=False)
        asked[smoothing] = sum(map(len, model.given))
    assert 36 < asked[0] <= 2 + 5 * 36  # a trial of the shape, 36 series and four copies of each, some of them equal
    most = 2 * 6 * 6 * 2 + 1  # p and gradients x widths x shares x kept and removed, and the blank series
    assert 0 < asked[None] - asked[0] <= 2 * most


def test_a_student_may_be_explained_by_gradients(fitted):
    _, explainer = fitted
    e = IntegratedGradients(explainer.fitted.reference).explain(X[:6])
    assert np.ptp(e.attribution) > 0


@pytest.mark.filterwarnings("ignore:The student that stands in")
def test_numbers_of_a_black_box_keep_their_units(monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 60)
    model = LinearRegression().fit(FLAT, 100 + 10 * X[:, 4, 0])
    e = TimeX(model, task="regress", config=QUICK).fit(X, progress=False).explain(X[:6])
    np.testing.assert_allclose(e.numbers[:, 0], model.predict(FLAT[:6]), rtol=1e-4)
    assert e.probability.shape == (6, 1)
    assert e.agreement is None


@pytest.mark.filterwarnings("ignore:The model predicts class")
@pytest.mark.filterwarnings("ignore:The model answers differently")
def test_a_poor_student_is_noticed(monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 1)
    noise = np.random.default_rng(3)
    with pytest.warns(UserWarning, match=r"^The student that stands in for the black box agrees on \d+ % of its held-out"):
        TimeX(lambda x: softmax(noise.normal(size=(len(x), 4))), config=QUICK).fit(X, progress=False)


@pytest.mark.parametrize(
    "name", [name for name, method in EXPLAINERS.items() if not (method.needs_gradients or method.only_for)]
)
def test_methods_without_gradients_take_a_black_box(name):
    options = {"winit": WinITConfig(epochs=1, window=2, draws=2), "cortx": CoRTXConfig(permutations=2, epochs=2)}
    explainer = EXPLAINERS[name](Counted(), config=options.get(name)).fit(X, progress=False)
    e = explainer.explain(X[:3])
    assert e.attribution.shape == (3, T, D)
    assert np.isfinite(e.attribution).all()
