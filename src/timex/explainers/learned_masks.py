"""Masks with learned perturbations: a network gives the values that replace hidden cells, instead of zero or a blur.

Both methods optimise a mask per sample so that Phi = m * x + (1 - m) * r(x) keeps the explained class. Their authors train
the network r anew with the masks of every explained batch, so a mask depends on the other samples. Here `fit` trains r with
masks of training series, and `explain` optimises the masks alone: equal samples get equal masks.

Shapes: B samples, T time steps, D channels, C classes, P series of a class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.engine import normal_from_uniform
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.records import Series
from timex.settings import Settings, setting

START = 0.5
"""Value of every cell of a mask before the first step."""


@dataclass(frozen=True, kw_only=True)
class LearnedMaskConfig(Settings):
    """Settings of masks with a learned perturbation."""

    steps: int = setting(100, "Steps of Adam on the masks of the explained series.", least=1)
    fit_steps: int = setting(100, "Steps of Adam on the network and the masks of training series.", least=1)
    lr: float = setting(0.05, "Learning rate of the masks.", above=0)
    network_lr: float = setting(0.01, "Learning rate of the network.", above=0)
    hidden: int = setting(16, "Width of the recurrent network, in each direction.", least=1)
    n_fit: int = setting(256, "Training series that the network is trained on, at most.", least=4)
    size_weight: float = setting(1.0, "Weight of the size of the mask.", least=0)
    seed: int = setting(0, "Seed of the network and of the chosen training series.")


class Perturbation(nn.Module):
    """r(x): a bidirectional GRU and a linear layer, (B, T, D) -> (B, T, D)."""

    def __init__(self, n_channels: int, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.GRU(n_channels, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, n_channels)

    def forward(self, x: Tensor) -> Tensor:
        """The values that replace hidden cells."""
        found: Tensor = self.out(self.recurrent(x)[0])
        return found


class Learned(NamedTuple):
    """The networks that `fit` trained, and (T, D) of the series."""

    networks: nn.ModuleDict
    shape: tuple[int, ...]


class LearnedMask(Explainer[Learned]):
    """The optimisation of both methods: subclasses define the mask, its size, and the loss of the perturbation.

    Per sample, Adam minimises CE(F(Phi), c) + size_weight * size(m). The losses of samples are summed, so the samples do not
    affect each other.
    """

    cost = "steps"
    numbers = "none"
    needs_fit = True
    needs_gradients = True
    config: LearnedMaskConfig

    def _networks(self, n_channels: int) -> nn.ModuleDict:
        return nn.ModuleDict({"perturbation": Perturbation(n_channels, self.config.hidden)})

    def _mask(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict, step: int | None) -> Tensor:
        """The mask (B, T, D) from the optimised values, at a step; None for the final mask."""
        raise NotImplementedError(f"{type(self).__name__} must define _mask")

    def _size(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict) -> Tensor:
        """The contribution of every cell to the size of the mask, (B, T, D)."""
        raise NotImplementedError(f"{type(self).__name__} must define _size")

    def _perturbation_loss(self, r: Tensor, batch: Batch) -> Tensor:
        """The loss that keeps the perturbation uninformative while it is trained."""
        raise NotImplementedError(f"{type(self).__name__} must define _perturbation_loss")

    def _fit(self, train: Series, val: Series | None, progress: bool) -> Learned:
        c = self.config
        kept = self.training_tensors(train, val)[0]
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(c.seed)
            networks = self._networks(train.shape[2]).to(self.device)
        order = torch.randperm(len(kept["x"]), generator=torch.Generator().manual_seed(c.seed))
        n = min(c.n_fit, self._rows(train.shape))
        for batch in self.batches({name: v[order[:n]] for name, v in kept.items()}):  # a single batch, as n series fit into it
            self._train(networks, batch)
        return Learned(networks.requires_grad_(False), train.shape[1:])

    def _train(self, networks: nn.ModuleDict, batch: Batch) -> None:
        """Train the networks with masks of the series of a batch."""
        c = self.config
        raw = torch.full_like(batch.x, START, requires_grad=True)
        optimiser = torch.optim.Adam(
            [{"params": [raw], "lr": c.lr}, {"params": list(networks.parameters()), "lr": c.network_lr}]
        )
        for step in range(c.fit_steps):
            r = networks["perturbation"](batch.x)
            loss = self._loss(raw, r, batch, networks, step).sum() + len(raw) * self._perturbation_loss(r, batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        networks = self.fitted.networks
        with torch.no_grad():
            r = networks["perturbation"](batch.x)
        with torch.enable_grad():
            raw = torch.full_like(batch.x, START, requires_grad=True)
            optimiser = torch.optim.Adam([raw], lr=self.config.lr)
            for step in range(self.config.steps):
                (raw.grad,) = torch.autograd.grad(self._loss(raw, r, batch, networks, step).sum(), raw)
                optimiser.step()
        return {"attribution": self._mask(raw.detach(), batch, networks, None)}

    def _loss(self, raw: Tensor, r: Tensor, batch: Batch, networks: nn.ModuleDict, step: int) -> Tensor:
        """Cross-entropy and size of every sample, (B,)."""
        mask = self._mask(raw, batch, networks, step)
        phi = mask * batch.x + (1 - mask) * r
        if batch.observed is not None:
            phi = torch.where(batch.observed, phi, batch.x)
        error = F.cross_entropy(self.logits(phi, batch.times, batch.observed), batch.target, reduction="none")
        return error + self.config.size_weight * mean_of_cells(self._size(raw, batch, networks), batch.observed)


def mean_of_cells(values: Tensor, observed: Tensor | None) -> Tensor:
    """The mean over the measured cells of every sample, (B,)."""
    if observed is None:
        return values.mean((1, 2))
    return (values * observed).sum((1, 2)) / observed.sum((1, 2)).clamp_min(1)


# -------------------------------------------------------------------------------------------------------- extremal masks


@dataclass(frozen=True, kw_only=True)
class ExtremalMaskConfig(LearnedMaskConfig):
    """Settings of `ExtremalMask`; the weights are those of the paper's experiments."""

    perturbation_weight: float = setting(1.0, "Weight of the size of the perturbation.", least=0)


