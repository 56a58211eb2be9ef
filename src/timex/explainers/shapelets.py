"""Shapelets first, then their Shapley values: which of the shapes that recur in the data the answer follows.

Shapes: B samples, T time steps, D channels, C classes; N shapelets of L steps for every channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from timex.explainers.batch import Batch
from timex.explainers.segments import KernelShap, SegmentsConfig
from timex.records import Series
from timex.settings import setting


@dataclass(frozen=True, kw_only=True)
class ShapeletsConfig(SegmentsConfig):
    """Settings of `Shapelets`; `n_segments` and `segmentation` are not read, as shapelets make the segments."""

    n_shapelets: int = setting(4, "Shapelets of every channel.", least=1)
    length: int | None = setting(None, "Steps of a shapelet; None takes a tenth of the series, at least 3.", least=2)
    threshold: float = setting(
        0.7, "A shapelet occurs where its similarity is at least this share of its peak.", above=0, most=1
    )
    steps: int = setting(200, "Steps of Adam on the shapelets.", least=0)
    lr: float = setting(0.02, "Learning rate of the shapelets.", above=0)
    n_fit: int = setting(512, "Training series that the shapelets are learned from, at most.", least=4)
    match_weight: float = setting(1.0, "Weight of the distance between a shapelet and where it fits best.", least=0)
    diversity_weight: float = setting(0.1, "Weight of the similarity between shapelets of a channel.", least=0)
    fill: Literal["zero", "mean", "line"] = setting("line", "As in LIME; a line from end to end is what the authors take.")


class Learned(NamedTuple):
    """The shapelets (D, N, L) of series standardised by the channel's mean and deviation, (D,) each, and (T, D)."""

    shapelets: Tensor
    mean: Tensor
    std: Tensor
    shape: tuple[int, ...]


