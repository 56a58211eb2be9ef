"""Everything that has a name, in four dicts. Adding a data set, model, explainer or metric is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from timex.data import LOADERS as DATASETS
from timex.explainers import (
    Amplitude,
    AttentionRollout,
    AugmentedOcclusion,
    Centre,
    ContraLSP,
    CoRTX,
    DeepLift,
    Dynamask,
    DynamaskDeletion,
    ExtremalMask,
    FeaturePermutation,
    Gradients,
    GradientShap,
    GradientXInput,
    GuidedGradCAM,
    IntegratedGradients,
    KernelShap,
    Lime,
    Occlusion,
    Random,
    Saliency,
    SequentialIG,
    SGTGrad,
    Shapelets,
    ShapleySampling,
    SmoothGrad,
    TemporalIG,
    TimeShap,
    Timing,
    WinIT,
)
from timex.method.explainer import TimeX
from timex.method.plus import TimeXPlus
from timex.metrics import Probe, faithfulness_scores, truth_scores
from timex.records import Explanation
from timex.reference import REFERENCES

EXPLAINERS: dict[str, type[Any]] = {
    "timex": TimeX,
    "gradients": Gradients,
    "ig": IntegratedGradients,
    "dynamask": Dynamask,
    "winit": WinIT,
    "cortx": CoRTX,
    "sgt_grad": SGTGrad,
    "saliency": Saliency,
    "gradient_x_input": GradientXInput,
    "gradient_shap": GradientShap,
    "deeplift": DeepLift,
    "smoothgrad": SmoothGrad,
    "timing": Timing,
    "sequential_ig": SequentialIG,
    "temporal_ig": TemporalIG,
    "guided_gradcam": GuidedGradCAM,
    "attention_rollout": AttentionRollout,
    "occlusion": Occlusion,
    "augmented_occlusion": AugmentedOcclusion,
    "feature_permutation": FeaturePermutation,
    "lime": Lime,
    "kernel_shap": KernelShap,
    "timeshap": TimeShap,
    "shapelets": Shapelets,
    "shapley_sampling": ShapleySampling,
    "dynamask_deletion": DynamaskDeletion,
    "extremal_mask": ExtremalMask,
    "contralsp": ContraLSP,
    "timex_plus": TimeXPlus,
    "random": Random,
    "amplitude": Amplitude,
    "centre": Centre,
}
Metric = Callable[[Explanation, Probe | None], Mapping[str, NDArray[np.float64]]]
METRICS: dict[str, Metric] = {
    "ground_truth": truth_scores,
    "faithfulness": faithfulness_scores,
}
"""Functions from an explanation, and a probe of the explained model if there is one, to scores by name, (N,) each.

They return no scores where the explanation lacks what they need, such as a truth or the model."""

T = TypeVar("T")


def find(registry: Mapping[str, T], name: str, kind: str) -> T:
    """The entry called `name`, or a `ValueError` that lists the known ones.

    >>> find(EXPLAINERS, "shap", "explainer")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: Unknown explainer 'shap'; known: timex, gradients, ig, dynamask, ...
    """
    if name not in registry:
        raise ValueError(f"Unknown {kind} {name!r}; known: {', '.join(registry)}.")
    return registry[name]


def score(explanation: Explanation, probe: Probe | None = None) -> dict[str, NDArray[np.float64]]:
    """The scores of every sample by every registered metric, (N,) each; those that need the model take it from `probe`."""
    return {name: values for metric in METRICS.values() for name, values in metric(explanation, probe).items()}


__all__ = ["DATASETS", "EXPLAINERS", "METRICS", "REFERENCES", "find", "score"]
