"""Explainers to compare with, one a file, and controls that see no model at all."""

from timex.baselines.controls import Amplitude, Centre, Random, RandomConfig
from timex.baselines.cortx import CoRTX, CoRTXConfig
from timex.baselines.dynamask import Dynamask, DynamaskConfig
from timex.baselines.gradients import (
    DeepLift,
    GradientShap,
    GradientShapConfig,
    GradientXInput,
    IntegratedGradients,
    IntegratedGradientsConfig,
    Occlusion,
    OcclusionConfig,
    Saliency,
)
from timex.baselines.sgt import SGTConfig, SGTGrad
from timex.baselines.shapley import ShapleySampling, ShapleySamplingConfig
from timex.baselines.winit import WinIT, WinITConfig

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
    "IntegratedGradients",
    "IntegratedGradientsConfig",
    "Occlusion",
    "OcclusionConfig",
    "Random",
    "RandomConfig",
    "SGTConfig",
    "SGTGrad",
    "Saliency",
    "ShapleySampling",
    "ShapleySamplingConfig",
    "WinIT",
    "WinITConfig",
]
