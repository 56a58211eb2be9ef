"""The command line as a user types it: what it writes, what it prints, and how it complains."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from typer.testing import CliRunner

from timex import Explanation, TimeX, TimeXConfig, load_reference
from timex.baselines import IntegratedGradients
from timex.cli import _print_summaries, app, main
from timex.data import LOADERS
from timex.data.files import Series, write_series
from timex.data.synthetic import Recipe, freqshapes
from timex.progress import counting_bar
from timex.reference import CNN
from timex.report.spans import Span, important_spans

run = CliRunner()

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv1d(2, 6, 5, padding=2)
        self.head = nn.Linear(6, 3)
    def forward(self, x):
        return self.head(torch.relu(self.body(x.transpose(1, 2))).mean(2))

def net():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = Net()
        with torch.no_grad():
            model.head.weight.mul_(20)
    return model
"""


def invoke(*arguments):
    result = run.invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def tiny():
    """FreqShapes with few samples, under its own name."""
    whole = LOADERS["freqshapes"]
    LOADERS["freqshapes"] = lambda seed, fold: freqshapes(seed, fold, sizes=(96, 32, 32))
    yield
    LOADERS["freqshapes"] = whole


@pytest.fixture(scope="module")
def explainer_folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    invoke("train", "freqshapes", "--out", folder / "reference", "--epochs", 1)
    invoke("fit", "--reference", folder / "reference", "--data", "freqshapes", "--out", folder / "explainer", "--epochs", 1)
    return folder / "explainer"


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 12, 2)).astype("float32")
    return Series.of(x, y=np.arange(40) % 3, truth=rng.random(x.shape) < 0.2, channels=("left", "right"))


def test_data_list_and_describe(tiny):
    assert "freqshapes │ 50" in invoke("data", "list")
    described = invoke("data", "describe", "freqshapes")
    assert "up every 17" in described
    assert "T = 50, D = 1" in described


def test_train_saves_a_model_with_its_scores(tiny, tmp_path):
    output = invoke("train", "freqshapes", "--out", tmp_path, "--epochs", 1, "--arch", "cnn")
    assert "F1" in output
    facts = json.loads((tmp_path / "reference.json").read_text())
    assert facts["arch"] == "cnn"
    assert set(facts["scores"]) == {"val", "check", "test"}
    assert load_reference(tmp_path).n_steps == 50


def test_train_says_when_a_reference_is_weak(tiny, tmp_path):
    output = invoke("train", "freqshapes", "--out", tmp_path, "--epochs", 1)
    assert "under the gate" in output
    assert "3 attempt(s)" in output
    assert "0.9716" in output  # the paper's F1 beside ours


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_explain_writes_what_was_asked_for(explainer_folder, tmp_path, suffix):
    out = tmp_path / f"explanations.{suffix}"
    output = invoke("explain", "--explainer", explainer_folder, "--data", "freqshapes", "--out", out)
    assert "32 explanations" in output
    assert "surrogate and model agree on" in output
    if suffix == "npz":
        assert Explanation.load(out).attribution.shape == (32, 50, 1)
    else:
        table = pd.read_parquet(out) if suffix == "parquet" else pd.read_csv(out)
        assert len(table) == 32 * 50
        assert {"sample", "step", "channel", "value", "attribution", "agreement"} <= set(table.columns)
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_explain_says_what_matters(explainer_folder):
    printed = invoke("explain", "--explainer", explainer_folder, "--data", "freqshapes")
    e = TimeX.load(explainer_folder, load_reference(explainer_folder / "reference"), device="cpu").explain(
        freqshapes(0, 0, sizes=(96, 32, 32)).test.x
    )
    for span in important_spans(e, 0):
        assert str(span) in printed
    assert e.classes[e.prediction[0]] in printed
    assert "... and 27 more: --json prints all" in printed
    assert "Nothing was written: --out FILE does that." in printed


