"""`timex fit`: settings, presets, output folders, and training that fails."""

import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from timex import Explanation, TimeX, TimeXConfig, load_reference
from timex.cli import app, resuming
from timex.cli.fit import settings
from timex.cli.resuming import checkpoint_of
from timex.engine.group import Group
from timex.io.files import write_series
from timex.io.folder import read_folder


def saved(folder):
    return read_folder(folder, "explainer")[0]


def saved_config(folder):
    return TimeXConfig.from_dict(saved(folder)["config"])


def test_settings_by_name_come_after_options_and_preset():
    given = {"lr": 0.2, "smoothing": None, "epochs": 7, "seed": None}
    assert settings("default", "x.npz", "", given) == TimeXConfig(lr=0.2, epochs=7)
    paper = TimeXConfig.paper("lowvar", "cnn")
    assert settings("paper", "lowvar", "cnn", {"epochs": None}) == paper
    assert settings("paper", "lowvar", "transformer", {}).mask.hide == "auto"
    changed = settings("paper", "lowvar", "cnn", given, ["epochs=3", "loss.lam_e=0.5", "training.clip=none"])
    assert changed == paper.replaced({"lr": 0.2, "epochs": 3, "loss.lam_e": 0.5, "training.clip": None})


def test_a_fit_for_one_class_explains_files_with_names_of_all_classes(small, invoke, tmp_path):
    write_series(tmp_path / "named.npz", replace(small.test, truth=None))
    fit = ("fit", "--data", "freqshapes", "--reference", small.reference, "--epochs", 1, "--out", tmp_path / "two")
    invoke(*fit, "--target", "2,1")
    assert saved(tmp_path / "two")["adaptation"] == {"target": [2, 1]}
    out = tmp_path / "e.npz"
    invoke("explain", "--explainer", tmp_path / "two", "--data", tmp_path / "named.npz", "--out", out)
    e = Explanation.load(out)
    assert e.probability.shape == (len(small.test), 2)
    assert set(e.prediction) <= {0, 1}
    assert e.classes == small.test.classes[1:3]
    assert e.series.y is None  # some series belong to neither


def test_the_models_accuracy_and_the_names_of_its_classes(series, invoke, own_model):
    write_series("train.npz", series)
    printed = invoke("fit", "--model", "my_net:net", "--data", "train.npz", "--out", "e", "--epochs", 1, "--classes", "a, b,c")
    assert re.search(r"The model predicts the label of [\d.]+% of 40 training series \(guessing: 35.0%\)", printed)
    assert '"c"' in (own_model / "e" / "explainer.json").read_text()


def test_every_setting_can_be_set():
    for name, value in TimeXConfig().flat().items():
        assert settings("default", "x.npz", "", {}, [f"{name}={value}"]) == TimeXConfig(), name


@pytest.mark.parametrize(
    ("preset", "data", "assignment", "words"),
    [
        ("default", "x.npz", "loss.lam=1", "Unknown setting 'loss.lam': did you mean loss.lam_"),
        ("default", "x.npz", "epochs", "Expected a setting as name=value, got 'epochs'"),
        ("default", "x.npz", "loss.r=2", "Expected r < 1, got 2"),
        ("default", "x.npz", "mask.hide=never", "Expected hide among value, attention, both, auto, got 'never'"),
        ("paper", "train.npz", "lr=.1", "one of the paper's data sets as --data with --preset paper, got the file train.npz"),
        ("paper", "equalshapes", "lr=.1", "known for freqshapes, .*, not for 'equalshapes'"),
    ],
)
def test_wrong_settings(preset, data, assignment, words):
    with pytest.raises(ValueError, match=words):
        settings(preset, data, "cnn", {}, [assignment])


def test_the_settings_reach_the_fit(small, invoke, tmp_path):
    fit = ("fit", "--reference", small.reference, "--data", "freqshapes", "--epochs", 1, "--out", tmp_path)
    invoke(*fit, "--preset", "paper", "--set", "generator.layers=1", "--set", "n_landmarks=7")
    expected = TimeXConfig.paper("freqshapes", "transformer").replaced({"epochs": 1, "generator.layers": 1, "n_landmarks": 7})
    assert saved_config(tmp_path) == expected


def test_smoothing_smooths_explanations(small, invoke, tmp_path):
    fit = ("fit", "--reference", small.reference, "--data", "freqshapes", "--epochs", 1)
    for width in (0, 3):
        invoke(*fit, "--out", tmp_path / str(width), "--smoothing", width)
    found = [TimeX.load(f, load_reference(f / "reference"), device="cpu") for f in (tmp_path / "0", tmp_path / "3")]
    assert [explainer.fitted.smoothing for explainer in found] == [0, 3]
    rough = [np.abs(np.diff(explainer.explain(small.test).attribution, 2, axis=1)).mean() for explainer in found]
    assert rough[1] < rough[0] / 3


