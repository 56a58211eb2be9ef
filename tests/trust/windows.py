"""A linear model whose reasons are known, and series for it."""

import numpy as np
import torch
from torch import nn

from timex import Series

T, D, C = 24, 2, 3
WINDOWS = {1: (slice(2, 6), 0), 2: (slice(12, 16), 1)}
"""Steps and channel that decide for a class; class 0 is what is left."""
CLASSES = ("rest", "early", "late")


def windows_model():
    """Logits: 2.5 for class 0, and 3 times the mean of the window for the others."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(T * D, C))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.copy_(torch.tensor([2.5, 0.0, 0.0]))
        for c, (steps, channel) in WINDOWS.items():
            model[1].weight[c].view(T, D)[steps, channel] = 3 / 4
    return model


def windows_series(n, seed=0):
    """Noise, and a bump of 2 in the window of the class; equal classes in turn."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % C
    truth = np.zeros((n, T, D), dtype=bool)
    for c, (steps, channel) in WINDOWS.items():
        truth[y == c, steps, channel] = True
    x = rng.normal(scale=0.5, size=truth.shape) + 2.0 * truth
    return Series(x, y=y, truth=truth, classes=CLASSES)
