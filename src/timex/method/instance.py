"""The objective of TimeX++ (Liu et al., 2024): an in-distribution series made from the kept cells must keep the prediction.

Shapes: B samples, T time steps, D channels, C classes (or outputs of a forecast), W the width of the conditioner.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from timex.engine import Noise, Tensors
from timex.method import losses
from timex.method.config import MaskConfig, TimeXConfig
from timex.method.masking import bernoulli_straight_through, direct_value, filled
from timex.method.model import CONDITIONER, TimeXModel
from timex.method.objective import CONNECTIVITY, FROZEN
from timex.reference.base import ReferenceModel
from timex.reference.beside import beside
from timex.settings import Settings, setting

VARIANCE_EPS = 1e-6
"""Added to variances, for cells that are the same in every series."""


@dataclass(frozen=True, kw_only=True)
class InstanceConfig(Settings):
    """The weights of the terms that TimeX++ adds."""

    lam_pull: float = setting(
        1.0, "Weight of the distance between the made series and x with its hidden cells filled.", least=0, scalar=True
    )
    lam_close: float = setting(
        1.0, "Weight of the divergence of the made series from the training series.", least=0, scalar=True
    )


@dataclass(frozen=True, kw_only=True)
class PlusConfig(TimeXConfig):
    """Settings of `TimeXPlus`: those of TimeX with the objective of TimeX++, and the weights of its own terms.

    The weights in `loss` are those of the TimeX paper, on which TimeX++ builds.

    Example:
        >>> PlusConfig(epochs=5).replaced({"instance.lam_pull": 2.0}).instance.lam_pull
        2.0
    """

    objective: Literal["instance"] = setting("instance", "The objective of TimeX++.")
    epochs: int | None = setting(20, "Passes over the training series.", least=1)
    smoothing: int | None = setting(0, "As in TimeX; TimeX++ does not smooth its explanations.", least=0)
    mask: MaskConfig = field(default_factory=lambda: MaskConfig(fill="draw"))
    instance: InstanceConfig = field(default_factory=InstanceConfig)


class InstanceObjective:
    """lam_lc * lc + lam_pull * pull + lam_close * close + lam_e * (l_m + lam_con * l_con).

    A mask m ~ Bernoulli(p) is drawn straight through, and the conditioner makes the series x~ = MLP(x, m), cell by cell:

        lc    = mean JS(F(x), F(x~)), F the frozen model
        pull  = mean (x~ - (m x + (1 - m) b))^2 / var, b ~ N(mu, sigma^2) from the training series
        close = mean over cells of KL(N(mu~, sigma~^2) || N(mu, sigma^2)), moments of the batch and of the training data

    and l_m, l_con are the size and connectivity of TimeX. There is no surrogate in it: the frozen model itself answers. The
    moments in the divergence, and distances in units of the channel's variance, are ours: the paper leaves both open.

    Args:
        model: Its generator and conditioner are trained; only their structure is used.
        reference: The frozen model; only its structure is used, its weights come as `frozen`.
        config: Which connectivity; the weights come as `hyper`, so that members may differ in them.
        fill: What hidden cells hold in the series that x~ is pulled to.
    """

    def __init__(self, model: TimeXModel, reference: ReferenceModel, config: TimeXConfig, fill: str) -> None:
        self.model, self.reference, self.fill = model, reference, fill
        self.stackable = model.encoder.stackable
        self.connectivity = CONNECTIVITY[config.loss.connectivity]
        self.label = losses.label_consistency_mse_instance if config.forecasts else losses.label_consistency_instance

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term on one batch."""
        return self._terms(params, frozen, batch, hyper, noise, noise)

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The loss on validation data without dropout, with the same draws every epoch."""
        terms = self._terms(params, frozen, val, hyper, noise, None)
        return {"criterion": terms["loss"], **{f"val_{name}": v for name, v in terms.items() if name != "loss"}}

    def _terms(
        self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, sample: Noise, noise: Noise | None
    ) -> Tensors:
        x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
        own = {name: v for name, v in params.items() if not name.startswith(CONDITIONER)}
        p = functional_call(self.model.generator, own, (x, times, observed, noise))
        mask = bernoulli_straight_through(p, sample.uniform(*p.shape), hyper["tau"])
        made = conditioned(self.model.conditioner, params, x, mask)
        wanted = direct_value(x, mask, filled(self.fill, x, frozen["mean"], frozen["std"], sample))
        if observed is not None:
            made, wanted, p = (torch.where(observed, v, 0.0) for v in (made, wanted, p))
        with beside(batch):
            answers = self._answers(frozen, made, times, observed)
        terms = {
            "lc": self.label(batch["logits"], answers),
            "pull": pull(made, wanted, frozen["std"], observed),
            "close": divergence_of_moments(made, frozen["mean"], frozen["std"], observed),
            "l_m": losses.mask_kl(p, hyper["r"], observed),
            "l_con": self.connectivity(p, observed),
        }
        total = hyper["lam_lc"] * terms["lc"] + hyper["lam_pull"] * terms["pull"] + hyper["lam_close"] * terms["close"]
        total = total + hyper["lam_e"] * (terms["l_m"] + hyper["lam_con"] * terms["l_con"])
        return {"loss": total, **terms, "kept": p.mean()}

    def _answers(self, frozen: Tensors, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        weights = {n.removeprefix(FROZEN): v for n, v in frozen.items() if n.startswith(FROZEN)}
        answers = functional_call(self.reference, weights, (x, times, observed), tie_weights=not self.stackable)
        assert isinstance(answers, Tensor)
        return answers


def conditioned(conditioner: nn.Module | None, params: Tensors, x: Tensor, mask: Tensor) -> Tensor:
    """The series that the conditioner makes with the weights of `params`, (B, T, D)."""
    assert conditioner is not None  # the models of this objective have one
    weights = {name.removeprefix(CONDITIONER): v for name, v in params.items() if name.startswith(CONDITIONER)}
    made = functional_call(conditioner, weights, (x, mask))
    assert isinstance(made, Tensor)
    return made


def pull(made: Tensor, wanted: Tensor, std: Tensor, observed: Tensor | None = None) -> Tensor:
    """The mean squared distance of two series (B, T, D), in units of the variance of each channel.

    Args:
        made: Series, (B, T, D).
        wanted: What they are pulled to, (B, T, D).
        std: Standard deviation of every cell over the training series, (T, D).
        observed: Measured cells, (B, T, D); the mean is taken over these.

    Example:
        >>> float(pull(torch.tensor([[[3.0], [1.0]]]), torch.tensor([[[1.0], [1.0]]]), torch.tensor([[1.0], [1.0]])))
        1.9999980926513672
    """
    unit = std.square().mean(0) + VARIANCE_EPS  # (D)
    return _mean((made - wanted).square() / unit, observed)


def divergence_of_moments(made: Tensor, mean: Tensor, std: Tensor, observed: Tensor | None = None) -> Tensor:
    """KL(N(m, s^2) || N(mean, std^2)) of the moments m, s of a batch of series, averaged over cells and channels.

    log(std / s) + (s^2 + (m - mean)^2) / (2 std^2) - 1/2, each variance raised by the channel's mean variance times 1e-3, as a
    cell that is the same in every series would make any difference infinite.

    Args:
        made: Series, (B, T, D).
        mean: Mean of every cell over the training series, (T, D).
        std: Its standard deviation, (T, D).
        observed: Measured cells, (B, T, D); a cell that no series measured is left out.
    """
    seen = torch.ones_like(made) if observed is None else observed.to(made.dtype)
    count = seen.sum(0)
    m = (made * seen).sum(0) / count.clamp_min(1)
    var = ((made - m).square() * seen).sum(0) / count.clamp_min(1)
    floor = 1e-3 * std.square().mean(0) + VARIANCE_EPS
    var, wanted = var + floor, std.square() + floor
    kl = 0.5 * ((wanted / var).log() + (var + (m - mean).square()) / wanted - 1)
    return _mean(kl, None if observed is None else count > 0)


def _mean(values: Tensor, chosen: Tensor | None) -> Tensor:
    return values.mean() if chosen is None else (values * chosen).sum() / chosen.sum().clamp_min(1)