class Shapelets(KernelShap):
    """Shapley values of the places where learned shapes occur (after ShapeX; Huang et al., 2025).

    `fit` learns N shapelets for every channel: their largest similarities, sum_l S_n(l) x(t + l) / L, must tell the model's
    predicted classes apart by a linear layer; each must be near the windows in which it fits best; and they must differ. In a
    series, the windows in which a shapelet occurs are one segment, and what no shapelet covers is another. Their Shapley values
    come from the regression of KernelSHAP; a segment that is left out becomes a line from end to end.

    The authors use a patch encoder for the shapelets, one segment per shapelet, and coalitions of neighbours alone. Here there
    is no encoder, all occurrences of a shapelet count together, and all coalitions do. Assumes that classes differ in shapes.
    """

    name = "shapelets"
    cost = "min(n_samples, 2 ** ((n_shapelets + 1) * D) - 2) + 1"
    needs_fit = True
    config_class = ShapeletsConfig
    config: ShapeletsConfig

    def _fit(self, train: Series, val: Series | None, progress: bool) -> Learned:
        c = self.config
        kept = self.training_tensors(train, val)[0]
        generator = torch.Generator().manual_seed(c.seed)
        order = torch.randperm(len(kept["x"]), generator=generator)[: c.n_fit]
        few = {name: v[order] for name, v in kept.items()}
        classes = self.predictions(few)
        seen = few["observed"] if "observed" in few else torch.ones_like(few["x"], dtype=torch.bool)
        count = seen.sum((0, 1)).clamp_min(1)
        mean = (few["x"] * seen).sum((0, 1)) / count
        std = (((few["x"] - mean) * seen).square().sum((0, 1)) / count).sqrt().clamp_min(1e-6)
        x = standardised(few["x"], mean, std, seen)
        t, d = train.shape[1:]
        length = min(t, c.length or max(3, t // 10))
        windows = x.transpose(1, 2).unfold(2, length, 1)  # (B, D, T', L)
        which = torch.randint(len(x), (d, c.n_shapelets), generator=generator)
        place = torch.randint(windows.shape[2], (d, c.n_shapelets), generator=generator)
        start = windows[which, torch.arange(d)[:, None], place]  # (D, N, L)
        shapelets = self._learned(x, classes.argmax(-1), classes.shape[1], start.contiguous())
        return Learned(shapelets.to(self.device), mean.to(self.device), std.to(self.device), (t, d))

    def _learned(self, x: Tensor, classes: Tensor, n_classes: int, start: Tensor) -> Tensor:
        """Shapelets (D, N, L) from standardised series (B, T, D) and the model's classes (B,)."""
        c = self.config
        shapelets = start.clone().requires_grad_()
        head = torch.zeros(start[..., 0].numel(), n_classes, requires_grad=True)
        bias = torch.zeros(n_classes, requires_grad=True)
        optimiser = torch.optim.Adam([shapelets, head, bias], lr=c.lr)
        for _ in range(c.steps):
            alike = similarity(x, shapelets)  # (B, D, N, T)
            logits = alike.amax(3).flatten(1) @ head + bias
            loss = F.cross_entropy(logits, classes)
            loss = loss + c.match_weight * best_match(x, shapelets, alike) + c.diversity_weight * likeness(shapelets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return shapelets.detach()

    def _segments(self, batch: Batch) -> tuple[Tensor, int]:
        learned = self.fitted
        seen = torch.ones_like(batch.x, dtype=torch.bool) if batch.observed is None else batch.observed
        x = standardised(batch.x, learned.mean, learned.std, seen)
        owner = occurrences(similarity(x, learned.shapelets), learned.shapelets.shape[2], self.config.threshold)
        d, n = learned.shapelets.shape[:2]
        channel = torch.arange(d, device=x.device)[:, None]
        return (owner + channel * (n + 1)).transpose(1, 2), d * (n + 1)


def standardised(x: Tensor, mean: Tensor, std: Tensor, seen: Tensor) -> Tensor:
    """(x - mean) / std by channel, 0 where nothing was measured, (B, T, D)."""
    return torch.where(seen, (x - mean) / std, 0.0)


def similarity(x: Tensor, shapelets: Tensor) -> Tensor:
    """sum_l S(l) x(t + l - L // 2) / L of every channel's shapelets (D, N, L) at every step of x (B, T, D), (B, D, N, T)."""
    d, n, length = shapelets.shape
    padded = F.pad(x.transpose(1, 2), (length // 2, length - 1 - length // 2))  # (B, D, T + L - 1)
    found = F.conv1d(padded, shapelets.reshape(d * n, 1, length), groups=d) / length
    return found.unflatten(1, (d, n))


def best_match(x: Tensor, shapelets: Tensor, alike: Tensor) -> Tensor:
    """The mean squared distance of every shapelet from the window of each series in which its similarity is largest."""
    length = shapelets.shape[2]
    padded = F.pad(x.transpose(1, 2), (length // 2, length - 1 - length // 2)).unfold(2, length, 1)  # (B, D, T, L)
    place = alike.argmax(3)  # (B, D, N)
    windows = padded.gather(2, place[..., None].expand(-1, -1, -1, length))  # (B, D, N, L)
    return (windows - shapelets).square().mean()


def likeness(shapelets: Tensor) -> Tensor:
    """The mean |cosine| of pairs of shapelets of a channel; 0 for one shapelet."""
    unit = F.normalize(shapelets, dim=2)
    cosine = (unit @ unit.mT).abs()  # (D, N, N)
    n = shapelets.shape[1]
    return (cosine.sum((1, 2)) - cosine.diagonal(dim1=1, dim2=2).sum(1)).mean() / max(1, n * (n - 1))


def occurrences(alike: Tensor, length: int, threshold: float) -> Tensor:
    """The shapelet that covers every cell, 0 .. N - 1, or N for none, (B, D, T).

    A shapelet occurs at the peaks of its similarity (B, D, N, T) that reach the threshold, a share of its largest one in the
    series, and covers `length` steps around them. Where several occur, the more similar one has the cell.
    """
    flat = alike.flatten(0, 1)
    n, t = flat.shape[1:]
    left, right = (length - 1) // 2, length // 2
    largest = F.max_pool1d(F.pad(flat, (left, right), value=-torch.inf), length, 1)
    top = flat.amax(2, keepdim=True)
    hit = (flat == largest) & (flat >= threshold * top) & (flat > 0)
    strength = torch.where(hit, flat, 0.0)
    cover = F.max_pool1d(F.pad(strength, (length - 1 - length // 2, length // 2)), length, 1)  # (R, N, T)
    best = cover.max(1)
    owner = torch.where(best.values > 0, best.indices, n)
    return owner.view(*alike.shape[:2], t)
