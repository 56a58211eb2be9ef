"""Gradient and occlusion methods, by Captum through one thin adapter.

Each explains F_c, the logit of one class. The baseline of all of them is the zero series, so they assume that zero is a neutral
value of the data (series centred at zero).

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
from timex.settings import Settings, setting


class _Forward(nn.Module):
    """The model as a module, which Captum requires: some of its methods look for layers in it."""

    def __init__(self, model: nn.Module, logits: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, x: Tensor, place: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        with each(lambda rows: rows[place]):  # Captum repeats the place of a sample as it repeats the sample
            return self.logits(x, times, observed)


def _in_one_sum(method: Any) -> Any:
    """The Captum method, with the gradient of the sum of all logits in place of Captum's gradient of each logit.

    The result is the same, as samples do not interact. Captum passes autograd a separate scalar for every sample and point.
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
    """|Gradient| of the class's logit (Simonyan et al., 2014).

    score(t, d) = |dF_c / dx(t, d)|: how strongly a small change of a cell changes the logit. By Captum.
    """

    name = "saliency"
    cost = "1"
    signed = False

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import Saliency as Captum

        return _in_one_sum(Captum(forward))


class GradientXInput(CaptumExplainer):
    """Gradient times value (Shrikumar et al., 2016): exact for a linear model.

    score(t, d) = x(t, d) * dF_c / dx(t, d), by Captum. Scores are signed. Assumes that zero is a neutral value of the data.
    """

    name = "gradient_x_input"
    cost = "1"

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import InputXGradient

        return _in_one_sum(InputXGradient(forward))


@dataclass(frozen=True, kw_only=True)
class IntegratedGradientsConfig(Settings):
    """Settings of `IntegratedGradients`."""

    n_steps: int = setting(50, "Points of the integral; Captum's default, and that of the TimeX paper.", least=1)


class IntegratedGradients(CaptumExplainer):
    """Gradients integrated along the straight line from a zero baseline to x (Sundararajan et al., 2017).

    score(t, d) = x(t, d) * integral over a from 0 to 1 of dF_c / dx(t, d) at a x

    By Captum. Scores are signed and sum to F_c(x) - F_c(0) (completeness). Assumes that zero is a neutral value of the data,
    and that the gradient is informative along the whole line.
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

    score(t, d) = x(t, d) * m(t, d). The multiplier m follows the chain rule, with (f(u) - f(u_0)) / (u - u_0) in place of the
    slope f'(u) of every activation f, where u_0 is its input for the zero series. Scores sum to F_c(x) - F_c(0).

    Captum applies the rule to activation *modules* (nn.ReLU and the like). Activations that are called as functions, as in our
    transformers outside their heads, keep their slope. The scores then no longer sum to the difference.
    """

    name = "deeplift"
    cost = "2"

    def _captum(self, forward: nn.Module) -> Any:
        from captum.attr import DeepLift as Captum

        return Captum(forward)

    def _copies(self, shape: tuple[int, ...]) -> int:
        return 2


@dataclass(frozen=True, kw_only=True)
class OcclusionConfig(Settings):
    """Settings of `Occlusion`."""

    width: int = setting(5, "Steps of one channel that are set to zero together.", least=1)


class Occlusion(CaptumExplainer):
    """How far the logit falls when a sliding window of one channel is set to zero (Zeiler & Fergus, 2014).

    score(t, d) = mean over the windows W that contain (t, d) of F_c(x) - F_c(x with W set to zero), by Captum. The default
    width is ours: a single cell of a long series rarely changes a prediction. Assumes that zero is a neutral value of the data.
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
