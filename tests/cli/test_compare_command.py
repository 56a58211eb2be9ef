"""`timex compare`, and `timex evaluate` for series without known deciding cells."""

import json
from dataclasses import replace

from timex.io.files import write_series


def test_timex_stands_beside_other_methods(small, invoke, tmp_path):
    out = tmp_path / "compare.json"
    printed = invoke("compare", small.explainer, "--data", "freqshapes", "--methods", "saliency,ig", "--out", out)
    facts = json.loads(out.read_text())
    assert set(facts["methods"]) == {"timex", "saliency", "ig", "amplitude", "random"}
    assert facts["recommendation"] in printed
    for words in ("gap (mean)", "gap (zero)", "gap (draw)", "gap (local)", "rank correlation", "behind the best", "MB"):
        assert words in printed
    kept = {path.name.split("-")[0] for path in (small.explainer / "compare").iterdir()}
    assert kept == {"saliency", "ig", "amplitude", "random"}  # TimeX itself is in the folder already


def test_controls_scores_and_a_figure_on_request(small, invoke, fails, tmp_path):
    out, plot = tmp_path / "compare.json", tmp_path / "where.png"
    asked = ("compare", small.explainer, "--data", "freqshapes", "--methods", "saliency", "--plot")
    assert "Expected --plot to end in .png or .svg or .pdf, got 'where.txt'" in fails(*asked, tmp_path / "where.txt")
    printed = invoke(*asked, plot, "--aligned", "--thorough", "--out", out)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "Figure written to" in printed
    methods = json.loads(out.read_text())["methods"]
    assert "centre" in methods
    assert {f"{name} (local)" for name in ("cmi", "pes", "f1s", "infidelity", "cpd")} <= set(methods["timex"])


def test_evaluate_compares_where_the_deciding_cells_are_not_known(small, invoke, tmp_path):
    write_series(tmp_path / "windows.npz", replace(small.test, truth=None))
    out = tmp_path / "scores.json"
    printed = invoke("evaluate", "--explainer", small.explainer, "--data", tmp_path / "windows.npz", "--out", out)
    assert "The deciding cells of these series are not known" in printed
    assert {"timex", "gradients", "random"} <= set(json.loads(out.read_text())["methods"])


def test_unknown_methods_are_named(small, fails):
    assert "Unknown method 'shap'" in fails("compare", small.explainer, "--data", "freqshapes", "--methods", "shap")