def test_an_empty_mask_is_not_passed_off_as_an_explanation(capsys):
    attribution = np.full((2, 6, 1), 0.1, dtype="float32")
    attribution[0, 2], attribution[1, 4] = 0.4, 0.9
    answer = {"prediction": np.zeros(2, dtype=int), "probability": np.array([[1.0, 0.0]] * 2, dtype="float32")}
    e = Explanation(x=np.zeros((2, 6, 1), dtype="float32"), attribution=attribution, mask=attribution > 0.5, **answer)
    _print_summaries(e, ())
    first, second = capsys.readouterr().out.split("t = 3")
    assert "nothing kept (p > .5), strongest:" in first
    assert "t = 5" in second
    assert "nothing kept" not in second


def test_explain_for_programs(explainer_folder, tmp_path):
    arguments = ["explain", "--explainer", explainer_folder, "--data", "freqshapes", "--out", tmp_path / "e.npz", "--json"]
    result = run.invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    said = json.loads(result.stdout)
    e = Explanation.load(tmp_path / "e.npz")
    assert said["written"] == str(tmp_path / "e.npz")
    assert len(said["samples"]) == 32
    for i, sample in enumerate(said["samples"]):
        assert (sample["sample"], sample["class"]) == (i, e.classes[e.prediction[i]])
        assert sample["confidence"] == pytest.approx(e.probability[i].max())
        assert sample["agreement"] == e.agreement[i]
        assert sample["kept"] == pytest.approx(e.mask[i].mean())
        assert [Span(**span) for span in sample["spans"]] == important_spans(e, i)


def test_explain_by_another_method(explainer_folder, tmp_path):
    arguments = ("--explainer", explainer_folder, "--data", "freqshapes")
    printed = invoke("explain", *arguments, "--method", "ig", "--out", tmp_path / "ig.npz")
    assert "agree" not in printed
    invoke("explain", *arguments, "--out", tmp_path / "timex.npz")
    ig, own = Explanation.load(tmp_path / "ig.npz"), Explanation.load(tmp_path / "timex.npz")
    model = load_reference(explainer_folder / "reference")
    np.testing.assert_allclose(ig.attribution, IntegratedGradients(model, device="cpu").explain(own.x).attribution, atol=1e-5)
    assert (ig.method, ig.signed, ig.classes, ig.mask) == ("ig", True, own.classes, None)


def test_evaluate_prints_ours_beside_the_papers(explainer_folder, tmp_path):
    output = invoke("evaluate", "--explainer", explainer_folder, "--data", "freqshapes", "--out", tmp_path / "scores.json")
    assert "0.832" in output
    assert "under the gate" in output  # one epoch makes no model worth explaining
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert set(scores) == {"timex", "ig", "amplitude", "random"}
    assert scores["amplitude"]["auprc"] > 0.9


