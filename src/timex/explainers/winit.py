"""WinIT (Leung et al., 2023): what a cell adds to the effect of replacing a window of its channel.

Shapes: B samples, T time steps, D channels, C classes, W steps of a window, R draws, Q windows, H units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from timex import engine
from timex.engine import Noise, Tensors, normal_from_uniform
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.progress import training_bar
from timex.records import Series
from timex.reference.base import ReferenceModel
from timex.reference.blackbox import BlackBox
from timex.reference.lstm import leave_weights_in_place
from timex.reference.wrapped import Wrapped
from timex.settings import Settings, setting

SHORTEST = 8
"""Steps of the shortest series that a model receives: our CNN pools three times."""
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
MIN_STD = 1e-3
"""Smallest deviation of a forecast, in deviations of the channel. It keeps the likelihood bounded."""


@dataclass(frozen=True, kw_only=True)
class WinITConfig(Settings):
    """Settings of `WinIT`: window, draws and measure are those of the TimeX paper, the training of the generators is ours."""

    window: int = setting(10, "Longest window, in steps.", least=1)
    draws: int = setting(3, "Replacements drawn for each window.", least=1)
    past_only: bool | None = setting(
        None,
        "Whether the model predicts from the steps up to the end of a window, as the authors define it, or from the whole "
        "series. None: the former for our own models, the latter for foreign ones, which may not read shorter series.",
    )
    hidden: int = setting(50, "Units of the GRU of a generator.", least=1)
    epochs: int = setting(30, "Epochs of training a generator, at most; the best on validation data is kept.", least=1)
    patience: int | None = setting(
        5, "Epochs without a better likelihood after which a generator stops; None for all.", least=1
    )
    lr: float = setting(3e-3, "Learning rate of the generators.", above=0)
    batch_size: int = setting(128, "Samples in a step of training the generators.", least=1)
    seed: int = setting(0, "Seed of weights, data order and draws.")


@dataclass(frozen=True, kw_only=True)
class WinITReport:
    """Figures of the training of the generators, one per channel."""

    nll: tuple[float, ...]
    """Negative log-likelihood per cell on validation data, channels at deviation 1; about 1.42 without knowing the past."""
    epochs: tuple[int, ...]
    """The epoch that is kept."""


class Generator(nn.Module):
    """Forecasts the next W values of one channel from the past of all, as independent Gaussians.

    Args:
        n_channels: D.
        window: W.
        hidden: H.
    """

    def __init__(self, n_channels: int, window: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(n_channels, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2 * window)
        leave_weights_in_place(self)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of steps s .. s + W - 1 given those before s, for every s: (B, T, D) -> two (B, T, W)."""
        h, _ = self.gru(x[:, :-1])
        h = torch.cat([torch.zeros_like(h[:, :1]), h], 1)  # nothing is known before the first step
        mean, raw = self.head(h).chunk(2, -1)
        return mean, nn.functional.softplus(raw) + MIN_STD


class Forecast:
    """The engine's program for one generator: Gaussian likelihood of every window of its channel."""

    stackable = False  # torch.vmap has no rule for recurrent layers

    def __init__(self, generator: Generator, window: int) -> None:
        self.generator, self.window = generator, window

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Mean negative log-likelihood of the existing cells."""
        mean, std = functional_call(self.generator, params, (batch["x"],))
        channel = frozen["channel"]
        future = ahead(batch["x"].index_select(2, channel)[..., 0], self.window)  # (B, T, W)
        exists = ahead(batch["seen"].index_select(2, channel)[..., 0], self.window)
        nll = std.log() + ((future - mean) / std) ** 2 / 2 + HALF_LOG_TAU
        return {"loss": (nll * exists).sum() / exists.sum().clamp(min=1)}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The negative log-likelihood on validation data."""
        return {"criterion": self.loss(params, frozen, val, hyper, noise)["loss"]}


def ahead(x: Tensor, window: int) -> Tensor:
    """The values at s .. s + W - 1 for every s, zeros beyond the end: (B, T) -> (B, T, W)."""
    return nn.functional.pad(x, (0, window - 1)).unfold(1, window, 1)


