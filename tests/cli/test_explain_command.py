"""`timex explain`: what it writes and prints, other methods, and whose code it runs."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from timex import Explanation, Series, TimeX, TimeXConfig, load_reference
from timex.cli import app
from timex.cli.models import Source, call_factory
from timex.cli.summaries import print_summaries
from timex.explainers import IntegratedGradients, SGTConfig, SGTGrad
from timex.io.explanations import read_explanation
from timex.io.files import write_series
from timex.registry import EXPLAINERS
from timex.report.spans import Span, important_spans


def explain(small, *more):
    return ("explain", "--explainer", small.explainer, "--data", "freqshapes", *more)


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_explanations_keep_labels_and_truth(small, invoke, tmp_path, suffix):
    out = tmp_path / f"explanations.{suffix}"
    output = invoke(*explain(small, "--out", out))
    assert "32 explanations" in output
    assert "surrogate and model agree on" in output
    e = read_explanation(out)
    assert e.attribution.shape == (32, 50, 1)
    np.testing.assert_array_equal(e.series.y, small.test.y)
    np.testing.assert_array_equal(e.series.truth, small.test.truth)
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_the_table_has_a_row_per_cell(small, invoke, tmp_path):
    invoke(*explain(small, "--out", tmp_path / "e.parquet"))
    table = pd.read_parquet(tmp_path / "e.parquet")
    assert len(table) == 32 * 50
    assert {"sample", "channel", "value", "label", "truth", "attribution", "agreement"} <= set(table.columns)


def test_some_of_the_series(small, invoke, fails, tmp_path):
    printed = invoke(*explain(small, "--limit", 3, "--out", tmp_path / "e.npz"))
    assert "3 explanations in" in printed
    first = Explanation.load(tmp_path / "e.npz")
    invoke(*explain(small, "--samples", "2,0", "--out", tmp_path / "e.npz"))
    np.testing.assert_array_equal(Explanation.load(tmp_path / "e.npz").x, first.x[[2, 0]])
    assert "Expected --samples among the ids or 0.." in fails(*explain(small, "--samples", "nobody"))


def test_the_first_samples_are_printed(small, invoke):
    printed = invoke(*explain(small))
    model = load_reference(small.explainer / "reference")
    e = TimeX.load(small.explainer, model, device="cpu").explain(small.test)
    for span in important_spans(e, 0):
        assert str(span) in printed
    assert e.classes[e.prediction[0]] in printed
    assert e.classes[small.test.y[4]] in printed
    assert "... and 27 more: --json prints all" in printed
    assert "Nothing was written: give --out FILE to keep them." in printed


def test_an_empty_mask_is_reported(capsys):
    attribution = np.full((2, 6, 1), 0.1, dtype="float32")
    attribution[0, 2], attribution[1, 4] = 0.4, 0.9
    answer = {"prediction": np.zeros(2, dtype=int), "probability": np.array([[1.0, 0.0]] * 2, dtype="float32")}
    e = Explanation(series=Series(np.zeros((2, 6, 1))), attribution=attribution, mask=attribution > 0.5, **answer)
    print_summaries(e)
    first, second = capsys.readouterr().out.split("t = 3")
    assert "no cell kept (p > .5); highest:" in first
    assert "t = 5" in second
    assert "no cell kept" not in second


def test_json_for_programs(small, tmp_path):
    arguments = explain(small, "--out", tmp_path / "e.npz", "--json")
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    e = Explanation.load(tmp_path / "e.npz")
    assert len(printed) == 32
    for i, sample in enumerate(printed):
        assert (sample["sample"], sample["class"]) == (i, e.classes[e.prediction[i]])
        assert sample["label"] == e.classes[small.test.y[i]]
        assert sample["confidence"] == pytest.approx(e.probability[i].max(), rel=1e-3)
        assert sample["agreement"] == e.agreement[i]
        assert sample["kept"] == pytest.approx(e.mask[i].mean(), rel=1e-3)
        spans = [span._replace(weight=pytest.approx(span.weight, rel=1e-3)) for span in important_spans(e, i)]
        assert [Span(**span) for span in sample["spans"]] == spans


def test_a_method_that_needs_no_fit(small, invoke, tmp_path):
    printed = invoke(*explain(small, "--method", "ig", "--out", tmp_path / "ig.npz"))
    assert "agree" not in printed
    e = Explanation.load(tmp_path / "ig.npz")
    model = load_reference(small.explainer / "reference")
    expected = IntegratedGradients(model, device="cpu").explain(small.test)
    np.testing.assert_allclose(e.attribution, expected.attribution, atol=1e-5)
    assert (e.method, e.signed, e.classes, e.mask) == ("ig", True, small.test.classes, None)


def test_a_method_that_needs_a_fit(small, invoke, series, tmp_path, monkeypatch):
    """It is fitted on the series of --train, else on those to explain."""
    fitted_on = []

    class Watched(SGTGrad):
        def __init__(self, model, config=None, *, device=None):
            super().__init__(model, config or SGTConfig(epochs=1), device=device)

        def _fit(self, train, val, progress):
            fitted_on.append((len(train), val))
            return super()._fit(train, val, progress)

    monkeypatch.setitem(EXPLAINERS, "sgt_grad", Watched)
    invoke(*explain(small, "--method", "sgt_grad", "--out", tmp_path / "a.npz"))
    invoke(*explain(small, "--method", "sgt_grad", "--train", "freqshapes", "--out", tmp_path / "b.npz"))
    assert fitted_on == [(32, None), (96, None)]
    assert Explanation.load(tmp_path / "b.npz").method == "sgt_grad"


def test_a_target_and_a_contrast(small, invoke, tmp_path):
    names = small.test.classes
    asked = ("--method", "saliency", "--target", names[2], "--contrast", "runner-up")
    printed = invoke(*explain(small, *asked, "--out", tmp_path / "e.csv"))
    assert "contrast" in printed
    e = read_explanation(tmp_path / "e.csv")
    assert set(e.prediction.tolist()) == {2}
    np.testing.assert_array_equal(e.contrast, np.argsort(e.probability, axis=1)[:, -2])
    arguments = explain(small, "--method", "saliency", "--target", 3, "--contrast", names[0], "--json")
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert {(s["class"], s["contrast"]) for s in map(json.loads, result.stdout.splitlines())} == {(names[3], names[0])}


def test_a_wrong_target_ends_before_any_work(small, fails, monkeypatch):
    monkeypatch.setattr(SGTGrad, "_fit", lambda *a: pytest.fail("fitted before the target was checked"))
    assert "leave --target and --contrast out, fit another for that class (--target of the fit)" in fails(
        *explain(small, "--target", "runner-up")
    )
    message = fails(*explain(small, "--method", "sgt_grad", "--contrast", "run"))
    assert f"Expected target among {', '.join(small.test.classes)}, or 'runner-up', got 'run'" in message


def test_an_unknown_method(small, fails):
    assert "Unknown method 'shap'; known: timex, gradients, ig, " in fails(*explain(small, "--method", "shap"))


# ------------------------------------------------------------------------------------------------- models of the user


@pytest.fixture
def own_explainer(own_model, invoke, series):
    """An explainer in the folder e of a model that only the user's code can make, and its series in test.csv."""
    write_series("train.parquet", series)
    write_series("test.csv", series, layout="wide")
    options = ("--embedding", "body", "--pool", 2, "--epochs", 1)
    assert "Written to e" in invoke("fit", "--model", "my_net:net", *options, "--data", "train.parquet", "--out", "e")
    return own_model


