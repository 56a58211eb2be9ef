"""Integrated gradients (Sundararajan et al., 2017), by Captum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from timex.baselines.base import Unfitted


class IntegratedGradients(Unfitted):
    """Gradients integrated along the straight line from a zero baseline to x, as the paper ran it: 50 steps, signed scores.

    Assumes that zero is a meaningful "nothing" for the data, and a model whose gradient says something along the whole line.

    Args:
        model: A reference model, or any module that maps (B, T, D) to logits (B, C).
        n_steps: Points of the integral; Captum's default.
        device: Where to run it.
    """

    name = "ig"
    signed = True

    def __init__(self, model: nn.Module, n_steps: int = 50, device: torch.device | str | None = None) -> None:
        super().__init__(model, device)
        self.n_steps = n_steps

    def _attribute(self, x: Tensor, target: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        from captum.attr import IntegratedGradients as CaptumIG

        def forward(cells: Tensor, t: Tensor | None = None, o: Tensor | None = None) -> Tensor:
            return self.logits(cells, t, o)

        extra = () if times is None else (times, observed)
        return CaptumIG(forward).attribute(x, target=target, n_steps=self.n_steps, additional_forward_args=extra or None)
