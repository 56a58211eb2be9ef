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
from timex.method.model import START, Surrogate, TimeXModel

NEGATIVES = 32
"""Sampled negatives of the SimCLR ablation."""


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
    """mbc + mbc_landmarks + lam_lc * lc + lam_e * (l_m + lam_con * l_con).

    The frozen reference does not change while TimeX learns, so its embeddings `z` and `logits` are computed once and arrive
    with the batch.

    Args:
        model: The module whose weights are trained; only its structure is used.
        config: Which terms; the weights come as `hyper`, so that members may differ in them.
    """

    def __init__(self, model: TimeXModel, config: TimeXConfig) -> None:
        self.model = model
        self.stackable = model.encoder.stackable
        self.consistency = CONSISTENCY[config.consistency]
        self.landmark_consistency = losses.mbc_normalised if config.consistency == "mbc_normalised" else losses.mbc
        self.label = LABEL[config.label]
        self.anneal = config.anneal
        self.select_by_objective = config.select == "objective"
        self.published_connectivity = config.connectivity == "published"

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term on one batch."""
        out = self._surrogate(params, frozen, batch, hyper, noise, noise)
        mbc = self.consistency.train(batch["z"], out.z_e, noise)
        lc = self.label(batch["logits"], out.logits_e)
        l_m, l_con = self._explanation(out.p, self._r(hyper), batch.get("observed"))
        u = noise.uniform(len(out.z_e), params["landmarks"].shape[0])
        mbc_landmarks = self.landmark_consistency(batch["z"], assimilate(out.z_e, params["landmarks"], u))
        total = mbc + mbc_landmarks + hyper["lam_lc"] * lc + hyper["lam_e"] * (l_m + hyper["lam_con"] * l_con)
        return {"loss": total, "mbc": mbc, "landmarks": mbc_landmarks, "lc": lc, "l_m": l_m, "l_con": l_con}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The terms on validation data with the same draws every epoch; landmarks, which explain nothing, are left out."""
        out = self._surrogate(params, frozen, val, hyper, None, noise)
        mbc, lc = self.consistency.select(val["z"], out.z_e), self.label(val["logits"], out.logits_e)
        l_m, l_con = self._explanation(out.p, hyper["r"], val.get("observed"))
        value = mbc + hyper["lam_lc"] * lc
        if self.select_by_objective:
            value = value + hyper["lam_e"] * (l_m + hyper["lam_con"] * l_con)
        agree = (out.logits_e.argmax(-1) == val["logits"].argmax(-1)).float().mean()
        scores = {"val_mbc": mbc, "val_lc": lc, "val_l_m": l_m, "val_agreement": agree, "val_kept": out.p.mean()}
        return {"criterion": value, **scores}

    def _r(self, hyper: Tensors) -> Tensor:
        """Annealed sparsity: nearly everything is kept at first, so that the surrogate knows the model before cells go."""
        if self.anneal == 0:
            return hyper["r"]
        left = (1 - hyper["progress"] / self.anneal).clamp(min=0)
        return hyper["r"] + (START - hyper["r"]) * left

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
        arguments = (batch["x"], batch.get("times"), batch.get("observed"), frozen["mean"], frozen["std"], hyper["tau"])
        return functional_call(self.model, params, (*arguments, noise, sample))


def hyper_of(config: TimeXConfig) -> dict[str, float]:
    """The scalar settings members of one run may differ in."""
    return {name: getattr(config, name) for name in ("r", "tau", "lam_lc", "lam_e", "lam_con")}


def structure_of(config: TimeXConfig) -> tuple[object, ...]:
    """The settings members of one run must share: those that change the program, not only a number in it."""
    own = {*hyper_of(config), "lr", "weight_decay", "seed", "encoder_init"}
    return tuple(getattr(config, f.name) for f in fields(config) if f.name not in own)
