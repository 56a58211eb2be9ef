"""Torch modules of several kinds and packages, trained briefly on series whose deciding cells are known."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from timex import Series

T, D, WIDTH = 48, 3, 8
EPOCHS = 20


class Case(NamedTuple):
    """A trained model, how it is handed over, and series to explain; `others` are the methods it is compared with."""

    model: Any
    how: dict[str, Any]
    train: Series
    test: Series
    others: tuple[str, ...] = ("gradients",)

    @property
    def lines(self) -> int:
        """Lines of a user's code: one fits, one explains, and those of a function that calls the model."""
        named = [f for f in self.how.values() if inspect.isfunction(f) and f.__name__ != "<lambda>"]
        return 2 + sum(len(inspect.getsource(f).splitlines()) for f in named)


def bumps(n: int, seed: int = 0, aligned: bool = False) -> Series:
    """Noise with a bump in every channel; the sign of the bump in channel 1 is the class. Its cells are the truth.

    The bump of channel 1 may lie anywhere, or always at the same steps, which is what models of single cells can learn.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=0.5, size=(n, T, D)).astype(np.float32)
    y = rng.integers(0, 2, n)
    truth = np.zeros(x.shape, dtype=bool)
    bump = 2 * np.sin(np.linspace(0, np.pi, WIDTH + 2))[1:-1]
    for i in range(n):
        for k in range(D):
            start = 20 if aligned and k == 1 else rng.integers(2, T - WIDTH - 2)
            x[i, start : start + WIDTH, k] += bump * (2 * y[i] - 1 if k == 1 else rng.choice([-1, 1]))
            truth[i, start : start + WIDTH, k] = k == 1
    return Series(x, y=y, truth=truth)


def trained(model: nn.Module, call: Callable[..., torch.Tensor], loss: Callable[..., torch.Tensor], train: Series) -> nn.Module:
    """The module after some epochs of Adam on loss(call(model, x), y)."""
    x, y = torch.tensor(train.x), torch.tensor(train.labels)
    extras = {name: torch.tensor(value) for name, value in train.extras.items()}
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    order = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(EPOCHS):
        for i in torch.randperm(len(x), generator=order).split(64):
            optimiser.zero_grad()
            loss(call(model, x[i], **{name: value[i] for name, value in extras.items()}), y[i]).backward()
            optimiser.step()
    return model.eval()


class Convolutional(nn.Module):
    """Channels first, as in tsai and most of torch."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(D, 16, 7, padding=3), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2), nn.ReLU())
        self.pool, self.head = nn.AdaptiveMaxPool1d(1), nn.Linear(16, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.body(x)).flatten(1))


def first(x: torch.Tensor) -> torch.Tensor:
    """Channels first."""
    return x.transpose(1, 2)


cross_entropy = nn.functional.cross_entropy
with_logits = nn.functional.binary_cross_entropy_with_logits


def channels_first(train: Series, test: Series) -> Case:
    """A plain torch module."""
    model = trained(Convolutional(), lambda m, x: m(first(x)), cross_entropy, train)
    return Case(model, {"layout": "BDT"}, train, test)


def one_logit(train: Series, test: Series) -> Case:
    """A binary model."""
    model = trained(Convolutional(1), lambda m, x: m(first(x))[:, 0], lambda p, y: with_logits(p, y.float()), train)
    return Case(model, {"layout": "BDT", "task": "binary"}, train, test)


def multilabel(train: Series, test: Series) -> Case:
    """Two labels that hold together or not: the class, and its opposite."""

    def loss(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return with_logits(p, torch.stack([1 - y, y], 1).float())

    model = trained(Convolutional(2), lambda m, x: m(first(x)), loss, train)
    return Case(model, {"layout": "BDT", "task": "multilabel", "target": 1}, train, test)


def regression(train: Series, test: Series) -> Case:
    """A number in units of its own: 100 -+ 50."""

    class Scaled(Convolutional):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 100 + 50 * super().forward(x)

    model = trained(Scaled(1), lambda m, x: (m(first(x))[:, 0] - 100) / 50, lambda p, y: (p - 2 * y + 1).square().mean(), train)
    return Case(model, {"layout": "BDT", "task": "regress"}, train, test)


def further_input(train: Series, test: Series) -> Case:
    """A model that needs more than the series."""

    class WithAge(Convolutional):
        def forward(self, x: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 0 * age

    model = trained(WithAge(), lambda m, x: m(first(x), torch.zeros(1)), cross_entropy, train)
    return Case(model, {"forward": lambda m, x: m(x.transpose(1, 2), torch.zeros(1))}, train, test)


def input_of_each_series(train: Series, test: Series) -> Case:
    """A model that needs a value of each series: it turns the class around."""

    class Turned(Convolutional):
        def forward(self, x: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * side[:, None]

    def sided(series: Series, seed: int) -> Series:
        side = np.random.default_rng(seed).choice([-1.0, 1.0], len(series))
        return replace(series, y=np.where(side > 0, series.labels, 1 - series.labels), extras={"side": side})

    train, test = sided(train, 0), sided(test, 1)
    model = trained(Turned(), lambda m, x, side: m(first(x), side), cross_entropy, train)
    return Case(model, {"layout": "BDT"}, train, test)


def per_step(train: Series, test: Series) -> Case:
    """A recurrent model that answers at every step."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(D, 24, batch_first=True), nn.Linear(24, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.gru(x)[0])

    model = trained(Recurrent(), lambda m, x: m(x)[:, -1], cross_entropy, train)
    return Case(model, {"output": lambda out: out[:, -1]}, train, test)


def lightning_module(train: Series, test: Series) -> Case:
    """A LightningModule that a Trainer has trained."""
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Convolutional()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(first(x))

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 3e-3)

    data = torch.utils.data.TensorDataset(torch.tensor(train.x), torch.tensor(train.labels))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    module = Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", **quiet)
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=64, shuffle=True))
    return Case(module, {}, train, test)


def skorch_net(train: Series, test: Series) -> Case:
    """A NeuralNetClassifier, whose module returns logits."""
    import skorch

    net = skorch.NeuralNetClassifier(
        Convolutional, criterion=nn.CrossEntropyLoss, lr=3e-3, optimizer=torch.optim.Adam, max_epochs=EPOCHS, verbose=0
    )
    net.set_params(iterator_train__shuffle=True)
    net.fit(train.x.transpose(0, 2, 1).copy(), train.labels)
    return Case(net, {"layout": "BDT"}, train, test)
