"""A transformer that forecasts: an encoder over the past, a decoder whose queries are the hours to come.

Shapes: B samples, T time steps, D channels, H steps ahead, M = 16 + D the width of the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from timex import engine
from timex.engine import Noise, Tensors, residual
from timex.nn.attention import Linear
from timex.nn.layers import DecoderLayer, TransformerEncoder, observed_steps, time_encoding
from timex.progress import training_bar
from timex.reference.base import Output, ReferenceModel, initialised
from timex.reference.train import TrainConfig

CHUNK = 256


class Windows(Protocol):
    """Windows of the past, and what came after."""

    @property
    def x(self) -> NDArray[np.float32]:
        """(N, T, D)."""

    @property
    def y(self) -> NDArray[np.float32]:
        """(N, H, 1) or (N, H)."""


class QueryLayer(DecoderLayer):
    """A decoder layer whose queries are all there; only steps of the memory can be missing."""

    def forward(self, h: Tensor, memory: Tensor, padding: Tensor | None, noise: Noise | None) -> Tensor:
        """Decode: h (B, H, M) reads memory (B, T, M), where `padding` (B, T) is hidden."""
        h = self.norm1(residual(h, self.attention(h, h), self.rate, noise))
        h = self.norm2(residual(h, self.cross(h, memory, None, padding), self.rate, noise))
        return self.norm3(residual(h, self.feed_forward(h, noise), self.rate, noise))


class Forecaster(ReferenceModel):
    """The vanilla forecasting transformer. z is the maximum over the decoder's states.

    Each state gives the change of the first channel since its last value: hours ahead begin where the past ends. The forecast
    is no function of z alone, so the model has no head: call `output`.

    Args:
        n_channels: D.
        n_classes: H, the steps ahead; the name is that of all reference models.
        n_steps: T.
        n_layers: Layers of the encoder and of the decoder.
        d_hidden: Width of the feed-forward parts.
        dropout: Rate of dropout.
    """

    arch = "forecaster"

    def __init__(
        self, n_channels: int, n_classes: int, n_steps: int, n_layers: int = 1, d_hidden: int = 64, dropout: float = 0.1
    ) -> None:
        super().__init__()
        shape = {"n_channels": n_channels, "n_classes": n_classes, "n_steps": n_steps}
        self.config = {**shape, "n_layers": n_layers, "d_hidden": d_hidden, "dropout": dropout}
        self.n_channels, self.n_classes, self.n_steps = n_channels, n_classes, n_steps
        self.encoder = TransformerEncoder(n_channels, n_steps + n_classes, n_layers, d_hidden, dropout)
        self.embedding_size = self.encoder.width
        self.decoder = nn.ModuleList(QueryLayer(self.embedding_size, d_hidden, dropout) for _ in range(n_layers))
        self.out = Linear(self.embedding_size, 1)

    def states(self, x: Tensor, times: Tensor | None, observed: Tensor | None, noise: Noise | None) -> Tensor:
        """The decoder's states, (B, H, M)."""
        steps = observed_steps(observed)
        memory = self.encoder(x, times, steps, None, noise)
        padding = None if steps is None else ~steps
        ahead = torch.arange(1, self.n_classes + 1, device=x.device, dtype=x.dtype) + self.n_steps
        code = time_encoding(ahead, self.n_steps + self.n_classes)  # (H, 16)
        h = torch.cat([code, code.new_zeros(self.n_classes, self.n_channels)], dim=-1)
        h = h.expand(x.shape[0], *h.shape)
        for layer in self.decoder:
            h = layer(h, memory, padding, noise)
        return h

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Embedding (B, M) and forecast (B, H)."""
        h = self.states(x, times, observed, noise)
        return Output(h.amax(dim=1), last_value(x, observed) + self.out(h).squeeze(-1))


def last_value(x: Tensor, observed: Tensor | None) -> Tensor:
    """The last measured value of the first channel, (B, 1); 0 where there is none."""
    if observed is None:
        return x[:, -1:, 0]
    measured = observed[..., 0]  # (B, T)
    last = (torch.arange(1, x.shape[1] + 1, device=x.device) * measured).argmax(dim=1, keepdim=True)
    return torch.where(measured, x[..., 0], 0.0).gather(1, last)


class Forecasting:
    """The engine's program for a forecaster: mean squared error, selection by it."""

    def __init__(self, model: Forecaster) -> None:
        self.model = model
        self.stackable = model.stackable

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Mean squared error on a batch."""
        return {"loss": self._error(params, batch, noise)}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Mean squared error on validation data."""
        return {"criterion": self._error(params, val, None)}

    def _error(self, params: Tensors, batch: Tensors, noise: Noise | None) -> Tensor:
        forecast = functional_call(self.model, params, (batch["x"],), {"noise": noise})
        return (forecast - batch["y"]).square().mean()


def train_forecaster(
    parts: Mapping[str, Windows],
    config: TrainConfig,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: bool = True,
) -> tuple[Forecaster, dict[str, float]]:
    """Train a forecaster, keep its best epoch on validation data, and score it on the test windows.

    Args:
        parts: `train`, `val` and `test` windows.
        config: How to train; its `attempts` plays no part.
        seed: Seed of weights, data order and dropout.
        device: Where to train.
        progress: Whether to show a progress bar.

    Returns:
        The model, and its `mse` on the test windows beside `mse_persistence`, that of repeating the last value.
    """
    tensors = {name: _tensors(part) for name, part in parts.items()}
    x, y = tensors["train"]["x"], tensors["train"]["y"]
    shape = {"n_channels": x.shape[2], "n_classes": y.shape[1], "n_steps": x.shape[1]}
    model = initialised("forecaster", {**shape, **config.model}, seed)
    assert isinstance(model, Forecaster)
    member = engine.Member(
        params={name: p.detach() for name, p in model.named_parameters()},
        frozen={},
        train=tensors["train"],
        val=tensors["val"],
        lr=config.lr,
        weight_decay=config.weight_decay,
        seed=seed,
    )
    schedule = engine.Schedule(
        epochs=config.epochs, batch_size=config.batch_size, patience=config.patience, warmup=config.warmup, decay=config.decay
    )
    with training_bar("forecaster", progress) as on_epoch:
        (run,) = engine.train(Forecasting(model), [member], schedule, device=device, on_epoch=on_epoch)
    model.load_state_dict(run.selected())
    test = tensors["test"]
    error = (torch.from_numpy(forecast(model, test["x"].numpy(), device)) - test["y"]).square().mean()
    persistence = (last_value(test["x"], None) - test["y"]).square().mean()
    return model.cpu().eval(), {"mse": float(error), "mse_persistence": float(persistence)}


@torch.no_grad()
def forecast(model: ReferenceModel, x: NDArray[np.float32], device: torch.device | str = "cpu") -> NDArray[np.float32]:
    """Forecasts of windows (N, T, D), as (N, H)."""
    model = model.to(device).eval()
    rows = [model(torch.as_tensor(x[i : i + CHUNK], device=device)).cpu() for i in range(0, len(x), CHUNK)]
    return torch.cat(rows).numpy()


def _tensors(part: Windows) -> Tensors:
    y = torch.as_tensor(np.ascontiguousarray(part.y))
    return {"x": torch.as_tensor(np.ascontiguousarray(part.x)), "y": y.reshape(len(y), -1)}
