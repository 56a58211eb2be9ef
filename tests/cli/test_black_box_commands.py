"""Commands on a black box: other methods ask the model itself, not the student that TimeX fits to its answers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from timex import Explanation
from timex.cli.models import call_factory
from timex.explainers import Occlusion
from timex.io.files import write_series
from timex.metrics import ground_truth_scores

pytestmark = pytest.mark.filterwarnings("ignore:The model predicts class")  # the student does, for all series

BOX = """
import numpy as np

def net():
    def answers(x):
        p = 1 / (1 + np.exp(-3 * x[:, 4, 1]))
        return np.stack([1 - p, p], -1)
    return answers
"""


@pytest.fixture
def box(series, invoke, own_model, monkeypatch):
    """A function, an explainer of it whose student learned nothing, and the options that name both."""
    monkeypatch.setattr("timex.reference.student.STEPS", 1)
    monkeypatch.setattr("timex.reference.student.FAITHFUL", 0)
    (own_model / "my_net.py").write_text(BOX)
    write_series("train.npz", replace(series, y=None))
    write_series("blind.npz", replace(series, y=None, truth=None))
    invoke("fit", "--model", "my_net:net", "--data", "train.npz", "--out", "e", "--epochs", 1, "--device", "cpu")
    return "--model", "my_net:net", "--device", "cpu"


def test_explain_by_another_method_asks_the_black_box(box, series, invoke, fails):
    explain = ("explain", "--explainer", "e", "--data", "train.npz", "--out", "o.npz", *box)
    invoke(*explain, "--method", "occlusion")
    expected = Occlusion(call_factory("my_net:net"), device="cpu").explain(series)
    found = Explanation.load("o.npz")
    np.testing.assert_allclose(found.attribution, expected.attribution, atol=1e-6)
    assert not found.attribution[:, :, 0].any()  # the box reads the other channel alone
    assert "Gradients needs gradients, and" in fails(*explain, "--method", "gradients")


def test_compare_leaves_out_what_needs_gradients_of_the_black_box(box, invoke):
    invoke("compare", "e", "--data", "blind.npz", "--methods", "gradients,occlusion", "--out", "c.json", *box)
    found = json.loads(Path("c.json").read_text())
    assert set(found["methods"]) == {"timex", "occlusion", "amplitude", "random"}
    assert "explained as a black box" in found["skipped"]["gradients"]
    assert found["best"] == "occlusion"


def test_evaluate_scores_methods_that_ask_the_black_box(box, series, invoke):
    invoke("evaluate", "--explainer", "e", "--data", "train.npz", "--out", "s.json", *box)
    scores = json.loads(Path("s.json").read_text())
    assert set(scores) == {"timex", "occlusion", "amplitude", "random"}
    attribution = Occlusion(call_factory("my_net:net"), device="cpu").explain(series).attribution
    expected = np.nanmean(ground_truth_scores(attribution, series.truth)["auprc"])
    assert scores["occlusion"]["auprc"] == float(f"{expected:.4g}")  # files have four digits
