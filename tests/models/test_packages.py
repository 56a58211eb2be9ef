"""Models of other packages are fitted and explained in a few lines; docs/models.md has the numbers of whole fits."""

import numpy as np
import pytest
from packages import ALIGNED, ANYWHERE, case
from table import auprc

from timex import TimeX, TimeXConfig

NEEDS = {
    "PatchTST": "transformers",
    "PatchTSM": "transformers",
    "Lightning": "lightning",
    "skorch": "skorch",
    "LightGBM": "lightgbm",
    "ONNX": "onnxruntime",
}
CHANCE = 8 / (48 * 3)
"""Share of the cells that decide: the AUPRC of random scores."""


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", [*ANYWHERE, *ALIGNED])
def test_deciding_cells_are_found(name, monkeypatch):
    for start, package in NEEDS.items():
        if name.startswith(start):
            pytest.importorskip(package)
    monkeypatch.setattr("timex.reference.student.STEPS", 400)
    one = case(name, n=400, n_test=60)
    explainer = TimeX(one.model, config=TimeXConfig(epochs=15), **one.how).fit(one.train.x, progress=False)
    explanation = explainer.explain(one.test)
    assert explanation.attribution.shape == one.test.shape
    assert np.isfinite(explanation.attribution).all()
    assert auprc(explanation) > 4 * CHANCE
