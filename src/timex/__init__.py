"""Explanations for any time-series model, learned once, given in one forward pass.

>>> from timex import TimeX, load_dataset
>>> load_dataset("freqshapes").train.x.shape
(5000, 50, 1)
"""

from timex.data import load_dataset
from timex.method.config import TimeXConfig
from timex.method.explainer import TimeX, fit_many
from timex.reference import load_reference
from timex.types import Dataset, Explanation, Part

__version__ = "0.1.0"
__all__ = ["Dataset", "Explanation", "Part", "TimeX", "TimeXConfig", "fit_many", "load_dataset", "load_reference"]
