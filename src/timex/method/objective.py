"""The paper's training objective, as the engine's program for one member.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from timex.engine import Noise, Tensors, gathered
from timex.method import losses
from timex.method.config import TimeXConfig
from timex.method.landmarks import assimilate
from timex.method.model import Explained, TimeXModel
from timex.reference.base import Output, ReferenceModel
from timex.reference.beside import beside

NEGATIVES = 32
"""Sampled negatives of the SimCLR ablation."""
FROZEN = "reference."
"""Prefix of the frozen model's weights among a member's frozen tensors."""


class Consistency(NamedTuple):
    """A loss between the embeddings of series and of their explanations: one to train on, one to select epochs by."""

    train: Callable[[Tensor, Tensor, Noise], Tensor]
    select: Callable[[Tensor, Tensor], Tensor]


def _nothing(a: Tensor, b: Tensor) -> Tensor:
    return a.new_zeros(())


def _misalignment(z: Tensor, z_e: Tensor) -> Tensor:
    """1 - the mean cosine of each embedding with its explanation's, the criterion for SimCLR runs in the paper."""
    return 1 - torch.nn.functional.cosine_similarity(z, z_e, dim=-1).mean()


CONSISTENCY: dict[str, Consistency] = {
    "mbc": Consistency(lambda z, z_e, noise: losses.mbc(z, z_e), losses.mbc),
    "mbc_normalised": Consistency(lambda z, z_e, noise: losses.mbc_normalised(z, z_e), losses.mbc_normalised),
    "simclr": Consistency(lambda z, z_e, noise: losses.simclr(z, z_e, negatives(noise, len(z))), _misalignment),
    "none": Consistency(lambda z, z_e, noise: _nothing(z, z_e), _nothing),
}
CONNECTIVITY: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "equation": losses.connectivity,
    "published": losses.connectivity_published,
    "published_batch": losses.connectivity_published_batch,
}
LABEL: dict[str, Callable[..., Tensor]] = {
    "instance": lambda y, y_e, published: losses.label_consistency_instance(y, y_e),
    "pairwise": losses.label_consistency,
    "batch": losses.label_consistency_batch,
    "none": lambda y, y_e, published: _nothing(y, y_e),
}
FORECAST_LABEL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "instance": losses.label_consistency_mse_instance,
    "pairwise": losses.label_consistency_mse,
    "batch": losses.label_consistency_mse,
    "none": _nothing,
}


def negatives(noise: Noise, batch: int) -> Tensor:
    """For each of `batch` samples the indices of `NEGATIVES` random other samples, (B, M)."""
    shift = (noise.uniform(batch, NEGATIVES) * (batch - 1)).long() + 1
    return (torch.arange(batch, device=shift.device)[:, None] + shift) % batch


class FrozenOutputs(torch.nn.Module):
    """A reference model whose `forward` is its `output`, for `functional_call`; its weights are named as in `FROZEN`."""

    def __init__(self, reference: ReferenceModel) -> None:
        super().__init__()
        self.reference = reference

    def forward(self, *arguments: Any) -> Output:
        """Embedding and logits."""
        return self.reference.output(*arguments)


def label_of(config: TimeXConfig) -> Callable[[Tensor, Tensor], Tensor]:
    """The label term of the settings."""
    if config.forecasts:
        return FORECAST_LABEL[config.loss.label]
    return partial(LABEL[config.loss.label], published=config.loss.divergence == "published")


