"""A plugin as a user would write one: an explainer that counts its calls, one that fails, and a data set."""

import os
from dataclasses import dataclass, replace

import torch

from timex.data import load_dataset
from timex.explainers.base import Explainer
from timex.registry import DATASETS, EXPLAINERS


@dataclass(frozen=True, kw_only=True)
class SlopeConfig:
    """Steps between the values compared."""

    steps: int = 1
    seed: int = 0


class Slope(Explainer):
    """|x_t - x_(t-1)|; writes a line into a file for every call, so that a test can count them."""

    name = "slope"
    config_class = SlopeConfig

    def _explain(self, batch):
        if "SLOPE_CALLS" in os.environ:
            with open(os.environ["SLOPE_CALLS"], "a") as file:
                file.write(f"called with {self.config}\n")
        return {"attribution": torch.diff(batch.x, dim=1, prepend=batch.x[:, :1]).abs()}


class Broken(Slope):
    """Fails."""

    name = "broken"

    def _explain(self, batch):
        raise ZeroDivisionError("broken on purpose")


def upside_down(seed=0, fold=0):
    """FreqShapes with its sign turned."""
    data = load_dataset("freqshapes", seed=seed, fold=fold)
    parts = {name: replace(getattr(data, name), x=-getattr(data, name).x) for name in ("train", "val", "test")}
    return replace(data, name="upside_down", **parts)


EXPLAINERS["slope"] = Slope
EXPLAINERS["broken"] = Broken
DATASETS["upside_down"] = upside_down
