"""WinIT on a model whose window effects are known, against a loop over windows, and its generators."""

import numpy as np
import pytest
import torch
from loops import winit_by_loop
from torch import nn

from timex.explainers import WinIT, WinITConfig
from timex.explainers.batch import Batch
from timex.explainers.winit import Generator, ahead, up_to, window_differences
from timex.reference import CNN, LSTM, Transformer

N, T, D, C = 4, 12, 2, 3


def series(n=N, t=T, d=D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


class Additive(nn.Module):
    """Class probabilities 1/2 +- sum of a * x, whatever the number of steps."""

    def __init__(self, a):
        super().__init__()
        self.register_buffer("a", a)

    def forward(self, x):
        score = (x * self.a[: x.shape[1]]).sum((1, 2))
        return torch.stack([0.5 + score, 0.5 - score], 1).log()


def constant_forecast(explainer, value):
    """Generators that always say `value`, without doubt."""
    for generator in explainer.fitted.generators:
        for p in generator.parameters():
            nn.init.zeros_(p)
        generator.head.bias.data[generator.head.bias.shape[0] // 2 :] = -50.0  # softplus of it is 0, MIN_STD remains
    explainer.fitted_ = explainer.fitted._replace(mean=torch.full((D,), value), std=torch.full((D,), 1e-3))
    return explainer


@pytest.mark.parametrize("past_only", [False, True])
def test_closed_form(past_only):
    """Replacing a window of channel k by c changes both probabilities by the sum of a * (x - c), all of one sign here.

    So a cell adds 2 a_tk (x_tk - c) to every window that starts with it, and that is its score.
    """
    a = torch.as_tensor(np.random.default_rng(1).uniform(0.001, 0.01, size=(T, D)).astype(np.float32))
    x = np.abs(series()) + 0.5
    explainer = WinIT(Additive(a), WinITConfig(window=4, hidden=3, epochs=1, past_only=past_only), device="cpu")
    constant_forecast(explainer.fit(x, x_val=x, progress=False), 0.25)
    np.testing.assert_allclose(explainer.explain(x).attribution, 2 * a.numpy() * (x - 0.25), atol=2e-6)


MODELS = {
    "transformer": lambda: Transformer(D, C, T, d_hidden=5),
    "cnn": lambda: CNN(D, C, T, width=4),
    "lstm": lambda: LSTM(D, C, T, hidden=3, n_layers=1),
}


@pytest.mark.parametrize(
    ("name", "past_only"), [("transformer", True), ("transformer", False), ("cnn", False), ("lstm", False)]
)
def test_it_is_the_loop_over_windows(name, past_only):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS[name]().eval()
    x = torch.as_tensor(series())
    explainer = WinIT(model, WinITConfig(window=4, hidden=5, epochs=1, past_only=past_only), device="cpu")
    explainer.fit(series(20, seed=1), progress=False)
    e = explainer.explain(x)
    draws = explainer._draws(next(explainer.batches({"x": x})))
    for i in range(2):
        np.testing.assert_allclose(e.attribution[i], winit_by_loop(model, x[i], draws[i], past_only), atol=2e-5)
    assert np.abs(e.attribution).max() > 1e-3


def test_differences_by_hand():
    """Three steps, windows of up to two: cell 0 starts [0] and [0, 1], cell 2 only [2]."""
    effect = torch.zeros(1, 4, 3, 1)
    effect[0, :3, 1, 0] = torch.tensor([0.5, 0.2, 0.4])  # single cells
    effect[0, :2, 2, 0] = torch.tensor([0.6, 1.0])  # [0, 1] and [1, 2]
    expected = [(0.5 + (0.6 - 0.2)) / 2, (0.2 + (1.0 - 0.4)) / 2, 0.4]
    np.testing.assert_allclose(window_differences(effect)[0, :, 0], expected, rtol=1e-6)


def test_ahead():
    out = ahead(torch.tensor([[1.0, 2.0, 3.0]]), 2)
    assert out.tolist() == [[[1, 2], [2, 3], [3, 0]]]


def test_what_was_known_at_a_step():
    x = torch.as_tensor(series(2))
    place = torch.arange(2)
    batch = Batch(x, place, None, None, place, torch.zeros(2, C))
    late = up_to(batch, 9)
    assert torch.equal(late.x, x[:, :10])
    assert late.observed is None
    early = up_to(batch, 2)
    assert early.x.shape == (2, 8, D)
    assert (early.x[:, 3:] == 0).all()
    assert early.observed[:, :3].all()
    assert not early.observed[:, 3:].any()


def test_a_forecast_knows_only_the_past():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        generator = Generator(D, 3, 4)
    x = torch.as_tensor(series(1))
    other = x.clone()
    other[:, 5:] += 1
    with torch.no_grad():
        before, after = generator(x)[0], generator(other)[0]
    assert torch.equal(before[:, :6], after[:, :6])  # the forecast from step 5 has seen steps 0..4
    assert (before[:, 6] != after[:, 6]).any()


def test_generators_learn_to_forecast():
    """A wave is predictable: the likelihood beats that of a forecast without a past (1.42) by far."""
    phase = np.random.default_rng(0).uniform(0, 6, size=(100, 1))
    x = np.stack([np.sin(np.arange(20) * 0.7 + phase), np.random.default_rng(1).normal(size=(100, 20))], -1)
    config = WinITConfig(window=3, hidden=12, epochs=15, batch_size=20, lr=2e-2)
    explainer = WinIT(nn.Sequential(nn.Flatten(), nn.Linear(40, 2)), config, device="cpu").fit(x, progress=False)
    wave, noise = explainer.fitted.report.nll
    assert wave < 0.5
    assert 1.2 < noise < 1.7


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="Expected window >= 1, got 0"):
        WinITConfig(window=0)


def test_explain_before_fit():
    with pytest.raises(RuntimeError, match=r"This WinIT has not been fitted: call fit\(x\)"):
        WinIT(Additive(torch.ones(T, D))).explain(series())