@pytest.mark.parametrize("out", ["reference", "reference/explainer", "reference/reference"])
def test_an_explainer_inside_the_reference_folder(small, invoke, tmp_path, out):
    """The reference's files are copied once, however the two folders lie."""
    reference = tmp_path / "reference"
    reference.mkdir()
    for path in small.reference.iterdir():
        (reference / path.name).write_bytes(path.read_bytes())
    before = load_reference(reference)
    invoke("fit", "--reference", reference, "--data", "freqshapes", "--epochs", 1, "--out", tmp_path / out)
    assert TimeX.load(tmp_path / out, load_reference(tmp_path / out / "reference")).fitted.shape == (50, 1)
    assert load_reference(reference).state_dict().keys() == before.state_dict().keys()
    assert len(list(tmp_path.rglob("*"))) < 15


def test_the_copied_reference_can_be_fitted_again(small, invoke, tmp_path):
    """--reference DIR/reference --out DIR: source and target of the copy are one folder."""
    fit = ("fit", "--data", "freqshapes", "--epochs", 1, "--out", tmp_path)
    invoke(*fit, "--reference", small.reference)
    files = sorted(p.name for p in (tmp_path / "reference").iterdir())
    invoke(*fit, "--reference", tmp_path / "reference")
    assert sorted(p.name for p in (tmp_path / "reference").iterdir()) == files


def test_the_output_folder_is_checked_before_the_fit(small, fails, tmp_path, monkeypatch):
    (tmp_path / "e").write_text("a file")
    monkeypatch.setattr("timex.method.explainer.fit_all", lambda *_, **__: 1 / 0)
    printed = fails("fit", "--reference", small.reference, "--data", "freqshapes", "--out", tmp_path / "e" / "deeper")
    assert "deeper: Not a directory. Choose another --out." in printed


def test_a_layer_of_a_reference_names_the_options(small, fails, tmp_path):
    fit = ("fit", "--reference", small.reference, "--data", "freqshapes", "--out", tmp_path / "o")
    assert "called and read in one way: leave out --embedding." in fails(*fit, "--embedding", "encoder")


def test_a_training_that_diverged_is_one_clear_line(fails, own_model):
    x = 1e30 * np.random.default_rng(0).normal(size=(40, 12, 1))
    np.savez("x.npz", x=x.astype(np.float32), y=(x[:, 0, 0] > 0).astype(np.int64))
    (own_model / "my_net.py").write_text(
        "from torch import nn\nnet = lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 2))\n"
    )
    fit = ("fit", "--data", "x.npz", "--out", "o", "--model", "my_net:net", "--embedding", 2, "--epochs", 1, "--device", "cpu")
    assert "error: No epoch gave a finite validation value" in fails(*fit)
    assert not (own_model / "o").exists()


def test_a_file_that_asks_for_too_much_memory(series, fails, invoke, own_model):
    write_series("train.npz", series)
    fit = ("fit", "--model", "my_net:net", "--embedding", "body", "--pool", 2, "--data", "train.npz", "--out", "e")
    printed = fails(*fit, "--epochs", 1, "--max-bytes", 100)
    needed = printed.split("--max-bytes ")[1].split()[0]
    invoke(*fit, "--epochs", 1, "--max-bytes", needed)


# ------------------------------------------------------------------------------------------------- stopped and resumed


FIT = ("fit", "--data", "freqshapes", "--epochs", 3)


def interrupted_after(monkeypatch, rows, times=1):
    """Ctrl-C when so many epochs have been recorded, as a signal; `times` of them."""
    recorded, seen = Group._recorded, []

    def record(run, *arguments):
        history = recorded(run, *arguments)
        seen.append(1)
        if rows <= len(seen) < rows + times:
            signal.raise_signal(signal.SIGINT)
        return history

    monkeypatch.setattr(Group, "_recorded", record)


def stopped(*arguments):
    """The exit code of a command that Ctrl-C ends."""
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False).exit_code


def attributions(folder, small):
    return TimeX.load(folder, load_reference(folder / "reference"), device="cpu").explain(small.test).attribution


