"""Everything that has a name, in four dicts. Adding a data set, model, explainer or metric is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from timex.baselines import (
    Amplitude,
    Centre,
    CoRTX,
    DeepLift,
    Dynamask,
    GradientShap,
    GradientXInput,
    IntegratedGradients,
    Occlusion,
    Random,
    Saliency,
    SGTGrad,
    ShapleySampling,
    WinIT,
)
from timex.data import LOADERS as DATASETS
from timex.method.explainer import TimeX
from timex.metrics import classification_scores, ground_truth_scores, occlusion_curve
from timex.reference import REFERENCES

EXPLAINERS: dict[str, type[Any]] = {
    "timex": TimeX,
    "ig": IntegratedGradients,
    "dynamask": Dynamask,
    "winit": WinIT,
    "cortx": CoRTX,
    "sgt_grad": SGTGrad,
    "saliency": Saliency,
    "gradient_x_input": GradientXInput,
    "gradient_shap": GradientShap,
    "deeplift": DeepLift,
    "occlusion": Occlusion,
    "shapley_sampling": ShapleySampling,
    "random": Random,
    "amplitude": Amplitude,
    "centre": Centre,
}
METRICS: dict[str, Callable[..., Any]] = {
    "ground_truth": ground_truth_scores,
    "classification": classification_scores,
    "occlusion": occlusion_curve,
}

T = TypeVar("T")


def find(registry: Mapping[str, T], name: str, kind: str) -> T:
    """The entry called `name`, or a `ValueError` that lists the known ones.

    >>> find(EXPLAINERS, "lime", "explainer")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: Unknown explainer 'lime'; known: timex, ig, dynamask, winit, ...
    """
    if name not in registry:
        raise ValueError(f"Unknown {kind} {name!r}; known: {', '.join(registry)}.")
    return registry[name]


__all__ = ["DATASETS", "EXPLAINERS", "METRICS", "REFERENCES", "find"]
