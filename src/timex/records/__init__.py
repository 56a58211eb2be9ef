"""The records that everything else passes around, one for each idea; layout (N, T, D) everywhere."""

from timex.records.dataset import Dataset
from timex.records.explanation import Explanation
from timex.records.series import Baseline, Series, as_series, to_tensor

__all__ = ["Baseline", "Dataset", "Explanation", "Series", "as_series", "to_tensor"]
