"""Shapley values by sampling permutations (Castro et al., 2009; Strumbelj & Kononenko, 2010), all cells of a chunk together.

Shapes: B samples, T time steps, D channels, C classes, P permutations, F = T * D cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch, uniform_per_sample
from timex.settings import Settings, setting


@torch.no_grad()
def shapley_values(value: Callable[[Tensor], Tensor], x: Tensor, rank: Tensor, rows: int = 4096) -> Tensor:
    """Shapley values of every cell of x, estimated from the given permutations of the cells.

    Along a permutation cells enter one by one, starting from the zero series. The estimate is the mean over permutations of
    what the value gains when a cell enters. It is exact over all permutations, and unbiased over random ones.

    Args:
        value: Maps copies (B, R, T, D) to values (B, R, C).
        x: Series, (B, T, D).
        rank: Place of every cell in every permutation, (B, P, F) int.
        rows: Largest number of series handed to `value` at once.

    Returns:
        One value per cell and class, (B, T, D, C). Over a sample they sum to value(x) - value(0), for any permutations.

    >>> x = torch.tensor([[[1.0], [2.0]]])
    >>> both_orders = torch.tensor([[[0, 1], [1, 0]]])
    >>> shapley_values(lambda c: c.prod(2), x, both_orders).flatten()  # the product needs both cells: they share its 2
    tensor([1., 1.])
    """
    b, t, d = x.shape
    p, f = rank.shape[1:]
    step = max(1, rows // (b * p))
    cells = x.flatten(1)[:, None, None]  # (B, 1, 1, F)
    values = []
    for first in range(0, f + 1, step):
        entered = torch.arange(first, min(first + step, f + 1), device=x.device)  # how many cells are in
        copies = cells * (rank[:, :, None] < entered[:, None])  # (B, P, step, F)
        values.append(value(copies.reshape(b, -1, t, d)).unflatten(1, (p, -1)))
    gains = torch.cat(values, 2).diff(dim=2)  # (B, P, F, C) in the order of entering
    index = rank[..., None].expand(-1, -1, -1, gains.shape[-1])
    return gains.gather(2, index).mean(1).unflatten(1, (t, d))


def random_ranks(seed: int, place: Tensor, permutations: int, cells: int) -> Tensor:
    """Random permutations (B, P, F) of the cells of every sample, in pairs: each second one is the first backwards.

    A cell that enters early in one of a pair enters late in the other, which lowers the variance at no cost.
    """
    half = uniform_per_sample(seed, place, (permutations + 1) // 2, cells).argsort(-1)  # (B, P/2, F)
    return torch.stack([half, cells - 1 - half], 2).flatten(1, 2)[:, :permutations]


@dataclass(frozen=True, kw_only=True)
class ShapleySamplingConfig(Settings):
    """Settings of `ShapleySampling`."""

    permutations: int = setting(
        10, "Permutations per sample, each T * D + 1 passes through the model; Captum's default is 25.", least=1
    )
    seed: int = setting(0, "Seed of the permutations.")


class ShapleySampling(Explainer):
    """Shapley values of cells against the zero series, by sampled permutations (Castro et al., 2009).

    score(t, d) = mean over permutations of F_c(x_before and (t, d)) - F_c(x_before), where x_before has the cells that precede
    (t, d) in the permutation and is zero elsewhere. Permutations come in pairs, each second one the first backwards.

    Scores are signed and sum to F_c(x) - F_c(0). This is the most expensive method here. Assumes that zero is a neutral value
    of the data.
    """

    name = "shapley_sampling"
    cost = "permutations * (T * D + 1)"
    signed = True
    config_class = ShapleySamplingConfig
    config: ShapleySamplingConfig

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.permutations * 16

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        rank = random_ranks(self.config.seed, batch.place, self.config.permutations, batch.x[0].numel())
        rows = self._rows(batch.x.shape)
        values = shapley_values(lambda copies: self.logits_of_copies(copies, batch), batch.x, rank, rows)  # (B, T, D, C)
        return {"attribution": values.gather(3, batch.target[:, None, None, None].expand(*batch.x.shape, 1))[..., 0]}
