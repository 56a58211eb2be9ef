"""Landmarks: typical explanations, found in the latent space without touching the explanations themselves.

Shapes: N samples, L landmarks, Z the width of the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timex.method.losses import cosine_similarity

if TYPE_CHECKING:
    import pandas as pd

TAU = 0.1
"""Temperature of the relaxation behind the match's gradient."""


def assimilate(z_e: Tensor, landmarks: Tensor, u: Tensor, temperature: float | Tensor) -> Tensor:
    """A(z^E; L): every explanation replaced by a landmark, drawn by Gumbel-softmax, hard forward, straight-through backward.

    The gradient reaches the landmarks only: z^E is cut off here, so that landmarks cannot bend the explanations.

    Args:
        z_e: Embeddings of explanations, (N, Z).
        landmarks: (L, Z).
        u: Uniform noise, (N, L).
        temperature: Cosine similarities are divided by it: a landmark less similar by this much is drawn e times less often.

    Returns:
        (N, Z).
    """
    gumbel = -torch.log(-torch.log(u))
    soft = ((cosine_similarity(z_e.detach(), landmarks) / temperature + gumbel) / TAU).softmax(-1)  # (N, L)
    hard = (soft == soft.amax(-1, keepdim=True)).to(soft.dtype)
    # In this order the difference is exactly 0 forward, and the match exactly one landmark.
    return (hard + (soft - soft.detach())) @ landmarks


def stratified_start(z: Tensor, y: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """The embeddings of `n` random samples with every class in (nearly) equal number, (n, Z)."""
    order = torch.randperm(len(z), generator=generator)
    rank_in_class = torch.empty_like(order)
    for c in y.unique():
        members = order[y[order] == c]
        rank_in_class[members] = torch.arange(len(members))
    # Taking samples by their rank within the class takes one of each class in turn until n are found.
    turn = order[rank_in_class[order].argsort(stable=True)]
    return z[turn[torch.arange(n) % len(turn)]].clone()


def medoids(z_e: Tensor, n: int, seed: int) -> Tensor:
    """The embeddings of `n` typical explanations: in each of n clusters by direction, the one nearest to the middle, (n, Z).

    If there are fewer distinct embeddings than n, some landmarks are given twice.
    """
    from sklearn.cluster import KMeans

    unit = torch.nn.functional.normalize(z_e.double(), dim=-1)
    clusters = min(n, len(unit.unique(dim=0)))
    found = KMeans(clusters, n_init=1, random_state=seed).fit(unit.numpy())
    near = (unit @ torch.as_tensor(found.cluster_centers_).T).argmax(dim=0)  # (clusters,)
    return z_e[near[torch.arange(n) % clusters]].clone()


@dataclass(frozen=True)
class Landmarks:
    """Landmarks and the training explanations around them.

    Attributes:
        vectors: The landmarks, (L, Z).
        counts: How many training explanations have each as their nearest, (L,).
        nearest: Indices of training samples similar to each, (L, S): its own members first, the most similar before the others.
        similarity: Their cosine similarities, (L, S).
        composition: How many of those nearest-landmark samples the model gives to each class, (L, C).
    """

    vectors: NDArray[np.float32]
    counts: NDArray[np.int64]
    nearest: NDArray[np.int64]
    similarity: NDArray[np.float32]
    composition: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.vectors)

    def ranking(self) -> NDArray[np.int64]:
        """Landmark numbers, the one nearest to most explanations first."""
        return np.argsort(-self.counts, kind="stable")

    def filtered(self, min_samples: int = 10) -> pd.DataFrame:
        """The paper's filtration: landmarks that are the nearest of at least `min_samples` explanations, ranked.

        Args:
            min_samples: The paper's n_epsilon.

        Returns:
            One row per landmark: its number, rank, samples, commonest class and that class's share, nearest samples.
        """
        import pandas as pd

        if min_samples < 1:
            raise ValueError(f"Expected min_samples >= 1, got {min_samples}.")
        kept = [int(i) for i in self.ranking() if self.counts[i] >= min_samples]
        return pd.DataFrame(
            {
                "landmark": kept,
                "rank": range(1, len(kept) + 1),
                "samples": [int(self.counts[i]) for i in kept],
                "class": [int(self.composition[i].argmax()) for i in kept],
                "share": [float(self.composition[i].max() / self.counts[i]) for i in kept],
                "nearest": [self.nearest[i].tolist() for i in kept],
            }
        )


def survey(landmarks: Tensor, z_e: Tensor, predicted: Tensor, n_classes: int, n_nearest: int = 10) -> Landmarks:
    """Count, for every landmark, the explanations it is nearest to, and list those nearest to it."""
    s = cosine_similarity(z_e, landmarks)  # (N, L)
    assigned = s.argmax(dim=1)
    pairs = assigned * n_classes + predicted
    composition = torch.bincount(pairs, minlength=len(landmarks) * n_classes).reshape(len(landmarks), n_classes)
    member = torch.nn.functional.one_hot(assigned, len(landmarks))  # (N, L)
    order = (s + 4 * member).T.topk(min(n_nearest, len(z_e)), dim=1).indices  # cosines lie in [-1, 1]: members come first
    return Landmarks(
        vectors=landmarks.cpu().numpy(),
        counts=composition.sum(1).cpu().numpy(),
        nearest=order.cpu().numpy(),
        similarity=s.T.gather(1, order).cpu().numpy(),
        composition=composition.cpu().numpy(),
    )
