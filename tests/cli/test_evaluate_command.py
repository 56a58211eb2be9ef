"""`timex evaluate`."""

import json

import numpy as np
import pytest

from timex import Series
from timex.cli.scores import scores_of
from timex.explainers import IntegratedGradients
from timex.metrics import ground_truth_scores
from timex.registry import EXPLAINERS


def evaluate(small, *more):
    return ("evaluate", "--explainer", small.explainer, "--data", "freqshapes", *more)


def test_our_scores_stand_beside_the_papers(small, invoke, tmp_path):
    output = invoke(*evaluate(small, "--out", tmp_path / "scores.json"))
    assert "0.832" in output
    assert "weak model" in output  # after one epoch
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert set(scores) == {"timex", "gradients", "ig", "amplitude", "random"}
    assert scores["amplitude"]["auprc"] > 0.9
    values = [value for row in scores.values() for value in row.values()]
    assert all(value == float(f"{value:.4g}") for value in values)


def test_only_samples_with_known_cells_count(small):
    from timex.cli.models import open_explainer

    explainer = open_explainer(small.explainer, None, False, "cpu")
    truth = small.test.truth.copy()
    truth[5:] = False
    some = Series(small.test.x, truth=truth)
    attribution = EXPLAINERS["amplitude"](explainer.fitted.reference, device="cpu").explain(some).attribution[:5]
    expected = ground_truth_scores(attribution, truth[:5])
    assert scores_of(explainer, some)["amplitude"]["auprc"] == pytest.approx(np.mean(expected["auprc"]))
    for nothing in (None, np.zeros_like(truth)):
        with pytest.raises(ValueError, match="Expected series with known deciding cells"):
            scores_of(explainer, Series(small.test.x, truth=nothing))


def test_gradients_are_fitted_on_the_training_part(small):
    from timex.cli.models import open_explainer

    explainer = open_explainer(small.explainer, None, False, "cpu")
    train = Series(small.test.x[::2] + 1)  # another mean
    fitted = EXPLAINERS["gradients"](explainer.fitted.reference, device="cpu").fit(train, x_val=train)
    expected = ground_truth_scores(fitted.explain(small.test).attribution, small.test.truth)["auprc"].mean()
    assert scores_of(explainer, small.test, train)["gradients"]["auprc"] == pytest.approx(expected)
    assert scores_of(explainer, small.test)["gradients"]["auprc"] != pytest.approx(expected)


def test_all_methods_run_on_the_same_device(small, invoke, monkeypatch):
    devices = []

    class Watched(IntegratedGradients):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            devices.append(self.device.type)

    monkeypatch.setitem(EXPLAINERS, "ig", Watched)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # the default would be the GPU
    invoke(*evaluate(small, "--device", "cpu"))
    assert devices == ["cpu"]
