"""The evidence objective: a generator that keeps what the frozen model needs, then a surrogate of the model on its masks.

Shapes: B samples, T time steps, D channels, C classes (or outputs of a forecast), Z the width of the embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from timex.engine import Noise, Tensors, gathered
from timex.method import losses
from timex.method.config import TimeXConfig
from timex.method.masking import bernoulli_straight_through, filled
from timex.method.model import TimeXModel
from timex.method.objective import FROZEN
from timex.reference.base import ReferenceModel
from timex.reference.beside import beside, each
from timex.reference.evidence import evidence, open_share

HARD = 0.5
"""Share of the surrogate's training samples that use the mask p > .5, as explanations do; the others use a sample of p."""


class EvidenceObjective:
    """sufficiency + lam_hidden * necessity + price * log(1 + kept / free_cells) + lam_variation * variation.

    Only the generator is trained. Evidence is measured on the frozen model alone, in shares of the evidence of the whole
    series. A price therefore means the same for every model, length and number of channels: at price c, keeping e times as
    many cells has to bring at least the share c of the evidence.

    Args:
        model: Its generator is trained; only its structure is used.
        reference: The frozen model; only its structure is used, its weights come as `frozen`.
        config: Settings; numbers come as `hyper`, so that members may differ in them.
        fill: What hidden cells hold: "mean", "draw" or "shift".
    """

    def __init__(self, model: TimeXModel, reference: ReferenceModel, config: TimeXConfig, fill: str) -> None:
        self.model, self.reference, self.fill, self.forecasts = model, reference, fill, config.forecasts
        self.stackable = model.encoder.stackable

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term on one batch."""
        x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
        arguments = (x, batch.get("gradient"), batch["context"], times, observed)
        curve = functional_call(self.model.generator, params, arguments)
        price = 2 * noise.uniform(len(x), 1, 1) - 1
        logit = curve.logit(price)
        p = logit.sigmoid() if observed is None else logit.sigmoid() * observed
        sample = bernoulli_straight_through(p, noise.uniform(*p.shape))
        kept_by = torch.where(noise.uniform(len(x), 1, 1) < hyper["sampled"], sample, p)
        hidden_fill = filled(self.fill, x, frozen["mean"], frozen["std"], noise)
        kept, hidden = self._answers(frozen, batch, (kept_by, 1 - p), hidden_fill)
        spread = hyper["spread"] if self.forecasts else None
        suffices, remains = self._shares(batch["logits"], kept, hidden, batch["blank"], spread)
        size, variation = priced(p, hyper["free_cells"])
        cost = hyper["price_low"] * (hyper["price_high"] / hyper["price_low"]) ** ((price[:, 0, 0] + 1) / 2)
        terms = {"sufficiency": suffices, "necessity": remains, "size": cost * size, "variation": variation}
        weight = openness(batch["logits"], batch["blank"], self.fill, self.forecasts)
        terms = {name: (weight * value).mean() for name, value in terms.items()}
        total = terms["sufficiency"] + hyper["lam_hidden"] * terms["necessity"] + terms["size"]
        return {"loss": total + hyper["lam_variation"] * terms["variation"], **terms, "kept": p.mean()}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The loss on validation data, with the same draws every epoch."""
        terms = self.loss(params, frozen, val, hyper, noise)
        return {"criterion": terms["loss"], **{f"val_{name}": v for name, v in terms.items() if name != "loss"}}

    def _answers(
        self, frozen: Tensors, batch: Tensors, strengths: tuple[Tensor, Tensor], fill: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The frozen model's outputs for the kept and for the hidden cells, in one pass."""
        weights = {n.removeprefix(FROZEN): v for n, v in frozen.items() if n.startswith(FROZEN)}
        x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
        views = [self.model.masked(x, observed, strength, fill) for strength in strengths]
        both = [None if a is None else torch.cat([a, b]) for a, b in zip(*views, strict=True)]
        twice = [None if v is None else torch.cat([v, v]) for v in (times, observed)]
        with beside(batch), each(lambda rows: torch.cat([rows, rows])):
            out = functional_call(self.reference, weights, (both[0], *twice, both[1]), tie_weights=not self.stackable)
        kept, hidden = out.chunk(2)
        return kept, hidden

    def _shares(
        self, answer: Tensor, kept: Tensor, hidden: Tensor, blank: Tensor, spread: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The share of the evidence that the kept cells lack, and the share that the hidden cells still have, each (B,)."""
        whole, from_kept, from_hidden, none = (evidence(v, answer, spread) for v in (answer, kept, hidden, blank))
        if self.fill == "shift":  # the mean, of which the blank series consists, looks like evidence for a class
            none = none.clamp(max=0)
        unit = (whole - none).clamp_min(1)
        return (whole - from_kept).relu() / unit, (from_hidden - none).relu() / unit


def openness(answer: Tensor, blank: Tensor, fill: str, forecasts: bool) -> Tensor:
    """How much the evidence says about a sample's cells, (B,): 0 if a blank series gets its class for sure, 1 if not at all.

    A class that a blank series gets as well needs no kept cell, so its samples would teach the generator to empty their masks.
    They count less in the loss, and their explanations rest on the model's gradients instead (`explain.keep_probability`). A
    shift has no blank series, and a forecast has no classes: all samples count the same.

    Args:
        answer: The model's outputs for the series, (B, C).
        blank: Its outputs for blank series, (B, C).
        fill: What hidden cells hold.
        forecasts: Whether the outputs are forecast values.
    """
    return answer.new_ones(len(answer)) if forecasts or fill == "shift" else open_share(answer, blank)


def priced(p: Tensor, free_cells: Tensor | float) -> tuple[Tensor, Tensor]:
    """log(1 + kept cells / free_cells), and the variation of p over time per kept cell, each (B,).

    The logarithm makes the price of a further cell fall with the number of cells kept: halving an explanation is worth the
    same for 10 cells and for 10,000, whatever T and D are.

    Example:
        >>> size, variation = priced(torch.tensor([[[1.0], [1.0], [0.0]]]), 2.0)
        >>> [round(float(v), 4) for v in (size, variation)]  # log 2; one step from 1 to 0, over 2 + 2 cells
        [0.6931, 0.25]
    """
    kept = p.flatten(1).sum(1)
    variation = (p[:, 1:] - p[:, :-1]).abs().flatten(1).sum(1)
    return torch.log1p(kept / free_cells), variation / (kept + free_cells)


class SurrogateObjective:
    """Model-behaviour and label consistency of the surrogate on finished explanations; p arrives with the batch.

    Args:
        model: Its encoder and predictor are trained; only its structure is used.
        config: Settings.
        fill: What hidden cells hold when explaining.
    """

    def __init__(self, model: TimeXModel, config: TimeXConfig, fill: str) -> None:
        self.model, self.fill = model, fill
        self.stackable = model.encoder.stackable
        self.label = losses.label_consistency_mse_instance if config.forecasts else losses.label_consistency_instance

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Both terms on one batch."""
        p = batch["p"]
        sample = (noise.uniform(*p.shape) < p).to(p.dtype)
        hard = noise.uniform(len(p), 1, 1) < HARD
        return self._terms(params, frozen, batch, torch.where(hard, (p > 0.5).to(p.dtype), sample), noise)

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The terms with the masks p > .5 that explanations have."""
        terms = self._terms(params, frozen, val, (val["p"] > 0.5).to(val["p"].dtype), None)
        return {"criterion": terms["loss"], **{f"val_{name}": v for name, v in terms.items() if name != "loss"}}

    def _terms(self, params: Tensors, frozen: Tensors, batch: Tensors, mask: Tensor, noise: Noise | None) -> Tensors:
        x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
        fill = filled(self.fill, x, frozen["mean"], frozen["std"], None)
        x_m, attended = self.model.masked(x, observed, mask, fill)
        arguments = (x_m, times, observed, attended, noise)
        with beside(batch):
            z_e, logits_e = functional_call(self.model.surrogate, params, arguments, tie_weights=not self.stackable)
        z, z_e, logits, logits_e = map(gathered, (batch["z"], z_e, batch["logits"], logits_e))
        mbc, lc = losses.mbc(z, z_e), self.label(logits, logits_e)
        agree = (logits_e.argmax(-1) == logits.argmax(-1)).float().mean()
        return {"loss": mbc + lc, "mbc": mbc, "lc": lc, "agreement": agree}
