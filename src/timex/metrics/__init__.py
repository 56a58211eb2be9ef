"""Scores of explanations and of models, as plain functions of arrays."""

from timex.metrics.classification import classification_scores
from timex.metrics.ground_truth import ground_truth_scores, score_summary
from timex.metrics.occlusion import model_predict, occlusion_curve

__all__ = [
    "classification_scores",
    "ground_truth_scores",
    "model_predict",
    "occlusion_curve",
    "score_summary",
]
