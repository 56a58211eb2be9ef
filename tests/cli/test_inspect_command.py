"""`timex inspect`, and options that say how a model is called."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from timex import TimeX
from timex.cli import app
from timex.cli.models import call_factory
from timex.io.files import write_series

CHANNELS_FIRST = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv1d(2, 6, 5, padding=2), nn.Linear(6, 3)
    def forward(self, values):
        return {"scores": self.head(self.body(values).relu().mean(2)), "other": values}
net = Net
"""


def test_layers_and_the_embedding(series, invoke, own_model):
    write_series("train.npz", series)
    printed = invoke("inspect", "my_net:net", "--data", "train.npz")
    assert "body │ Conv1d │ (8, 6, " in printed
    assert "head │ Linear │ (8, 3) │ 3 │" in printed
    assert "The answer has 3 classes. Without --embedding a fit takes the input of layer 'head', Z = 6." in printed


def test_a_model_is_found_by_its_file(series, invoke, own_model, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write_series(elsewhere / "train.npz", series)
    (own_model / "my_net.py").rename(elsewhere / "renamed_net.py")
    printed = invoke("inspect", elsewhere / "renamed_net.py:net", "--data", elsewhere / "train.npz")
    assert "head │ Linear │ (8, 3) │ 3 │" in printed


def test_a_black_box_has_no_layers(series, invoke, own_model):
    write_series("train.npz", series)
    (own_model / "my_net.py").write_text("net = lambda: lambda x: x.sum(1)\n")
    assert "BlackBox: explained as it is" in invoke("inspect", "my_net:net", "--data", "train.npz")


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_options_reach_the_fit_and_are_saved(series, invoke, fails, own_model):
    write_series("train.npz", series)
    (own_model / "my_net.py").write_text(CHANNELS_FIRST)
    how = ("--layout", "BDT", "--forward", "values", "--output", "scores")
    assert "pass --layout 'BDT'" in fails("inspect", "my_net:net", "--data", "train.npz", *how[2:])
    assert "Z = 6" in invoke("inspect", "my_net:net", "--data", "train.npz", *how)
    invoke("fit", "--model", "my_net:net", "--data", "train.npz", "--out", "e", "--epochs", 1, *how)
    loaded = TimeX.load("e", call_factory("my_net:net"), allow_other_model=True)
    assert loaded.how.given == {"layout": "BDT", "forward": "values", "output": "scores"}
    assert np.isfinite(loaded.explain(series).attribution).all()


def test_a_target_that_is_no_index(fails, own_model):
    assert "Expected --target as an index or step,channel, got 'first'." in fails(
        "fit", "--model", "my_net:net", "--data", "x.npz", "--out", "e", "--task", "regress", "--target", "first"
    )


@pytest.mark.filterwarnings("ignore:The student that stands in")
def test_numbers_are_printed_in_their_own_units(series, invoke, own_model, monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 5)
    write_series("train.npz", replace(series, y=None, classes=()))
    (own_model / "my_net.py").write_text("net = lambda: lambda x: 1000 + x.sum((1, 2))\n")
    invoke("fit", "--model", "my_net:net", "--data", "train.npz", "--out", "e", "--epochs", 1, "--task", "regress")
    arguments = ["explain", "--explainer", "e", "--model", "my_net:net", "--data", "train.npz", "--json"]
    printed = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    found = [json.loads(line)["numbers"] for line in printed.splitlines()]
    np.testing.assert_allclose(np.ravel(found), 1000 + series.x.sum((1, 2)), rtol=1e-4)
    table = invoke("explain", "--explainer", "e", "--model", "my_net:net", "--data", "train.npz")
    assert "sample ┃ numbers ┃" in table
