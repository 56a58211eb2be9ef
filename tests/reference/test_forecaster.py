"""The forecaster: shapes, what its embedding is, and that it learns; and TimeX on it with the MSE form of label consistency."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from timex import TimeX, TimeXConfig
from timex.method.losses import label_consistency_mse_instance
from timex.reference import load_reference, save_reference
from timex.reference.forecaster import Forecaster, forecast, last_value, train_forecaster
from timex.reference.train import TrainConfig, preset

T, H = 20, 3


def waves(n, seed):
    """Sines of random phase: the past says what comes."""
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, (n, 1))
    series = np.sin(np.arange(T + H) * 0.7 + phase).astype(np.float32)[:, :, None]
    return SimpleNamespace(x=series[:, :T], y=series[:, T:])


@pytest.fixture(scope="module")
def trained():
    parts = {"train": waves(256, 0), "val": waves(32, 1), "test": waves(64, 2)}
    config = TrainConfig(model={"d_hidden": 32, "dropout": 0.0}, lr=5e-3, epochs=40)
    return parts, *train_forecaster(parts, config, progress=False)


def test_shapes_and_the_maximum_over_states():
    model = Forecaster(n_channels=2, n_classes=H, n_steps=T, n_layers=2).eval()
    x = torch.randn(5, T, 2)
    z, y = model.output(x)
    assert z.shape == (5, model.embedding_size)
    assert y.shape == model(x).shape == (5, H)
    states = model.states(x, None, None, None)
    assert states.shape == (5, H, 18)
    torch.testing.assert_close(z, states.max(dim=1).values)
    torch.testing.assert_close(y[:, 1], x[:, -1, 0] + states[:, 1] @ model.out.weight[0] + model.out.bias)


def test_the_last_value_is_the_last_measured_one():
    x = torch.arange(12.0).view(2, 3, 2)  # first channel 0, 2, 4 and 6, 8, 10
    observed = torch.ones(2, 3, 2, dtype=torch.bool)
    assert last_value(x, None).tolist() == last_value(x, observed).tolist() == [[4.0], [10.0]]
    observed[0, 2, 0] = observed[1, 1:, 0] = False
    assert last_value(x, observed).tolist() == [[2.0], [6.0]]
    observed[1, 0, 0] = False
    assert last_value(x, observed).tolist() == [[2.0], [0.0]]


def test_missing_steps_do_not_reach_it():
    model = Forecaster(n_channels=1, n_classes=H, n_steps=T).eval()
    x, observed = torch.randn(2, T, 1), torch.ones(2, T, 1, dtype=torch.bool)
    observed[:, 4] = False
    changed = x.clone()
    changed[:, 4] += 5
    torch.testing.assert_close(model(x, None, observed), model(changed, None, observed))
    assert not torch.allclose(model(x), model(changed))


def test_it_learns_and_is_saved(trained, tmp_path):
    parts, model, scores = trained
    last = parts["test"].x[:, -1:, 0]
    assert scores["mse_persistence"] == pytest.approx(float(np.square(last - parts["test"].y[:, :, 0]).mean()), rel=1e-5)
    assert scores["mse"] < 0.5 * scores["mse_persistence"]
    again = load_reference(save_reference(model, tmp_path))
    np.testing.assert_array_equal(forecast(again, parts["test"].x), forecast(model, parts["test"].x))
    assert preset("ett", "forecaster").decay


def test_label_consistency_of_forecasts_by_hand():
    y, y_e = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0, 4.0], [1.0, 1.0]])
    assert float(label_consistency_mse_instance(y, y_e)) == pytest.approx((0 + 4 + 1 + 1) / 4)


@pytest.mark.parametrize("objective", ["evidence", "paper"])
def test_timex_explains_a_forecaster(trained, objective):
    parts, model, _ = trained
    config = TimeXConfig(epochs=2, n_landmarks=4, objective=objective, task="forecast")
    explainer = TimeX(model, config=config, device="cpu").fit(parts["train"].x, x_val=parts["val"].x, progress=False)
    e = explainer.explain(parts["test"].x)
    assert e.attribution.shape == (64, T, 1)
    assert e.embedding.shape == (64, model.embedding_size)
    assert e.agreement is None
    history = explainer.history.dropna(subset="val_lc")
    assert history["val_lc"].iloc[-1] <= history["val_lc"].iloc[0]  # the surrogate comes nearer to the forecasts
