"""TimeSHAP: Shapley values of the recent steps, with a negligible past as one player.

Shapes: B samples, T time steps, D channels, C classes; P segments of every channel after the past.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from timex.explainers.batch import Batch
from timex.explainers.segments import KernelShap, SegmentsConfig, channel_fill
from timex.settings import setting


@dataclass(frozen=True, kw_only=True)
class TimeShapConfig(SegmentsConfig):
    """Settings of `TimeShap`; `segmentation` has no effect, as segments have equal length."""

    tolerance: float = setting(
        0.025, "The past is pruned where its Shapley value is at most this share of F(x) - F(nothing).", least=0, below=1
    )


class TimeShap(KernelShap):
    """Shapley values of recent segments after the negligible past was pruned: TimeSHAP (Bento et al., 2021).

    Pruning has two players, the steps before s and those from s on. The value of the past is

        (F(past) - F(nothing) + F(x) - F(recent)) / 2

    The pruned past ends before the latest s at which this value is at most `tolerance` * |F(x) - F(nothing)|. It becomes one
    player of KernelSHAP, and the rest of every channel is cut into `n_segments` players. Assumes that the model relies on
    recent steps, as recurrent models do; for a model that relies on all steps, nothing is pruned. The authors explain steps,
    channels and cells in turn. Here the players are single cells if n_segments is large enough.
    """

    name = "timeshap"
    cost = "2 * T - 1 + min(n_samples, 2 ** (min(n_segments, T) * D + 1) - 2) + 1"
    config_class = TimeShapConfig
    config: TimeShapConfig

    def _segments(self, batch: Batch) -> tuple[Tensor, int]:
        t, d = batch.x.shape[1:]
        p = min(self.config.n_segments, t)
        start = self._start(batch)[:, None]  # (B, 1)
        step = torch.arange(t, device=batch.x.device)
        piece = ((step - start).clamp_min(0) * p).div(t - start, rounding_mode="floor")  # (B, T)
        channel = torch.arange(d, device=batch.x.device)
        return torch.where((step < start)[..., None], p * d, piece[..., None] + p * channel), p * d + 1

    def _start(self, batch: Batch) -> Tensor:
        """The first step that is not pruned, (B,)."""
        t = batch.x.shape[1]
        step = torch.arange(t, device=batch.x.device)
        past = step < step[1:, None]  # (T - 1, T): the cut lies before step 1, 2, ...
        kept = torch.cat([torch.zeros_like(past[:1]), past, ~past])[:, :, None]  # nothing, every past, every recent part
        fill = channel_fill(batch, self.config.fill, torch.zeros_like(batch.x, dtype=torch.int64))
        answers = []
        for part in kept.split(max(1, self._rows(batch.x.shape) // len(batch.x))):
            logits = self.logits_of_copies(torch.where(part, batch.x[:, None], fill[:, None]), batch)
            answers.append(logits.gather(2, batch.target[:, None, None].expand(-1, logits.shape[1], 1))[..., 0])
        found = torch.cat(answers, 1)  # (B, 2 T - 1)
        nothing, of_past, of_recent = found[:, :1], found[:, 1:t], found[:, t:]
        whole = batch.logits.gather(1, batch.target[:, None])
        value = (of_past - nothing + whole - of_recent) / 2  # (B, T - 1)
        negligible = value.abs() <= self.config.tolerance * (whole - nothing).abs()
        return (negligible * step[1:]).amax(1) if t > 1 else torch.zeros_like(batch.target)
