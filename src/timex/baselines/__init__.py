"""Explainers to compare with, one a file, and controls that see no model at all."""

from timex.baselines.controls import Amplitude, Random
from timex.baselines.ig import IntegratedGradients

__all__ = ["Amplitude", "IntegratedGradients", "Random"]