def test_a_fit_that_was_stopped_is_resumed(small, invoke, fails, tmp_path, monkeypatch, caplog):
    fit = (*FIT, "--reference", small.reference)
    invoke(*fit, "--out", tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupted_after(patch, 2)
        assert stopped(*fit, "--out", tmp_path / "e") == 130
    kept = tmp_path / "e.checkpoint"
    assert f"interrupted. Kept in {kept}: generator: 1 epochs. Run the same command with --resume to go on" in caplog.text
    assert not (tmp_path / "e").exists()
    printed = fails(*fit, "--out", tmp_path / "e", "--resume", "--seed", 5)
    assert f"Expected the fit that {kept} began, got another: settings: seed was 0, is 5" in printed
    invoke(*fit, "--out", tmp_path / "e", "--resume")
    np.testing.assert_array_equal(attributions(tmp_path / "e", small), attributions(tmp_path / "whole", small))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e", "whole"]


def test_a_fit_without_resume_begins_again(small, invoke, tmp_path, monkeypatch, caplog):
    fit = (*FIT, "--reference", small.reference, "--out", tmp_path / "e")
    with monkeypatch.context() as patch:
        interrupted_after(patch, 2)
        stopped(*fit)
    invoke(*fit, "--seed", 5)
    assert "e.checkpoint are replaced; --resume would have gone on from them" in caplog.text


def test_a_part_of_a_fit_is_kept(small, invoke, tmp_path, monkeypatch, caplog):
    fit = (*FIT, "--reference", small.reference, "--out", tmp_path / "e")
    with monkeypatch.context() as patch:
        interrupted_after(patch, 1)
        invoke(*fit, "--keep-partial")
    assert "stopping: the best epoch so far will be kept. Ctrl-C again ends the command at once" in caplog.text
    assert "the training was cut short: the same command with --resume goes on with it from" in caplog.text
    assert np.isfinite(attributions(tmp_path / "e", small)).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with monkeypatch.context() as patch:
        interrupted_after(patch, 1, times=2)
        assert stopped(*fit, "--keep-partial", "--resume") == 130


def test_training_that_was_stopped_is_resumed(small, invoke, tmp_path, monkeypatch):
    train = ("train", "freqshapes", "--epochs", 3)
    invoke(*train, "--out", tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupted_after(patch, 5)  # in the second attempt: so short a training gives no good model
        assert stopped(*train, "--out", tmp_path / "r") == 130
    assert not (tmp_path / "r").exists()
    invoke(*train, "--out", tmp_path / "r", "--resume")
    whole, resumed = (load_reference(tmp_path / name).state_dict() for name in ("whole", "r"))
    for name, value in whole.items():
        assert torch.equal(value, resumed[name])
    assert read_folder(tmp_path / "r", "reference")[0] == read_folder(tmp_path / "whole", "reference")[0]
    with monkeypatch.context() as patch:
        interrupted_after(patch, 1)
        invoke(*train, "--out", tmp_path / "part", "--keep-partial")
    assert read_folder(tmp_path / "part", "reference")[0]["epoch"] == 0


def test_a_second_writer_is_refused(tmp_path):
    with checkpoint_of(tmp_path / "o", False, False) as first:
        with (
            pytest.raises(ValueError, match=r"Another process is writing .*o\.checkpoint: wait until it ends"),
            checkpoint_of(tmp_path / "o", False, False),
        ):
            pass
        with checkpoint_of(tmp_path / "other", False, False):
            pass
        first.expect(settings=1)
    assert list(tmp_path.iterdir()) == []
    with checkpoint_of(tmp_path / "o", True, False):  # the lock is gone
        pass


@pytest.mark.parametrize("replaced", [True, False])
def test_a_lock_on_a_file_that_was_removed_is_taken_again(tmp_path, monkeypatch, replaced):
    """The process before may remove its file between the moment it is opened here and the moment it is locked."""
    lock, place = tmp_path / ".o.lock", tmp_path / "o"
    flock, calls = resuming.fcntl.flock, []

    def late(handle, how):
        calls.append(handle)
        if len(calls) == 1:
            lock.unlink()
            if replaced:
                lock.write_text("of a third process, which has ended since")
        flock(handle, how)

    monkeypatch.setattr(resuming.fcntl, "flock", late)
    with resuming.alone(place):
        assert len(calls) == 2
        with pytest.raises(ValueError, match="Another process is writing"), resuming.alone(place):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_fails_leaves_no_open_file(tmp_path, monkeypatch):
    lock, opened, closed = tmp_path / "lock", [], []
    monkeypatch.setattr(resuming.os, "open", lambda *_: opened.append(7) or 7)
    monkeypatch.setattr(resuming.os, "close", closed.append)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(resuming.fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        resuming._locked(lock, tmp_path)
    assert opened == closed == [7]


def test_a_disk_without_locks(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError("No locks available")

    monkeypatch.setattr(resuming.fcntl, "flock", refused)
    with resuming.alone(tmp_path / "o"), resuming.alone(tmp_path / "o"):
        pass
    assert list(tmp_path.iterdir()) == []
