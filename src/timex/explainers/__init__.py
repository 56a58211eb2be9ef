"""Explainers to compare TimeX with, by family, and controls that ignore the model."""

from timex.explainers.controls import Amplitude, Centre, Random, RandomConfig
from timex.explainers.cortx import CoRTX, CoRTXConfig
from timex.explainers.drawn_occlusion import (
    AugmentedOcclusion,
    AugmentedOcclusionConfig,
    FeaturePermutation,
    FeaturePermutationConfig,
)
from timex.explainers.dynamask import Dynamask, DynamaskConfig, DynamaskDeletion
from timex.explainers.gradients import (
    DeepLift,
    GradientXInput,
    IntegratedGradients,
    IntegratedGradientsConfig,
    Occlusion,
    OcclusionConfig,
    Saliency,
)
from timex.explainers.layers import AttentionRollout, GuidedGradCAM
from timex.explainers.learned_masks import ContraLSP, ContraLSPConfig, ExtremalMask, ExtremalMaskConfig
from timex.explainers.random_gradients import (
    GradientShap,
    GradientShapConfig,
    SmoothGrad,
    SmoothGradConfig,
    Timing,
    TimingConfig,
)
from timex.explainers.segments import KernelShap, Lime, LimeConfig, SegmentsConfig
from timex.explainers.sgt import SGTConfig, SGTGrad
from timex.explainers.shapelets import Shapelets, ShapeletsConfig
from timex.explainers.shapley import ShapleySampling, ShapleySamplingConfig
from timex.explainers.smoothed_gradients import Gradients, GradientsConfig
from timex.explainers.step_gradients import SequentialIG, StepGradientsConfig, TemporalIG
from timex.explainers.timeshap import TimeShap, TimeShapConfig
from timex.explainers.winit import WinIT, WinITConfig

__all__ = [
    "Amplitude",
    "AttentionRollout",
    "AugmentedOcclusion",
    "AugmentedOcclusionConfig",
    "Centre",
    "CoRTX",
    "CoRTXConfig",
    "ContraLSP",
    "ContraLSPConfig",
    "DeepLift",
    "Dynamask",
    "DynamaskConfig",
    "DynamaskDeletion",
    "ExtremalMask",
    "ExtremalMaskConfig",
    "FeaturePermutation",
    "FeaturePermutationConfig",
    "GradientShap",
    "GradientShapConfig",
    "GradientXInput",
    "Gradients",
    "GradientsConfig",
    "GuidedGradCAM",
    "IntegratedGradients",
    "IntegratedGradientsConfig",
    "KernelShap",
    "Lime",
    "LimeConfig",
    "Occlusion",
    "OcclusionConfig",
    "Random",
    "RandomConfig",
    "SGTConfig",
    "SGTGrad",
    "Saliency",
    "SegmentsConfig",
    "SequentialIG",
    "Shapelets",
    "ShapeletsConfig",
    "ShapleySampling",
    "ShapleySamplingConfig",
    "SmoothGrad",
    "SmoothGradConfig",
    "StepGradientsConfig",
    "TemporalIG",
    "TimeShap",
    "TimeShapConfig",
    "Timing",
    "TimingConfig",
    "WinIT",
    "WinITConfig",
]
