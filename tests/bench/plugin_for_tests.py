"""A plugin as a user would write one: an explainer that counts its calls, one that fails, and a data set."""

import os
from dataclasses import replace

import torch

from timex.baselines.base import Unfitted
from timex.data import load_dataset
from timex.registry import DATASETS, EXPLAINERS


class Slope(Unfitted):
    """|x_t - x_(t-1)|; leaves a line in a file for every call, so that a test can count them."""

    name = "slope"

    def _attribute(self, x, target, times, observed):
        if "SLOPE_CALLS" in os.environ:
            with open(os.environ["SLOPE_CALLS"], "a") as file:
                file.write("called\n")
        return torch.diff(x, dim=1, prepend=x[:, :1]).abs()


class Broken(Unfitted):
    """Fails."""

    name = "broken"

    def _attribute(self, x, target, times, observed):
        raise ZeroDivisionError("broken on purpose")


def upside_down(seed=0, fold=0):
    """FreqShapes with its sign turned."""
    data = load_dataset("freqshapes", seed=seed, fold=fold)
    parts = {name: replace(getattr(data, name), x=-getattr(data, name).x) for name in ("train", "val", "test")}
    return replace(data, name="upside_down", **parts)


EXPLAINERS["slope"] = Slope
EXPLAINERS["broken"] = Broken
DATASETS["upside_down"] = upside_down
