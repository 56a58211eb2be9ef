"""Saliency-guided training: the mask by hand, the divergence falls, the model handed in stays."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from timex.engine import Noise
from timex.explainers import SGTConfig, SGTGrad
from timex.explainers.sgt import mask_lowest
from timex.reference import CNN, LSTM, Transformer

N, T, D, C = 300, 12, 2, 2


def data(seed=0):
    """Class 1 where the first channel rises at steps 3 and 4."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(N, T, D)).astype(np.float32), rng.integers(0, C, N)
    x[y == 1, 3:5, 0] += 2.5
    return x, y


def test_the_lowest_cells_become_noise_in_the_range_of_the_sample():
    x = torch.tensor([[[5.0], [1.0], [3.0], [-2.0]], [[7.0], [7.0], [7.0], [7.0]]])
    score = torch.tensor([[[0.4], [0.1], [0.3], [0.2]], [[1.0], [2.0], [3.0], [4.0]]])
    out = mask_lowest(x, score, 0.5, Noise(torch.tensor(0)))
    assert out[0, [0, 2], 0].tolist() == [5, 3]
    assert ((out[0, [1, 3]] > -2) & (out[0, [1, 3]] < 5)).all()
    assert out[0, 1, 0] != 1
    assert (out[1] == 7).all()  # a range of nothing


def test_cells_that_do_not_exist_are_neither_counted_nor_replaced():
    x = torch.tensor([[[5.0], [1.0], [0.0], [0.0]]])
    seen = torch.tensor([[[True], [True], [False], [False]]])
    out = mask_lowest(x, torch.tensor([[[2.0], [1.0], [0.0], [0.0]]]), 0.5, Noise(torch.tensor(0)), seen)
    assert out[0, [0, 2, 3], 0].tolist() == [5, 0, 0]
    assert 1 < out[0, 1, 0] < 5


class Foreign(nn.Module):
    """Recurrent, with batch norm and dropout: everything that can go wrong in train mode."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(D, 6, batch_first=True)
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.2)
        self.head = nn.Linear(6, C)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.gru(x)[0].mean(1))))


MODELS = {
    "transformer": lambda: Transformer(D, C, T, d_hidden=8),
    "cnn": lambda: CNN(D, C, T, width=6),
    "lstm": lambda: LSTM(D, C, T, hidden=4, n_layers=1),
    "foreign": Foreign,
}


def trained(name):
    """A model that has learned the task a little."""
    x, y = (torch.as_tensor(v) for v in data())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS[name]()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(80):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
def test_the_divergence_falls(name):
    model = trained(name)
    before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    x, y = data()
    config = SGTConfig(epochs=10, lr=1e-2, batch_size=40, weight=3.0)
    explainer = SGTGrad(model, config, device="cpu").fit(x[:240], y[:240], x_val=x[240:], progress=False)
    report = explainer.fitted.report
    assert report.kl_last < 0.7 * report.kl_first
    assert report.agreement >= 0.9
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    assert [m.training for m in model.modules()] == modes
    retrained = explainer.fitted.model.module if name == "foreign" else explainer.fitted.model
    assert retrained.state_dict().keys() == before.keys()
    if name == "foreign":
        assert torch.equal(retrained.norm.running_mean, before["norm.running_mean"])


def test_scores_are_gradients_of_the_retrained_model():
    model = trained("cnn")
    x, y = data()
    explainer = SGTGrad(model, SGTConfig(epochs=2), device="cpu").fit(x, y, progress=False)
    e = explainer.explain(x[:6])
    inputs = torch.as_tensor(x[:6]).requires_grad_()
    logits = explainer.fitted.model(inputs)
    (gradient,) = torch.autograd.grad(logits[torch.arange(6), torch.as_tensor(e.prediction)].sum(), inputs)
    np.testing.assert_allclose(e.attribution, gradient.abs(), atol=1e-6)
    with torch.no_grad():
        np.testing.assert_allclose(e.probability, model(torch.as_tensor(x[:6])).softmax(-1), atol=1e-6)


def test_without_labels_the_models_own_predictions_serve():
    model = trained("cnn")
    x, _ = data()
    with torch.no_grad():
        own = model(torch.as_tensor(x)).argmax(-1).numpy()
    config = SGTConfig(epochs=1)
    a, b = (SGTGrad(model, config, device="cpu").fit(x, y, progress=False).explain(x[:5]) for y in (None, own))
    np.testing.assert_array_equal(a.attribution, b.attribution)
    c = SGTGrad(model, config, device="cpu").fit(x, 1 - own, progress=False).explain(x[:5])
    assert not np.allclose(a.attribution, c.attribution)


def test_a_model_that_became_another_is_reported(caplog):
    model = trained("cnn")
    x, y = data()
    SGTGrad(model, SGTConfig(epochs=8, lr=3e-2), device="cpu").fit(x, 1 - y, progress=False)
    assert "explain another model" in caplog.text


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="Expected masked < 1, got 1"):
        SGTConfig(masked=1)
