"""`timex report`: one page from a folder, without the model and without the data."""

import json

import pytest

from timex import TimeX, TimeXConfig
from timex.io.files import write_series
from timex.reference import CNN


@pytest.mark.filterwarnings("ignore:The model predicts class")  # random weights often do
def test_a_page_of_a_model_and_files_of_the_user(own_model, invoke, series, page_facts):
    write_series("test.csv", series, layout="wide")
    options = ("--embedding", "body", "--pool", 2, "--epochs", 1)
    invoke("fit", "--model", "my_net:net", *options, "--data", "test.csv", "--out", "e")
    own = ("--explainer", "e", "--model", "my_net:net", "--data", "test.csv")
    invoke("explain", *own, "--out", "e/explanations.npz")
    invoke("explain", *own, "--out", "e/explanations-ig.npz", "--method", "ig")
    assert "weak model" not in invoke("evaluate", *own, "--out", "e/scores.json")
    assert "Written to e/report.html" in invoke("report", "e")
    meta = page_facts(own_model / "e" / "report.html")
    assert [m["name"] for m in meta["methods"]] == ["timex", "ig"]
    assert set(meta["scores"]) == {"timex", "gradients", "ig", "amplitude", "random"}
    assert meta["channels"] == ["left", "right"]
    assert meta["history"]["epochs"] == [0, 1]  # of the generator, then of the surrogate
    assert {"truth", "label"} <= set(meta["arrays"])
    assert meta["prior"] == 0
    assert "case-7" in (own_model / "e" / "report.html").read_text()


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_scaled_channels_with_units(series, invoke, tmp_path, page_facts):
    """The page holds the user's values, and channel names with units."""
    names = {"channels": series.channels, "units": ("V", ""), "scaling": ([1.0, -2.0], [3.0, 0.5])}
    model = CNN(n_channels=2, n_classes=3, n_steps=12, width=4)
    explainer = TimeX(model, config=TimeXConfig(epochs=1, n_landmarks=4), device="cpu", **names)
    explainer.fit(series.x, progress=False).save(tmp_path)
    explainer.explain(series.x).save(tmp_path / "explanations.npz")
    invoke("report", tmp_path, "--out", tmp_path / "page.html", "--title", "Two channels")
    meta = page_facts(tmp_path / "page.html")
    assert meta["channels"] == ["left [V]", "right"]
    assert "truth" not in meta["arrays"]
    assert meta["title"] == "Two channels"


def test_damaged_scores_are_named(small, invoke, fails, tmp_path):
    invoke("explain", "--explainer", small.explainer, "--data", "freqshapes", "--out", tmp_path / "explanations.npz")
    (tmp_path / "scores.json").write_text(json.dumps({"timex": {"auprc": 0.5}})[:-3])
    assert "scores.json is no readable JSON file" in fails("report", tmp_path)
