"""Two small seeded fits, one for each objective, give the explanations that they gave before, bit for bit on one CPU.

The values are those of 2026-11-18, after the evidence objective became the default. The comparison of the restructuring "One
house" with the code before it is in commit 976e416. A change that alters the values on purpose computes them anew and says so
in its message: `python tests/method/test_golden.py` prints them.

Shapes: distinct N, T, D and C for each fit.
"""

import hashlib

import numpy as np
import pytest
import torch

from timex import TimeX, TimeXConfig
from timex.reference.base import initialised
from timex.testing import balanced

MADE_WITH = ("2.13.0", "AVX512")
"""Version of torch and instruction set of the processor: others round in another way, so that only the values are compared."""
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


EXPECTED = {
    default: (
        "c48cc890cc6286e7d4388e46ae133528de01e418a9a40a0a35397d2aedf5953e",
        [0.25448, 0.30173, 0.27329, 0.29961, 0.0],
    ),
    paper: (
        "71da93447987e735221391fbadb4337fce7f7b0295172725feac9d3b218d195d",
        [0.54808, 0.72566, 0.72253, 0.5625, 0.53084],
    ),
}
"""SHA-256 of the attributions of the first 9 samples, and their first values."""


def attribution(make):
    explainer, x, observed = make()
    explainer.fit(x, observed=observed, progress=False)
    return explainer.explain(x[:9], observed=None if observed is None else observed[:9]).attribution


def digest(values):
    return hashlib.sha256(values.tobytes()).hexdigest()


@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_explanations_are_those_of_before(make):
    expected, first = EXPECTED[make]
    values = attribution(make)
    np.testing.assert_allclose(values.reshape(-1)[: len(first)], first, atol=1e-5)
    if (torch.__version__.split("+")[0], torch.backends.cpu.get_cpu_capability()) == MADE_WITH:
        assert digest(values) == expected


if __name__ == "__main__":
    torch.set_num_threads(1)
    for make in EXPECTED:
        values = attribution(make)
        print(make.__name__, digest(values), values.reshape(-1)[:5].round(5).tolist())
