"""A plugin as a user would write one: an explainer that counts its calls, one that fails, and a data set."""

import os
from dataclasses import dataclass, replace

import numpy as np
import torch

from timex.data import load_dataset
from timex.registry import DATASETS, EXPLAINERS
from timex.types import Explanation


@dataclass(frozen=True, kw_only=True)
class SlopeConfig:
    """Steps between the values compared."""

    steps: int = 1
    seed: int = 0


class Slope:
    """|x_t - x_(t-1)|; leaves a line in a file for every call, so that a test can count them."""

    name = "slope"
    config_class = SlopeConfig

    def __init__(self, model, config=None, device=None):
        self.model, self.config = model, config or SlopeConfig()

    def fit(self, x, y=None, x_val=None, times=None, observed=None):
        return self

    def explain(self, x, target=None, times=None, observed=None):
        if "SLOPE_CALLS" in os.environ:
            with open(os.environ["SLOPE_CALLS"], "a") as file:
                file.write(f"called with {self.config}\n")
        with torch.no_grad():
            probability = self.model(torch.as_tensor(x)).softmax(-1).numpy()
        attribution = np.abs(np.diff(x, axis=1, prepend=x[:, :1]))
        return Explanation(x=x, attribution=attribution, prediction=probability.argmax(1), probability=probability)


class Broken(Slope):
    """Fails."""

    def explain(self, x, target=None, times=None, observed=None):
        raise ZeroDivisionError("broken on purpose")


def upside_down(seed=0, fold=0):
    """FreqShapes with its sign turned."""
    data = load_dataset("freqshapes", seed=seed, fold=fold)
    parts = {name: replace(getattr(data, name), x=-getattr(data, name).x) for name in ("train", "val", "test")}
    return replace(data, name="upside_down", **parts)


EXPLAINERS["slope"] = Slope
EXPLAINERS["broken"] = Broken
DATASETS["upside_down"] = upside_down
