"""The training objective of TimeX, as the engine's program for one member.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from timex.engine import Noise, Tensors
from timex.method import losses
from timex.method.config import TimeXConfig
from timex.method.landmarks import assimilate
from timex.method.model import Surrogate, TimeXModel
from timex.reference.base import ReferenceModel

NEGATIVES = 32
"""Sampled negatives of the SimCLR ablation."""
FROZEN = "reference."
"""Prefix of the frozen model's weights among a member's frozen tensors."""


class Consistency(NamedTuple):
    """How embeddings of explanations are held to the model's: a loss to train on, and one to select epochs by."""

    train: Callable[[Tensor, Tensor, Noise], Tensor]
    select: Callable[[Tensor, Tensor], Tensor]


def _nothing(a: Tensor, b: Tensor) -> Tensor:
    return a.new_zeros(())


def _misalignment(z: Tensor, z_e: Tensor) -> Tensor:
    """1 - the mean cosine of each embedding with its explanation's, by which the paper selects SimCLR runs."""
    return 1 - torch.nn.functional.cosine_similarity(z, z_e, dim=-1).mean()


CONSISTENCY: dict[str, Consistency] = {
    "mbc": Consistency(lambda z, z_e, noise: losses.mbc(z, z_e), losses.mbc),
    "mbc_normalised": Consistency(lambda z, z_e, noise: losses.mbc_normalised(z, z_e), losses.mbc_normalised),
    "simclr": Consistency(lambda z, z_e, noise: losses.simclr(z, z_e, negatives(noise, len(z))), _misalignment),
    "none": Consistency(lambda z, z_e, noise: _nothing(z, z_e), _nothing),
}
LABEL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pairwise": losses.label_consistency,
    "batch": losses.label_consistency_batch,
    "instance": losses.label_consistency_instance,
    "mse": losses.label_consistency_mse_instance,
    "mse_pairwise": losses.label_consistency_mse,
    "none": _nothing,
}


def negatives(noise: Noise, batch: int) -> Tensor:
    """For each of `batch` samples `NEGATIVES` random others, (B, M)."""
    shift = (noise.uniform(batch, NEGATIVES) * (batch - 1)).long() + 1
    return (torch.arange(batch, device=shift.device)[:, None] + shift) % batch


