"""Integrated gradients of one step at a time: sequential and temporal integrated gradients.

Shapes: B samples, T time steps, D channels; K points of an integral, Q steps whose paths pass through the model together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.explainers.random_gradients import gradients_of_copies
from timex.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class StepGradientsConfig(Settings):
    """Settings of `SequentialIG` and `TemporalIG`."""

    n_points: int = setting(
        10, "Points of the integral of every step; fewer than for the whole series, as the path is shorter.", least=1
    )


class StepGradients(Explainer):
    """Integrated gradients along a path on which step t alone grows from zero to its value, for every t.

    score(t, d) = x(t, d) * mean over k of dF_c / dx(t, d) where step t is a_k x(t), a_k = (k - .5) / n_points. Subclasses
    define in `_others` which other steps keep their value meanwhile.
    """

    cost = "T * n_points"
    signed = True
    needs_gradients = True
    config_class = StepGradientsConfig
    config: StepGradientsConfig

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.n_points * 4

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        b, t, _ = batch.x.shape
        size = max(1, self._rows(batch.x.shape) // (b * self.config.n_points))
        parts = [self._gradient(batch, steps) for steps in torch.arange(t, device=batch.x.device).split(size)]
        return {"attribution": batch.x * torch.cat(parts, 1)}

    def _gradient(self, batch: Batch, steps: Tensor) -> Tensor:
        """The mean gradient at steps (Q,) along the path of each, (B, Q, D)."""
        n, t = self.config.n_points, batch.x.shape[1]
        along = (torch.arange(n, device=batch.x.device) + 0.5) / n  # (K,)
        others = self._others(torch.arange(t, device=batch.x.device), steps[:, None])  # (Q, T)
        own = torch.arange(t, device=batch.x.device) == steps[:, None]
        scale = torch.where(own[:, None], along[:, None], others[:, None])  # (Q, K, T)
        copies = batch.x[:, None] * scale.flatten(0, 1)[..., None]  # (B, Q K, T, D)
        gradient = gradients_of_copies(self, copies, batch).unflatten(1, (len(steps), n)).mean(2)  # (B, Q, T, D)
        return gradient[:, torch.arange(len(steps), device=batch.x.device), steps]

    def _others(self, step: Tensor, moving: Tensor) -> Tensor:
        """1 where a step keeps its value while another moves, 0 where it is zero: (T,) and (Q, 1) -> (Q, T) float."""
        raise NotImplementedError(f"{type(self).__name__} must define _others")


class SequentialIG(StepGradients):
    """Integrated gradients of every step against the series without that step: sequential IG (Enguehard, 2023).

    All other steps keep their value. The scores of a step sum over the channels to the loss of the logit when the step becomes
    zero. Assumes that zero is a neutral value of the data.
    """

    name = "sequential_ig"

    def _others(self, step: Tensor, moving: Tensor) -> Tensor:
        return torch.ones(len(moving), len(step), device=step.device)


class TemporalIG(StepGradients):
    """Integrated gradients of every step against the steps before it: temporal IG (after Enguehard & Zhan, 2023).

    Earlier steps have their value, later ones are zero. The scores of a step sum over the channels to the gain of the logit
    when the step is added to the earlier ones. Those of a sample sum to F_c(x) - F_c(0). The authors cut the series off after
    the step, which most models do not accept. Assumes that zero is a neutral value of the data.
    """

    name = "temporal_ig"

    def _others(self, step: Tensor, moving: Tensor) -> Tensor:
        return (step < moving).float()