class ExtremalMask(LearnedMask):
    """Masks that keep few cells and replace the others by the output of a network (after Enguehard, 2023).

    min over m and r of CE(F(m x + (1 - m) r(x)), c) + size_weight * mean |m| + perturbation_weight * mean |r(x)|, m in [0, 1]:
    the preservation game. The last term keeps r near zero, so that it cannot carry the class itself. Assumes that zero is a
    neutral value of the data.
    """

    name = "extremal_mask"
    config_class = ExtremalMaskConfig
    config: ExtremalMaskConfig

    def _mask(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict, step: int | None) -> Tensor:
        return clipped(raw)

    def _size(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict) -> Tensor:
        return clipped(raw)

    def _perturbation_loss(self, r: Tensor, batch: Batch) -> Tensor:
        return self.config.perturbation_weight * mean_of_cells(r.abs(), batch.observed).mean()


def clipped(raw: Tensor) -> Tensor:
    """`raw` clipped to [0, 1], with a gradient of 1 outside too, so that a cell can return."""
    return raw + (raw.clamp(0, 1) - raw).detach()


# ------------------------------------------------------------------------------------------------------------- ContraLSP


@dataclass(frozen=True, kw_only=True)
class ContraLSPConfig(LearnedMaskConfig):
    """Settings of `ContraLSP`."""

    noise: float = setting(0.5, "Standard deviation of the noise of the gates while they are optimised.", above=0)
    contrast_weight: float = setting(1.0, "Weight of the triplet loss of the counterfactuals.", least=0)
    margin: float = setting(0.0, "Margin of the triplet loss.", least=0)


class ContraLSP(LearnedMask):
    """Sparse gates between the series and a counterfactual of another class, learned by contrast (after Liu et al., 2024).

    The gate of a cell is m = clip(mu' + e, 0, 1), e ~ N(0, noise^2), mu' = mu * sigmoid(trend(x) * mu). Its size is the
    probability that it is open, 1/2 + erf(mu' / (sqrt 2 noise)) / 2. The counterfactual r(x) is trained with

        max(0, D_other - D_own + margin) + mean |r(x)|

    D_other and D_own are its mean absolute distances from training series of other classes and of the same class. A hidden
    cell then looks like a cell of another class. The authors cluster the outputs; here the predicted class is the cluster. The
    final mask has no noise.
    """

    name = "contralsp"
    config_class = ContraLSPConfig
    config: ContraLSPConfig

    def _networks(self, n_channels: int) -> nn.ModuleDict:
        trend = nn.Sequential(nn.Linear(n_channels, self.config.hidden), nn.ReLU(), nn.Linear(self.config.hidden, n_channels))
        return nn.ModuleDict({**super()._networks(n_channels), "trend": trend})

    def _mask(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict, step: int | None) -> Tensor:
        gate = self._gate(raw, batch, networks)
        if step is None:
            return gate.clamp(0, 1)
        uniform = uniform_per_sample(self.config.seed + 7919 * (step + 1), batch.place, *batch.x.shape[1:])
        return clipped(gate + self.config.noise * normal_from_uniform(uniform))

    def _size(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict) -> Tensor:
        return open_probability(self._gate(raw, batch, networks), self.config.noise)

    def _gate(self, raw: Tensor, batch: Batch, networks: nn.ModuleDict) -> Tensor:
        """Mu' = mu * sigmoid(trend(x) * mu), (B, T, D)."""
        return raw * (networks["trend"](batch.x) * raw).sigmoid()

    def _perturbation_loss(self, r: Tensor, batch: Batch) -> Tensor:
        small = mean_of_cells(r.abs(), batch.observed).mean()
        return self.config.contrast_weight * triplet(r, batch.x, batch.target, self.config.margin) + small


def open_probability(gate: Tensor, noise: float) -> Tensor:
    """The probability that gate + N(0, noise^2) is above 0.

    Example:
        >>> open_probability(torch.tensor([0.0, 0.5]), 0.5)
        tensor([0.5000, 0.8413])
    """
    return 0.5 + 0.5 * torch.erf(gate / (2**0.5 * noise))


def triplet(r: Tensor, x: Tensor, classes: Tensor, margin: float) -> Tensor:
    """The mean over samples of max(0, D_other - D_own + margin), a scalar.

    Args:
        r: Counterfactuals, (B, T, D).
        x: Series, (B, T, D).
        classes: The class of every series, (B,). Samples whose class is the only one count 0.
        margin: How much nearer the other classes must be.
    """
    distance = torch.cdist(r.flatten(1), x.flatten(1), p=1) / x[0].numel()  # (B, B)
    own = classes[:, None] == classes
    d_own = (distance * own).sum(1) / own.sum(1)
    others = (~own).sum(1)
    d_other = (distance * ~own).sum(1) / others.clamp_min(1)
    return ((d_other - d_own + margin).relu() * (others > 0)).mean()
