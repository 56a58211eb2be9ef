"""Methods that read a certain kind of layer: guided Grad-CAM for convolutions, attention roll-out for our transformers.

Shapes: B samples, T time steps, D channels, C classes; W filters and T' steps of a convolution.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.explainers.gradients import CaptumExplainer, _Forward
from timex.nn.attention import attention_weights
from timex.nn.layers import EncoderLayer, observed_steps, with_time
from timex.reference.transformer import Transformer


class GuidedGradCAM(CaptumExplainer):
    """Guided gradients, weighted by the evidence of the last convolution: guided Grad-CAM (Selvaraju et al., 2017).

    Grad-CAM is relu(sum_w a_w A_w(t)), A the last one-dimensional convolution's output and a_w the mean over time of
    dF_c / dA_w. It is interpolated to the steps of the series and multiplied by the guided gradient dF_c / dx(t, d), in which
    ReLU modules pass positive gradients alone. By Captum. A ReLU that is called as a function passes its usual gradient.
    """

    name = "guided_gradcam"
    cost = "2"
    only_for = "convolutions"

    def _own_model(self, model: Any) -> Any:
        adapted = super()._own_model(model)
        if self._convolution(adapted) is None:
            raise ValueError(
                f"Expected a model with a torch.nn.Conv1d for {type(self).__name__}, got {type(model).__name__} without one: "
                "use ig, gradients or occlusion."
            )
        return adapted

    @staticmethod
    def _convolution(model: nn.Module) -> nn.Conv1d | None:
        """The last convolution of a model in the order of its modules."""
        found = [layer for layer in model.modules() if isinstance(layer, nn.Conv1d)]
        return found[-1] if found else None

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        from captum.attr import GuidedBackprop, LayerGradCam

        place = torch.arange(len(batch.x), device=batch.x.device)
        extra = (place,) if batch.times is None else (place, batch.times, batch.observed)
        x = batch.x.clone().requires_grad_()
        forward = _Forward(self.model, self.logits)
        options = {"target": batch.target, "additional_forward_args": extra}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Setting .*hooks")  # on our copy, and taken off again
            cam = LayerGradCam(forward, self._convolution(self.model)).attribute(x, relu_attributions=True, **options)
            guided = GuidedBackprop(forward).attribute(x, **options)
        assert isinstance(cam, Tensor)
        weight = F.interpolate(cam.detach(), size=x.shape[1], mode="linear", align_corners=False)  # (B, 1, T)
        return {"attribution": guided.detach() * weight.transpose(1, 2)}


class AttentionRollout(Explainer):
    """How much of every step attention carries to the embedding: attention roll-out (Abnar & Zuidema, 2020).

    R = A_L ... A_1, A_l the attention weights of layer l, or (A_l + I) / 2 where the layer has a residual; the score of step t
    is the mean of R(s, t) over the steps s that the embedding averages. All channels of a step have its score. The score
    concerns no class, and ignores the effect of all layers but attention.
    """

    name = "attention_rollout"
    cost = "1"
    only_for = "attention"
    takes_target = False

    def _own_model(self, model: Any) -> Any:
        adapted = super()._own_model(model)
        if not isinstance(adapted, Transformer):
            raise ValueError(
                f"Expected a transformer of timex.reference for {type(self).__name__}, got {type(model).__name__}, whose "
                "attention weights are not known: use ig, gradients or occlusion."
            )
        return adapted

    @torch.no_grad()
    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        encoder, steps = self.model.encoder, observed_steps(batch.observed)
        padding = None if steps is None else ~steps
        h = with_time(batch.x, batch.times, encoder.n_steps, encoder.time_unit)
        identity = torch.eye(h.shape[1], device=h.device)
        rolled = identity.expand(len(h), -1, -1)
        for layer in encoder.layers:
            assert isinstance(layer, EncoderLayer)
            weights = attention_weights(layer.attention, h, padding)
            rolled = ((weights + identity) / 2 if layer.with_residual else weights) @ rolled
            h = layer(h, None, padding, None)
        share = torch.ones_like(rolled[..., 0]) if steps is None else steps.to(h.dtype)
        score = (share.unsqueeze(1) @ rolled)[:, 0] / share.sum(1, keepdim=True).clamp_min(1)  # (B, T)
        return {"attribution": score.unsqueeze(2).expand_as(batch.x).clone()}