def test_a_model_and_files_of_ones_own(series, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text(MODEL)
    write_series("train.parquet", series)
    write_series("test.csv", series, layout="wide")
    fit = (
        "fit",
        "--model",
        "my_net:net",
        "--embedding",
        "body",
        "--pool",
        2,
        "--data",
        "train.parquet",
        "--out",
        "e",
        "--epochs",
        1,
    )
    assert "Written to e" in invoke(*fit)
    invoke("explain", "--explainer", "e", "--data", "test.csv", "--out", "a.npz")
    swapped = pd.read_csv("test.csv")
    order = [c for c in swapped.columns if c not in ("left", "right")] + ["right", "left"]
    swapped[order].to_csv("swapped.csv", index=False)
    invoke("explain", "--explainer", "e", "--data", "swapped.csv", "--out", "b.npz")
    a, b = Explanation.load("a.npz"), Explanation.load("b.npz")
    np.testing.assert_array_equal(a.attribution, b.attribution)  # channels are found by name, not by place
    assert a.channels == ("left", "right")
    import my_net

    again = TimeX.load("e", my_net.net(), pool=2, device="cpu").explain(series.x)
    np.testing.assert_allclose(again.attribution, a.attribution, atol=1e-6)
    assert "under the gate" not in invoke("evaluate", "--explainer", "e", "--data", "train.parquet", "--out", "e/scores.json")
    assert "missing" not in caplog.text
    write_series("holes.npz", Series.of(np.where(np.arange(12)[:, None] == 3, np.nan, series.x), channels=series.channels))
    invoke("explain", "--explainer", "e", "--data", "holes.npz")
    assert "80 of 960 cells are missing; your model sees 0 there" in caplog.text

    invoke("explain", "--explainer", "e", "--data", "test.csv", "--out", "e/explanations.npz")
    invoke("explain", "--explainer", "e", "--data", "test.csv", "--out", "e/explanations-ig.npz", "--method", "ig")
    assert "Written to e/report.html" in invoke("report", "e", "--data", "test.csv")
    text = (tmp_path / "e" / "report.html").read_text()
    meta = json.loads(text.split('id="meta">')[1].split("</script>")[0])
    assert [m["name"] for m in meta["methods"]] == ["timex", "ig"]
    assert set(meta["scores"]) == {"timex", "ig", "amplitude", "random"}
    assert meta["channels"] == ["left", "right"]
    assert meta["history"]["epochs"] == [0]
    assert {"truth", "label"} <= set(meta["arrays"])
    invoke("report", "e", "--out", "bare.html", "--title", "no labels")  # without --data there are none
    assert 'id="array-truth"' not in (tmp_path / "bare.html").read_text()
    write_series("other.csv", Series.of(series.x + 1, channels=series.channels))
    with pytest.raises(ValueError, match="does not hold the series that were explained"):
        invoke("report", "e", "--data", "other.csv")


def test_fit_at_a_resolution_of_ones_own(tiny, explainer_folder, tmp_path):
    fit = ("fit", "--reference", explainer_folder.parent / "reference", "--data", "freqshapes", "--epochs", 1)
    invoke(*fit, "--out", tmp_path, "--resolution", 3)
    found = [TimeX.load(f, load_reference(f / "reference"), device="cpu") for f in (explainer_folder, tmp_path)]
    assert [explainer.resolution for explainer in found] == [1, 3]
    x = freqshapes(0, 0, sizes=(8, 8, 8)).test.x
    rough = [np.abs(np.diff(explainer.explain(x).attribution, 2, axis=1)).mean() for explainer in found]
    assert rough[1] < rough[0] / 3


@pytest.mark.filterwarnings("ignore:The model predicts class")  # random weights often do
def test_a_report_of_scaled_channels_with_units(series, tmp_path):
    """The explanations hold the user's values and names with units, the file what the model was given."""
    names = {"channels": series.channels, "units": ("V", ""), "scaling": ([1.0, -2.0], [3.0, 0.5])}
    model = CNN(n_channels=2, n_classes=3, n_steps=12, width=4)
    explainer = TimeX(model, config=TimeXConfig(epochs=1, n_landmarks=4), device="cpu", **names)
    explainer.fit(series.x, progress=False).save(tmp_path)
    explainer.explain(series.x).save(tmp_path / "explanations.npz")
    write_series(tmp_path / "data.npz", series)
    invoke("report", tmp_path)
    text = (tmp_path / "report.html").read_text()
    meta = json.loads(text.split('id="meta">')[1].split("</script>")[0])
    assert meta["channels"] == ["left [V]", "right"]
    assert "truth" in meta["arrays"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "describe", "freqshape"], "did you mean freqshapes"),
        (["train", "freqshapes", "--out", "o", "--arch", "rnn"], "Unknown architecture 'rnn'; known: transformer, cnn, lstm"),
        (["fit", "--data", "freqshapes", "--out", "o"], "either --model package.module:factory or --reference FOLDER"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "json"], "Expected --model as package.module:factory"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "no_such:net"], "No module named"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "json:nothing"], "module 'json' has no 'nothing'"),
        (["explain", "--explainer", "nowhere", "--data", "x.npz", "--out", "e.npz"], "holds no explainer"),
        (["explain", "--explainer", "nowhere", "--data", "x.npz", "--out", "e.txt"], ".npz, .parquet or .csv"),
        (["report", "nowhere"], "nowhere holds no explanations.npz: `timex explain --explainer nowhere"),
        (["data", "describe", "[bold]"], "[bold]"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["timex", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert words in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def test_what_fails_in_the_users_code_is_shown_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_net.py").write_text(
        "def net():\n    return None.layers\n\ndef late():\n    raise RuntimeError('no GPU')\n"
    )
    for factory, error in {"net": AttributeError, "late": RuntimeError}.items():
        monkeypatch.setattr("sys.argv", ["timex", "fit", "--data", "x.npz", "--out", "o", "--model", f"broken_net:{factory}"])
        with pytest.raises(error, match=r"layers|no GPU"):
            main()
    monkeypatch.setattr("sys.argv", ["timex", "fit", "--data", "x.npz", "--out", "o", "--model", "broken_net:nett"])
    with pytest.raises(SystemExit, match="2"):
        main()


def test_a_training_that_diverged_is_one_clear_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x = 1e30 * np.random.default_rng(0).normal(size=(40, 12, 1))
    np.savez("x.npz", x=x.astype(np.float32), y=(x[:, 0, 0] > 0).astype(np.int64))
    (tmp_path / "huge_net.py").write_text(
        "from torch import nn\nnet = lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Tanh(), nn.Linear(4, 2))\n"
    )
    options = ["--embedding", "2", "--epochs", "1", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["timex", "fit", "--data", "x.npz", "--out", "o", "--model", "huge_net:net", *options])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "error: No epoch gave a finite validation value" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "o").exists()


