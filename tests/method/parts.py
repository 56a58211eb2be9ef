"""What the tests of model and objective share.

Shapes: B samples, T steps, D channels, C classes, all different.
"""

import torch

from timex.engine import Noise
from timex.method.config import TimeXConfig
from timex.method.model import TimeXModel
from timex.reference import ResidualTransformer

B, T, D, C = 6, 11, 3, 4
MEAN = 100.0 + torch.arange(T * D, dtype=torch.float32).reshape(T, D)  # no cell of x has such a value
STD = 1.0 + torch.arange(T * D, dtype=torch.float32).reshape(T, D) / 10
TAU = torch.tensor(1.0)


def seeded(make, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def series(n=B, t=T, d=D, seed=0):
    return torch.randn(n, t, d, generator=torch.Generator().manual_seed(seed))


def transformer(d=D, t=T, kind=ResidualTransformer, **options):
    return seeded(lambda: kind(n_channels=d, n_classes=C, n_steps=t, d_hidden=9, **options)).eval()


def config_of(settings=None, **top):
    """Settings with five landmarks, those of groups by their dotted names."""
    return TimeXConfig(n_landmarks=5, **top).replaced(settings or {})


def timex_model(reference=None, settings=None, **top):
    return seeded(lambda: TimeXModel(reference or transformer(), config_of(settings, **top)), seed=1)


def paper_model(reference=None, settings=None):
    """A model with the paper's generator."""
    return timex_model(reference, settings, objective="paper")


def noise(key=3):
    return Noise(torch.tensor(key))
