"""Gradient and occlusion methods, by Captum through one thin adapter.

Each explains the logit of one class. "Nothing" is the zero series for all of them, so they assume that zero is a neutral value
of the data (series centred at zero).

Shapes: B samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.reference.beside import each


class _Forward(nn.Module):
    """The model as Captum wants it: a module, some of whose methods look for layers in it."""

    def __init__(self, model: nn.Module, logits: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, x: Tensor, place: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        with each(lambda rows: rows[place]):  # Captum repeats the place of a sample as it repeats the sample
            return self.logits(x, times, observed)


def _in_one_sum(method: Any) -> Any:
    """A Captum method that takes the gradient of the sum of all logits: the same result, as samples do not interact.

    Captum hands autograd a scalar for every sample and point, each as a separate tensor: tens of thousands at a time.
    """

    def gradients(forward_fn: Any, inputs: Any, target_ind: Tensor, additional_forward_args: Any = None) -> Any:
        with torch.enable_grad():
            logits = forward_fn(*inputs, *(additional_forward_args or ()))
            target = target_ind.expand(len(logits))  # Captum leaves the target of a single sample single
            return torch.autograd.grad(logits.gather(1, target[:, None]).sum(), inputs)

    method.gradient_func = gradients
    return method


class CaptumExplainer(Explainer):
    """The adapter: subclasses make the Captum method in `_captum` and name its options in `_options`."""

    signed = True
    needs_gradients = True

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        place = torch.arange(len(batch.x), device=batch.x.device)
        extra = (place,) if batch.times is None else (place, batch.times, batch.observed)
        x = batch.x.clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Setting forward, backward hooks")  # on our copy, and taken off again
            method = self._captum(_Forward(self.model, self.logits))
            options = self._options(batch.x.shape)
            return {"attribution": method.attribute(x, target=batch.target, additional_forward_args=extra, **options)}

    def _captum(self, forward: nn.Module) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _captum")

    def _options(self, shape: torch.Size) -> dict[str, Any]:
        return {}


class Saliency(CaptumExplainer):
    """|Gradient| of the class's logit (Simonyan et al., 2014)."""

    name = "saliency"
    cost = "1"
    signed = False

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import Saliency as Captum

        return _in_one_sum(Captum(forward))


class GradientXInput(CaptumExplainer):
    """Gradient times value (Shrikumar et al., 2016): exact for a linear model."""

    name = "gradient_x_input"
    cost = "1"

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import InputXGradient

        return _in_one_sum(InputXGradient(forward))


@dataclass(frozen=True, kw_only=True)
class IntegratedGradientsConfig:
    """Settings of `IntegratedGradients`."""

    n_steps: int = 50
    """Points of the integral; Captum's default, and what the TimeX paper ran."""


class IntegratedGradients(CaptumExplainer):
    """Gradients integrated along the straight line from a zero baseline to x (Sundararajan et al., 2017).

    Scores are signed and sum to what the logit gains over the zero series (completeness). Assumes that zero is a
    neutral value of the data, and that the gradient is informative along the whole line.
    """

    name = "ig"
    cost = "n_steps"
    config_class = IntegratedGradientsConfig
    config: IntegratedGradientsConfig

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import IntegratedGradients as Captum

        return _in_one_sum(Captum(forward))

    def _options(self, shape: torch.Size) -> dict[str, Any]:
        return {"n_steps": self.config.n_steps}

    def _copies(self, shape: tuple[int, ...]) -> int:
        return self.config.n_steps


class DeepLift(CaptumExplainer):
    """Differences from the zero series passed back through the layers (rescale rule; Shrikumar et al., 2017).

    Captum applies the rule to activation *modules* (nn.ReLU and the like). A model that calls functions instead, as our
    transformers do outside their heads, is explained by gradient times value there. The completeness of DeepLift then no
    longer holds.
    """

    name = "deeplift"
    cost = "2"

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import DeepLift as Captum

        return Captum(forward)

    def _copies(self, shape: tuple[int, ...]) -> int:
        return 2


@dataclass(frozen=True, kw_only=True)
class OcclusionConfig:
    """Settings of `Occlusion`."""

    width: int = 5
    """Steps of one channel set to zero together; a cell's score is the mean over the windows that cover it."""


class Occlusion(CaptumExplainer):
    """How far the logit falls when a sliding window of one channel is set to zero (Zeiler & Fergus, 2014).

    The width is ours: single cells of a long series rarely change a prediction, and motifs here are 3 to 30 steps long.
    """

    name = "occlusion"
    cost = "1 + D * (T - width + 1)"
    needs_gradients = False
    config_class = OcclusionConfig
    config: OcclusionConfig

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        with torch.no_grad():
            return super()._explain(batch)

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import Occlusion as Captum

        return Captum(forward)

    def _options(self, shape: torch.Size) -> dict[str, Any]:
        window = (min(self.config.width, shape[1]), 1)
        return {"sliding_window_shapes": window, "perturbations_per_eval": max(1, self._rows(shape) // shape[0])}

    def _copies(self, shape: tuple[int, ...]) -> int:
        return 16
