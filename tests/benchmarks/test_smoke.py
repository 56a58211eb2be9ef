"""Every script in benchmarks/ runs: smoke sizes, in this process, results written as JSON."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from timex.bench import Grid, run

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.filterwarnings("ignore:The model predicts class", "ignore:.*class 0.*:UserWarning")


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Run a script with smoke sizes on the CPU and read its results."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])

    def call(name, *arguments):
        out = tmp_path / f"{name}.json"
        importlib.import_module(name).main([*arguments, "--smoke", "--device", "cpu", "--out", str(out)])
        return json.loads(out.read_text())

    yield call
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or ".").parent == SCRIPTS:
            del sys.modules[name]  # other tests must not import a script by its short name, such as data


def test_white_and_black_box(measured, monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 10)
    rows = measured("blackbox", "--data", "freqshapes", "--arch", "gru")["rows"]
    assert [(row["explained as"], row["method"]) for row in rows] == [
        ("network", "timex"),
        ("function", "timex"),
        ("function", "occlusion"),
        ("function", "kernel_shap"),
    ]
    assert rows[1]["fit calls"] > 0
    assert rows[2]["calls per series"] > 40  # one for every cell


def test_every_script_is_run_here():
    tested = Path(__file__).read_text()
    left = [p.stem for p in SCRIPTS.glob("*.py") if p.stem != "common" and f'measured("{p.stem}"' not in tested]
    assert left == []


def test_data(measured):
    found = measured("data")
    assert set(found["seconds"]) == {"freqshapes"}
    assert found["narma"]["loop_seconds"] > 0


@pytest.mark.slow
def test_exporting(measured):
    (row,) = measured("exporting", "--archs", "cnn")["rows"]
    assert row["difference"] <= 1e-5
    assert row["times_as_fast"] > 0


def test_unfamiliar(measured):
    (row,) = measured("unfamiliar", "--data", "freqshapes")["rows"]
    assert (row["unaltered"], row["all zero"], row["a ramp to 10,000"]) == (0, 1, 1)


def test_neighbours(measured, tmp_path):
    options = ["--data", "heldout_levels:20:6", "freqshapes:20:4", "--models", str(tmp_path), "--methods"]
    (tmp_path / "neighbours.json").write_text('{"rows": [{"data": "freqshapes", "method": "ig"}]}')  # of an older script
    before = measured("neighbours", *options, "ig")["rows"]
    assert [(row["data"], row["fit"], row["test"]) for row in before] == [("heldout_levels", 20, 6), ("freqshapes", 20, 4)]
    rows = measured("neighbours", *options, "ig", "extremal_mask")["rows"]
    assert rows[:2] == before  # not measured again
    assert [(row["data"], row["method"]) for row in rows[2:]] == [(row["data"], "extremal_mask") for row in before]
    signed, unsigned = rows[0], rows[2]
    assert (signed["calls"], unsigned["calls"]) == (50, 2)
    for fill in ("zero", "sample"):
        assert signed[f"cpd_{fill}"]["mean"] == pytest.approx(3 * signed[f"cpd_{fill}_classes"]["mean"])  # three classes
        assert f"cpd_{fill}_signed" in signed
        assert f"cpd_{fill}_signed" not in unsigned
    measured("neighbours", "--model", "gru", *options, "ig")
    assert (tmp_path / "smoke" / "heldout_levels-gru.safetensors").exists()  # a real run does not find models of a smoke run


def test_counterfactuals(measured, tmp_path):
    sizes = ["--data", "heldout_levels", "--fit", "20", "--test", "3", "--models", str(tmp_path)]
    found = measured("counterfactuals", *sizes)
    orders = [("timex", "all"), ("timex", "mask"), ("gradients", "all"), ("amplitude", "all"), ("random", "all")]
    assert [(row["method"], row["within"]) for row in found["rows"]] == orders
    assert [row["valid"] for row in found["pooled"]] == [row["valid"] for row in found["rows"]]  # of one set


def test_metrics(measured):
    found = measured("metrics")
    assert found["largest_difference"] < 1e-6
    assert found["ratio"] == pytest.approx(found["loop_s"] / found["ours_s"])


def test_naive(measured):
    rows = measured("naive", "--data", "freqshapes", "--steps", "1")["rows"]
    assert [row["what"] for row in rows] == ["reference", "timex", "timex, paper's objective"]
    assert all(row["ms_per_step"] > 0 for row in rows)


def test_training_beside_the_naive_loop(measured):
    rows = measured("training", "--data", "freqshapes", "--members", "2")["rows"]
    assert [row["what"] for row in rows] == ["reference", "timex", "timex, paper's objective"]
    for row in rows:
        assert row["ms_per_member"] == pytest.approx(row["ms_per_step"] / 2, abs=1e-3)
        assert row["times_naive"] == pytest.approx(row["naive_ms"] / row["ms_per_member"], abs=0.06)
    assert [("times_published" in row) for row in rows] == [False, True, True]


def test_training_against_size(measured):
    rows = measured("training", "sizes", "--lengths", "12", "--channels", "1", "2")["rows"]
    assert [(row["T"], row["D"], row["batch"]) for row in rows] == [(12, d, b) for d in (1, 2) for b in (8, 16)]
    assert all(row["ms_per_step"] > 0 for row in rows)


def test_training_together_as_alone(measured):
    rows = measured("training", "equal")["rows"]
    assert [row["fold"] for row in rows] == [0, 1]
    for row in rows:
        assert row["together"] == pytest.approx(row["alone"], abs=1e-3)


def test_fits(measured):
    rows = measured("training", "fits", "--data", "freqshapes")["rows"]
    assert [(row["settings"], row["epochs"]) for row in rows] == [("default", 1), ("paper", 1)]
    assert all(row["fit_s"] > 0 and row["epoch_s"] > 0 and row["peak_MB"] > 100 for row in rows)


@pytest.mark.slow
def test_scaling(measured, tmp_path):
    sizes = ["--lengths", "16", "32", "--channels", "3", "--series"]
    found = measured("scaling", *sizes, "--plot", str(tmp_path / "plot.png"))
    assert [(row["axis"], row["T"], row["D"], row["N"]) for row in found["rows"]] == [
        ("T", 16, 1, 32),
        ("T", 32, 1, 32),
        ("D", 16, 3, 32),
    ]
    assert all(row["fit_s"] > 0 and row["peak_MB"] >= row["before_MB"] > 100 for row in found["rows"])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_versions(measured):
    options = ["--before", str(SCRIPTS.parent / "src"), "--data", "freqshapes", "--archs", "cnn"]
    rows = measured("versions", *options)["rows"]
    assert [(row["version"], row["arch"], row["seed"]) for row in rows] == [("before", "cnn", 0), ("now", "cnn", 0)]
    assert rows[0]["auprc"] == rows[1]["auprc"]  # the same package twice


@pytest.mark.slow
def test_page(measured):
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if shutil.which("chromium") is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    found = measured("page")
    assert (found["explanations"], found["embedded"], found["steps"], found["channels"]) == (60, 60, 20, 4)
    assert 0 < found["ms"]["click, median"] <= found["ms"]["click, slowest"]


@pytest.mark.slow
def test_kills(measured):
    rows = measured("kills")["rows"]
    assert [row["what"] for row in rows] == ["fit", "train", "explain", "bench"]
    for row in rows:
        assert row["kills"] == 3
        assert row["finished"] == row["equal"] >= 1


@pytest.mark.slow
def test_processes(measured):
    (row,) = measured("processes")["rows"]
    assert row["weights"] < 0.01
    assert row["p"] < 0.01


@pytest.mark.slow
def test_streams(measured):
    rows = measured("streams", "memory")["rows"]
    assert [(row["windows"], row["samples"], row["parts"]) for row in rows] == [(300, 300, 1), (600, 600, 1)]
    (row, _) = measured("streams", "speed")["rows"]
    assert set(row["throughput"]) == {"file", "array"}


def test_baselines_speed(measured):
    rows = measured("baselines", "speed", "--data", "freqshapes")["rows"]
    assert [row["method"] for row in rows] == ["dynamask", "ig", "winit"]
    assert max(row["largest_difference"] for row in rows[:2]) < 1e-3


def test_baselines_quality(measured):
    methods = ["ig", "dynamask", "random"]
    options = ["--data", "freqshapes", "--samples", "6", "--train-samples", "40"]
    rows = measured("baselines", "quality", *options, "--methods", *methods)["rows"]
    assert [row["method"] for row in rows] == ["ig", "dynamask", "dynamask_by_truth", "random"]
    assert rows[0]["paper"]["auprc"] == 0.7516
    assert [("absolute" in row) for row in rows] == [True, False, False, False]


def test_planted(measured, tmp_path):
    folder, planted = str(tmp_path / "planted"), ["a good fit", "a constant model"]
    rows = measured("planted", folder, "--data", "freqshapes", "--planted", *planted)["rows"]
    assert [(row["data"], row["planted"]) for row in rows] == [("freqshapes", name) for name in planted]
    assert (rows[1]["verdict"], rows[1]["right"]) == ("do not use", True)
    assert measured("planted", folder, "--data", "freqshapes", "--planted", *planted)["rows"] == rows  # read, not checked again


def test_classes(measured, tmp_path):
    folder = tmp_path / "run"
    method = "timex:paper"
    done = run(["univariate"], folder, Grid(folds=1, smoke=True), datasets=["freqshapes"], methods=[method], device="cpu")
    assert not done.failed
    rows = measured("classes", str(folder), "--methods", method)["rows"]
    assert [(row["class"], row["samples"]) for row in rows] == [(c, 6) for c in range(4)]
    assert sum(row["given_without"] for row in rows) == pytest.approx(1, abs=1e-3)
    assert all(0 < row["auprc"] <= 1 for row in rows)


@pytest.mark.slow
def test_comparisons(measured, tmp_path):
    folder = str(tmp_path / "planted")
    (row,) = measured("comparisons", folder, "--data", "freqshapes")["rows"]
    assert set(row["means"]) == {"timex", "gradients", "ig", "amplitude", "random"}
    assert measured("comparisons", folder, "--data", "freqshapes")["rows"] == [row]  # read, not compared again


def test_reasons(measured, tmp_path):
    folder = tmp_path / "run"
    done = run(["univariate"], folder, Grid(folds=1, smoke=True), datasets=["freqshapes"], methods=["timex"], device="cpu")
    assert not done.failed
    (row,) = measured("reasons", str(folder), "--data", "freqshapes")["rows"]
    views = [row[name] for name in ("whole", "true", "without_true", "kept", "without_kept")]
    assert np.isfinite(views).all()
    assert 0.2 < row["whole"] <= 1  # a predicted class of four has more than a quarter