def test_integrated_gradients_run_where_timex_does(explainer_folder, monkeypatch):
    devices = []

    class Watched(IntegratedGradients):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            devices.append(self.device.type)

    monkeypatch.setattr("timex.baselines.IntegratedGradients", Watched)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # which is then the default
    invoke("evaluate", "--explainer", explainer_folder, "--data", "freqshapes", "--device", "cpu")
    assert devices == ["cpu"]


def test_data_list_draws_no_whole_data_sets(monkeypatch):
    drawn, part = {}, Recipe.part
    monkeypatch.setattr(Recipe, "part", lambda self, p, s, f, n: drawn.update({self.name: n}) or part(self, p, s, f, n))
    printed = invoke("data", "list")
    assert "seqcomb_mv │ 200 │ 4 │ 4 │ 5,000 / 100 / 1,000 │ yes" in printed
    assert drawn["seqcomb_mv"] < 10


def test_help_reads_like_a_page():
    printed = invoke("--help")
    assert "New here? timex demo trains a small model" in printed
    assert "Exit codes: 0 done; 2 something was wrong" in printed
    for name, command in typer.main.get_command(app).commands.items():
        assert name in printed
        for option in command.params:
            assert getattr(option, "help", None) or option.name in ("name",), f"{name} does not explain --{option.name}"


@pytest.mark.parametrize("settings", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_colour_where_none_is_wanted(settings):
    """Neither through a pipe, nor where NO_COLOR is set, even if a terminal is claimed."""
    command = [sys.executable, "-m", "timex", "--help"]
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")} | settings
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "New here?" in done.stdout
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", done.stdout)
    assert ("\x1b" in done.stdout) == bool(settings)  # bold is no colour


def test_progress_is_for_terminals(capsys, monkeypatch):
    with counting_bar("work", 3) as done:
        done(2)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with counting_bar("work", 3) as done:
        done(2)
    assert "2/3" in capsys.readouterr().err


def test_threads_option():
    before = torch.get_num_threads()
    invoke("--threads", 1, "data", "describe", "freqshapes")
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


@pytest.mark.slow
def test_demo(tmp_path, monkeypatch):
    monkeypatch.setitem(LOADERS, "freqshapes", freqshapes)  # the whole of it, also where tests with `tiny` ran before
    output = invoke("demo", "--out", tmp_path)
    assert "reference model: F1" in output
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["reference"]["f1"] >= 0.95
    assert scores["timex"]["auprc"] >= 0.75
    assert scores["timex"]["auprc"] > scores["ig"]["auprc"]
    pictures = {p.name for p in tmp_path.glob("*.png")}
    assert pictures == {"explanation.png", "comparison.png", "landmarks.png", "history.png"}
    assert "open" in output
    assert (tmp_path / "report.html").stat().st_size < 2_000_000
    assert "agree" in invoke(
        "explain", "--explainer", tmp_path / "explainer", "--data", "freqshapes", "--out", tmp_path / "e.npz"
    )
