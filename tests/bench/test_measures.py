"""The gap beside the scores of a known truth."""

import numpy as np
import pytest
import torch

from timex.bench import measures
from timex.bench.measures import Fitted, Subject, evidence_gap
from timex.data.battery import BATTERY
from timex.explainers import Random
from timex.reference.base import initialised
from timex.reference.evidence import gap, log_odds


@pytest.fixture
def subject():
    """Random scores of irregular series with missing cells, and a transformer that was not trained."""
    data = BATTERY["heldout_gaps"](sizes=(20, 6, 11))
    model = initialised("transformer", {"n_channels": 3, "n_classes": 4, "n_steps": 80}, 0).eval()
    return Subject(Fitted(data, model, {}, Random(model, device="cpu"), 0.0, "cpu", 0), data.test)


def test_the_gap_is_that_of_every_series_alone(subject, monkeypatch):
    monkeypatch.setattr(measures, "CHUNK", 4)
    model, test = subject.fitted.reference, subject.part
    mean = torch.as_tensor(subject.fitted.data.baseline.mean)
    expected = []
    for i in range(len(test)):
        b = test.take([i]).tensors()
        observed = b["observed"]
        score = torch.as_tensor(subject.attribution[i : i + 1])
        with torch.no_grad():
            value = gap(
                lambda view, b=b: model(view, b["times"], b["observed"]), b["x"], score, mean * observed, observed=observed
            )
        expected.append(float(value))
    np.testing.assert_allclose(evidence_gap(subject), expected, atol=1e-5)


def test_the_absolute_value_has_a_gap_of_its_own(subject):
    signed = subject.explanation.attribution - 0.5
    object.__setattr__(subject.explanation, "attribution", signed)
    plain = evidence_gap(subject)
    subject.absolute = True
    assert not np.allclose(evidence_gap(subject), plain)


def test_the_gap_of_a_model_that_reads_one_cell():
    """One cell holds all the evidence: the gap is 1 with this cell ranked first, and -1 with it last."""

    class FirstCell(torch.nn.Module):
        def forward(self, x, times=None, observed=None):
            return torch.stack([torch.zeros(len(x)), 8 * x[:, 0, 0]], dim=1)

    x = torch.zeros(1, 10, 2)
    x[0, 0, 0] = 1.0
    assert float(log_odds(FirstCell()(x), torch.tensor([1]))) == 8.0
    first = torch.zeros(1, 10, 2)
    first[0, 0, 0] = 1.0
    for score, expected in ((first, 1.0), (-first, -1.0)):
        found = measures._gap(FirstCell(), {"x": x}, score, torch.zeros(10, 2))
        assert float(found) == pytest.approx(expected)