class Objective:
    """mbc + mbc_landmarks + lam_lc * lc + lam_model * model + lam_e * (l_m + lam_con * l_con).

    The frozen reference does not change while TimeX learns, so its embeddings `z` and `logits` are computed once and arrive
    with the batch.

    Args:
        model: The module whose weights are trained; only its structure is used.
        reference: The frozen model; only its structure is used, its weights come as `frozen`.
        config: Which terms; the weights come as `hyper`, so that members may differ in them.
    """

    def __init__(self, model: TimeXModel, reference: ReferenceModel, config: TimeXConfig) -> None:
        self.model, self.reference = model, reference
        self.asks_model = config.lam_model > 0
        self.at_strength = config.judged == "strength"
        self.forecasts = config.forecasts
        self.stackable = model.encoder.stackable
        self.consistency = CONSISTENCY[config.consistency]
        self.landmark_consistency = losses.mbc_normalised if config.consistency == "mbc_normalised" else losses.mbc
        self.label = LABEL[config.label]
        self.select_by_objective = config.select == "objective"
        self.published_connectivity = config.connectivity == "published"

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term on one batch."""
        out = self._surrogate(params, frozen, batch, hyper, noise, noise)
        mbc = self.consistency.train(batch["z"], out.z_e, noise)
        lc = self.label(batch["logits"], out.logits_e)
        model = self._model(out, frozen, batch, hyper)
        l_m, l_con = self._explanation(out.p, hyper["r"], batch.get("observed"))
        u = noise.uniform(len(out.z_e), params["landmarks"].shape[0])
        matched = assimilate(out.z_e, params["landmarks"], u, hyper["landmark_spread"])
        mbc_landmarks = self.landmark_consistency(batch["z"], matched)
        behaviour = mbc + mbc_landmarks + hyper["lam_lc"] * lc + hyper["lam_model"] * model
        total = behaviour + hyper["lam_e"] * (l_m + hyper["lam_con"] * l_con)
        return {"loss": total, "mbc": mbc, "landmarks": mbc_landmarks, "lc": lc, "model": model, "l_m": l_m, "l_con": l_con}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The terms on validation data with the same draws every epoch; landmarks, which explain nothing, are left out."""
        out = self._surrogate(params, frozen, val, hyper, None, noise)
        mbc, lc = self.consistency.select(val["z"], out.z_e), self.label(val["logits"], out.logits_e)
        l_m, l_con = self._explanation(out.p, hyper["r"], val.get("observed"))
        model = self._model(out, frozen, val, hyper)
        value = mbc + hyper["lam_lc"] * lc + hyper["lam_model"] * model
        if self.select_by_objective:
            value = value + hyper["lam_e"] * (l_m + hyper["lam_con"] * l_con)
        agree = (out.logits_e.argmax(-1) == val["logits"].argmax(-1)).float().mean()
        observed = val.get("observed")
        kept = out.p.mean() if observed is None else (out.p * observed).sum() / observed.sum().clamp(min=1)
        terms = {"val_mbc": mbc, "val_lc": lc, "val_model": model, "val_l_m": l_m}
        return {"criterion": value, **terms, "val_agreement": agree, "val_kept": kept}

    def _model(self, out: Surrogate, frozen: Tensors, batch: Tensors, hyper: Tensors) -> Tensor:
        """The frozen model's own judgement: the kept cells suffice for its prediction, the hidden ones say nothing of it.

        The kept cells are those of the draw, or all at the strength p. The hidden ones are always shown at the strength 1 - p:
        were they drawn too, the few cells of a motif that every draw leaves behind would give it away, and p would fall where
        the series contradicts it.
        """
        if not self.asks_model:
            return out.p.new_zeros(())
        weights = {n.removeprefix(FROZEN): v for n, v in frozen.items() if n.startswith(FROZEN)}
        x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
        strengths = (out.p if self.at_strength else out.mask, 1 - out.p)
        views = [self.model.masked(x, observed, strength, out.b) for strength in strengths]
        both = [None if a is None else torch.cat([a, b]) for a, b in zip(*views, strict=True)]  # one pass for the two
        twice = [None if v is None else torch.cat([v, v]) for v in (times, observed)]
        kept, hidden = functional_call(
            self.reference, weights, (both[0], *twice, both[1]), tie_weights=not self.stackable
        ).chunk(2)
        if self.forecasts:
            change = losses.label_consistency_mse_instance
            return change(batch["logits"], kept) + hyper["lam_hidden"] * change(batch["blank"], hidden)
        logits, blank = batch["logits"], batch["blank"]
        return losses.sufficiency(logits, kept, blank) + hyper["lam_hidden"] * losses.necessity(logits, hidden, blank)

    def _explanation(self, p: Tensor, r: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sparsity and connectivity of the explanation itself."""
        connected = (
            losses.connectivity_published(p, observed) if self.published_connectivity else losses.connectivity(p, observed)
        )
        return losses.mask_kl(p, r, observed), connected

    def _surrogate(
        self,
        params: Tensors,
        frozen: Tensors,
        batch: Tensors,
        hyper: Tensors,
        noise: Noise | None,
        sample: Noise | None,
    ) -> Surrogate:
        arguments = (batch["x"], batch.get("times"), batch.get("observed"), frozen["mean"], frozen["std"])
        return functional_call(self.model, params, (*arguments, hyper["tau"], noise, sample), tie_weights=not self.stackable)


def hyper_of(config: TimeXConfig) -> dict[str, float]:
    """The scalar settings members of one run may differ in."""
    names = ("r", "tau", "landmark_spread", "lam_lc", "lam_model", "lam_hidden", "lam_e", "lam_con")
    return {name: getattr(config, name) for name in names}


def structure_of(config: TimeXConfig) -> tuple[object, ...]:
    """The settings members of one run must share: those that change the program, not only a number in it.

    They must share `resolution` and `judged` too, not as they were set but as they were found.
    """
    own = {*hyper_of(config), "lr", "weight_decay", "seed", "encoder_init", "resolution", "judged"}
    return (config.lam_model > 0, *(getattr(config, f.name) for f in fields(config) if f.name not in own))
