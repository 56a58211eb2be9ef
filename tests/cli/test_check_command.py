"""`timex check`."""

import json

import pytest
from typer.testing import CliRunner

from timex import Series
from timex.cli import app
from timex.io.files import write_series
from timex.records import Explanation


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_findings_on_the_screen_and_in_a_file(small, tmp_path):
    out = tmp_path / "check.json"
    result = run("check", small.explainer, "--data", "freqshapes", "--out", out)
    facts = json.loads(out.read_text())
    assert result.exit_code == (3 if facts["verdict"] == "do not use" else 0)
    assert facts["overall"]["n"] == len(small.test)
    printed = " ".join(result.stdout.split())
    assert printed.startswith(f"{facts['verdict']}: timex on 32 series; hidden cells: mean")
    for words in ("kept alone", "evidence gap", "predicted class", "(default)"):
        assert words in printed


def test_unusable_explanations_end_with_3_and_plain_json(small, tmp_path):
    write_series(tmp_path / "far.npz", Series(50 + small.test.x))
    result = run("check", small.explainer, "--data", tmp_path / "far.npz", "--json")
    assert result.exit_code == 3
    facts = json.loads(result.stdout)
    assert facts["verdict"] == "do not use"
    (distance,) = (f for f in facts["overall"]["findings"] if f["name"] == "training range")
    assert distance["value"] > 10
    assert distance["advice"] == "scale the series as in the fit, or fit on series like these"


def test_a_refit_needs_training_series(small, fails):
    message = fails("check", small.explainer, "--data", "freqshapes", "--refit")
    assert "Expected --train for a refit: the series to fit the explainer again on." in message


def test_a_second_seed(small):
    result = run("check", small.explainer, "--data", "freqshapes", "--train", "freqshapes", "--second-seed", "--json")
    names = {f["name"] for f in json.loads(result.stdout)["overall"]["findings"]}
    assert {"two seeds", "small noise", "other fills"} <= names


def test_the_stability_of_every_series_reaches_the_page(small, invoke, fails, page_facts, tmp_path):
    data = ("--data", "freqshapes")
    invoke("explain", "--explainer", small.explainer, *data, "--out", tmp_path / "explanations.npz")
    result = run("check", small.explainer, *data, "--stability", tmp_path / "stability.json")
    assert "stability.json" in result.stdout
    facts = json.loads((tmp_path / "stability.json").read_text())
    assert facts["model_hash"] == Explanation.load(tmp_path / "explanations.npz").model_hash != ""
    values = facts["values"]
    assert len(values) == len(small.test)
    assert -1 <= min(values) < max(values) <= 1
    invoke("report", tmp_path)
    assert page_facts(tmp_path / "report.html")["arrays"]["stability"] == "float32"
    fails("check", small.explainer, *data, "--stability", tmp_path / "stability.csv")


@pytest.mark.parametrize("name", ["check", "compare"])
def test_outputs_are_checked_first(name, small, fails, tmp_path):
    assert "Expected --out to end in .json" in fails(name, small.explainer, "--data", "freqshapes", "--out", tmp_path / "a.csv")
