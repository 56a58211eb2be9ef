"""The number of model calls that every explainer states is the number that is counted."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import nn

from timex.registry import EXPLAINERS

N, T, D, C = 4, 10, 2, 3
QUICK = {"epochs": 1, "pretrain_epochs": 1, "batch_size": 12}
"""Fits are not what is counted."""
SMALL = {
    "timex": {"n_landmarks": 5, "smoothing": 0},
    "dynamask_deletion": {"keep_ratio": (0.1,), "size_growth": (1e3,), "sigma_max": (2.0,)},
    "timex_plus": {"n_landmarks": 5},
    "dynamask": {"keep_ratio": (0.1,), "size_growth": (1e3,), "sigma_max": (2.0,)},
}
seen = 0


class Counting(nn.Module):
    """Counts the series that pass through any copy of it."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(T * D, 4), nn.Linear(4, C)

    def forward(self, x):
        global seen
        seen += len(x)
        return self.head(self.hidden(x.flatten(1)).tanh())


@pytest.mark.parametrize("name", [name for name, method in EXPLAINERS.items() if not method.only_for])
def test_the_cost_is_what_is_counted(name):
    global seen
    method = EXPLAINERS[name]
    config = None if method.config_class is type(None) else method.config_class()
    if config is not None:
        quick = QUICK | SMALL.get(name, {})
        config = replace(config, **{f.name: quick[f.name] for f in fields(config) if f.name in quick})
    x = np.random.default_rng(0).normal(size=(24, T, D)).astype(np.float32)
    torch.manual_seed(0)
    explainer = method(Counting(), config=config, device="cpu").fit(x, progress=False)
    explainer.explain(x[:N])  # the first call tries the model
    seen = 0
    explainer.explain(x[:N])
    known = {} if config is None else {f.name: getattr(config, f.name) for f in fields(config)}
    assert eval(method.cost, {"T": T, "D": D, **known}) == seen / N - 1
