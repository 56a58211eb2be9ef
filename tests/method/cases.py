"""Models, data and fitted explainers that the tests of TimeX share.

Shapes differ from case to case, so that swapped axes fail. The models have random weights: no test here needs a good one.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from timex import TimeX, TimeXConfig
from timex.reference import CNN, LSTM, ResidualTransformer

N, N_VAL = 48, 10
CONFIG = TimeXConfig(epochs=2, batch_size=16, n_landmarks=6)
PAPER_CONFIG = TimeXConfig.paper("freqshapes").replaced({"epochs": 2, "batch_size": 16, "n_landmarks": 6, "mask.hide": "value"})
"""The paper's objective on models of any architecture."""


def series(n, t, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def spread(model, x):
    """Shift and scale the last layer so that the logits of these series have mean 0 and deviation 1: all classes occur."""
    last = model.head[-1] if isinstance(model.head, nn.Sequential) else model.head
    with torch.no_grad():
        logits = copy.deepcopy(model).eval()(torch.as_tensor(x))
        mean, std = logits.mean(0), logits.std(0)
        last.weight /= std[:, None]
        last.bias.sub_(mean).div_(std)
    return model


def seeded(make, t, d, seed=1, x=None):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return spread(make(), series(200, t, d, seed=99) if x is None else x)


class Attentive(nn.Module):
    def __init__(self, d=3, c=3):
        super().__init__()
        self.embed = nn.Linear(d, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True), 1)
        self.head = nn.Linear(8, c)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(dim=1))


class Convolutional(nn.Module):
    """Channels first inside, with batch norm and dropout."""

    def __init__(self, d=2, c=4):
        super().__init__()
        self.conv = nn.Conv1d(d, 9, 3, padding=1)
        self.norm = nn.BatchNorm1d(9)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(9, c)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x.transpose(1, 2))).relu()).mean(dim=2))


class Recurrent(nn.Module):
    def __init__(self, d=3, c=3):
        super().__init__()
        self.gru = nn.GRU(d, 6, batch_first=True)
        self.head = nn.Linear(6, c)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


OURS = {
    "transformer_uv": (16, 1, 2, lambda: ResidualTransformer(1, 2, 16, d_hidden=8)),
    "transformer_mv": (14, 3, 4, lambda: ResidualTransformer(3, 4, 14, d_hidden=8, n_layers=2)),
    "cnn": (17, 2, 4, lambda: CNN(2, 4, 17, width=8)),
    "lstm": (12, 3, 5, lambda: LSTM(3, 5, 12, hidden=4, n_layers=1)),
}
FOREIGN = {
    "attentive": (13, 3, 3, Attentive, "encoder"),
    "convolutional": (15, 2, 4, Convolutional, "conv"),
    "recurrent": (11, 3, 3, Recurrent, "gru"),
}


@dataclass
class Case:
    """A model of random weights, a copy of it in evaluation mode, data, and an explainer fitted to the model on them."""

    model: nn.Module
    clean: nn.Module
    x: np.ndarray
    x_val: np.ndarray
    embedding: str | None
    explainer: TimeX
    before: dict

    def fresh(self, config=CONFIG, **options):
        return TimeX(self.model, self.embedding, config, **options)

    @property
    def asked(self):
        return self.x[:20]


def snapshot(model):
    """Everything about a module that a fit could change."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "bytes": {name: value.numpy().tobytes() for name, value in model.state_dict().items()},
        "mode": {name: layer.training for name, layer in model.named_modules()},
        "gradient": {name: (p.requires_grad, p.grad) for name, p in model.named_parameters()},
        "hooks": {name: [list(getattr(layer, h).values()) for h in hooks] for name, layer in model.named_modules()},
        "names": sorted(vars(model)),
    }


def never(module, inputs, output):
    raise AssertionError("a hook of the user's model was called")


def make_case(name):
    t, d, _, make, *embedding = {**OURS, **FOREIGN}[name]
    model = seeded(make, t, d)
    clean = copy.deepcopy(model).eval()
    model.train()  # as users may hand it in: parts in either mode, parts without gradient
    model.head.eval()
    next(model.parameters()).requires_grad_(False)
    model.head.register_forward_hook(never)  # the user's hooks belong to the user's object
    before = snapshot(model)
    x, x_val = series(N, t, d), series(N_VAL, t, d, seed=1)
    explainer = TimeX(model, *embedding, config=CONFIG).fit(x, x_val=x_val, progress=False)
    return Case(model, clean, x, x_val, embedding[0] if embedding else None, explainer, before)


def quick(t=12, d=2, c=3, config=CONFIG, **options):
    """An unfitted explainer of a small CNN."""
    return TimeX(seeded(lambda: CNN(d, c, t, width=6), t, d), config=config, **options)


def same_explanations(a, b):
    for name in ("x", "attribution", "mask", "prediction", "probability", "embedding", "landmark", "agreement", "divergence"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
