"""Extras of the series, such as an age, reach the model with their own series: whole, altered, repeated, in any chunk."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from timex import Series, TimeX, TimeXConfig, adapt
from timex.explainers import Occlusion
from timex.explainers.cortx import CoRTXConfig
from timex.explainers.dynamask import DynamaskConfig
from timex.explainers.sgt import SGTConfig
from timex.explainers.winit import WinITConfig
from timex.io.files import read_series, write_series
from timex.records import Explanation
from timex.reference.beside import beside, extras_of
from timex.reference.blackbox import TWICE
from timex.registry import EXPLAINERS

N, T, D, C = 32, 7, 2, 3
SMALL = {
    "timex": TimeXConfig(epochs=2, batch_size=8),
    "dynamask": DynamaskConfig(steps=2),
    "dynamask_deletion": DynamaskConfig(steps=2),
    "winit": WinITConfig(epochs=1, draws=2, window=2),
    "cortx": CoRTXConfig(epochs=1),
    "sgt_grad": SGTConfig(epochs=1),
}
MODELS = [
    name for name in EXPLAINERS if not name.startswith(("random", "amplitude", "centre")) and not EXPLAINERS[name].only_for
]


def pattern(observed):
    """Which of the first steps of channel 1 were measured, as a number: every series has another one."""
    return (observed[:, :5, 1] * (2 ** torch.arange(5))).sum(1)


def series(regular=False):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, T, D)).astype(np.float32)
    observed = np.ones(x.shape, dtype=bool)
    if not regular:
        observed[:, :5, 1] = (np.arange(N)[:, None] >> np.arange(5)) & 1
    extras = {"code": np.arange(N), "gain": rng.normal(size=(N, 1))}
    return Series(x, observed=observed, extras=extras)


class Watching(nn.Module):
    """Needs an extra, and knows from the measured cells which one belongs to each row."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(T * D, 6), nn.Linear(6, C)
        self.passes = []

    def forward(self, x, observed, code, gain):
        self.passes.append(len(x))
        assert torch.equal(pattern(observed), code)
        assert gain.shape == (len(x), 1)
        return self.head((self.body(x.flatten(1)) * gain).tanh())


class Gained(Watching):
    def forward(self, x, gain):
        return self.head((self.body(x.flatten(1)) * gain).tanh())


def made(kind):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*predicts class:UserWarning")
def test_every_row_of_every_pass_gets_its_own_extras(name):
    explainer = EXPLAINERS[name](made(Watching), config=SMALL.get(name))
    if explainer.accepts_missing:
        found = explainer.fit(series(), progress=False).explain(series().take(slice(3, 8)))
        assert np.isfinite(found.attribution).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*(predicts class|beside their values).*:UserWarning")
def test_chunks_do_not_change_the_scores(name):
    explainer = EXPLAINERS[name](made(Gained), config=SMALL.get(name)).fit(series(regular=True), progress=False)
    few = series(regular=True).take(slice(0, 5))
    whole, single = explainer.explain(few), explainer.explain(few, chunk=1)
    np.testing.assert_allclose(whole.attribution, single.attribution, atol=1e-5)
    np.testing.assert_allclose(whole.probability, single.probability, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*beside their values.*:UserWarning")
def test_the_prediction_is_that_of_the_extras(tmp_path):  # also after a load, and as `check` asks the model
    model, few = made(Gained), series(regular=True)
    with torch.no_grad():
        expected = model(torch.tensor(few.x), torch.tensor(few.extras["gain"])).softmax(-1)
    explainer = TimeX(model, config=SMALL["timex"]).fit(few, progress=False)
    explanation = explainer.explain(few)
    np.testing.assert_allclose(explanation.probability, expected.numpy(), atol=1e-6)
    again = TimeX.load(explainer.save(tmp_path / "e"), model).explain(few)
    np.testing.assert_array_equal(again.attribution, explanation.attribution)
    assert explainer.check(few).verdict


def test_a_black_box_gets_extras_and_measured_cells_as_arrays():
    seen = []

    def model(x, observed, code):
        assert np.array_equal((observed[:, :5, 1] * (2 ** np.arange(5))).sum(1), code)
        assert observed.shape == x.shape
        seen.append(len(x))
        return np.stack([x.sum((1, 2)), code], 1) / 10

    few = replace(series(), extras={"code": np.arange(N)})
    adapted = adapt(model, few)
    with beside(few.tensors()):
        logits = adapted(torch.tensor(few.x), None, torch.tensor(few.observed))
    np.testing.assert_allclose(logits[:, 1], np.arange(N) / 10, rtol=1e-6)
    assert sum(seen) == adapted.asked == N + 2 + TWICE  # the trial asks about two series for their shape, and about four again
    same = Series(np.ones((2, T, D)), extras={"code": [1, 2]})
    with beside(same.tensors()):  # equal values, and other extras: two questions
        answers = adapt(lambda x, code: np.stack([code, -code], 1), same)(torch.tensor(same.x))
    assert answers[:, 0].tolist() == [1, 2]
    assert Occlusion(model).explain(few).attribution.shape == few.shape


def test_extras_of_other_rows_are_refused():
    with beside({"extra.age": torch.zeros(3)}), pytest.raises(RuntimeError, match=r"got 2 series and 3 values of age"):
        extras_of(2)


def test_extras_travel_with_the_series(tmp_path):
    whole = series()
    part = whole.take([4, 1])
    assert part.extras["code"].tolist() == [4, 1]
    assert part.digest != whole.take([4, 2]).digest
    assert whole.extras["gain"].dtype == np.float32
    assert set(whole.tensors()) == {"x", "times", "observed", "extra.code", "extra.gain"}
    write_series(tmp_path / "s.npz", whole)
    again = read_series(tmp_path / "s.npz")
    assert again.digest == whole.digest
    assert "code, gain" in repr(again)
    with pytest.raises(ValueError, match=r"A \.csv file cannot hold the extras code, gain: write \.npz, or leave them out"):
        write_series(tmp_path / "s.csv", whole)
    explained = Occlusion(made(Watching)).explain(part)
    loaded = Explanation.load(explained.save(tmp_path / "e.npz"))
    assert loaded.series.extras["code"].tolist() == [4, 1]


@pytest.mark.parametrize(
    ("extras", "text"),
    [
        ({"age": [1.0]}, r"^Expected one row of age for each of 2 samples, got shape \(1,\)\.$"),
        ({"x": [1, 2]}, r"^Expected extras named as a parameter of the model, beside x, times and observed, got 'x'\.$"),
        ({"sex": ["f", "m"]}, r"^Expected numbers as sex, got <U1: encode them as the model takes them\.$"),
    ],
)
def test_extras_that_cannot_be_used(extras, text):
    with pytest.raises(ValueError, match=text):
        Series(np.zeros((2, 3, 1)), extras=extras)


def test_extras_that_no_parameter_takes_are_noticed():
    with pytest.warns(
        UserWarning, match=r"^The series have code beside their values, and the model's forward has no parameter"
    ):
        adapt(made(Gained), series(regular=True))
