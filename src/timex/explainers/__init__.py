"""Explainers to compare with, one a file, and controls that see no model at all."""

from timex.explainers.controls import Amplitude, Centre, Random, RandomConfig
from timex.explainers.cortx import CoRTX, CoRTXConfig
from timex.explainers.dynamask import Dynamask, DynamaskConfig
from timex.explainers.gradients import (
    DeepLift,
    GradientXInput,
    IntegratedGradients,
    IntegratedGradientsConfig,
    Occlusion,
    OcclusionConfig,
    Saliency,
)
from timex.explainers.random_gradients import (
    GradientShap,
    GradientShapConfig,
    SmoothGrad,
    SmoothGradConfig,
    Timing,
    TimingConfig,
)
from timex.explainers.sgt import SGTConfig, SGTGrad
from timex.explainers.shapley import ShapleySampling, ShapleySamplingConfig
from timex.explainers.smoothed_gradients import Gradients, GradientsConfig
from timex.explainers.step_gradients import SequentialIG, StepGradientsConfig, TemporalIG
from timex.explainers.winit import WinIT, WinITConfig

__all__ = [
    "Amplitude",
    "Centre",
    "CoRTX",
    "CoRTXConfig",
    "DeepLift",
    "Dynamask",
    "DynamaskConfig",
    "GradientShap",
    "GradientShapConfig",
    "GradientXInput",
    "Gradients",
    "GradientsConfig",
    "IntegratedGradients",
    "IntegratedGradientsConfig",
    "Occlusion",
    "OcclusionConfig",
    "Random",
    "RandomConfig",
    "SGTConfig",
    "SGTGrad",
    "Saliency",
    "SequentialIG",
    "ShapleySampling",
    "ShapleySamplingConfig",
    "SmoothGrad",
    "SmoothGradConfig",
    "StepGradientsConfig",
    "TemporalIG",
    "Timing",
    "TimingConfig",
    "WinIT",
    "WinITConfig",
]
