"""Three small seeded fits give the explanations that were recorded with the present code, on one CPU thread.

The fits are: the default objective on our CNN, the paper's objective on its transformer, and the default objective on a
module that is none of ours. The recorded values say nothing of their quality: they show that a change of the code leaves
explanations as they are. Processors round in different ways, even with the same instruction set, and epochs of training add
up the differences: so values are compared to 1e-5, not to the bit.

A change that alters the values on purpose records them anew, and its commit message says so:
`python tests/method/test_golden.py` prints them.

Shapes: distinct N, T, D and C for each fit.
"""

import numpy as np
import pytest
import torch
from torch import nn

from timex import TimeX, TimeXConfig
from timex.reference.base import initialised
from timex.testing import balanced

SMALL = {"epochs": 3, "n_landmarks": 6, "seed": 7}


def series(n, t, d, seed):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def default():
    """The default objective on our CNN and series with missing cells."""
    x = series(36, 18, 2, seed=2)
    observed = np.random.default_rng(5).random(x.shape) > 0.1
    model = initialised("cnn", {"n_channels": 2, "n_classes": 4, "n_steps": 18, "width": 6}, seed=4)
    return TimeX(balanced(model, torch.as_tensor(x)), config=TimeXConfig(batch_size=10, **SMALL)), x, observed


def paper():
    """The paper's objective on its transformer, with attention masking."""
    x = series(40, 20, 1, seed=1)
    model = initialised("transformer", {"n_channels": 1, "n_classes": 3, "n_steps": 20, "n_layers": 2, "d_hidden": 8}, seed=3)
    config = TimeXConfig.paper("freqshapes").replaced(SMALL)
    return TimeX(balanced(model, torch.as_tensor(x)), config=config), x, None


def foreign():
    """The default objective on a torch module that is read as (B, D, T)."""
    x = series(33, 16, 3, seed=6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        module = nn.Sequential(
            nn.Conv1d(3, 5, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(80, 7), nn.Tanh(), nn.Linear(7, 2)
        )
    return TimeX(module, config=TimeXConfig(batch_size=8, **SMALL), layout="BDT"), x, None


EXPECTED = {
    default: [0.174146, 0.207791, 0.18606, 0.205665, 0.0, 0.322257, 0.005474],
    foreign: [0.357566, 0.633158, 0.500743, 0.358889, 0.623989, 0.410652, -0.00051],
    paper: [0.548084, 0.725664, 0.722535, 0.562496, 0.53084, 0.500578, -0.012694],
}
"""The first values of the attributions of 9 samples, then the two means of `summary`."""


def attribution(make):
    explainer, x, observed = make()
    explainer.fit(x, observed=observed, progress=False)
    return explainer.explain(x[:9], observed=None if observed is None else observed[:9]).attribution


def summary(values):
    """The first values, the mean, and a mean that changes with the place of every value."""
    places = np.cos(np.arange(values.size))
    return [*values.reshape(-1)[:5], values.mean(), (values.reshape(-1) * places).mean()]


@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_explanations_are_those_of_before(make):
    np.testing.assert_allclose(summary(attribution(make)), EXPECTED[make], atol=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for make in EXPECTED:
        print(make.__name__, [round(float(value), 6) for value in summary(attribution(make))])