class Objective:
    """mbc + mbc_landmarks + lam_lc * lc + lam_e * (l_m + lam_con * l_con): the paper's objective, all parts trained together.

    The frozen reference does not change during training, so its embeddings `z` and `logits` are computed once and arrive
    with the batch.

    Args:
        model: The module whose weights are trained; only its structure is used.
        reference: The frozen model; only its structure is used, its weights come as `frozen`.
        config: Which terms; the weights come as `hyper`, so that members may differ in them.
    """

    def __init__(self, model: TimeXModel, reference: ReferenceModel, config: TimeXConfig) -> None:
        self.model = model
        self.fill = "draw" if config.mask.fill == "auto" else config.mask.fill
        self.stackable = model.encoder.stackable
        self.consistency = CONSISTENCY[config.loss.consistency]
        self.landmark_consistency = losses.mbc_normalised if config.loss.consistency == "mbc_normalised" else losses.mbc
        self.label = label_of(config)
        self.connectivity = CONNECTIVITY[config.loss.connectivity]
        self.frozen_dropout = config.loss.reference_dropout
        self.frozen = FrozenOutputs(reference)
        self.select_by_objective = config.loss.select == "objective"

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Every term on one batch."""
        if self.frozen_dropout:
            batch = {**batch, **self._with_dropout(frozen, batch, noise)}
        out = self._surrogate(params, frozen, batch, hyper, noise, noise)
        out = out._replace(**{name: gathered(value) for name, value in out._asdict().items()})
        batch = {name: gathered(batch[name]) for name in ("z", "logits", "observed") if name in batch}
        noise = noise.of_all()
        mbc = self.consistency.train(batch["z"], out.z_e, noise)
        lc = self.label(batch["logits"], out.logits_e)
        l_m, l_con = self._explanation(out.p, hyper["r"], batch.get("observed"))
        u = noise.uniform(len(out.z_e), params["landmarks"].shape[0])
        matched = assimilate(out.z_e, params["landmarks"], u, hyper["landmark_temperature"])
        mbc_landmarks = self.landmark_consistency(batch["z"], matched)
        total = mbc + mbc_landmarks + hyper["lam_lc"] * lc + hyper["lam_e"] * (l_m + hyper["lam_con"] * l_con)
        return {"loss": total, "mbc": mbc, "landmarks": mbc_landmarks, "lc": lc, "l_m": l_m, "l_con": l_con}

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """The terms on validation data with the same draws every epoch, without landmarks, which do not change p."""
        out = self._surrogate(params, frozen, val, hyper, None, noise)
        mbc, lc = self.consistency.select(val["z"], out.z_e), self.label(val["logits"], out.logits_e)
        l_m, l_con = self._explanation(out.p, hyper["r"], val.get("observed"))
        value = mbc + hyper["lam_lc"] * lc
        if self.select_by_objective:
            value = value + hyper["lam_e"] * (l_m + hyper["lam_con"] * l_con)
        agree = (out.logits_e.argmax(-1) == val["logits"].argmax(-1)).float().mean()
        observed = val.get("observed")
        kept = out.p.mean() if observed is None else (out.p * observed).sum() / observed.sum().clamp(min=1)
        terms = {"val_mbc": mbc, "val_lc": lc, "val_l_m": l_m}
        return {"criterion": value, **terms, "val_agreement": agree, "val_kept": kept}

    def _with_dropout(self, frozen: Tensors, batch: Tensors, noise: Noise) -> Tensors:
        """The frozen model's embeddings and logits with its dropout on."""
        weights = {name: v for name, v in frozen.items() if name.startswith(FROZEN)}
        arguments = (batch["x"], batch.get("times"), batch.get("observed"), None, noise)
        with beside(batch):
            out = functional_call(self.frozen, weights, arguments, tie_weights=not self.stackable)
        return {"z": out.z.detach(), "logits": out.logits.detach()}

    def _explanation(self, p: Tensor, r: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sparsity and connectivity of the explanation itself."""
        connected = self.connectivity(p, observed)
        return losses.mask_kl(p, r, observed), connected

    def _surrogate(
        self,
        params: Tensors,
        frozen: Tensors,
        batch: Tensors,
        hyper: Tensors,
        noise: Noise | None,
        sample: Noise | None,
    ) -> Explained:
        series = (batch["x"], batch.get("times"), batch.get("observed"), frozen["mean"], frozen["std"])
        arguments = (*series, hyper["tau"], self.fill, noise, sample)
        with beside(batch):
            return functional_call(self.model, params, arguments, tie_weights=not self.stackable)


def structure_of(config: TimeXConfig) -> tuple[object, ...]:
    """The settings that trainings must share to run as one program: those that change the program, not a number in it."""
    own = {"lr", "seed", "smoothing", "training.weight_decay"}
    return tuple(config.get(row.name) for row in config.rows() if not row.scalar and row.name not in own)