def scaled(data: Tensors, mean: Tensor, std: Tensor) -> Tensors:
    """Channels at mean 0 and deviation 1, zero where nothing was measured."""
    seen = data.get("observed", torch.ones_like(data["x"], dtype=torch.bool))
    return {"x": torch.where(seen, (data["x"] - mean) / std, 0.0), "seen": seen.float()}


class Forecasters(NamedTuple):
    """One generator per channel, mean and deviation of the channels, figures of the training, and (T, D) of the series."""

    generators: nn.ModuleList
    mean: Tensor
    std: Tensor
    report: WinITReport
    shape: tuple[int, ...]


class WinIT(Explainer[Forecasters]):
    """What a cell adds to the effect of replacing a window of its channel (Leung et al., 2023).

        score(t, k) = mean over e = t .. min(t + window, T) - 1 of S(k, t, e) - S(k, t + 1, e)

    S(k, s, e) is the expected L1 change of the class probabilities when channel k at steps s .. e is replaced by draws of a
    generator that knows the steps before s. The authors explain one prediction per step, made from the steps up to e. Our
    classifiers predict once per series, but also accept the steps up to e (`past_only`).

    One generator (a GRU with Gaussian output) per channel is fitted to forecast W steps from the past of all channels. Windows
    with the same start share their draws, and windows with the same end share the prediction for the whole series.

    Scores have no direction, but may fall below 0 where a longer window changes less. They do not depend on the explained
    class. Assumes that the future of a channel can be forecast; where it cannot, draws are noise.
    """

    name = "winit"
    cost = "T + draws * D * sum(min(window, t + 1) for t in range(T))"
    numbers = "none"
    config_class = WinITConfig
    config: WinITConfig
    needs_fit = True
    takes_target = True

    def _fit(self, series: Series, held_out: Series | None, progress: bool) -> Forecasters:
        c = self.config
        train, val = self.training_tensors(series, held_out)
        d = train["x"].shape[2]
        seen = train.get("observed", torch.ones_like(train["x"], dtype=torch.bool))
        number = seen.sum((0, 1)).clamp(min=1)
        mean = (train["x"] * seen).sum((0, 1)) / number  # (D,)
        std = (((train["x"] - mean) ** 2 * seen).sum((0, 1)) / number).sqrt().clamp(min=1e-6)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(c.seed)
            generators = [Generator(d, c.window, c.hidden) for _ in range(d)]
        inputs, held = scaled(train, mean, std), scaled(val, mean, std)
        members = [
            engine.Member(
                params={name: p.detach() for name, p in generator.named_parameters()},
                frozen={"channel": torch.tensor([k])},
                train=inputs,
                val=held,
                lr=c.lr,
                seed=c.seed,
            )
            for k, generator in enumerate(generators)
        ]
        schedule = engine.Schedule(epochs=c.epochs, batch_size=c.batch_size, patience=c.patience, decay=True)
        forecasters = nn.ModuleList(generators).to(self.device)
        program = Forecast(generators[0], c.window)
        with training_bar("WinIT generators", progress) as on_epoch:
            runs = engine.train(program, members, schedule, device=self.device, on_epoch=on_epoch)
        for generator, run in zip(forecasters, runs, strict=True):
            generator.load_state_dict(run.selected())
        forecasters.requires_grad_(False)
        report = WinITReport(nll=tuple(run.criterion for run in runs), epochs=tuple(run.epoch for run in runs))
        return Forecasters(forecasters, mean.to(self.device), std.to(self.device), report, series.shape[1:])

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.draws * self.config.window * shape[-1]

    @torch.no_grad()
    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        past_only = reads_any_length(self.model) if self.config.past_only is None else self.config.past_only
        b, t, d = batch.x.shape
        draws = self._draws(batch)  # (B, R, T, W, D)
        effect = batch.x.new_zeros(b, t + 1, self.config.window + 1, d)  # S by start, length and channel; 0 for no window
        for end in range(t):
            part = up_to(batch, end) if past_only else batch
            before = self.logits(part.x, part.times, part.observed).softmax(-1)[:, None]  # (B, 1, C)
            start = torch.arange(max(0, end + 1 - self.config.window), end + 1, device=batch.x.device)  # (Q,)
            copies = replace_windows(part, draws, start, end)  # (B, R * Q * D, T, D)
            change = (self.logits_of_copies(copies, part).softmax(-1) - before).abs().sum(-1)
            effect[:, start, end + 1 - start] = change.unflatten(1, (-1, len(start), d)).mean(1)
        return {"attribution": window_differences(effect)}

    def _draws(self, batch: Batch) -> Tensor:
        """Replacements for the W steps from every start, (B, R, T, W, D), in the units of x."""
        fitted = self.fitted
        inputs = {"x": batch.x} if batch.observed is None else {"x": batch.x, "observed": batch.observed}
        x = scaled(inputs, fitted.mean, fitted.std)["x"]
        forecasts = [generator(x) for generator in fitted.generators]
        mean, std = (torch.stack(v, -1)[:, None] for v in zip(*forecasts, strict=True))  # (B, 1, T, W, D)
        noise = normal_from_uniform(uniform_per_sample(self.config.seed, batch.place, self.config.draws, *mean.shape[2:]))
        return (mean + std * noise) * fitted.std + fitted.mean


