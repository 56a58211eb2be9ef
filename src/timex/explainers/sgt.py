"""Saliency-guided training, then gradients (Ismail et al., 2021).

Shapes: B samples, T time steps, D channels, C classes, F = T * D cells.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from timex import engine
from timex.engine import Noise, Tensors
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.progress import training_bar
from timex.records import Series
from timex.reference.beside import beside
from timex.settings import Settings, setting

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SGTConfig(Settings):
    """Settings of `SGTGrad`."""

    masked: float = setting(
        0.5, "Share of the cells, those of the lowest gradient, that are replaced; the authors' usual value.", above=0, below=1
    )
    weight: float = setting(1.0, "Weight of the divergence; the authors' lambda.", least=0)
    epochs: int = setting(
        20,
        "Epochs at most; the one of the best validation loss is kept. Few, as training starts from the trained model.",
        least=1,
    )
    lr: float = setting(5e-4, "Learning rate; ours.", above=0)
    weight_decay: float = setting(0.01, "Decoupled weight decay, as for the reference models.", least=0)
    batch_size: int = setting(64, "Samples in a step.", least=1)
    seed: int = setting(0, "Seed of data order, dropout and noise.")


@dataclass(frozen=True, kw_only=True)
class SGTReport:
    """Figures of the training, on validation data."""

    kl_first: float
    """Divergence between the prediction of whole and of masked series before the training."""
    kl_last: float
    """The same divergence after the training."""
    agreement: float
    """Share of samples for which the retrained model and the reference predict the same class."""


class SaliencyGuided:
    """The engine's program: cross-entropy, and the divergence of the prediction without the cells of low gradient."""

    stackable = False  # it takes gradients inside the loss, and may train a foreign module

    def __init__(self, model: nn.Module, config: SGTConfig) -> None:
        self.model, self.config = model, config

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """CE(f(x), y) + weight * KL(f(x) || f(masked x))."""
        return self._terms(params, batch, noise, noise)

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The loss on validation data, without dropout and with the same noise in every epoch."""
        with torch.enable_grad():  # the mask depends on gradients
            terms = self._terms(params, val, noise, None)
        agree = (self._logits(params, val["x"], val, None).argmax(-1) == val["predicted"]).float().mean()
        return {"criterion": terms["loss"].detach(), "val_kl": terms["kl"].detach(), "val_agreement": agree}

    def _terms(self, params: Tensors, batch: Tensors, noise: Noise, dropout: Noise | None) -> Tensors:
        x = batch["x"].detach().requires_grad_()
        logits = self._logits(params, x, batch, dropout)
        chosen = logits.gather(1, batch["y"][:, None]).sum()
        (gradient,) = torch.autograd.grad(chosen, x, retain_graph=True)
        masked = mask_lowest(batch["x"], gradient.abs(), self.config.masked, noise, batch.get("observed"))
        other = self._logits(params, masked, batch, dropout)
        kl = F.kl_div(other.log_softmax(-1), logits.log_softmax(-1), reduction="batchmean", log_target=True)
        ce = F.cross_entropy(logits, batch["y"])
        return {"loss": ce + self.config.weight * kl, "ce": ce, "kl": kl}

    def _logits(self, params: Tensors, x: Tensor, batch: Tensors, dropout: Noise | None) -> Tensor:
        with beside(batch):
            return functional_call(self.model, params, (x, batch.get("times"), batch.get("observed")), {"noise": dropout})


def mask_lowest(x: Tensor, score: Tensor, share: float, noise: Noise, observed: Tensor | None = None) -> Tensor:
    """Replace the share of cells of the lowest score by uniform noise between the least and greatest value of the sample.

    Args:
        x: Series, (B, T, D).
        score: One score per cell, (B, T, D).
        share: Share of the existing cells to replace.
        noise: Source of the noise.
        observed: Cells that exist; all by default. The rest stay unchanged.
    """
    seen = torch.ones_like(x, dtype=torch.bool) if observed is None else observed
    rank = score.masked_fill(~seen, torch.inf).flatten(1).argsort(1).argsort(1).view_as(x)  # those that do not exist last
    number = (share * seen.flatten(1).sum(1)).round()[:, None, None]
    low = x.masked_fill(~seen, torch.inf).amin((1, 2), keepdim=True)
    high = x.masked_fill(~seen, -torch.inf).amax((1, 2), keepdim=True)
    uniform = low + noise.uniform(*x.shape) * (high - low)
    return torch.where((rank < number) & seen, uniform, x)


class Retrained(NamedTuple):
    """The retrained copy of the model, what the training did to it, and (T, D) of the series."""

    model: nn.Module
    report: SGTReport
    shape: tuple[int, ...]


class SGTGrad(Explainer[Retrained]):
    """|Gradient| of a copy of the model, retrained to ignore cells of low gradient (Ismail et al., 2021).

    The retrained model G minimises CE(G(x), y) + weight * KL(G(x) || G(x_masked)). In x_masked, uniform noise in the range of
    the sample replaces the share `masked` of the cells, those of the lowest gradient. Training starts from the model itself.
    The score is |dG_c / dx(t, d)|, c the class that the reference predicts.

    The scores explain the *retrained* model, as in the paper. `fitted.report.agreement` is the share of validation samples
    for which both models predict the same class. Assumes labels, or the reference's predictions in their place.
    """

    name = "sgt_grad"
    cost = "1"
    numbers = "none"
    config_class = SGTConfig
    config: SGTConfig
    needs_fit = True
    needs_gradients = True

    def _fit(self, series: Series, held_out: Series | None, progress: bool) -> Retrained:
        c = self.config
        train, val = self.training_tensors(series, held_out)
        # Our models draw dropout from `noise`; train mode is for cuDNN, which takes no gradient of a recurrent layer otherwise.
        retrained = copy.deepcopy(self.model).train()
        params = {name: p.detach() for name, p in retrained.named_parameters()}
        held = {**val, "predicted": self.predictions(val).argmax(-1)}
        program = SaliencyGuided(retrained, c)
        member = engine.Member(
            params=params, frozen={}, train=train, val=held, lr=c.lr, weight_decay=c.weight_decay, seed=c.seed
        )
        schedule = engine.Schedule(epochs=c.epochs, batch_size=c.batch_size, decay=True)
        first = self._divergence(program, params, held)
        with training_bar("saliency-guided training", progress) as on_epoch:
            run = engine.train(program, [member], schedule, device=self.device, on_epoch=on_epoch)[0]
        retrained.load_state_dict(run.selected(), strict=False)  # buffers stay
        retrained.eval()
        chosen = run.history[run.epoch]
        report = SGTReport(kl_first=first, kl_last=chosen["val_kl"], agreement=chosen["val_agreement"])
        if report.agreement < 0.9:
            log.warning(
                "SGT: the retrained model predicts the reference's class for %.0f %% of the validation samples: its gradients "
                "explain another model",
                100 * report.agreement,
            )
        return Retrained(retrained, report, series.shape[1:])

    def _divergence(self, program: SaliencyGuided, params: Tensors, val: Tensors) -> float:
        """The divergence before the training, with the noise the engine will use for this seed."""
        on_device = {name: v.to(self.device) for name, v in val.items()}
        key = engine.mix(torch.tensor(self.config.seed, device=self.device))
        scores = program.criterion({n: p.to(self.device) for n, p in params.items()}, {}, on_device, {}, Noise(engine.mix(key)))
        return float(scores["val_kl"])

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        x = batch.x.clone().requires_grad_()
        logits = self.fitted.model(x, batch.times, batch.observed)
        (gradient,) = torch.autograd.grad(logits.gather(1, batch.target[:, None]).sum(), x)
        return {"attribution": gradient.abs()}
