"""Scores of explanations and of models, as plain functions of arrays."""

from timex.metrics.agreement import max_sensitivity, rank_correlation, stability
from timex.metrics.classification import classification_scores
from timex.metrics.faithfulness import direction_effect, faithfulness_scores
from timex.metrics.familiarity import distance_from, distinction, traits
from timex.metrics.ground_truth import ground_truth_scores, score_summary, truth_scores
from timex.metrics.hiding import Probe
from timex.metrics.occlusion import occlusion_curve

__all__ = [
    "Probe",
    "classification_scores",
    "direction_effect",
    "distance_from",
    "distinction",
    "faithfulness_scores",
    "ground_truth_scores",
    "max_sensitivity",
    "occlusion_curve",
    "rank_correlation",
    "score_summary",
    "stability",
    "traits",
    "truth_scores",
]
