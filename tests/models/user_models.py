"""Every model of docs/models.md by name, with the package it needs beyond torch and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import architectures as a
import black_boxes as b
import packages as p
import torch
from packages import Case, bumps

from timex import Series


class Made(NamedTuple):
    """How a case is made: the function, the package it needs, and whether the deciding bump is always at the same steps."""

    make: Callable[[Series, Series], Case]
    package: str | None = None
    aligned: bool = False


CASES = {
    "torch, channels first": Made(p.channels_first),
    "one logit": Made(p.one_logit),
    "multi-label": Made(p.multilabel),
    "regression, 100 -+ 50": Made(p.regression),
    "a further input": Made(p.further_input),
    "an input of each series": Made(p.input_of_each_series),
    "an answer per step (GRU)": Made(p.per_step),
    "PatchTSTForClassification": Made(a.patchtst, "transformers"),
    "PatchTSTForRegression": Made(a.patchtst_regression, "transformers"),
    "PatchTSTForPrediction": Made(a.patchtst_forecast, "transformers"),
    "PatchTSMixer classifier": Made(a.patchtsmixer, "transformers"),
    "tsai InceptionTime": Made(a.tsai_inception, "tsai"),
    "tsai PatchTST": Made(a.tsai_patchtst, "tsai"),
    "neuralforecast NHITS": Made(a.nhits, "neuralforecast"),
    "LightningModule": Made(p.lightning_module, "lightning"),
    "skorch net": Made(p.skorch_net, "skorch"),
    "RandomForestClassifier": Made(b.random_forest, aligned=True),
    "LightGBM": Made(b.boosted_trees, "lightgbm", aligned=True),
    "XGBoost": Made(b.gradient_boosting, "xgboost", aligned=True),
    "ONNX Runtime session": Made(b.onnx_session, "skl2onnx", aligned=True),
    "aeon HydraClassifier": Made(b.hydra, "aeon"),
}


def case(name: str, n: int = 800, n_test: int = 200) -> Case:
    """A case by name, trained; torch's global generator is left as it was."""
    made = CASES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return made.make(bumps(n, aligned=made.aligned), bumps(n_test, seed=1, aligned=made.aligned))