def reads_any_length(model: nn.Module) -> bool:
    """Whether a model is known to accept series shorter than those of its training: models of `timex.reference` are."""
    return isinstance(model, ReferenceModel) and not isinstance(model, Wrapped | BlackBox)


def up_to(batch: Batch, end: int) -> Batch:
    """The batch up to step `end`; shorter series are padded to `SHORTEST` steps with unobserved cells."""
    t = batch.x.shape[1]
    length = min(t, max(end + 1, SHORTEST))
    known = (torch.arange(length, device=batch.x.device) <= end)[:, None]  # (L, 1)
    observed = None if batch.observed is None else batch.observed[:, :length] & known
    if observed is None and length > end + 1:
        observed = known.expand(len(batch.x), -1, batch.x.shape[2])
    times = None if batch.times is None else batch.times[:, :length]
    return batch._replace(x=batch.x[:, :length] * known, times=times, observed=observed)


def replace_windows(batch: Batch, draws: Tensor, start: Tensor, end: int) -> Tensor:
    """Copies of every series with one window of one channel replaced each, by draw, window and channel: (B, R * Q * D, T, D).

    Args:
        batch: The series, (B, T, D), T being the steps known; cells that were not observed stay.
        draws: Replacements from every start, (B, R, T or more, W, D).
        start: First steps of the windows, (Q,).
        end: Their last step.
    """
    x = batch.x
    step = torch.arange(x.shape[1], device=x.device)
    inside = ((step >= start[:, None]) & (step <= end))[..., None]  # (Q, T, 1)
    if batch.observed is not None:
        inside = inside & batch.observed[:, None, None]  # (B, 1, Q, T, D)
    new = draws[:, :, start[:, None], (step - start[:, None]).clamp(0, draws.shape[3] - 1)]  # (B, R, Q, T, D)
    changed = torch.where(inside, new, x[:, None, None])
    one = torch.eye(x.shape[2], dtype=torch.bool, device=x.device)[:, None]  # (D, 1, D): a copy for every channel
    return torch.where(one, changed[:, :, :, None], x[:, None, None, None]).flatten(1, 3)


def window_differences(effect: Tensor) -> Tensor:
    """Mean over the windows that start at a cell of what the cell adds: S(t, l) - S(t + 1, l - 1), (B, T, D).

    Args:
        effect: S by start (T + 1), length (0..W) and channel, (B, T + 1, W + 1, D); 0 where there is no window.
    """
    added = effect[:, :-1, 1:] - effect[:, 1:, :-1]  # (B, T, W, D); 0 for windows that do not fit
    t, w = added.shape[1:3]
    number = torch.arange(t, 0, -1, device=effect.device).clamp(max=w)
    return added.sum(2) / number[:, None]