OWN = ("explain", "--explainer", "e", "--model", "my_net:net")


def test_a_model_and_files_of_the_user(own_explainer, invoke, series):
    invoke(*OWN, "--data", "test.csv", "--out", "a.npz")
    table = pd.read_csv("test.csv")
    order = [c for c in table.columns if c not in ("left", "right")] + ["right", "left"]
    table[order].to_csv("swapped.csv", index=False)
    invoke(*OWN, "--data", "swapped.csv", "--out", "b.npz")
    a, b = Explanation.load("a.npz"), Explanation.load("b.npz")
    np.testing.assert_array_equal(a.attribution, b.attribution)  # channels are found by name, not by place
    assert (a.channels, a.series.ids[:2]) == (("left", "right"), ("case-0", "case-1"))
    np.testing.assert_array_equal(a.series.y, series.y)
    again = TimeX.load("e", call_factory("my_net:net"), pool=2, device="cpu").explain(series)
    np.testing.assert_allclose(again.attribution, a.attribution, atol=1e-6)


def test_missing_cells_are_reported(own_explainer, invoke, series, caplog):
    invoke(*OWN, "--data", "test.csv")
    assert "missing" not in caplog.text
    holes = np.where(np.arange(12)[:, None] == 3, np.nan, series.x)
    write_series("holes.npz", Series.with_gaps(holes, channels=series.channels))
    invoke(*OWN, "--data", "holes.npz")
    assert "80 of 960 cells are missing; your model sees 0 there" in caplog.text


def test_a_folder_does_not_decide_what_code_runs(own_explainer, fails):
    """Neither the name in the folder nor a module inside it is imported without the user's word."""
    (own_explainer / "trap.py").write_text("open('trapped', 'w')\n")
    Source("trap:net").write(own_explainer / "e")
    del sys.modules["my_net"]
    for arguments in (OWN[:3], ("evaluate", "--explainer", "e")):
        printed = fails(*arguments, "--data", "test.csv")
        assert "explains trap:net, which is code outside this program: allow it with --model trap:net" in printed
    assert not (own_explainer / "trapped").exists()
    assert {"my_net", "trap"}.isdisjoint(sys.modules)


def test_another_model_is_refused_in_words_of_the_command_line(own_explainer, fails, monkeypatch):
    code = (own_explainer / "my_net.py").read_text()
    (own_explainer / "my_other_net.py").write_text(code.replace("manual_seed(3)", "manual_seed(4)"))
    printed = fails(*OWN[:3], "--model", "my_other_net:net", "--data", "test.csv")
    monkeypatch.delitem(sys.modules, "my_other_net")
    assert "was fitted on another model (weights differ)" in printed
    assert "or load it in Python with TimeX.load(..., allow_other_model=True)." in printed


def test_a_trusted_folder_names_its_model_first(own_explainer, invoke, caplog):
    assert "40 explanations" in invoke(*OWN[:3], "--trust-model", "--data", "test.csv")
    assert "running my_net:net, which e names as its model" in caplog.text


@pytest.mark.parametrize("text", ["{", '{"model": 5}', '{"path": "x"}', '{"pool": "2"}', "[]"])
def test_a_damaged_model_file_is_one_clear_line(own_explainer, fails, text):
    (own_explainer / "e" / "model.json").write_text(text)
    assert "e/model.json" in fails(*OWN, "--data", "test.csv")


def test_an_explainer_saved_by_python_needs_the_name_of_its_model(own_model, series, fails, invoke):
    write_series("test.csv", series)
    TimeX(call_factory("my_net:net"), "body", TimeXConfig(epochs=1), device="cpu").fit(series, progress=False).save("e")
    assert "e holds no explainer of `timex fit`: model.json is missing. Give --model" in fails(*OWN[:3], "--data", "test.csv")
    assert "40 explanations" in invoke(*OWN, "--data", "test.csv")
