"""`timex train`."""

import json
from dataclasses import replace

from timex import load_reference
from timex.cli.inputs import labelled_dataset
from timex.io.files import write_series


def test_a_model_is_saved_with_its_scores(tiny, invoke, tmp_path):
    output = invoke("train", "freqshapes", "--out", tmp_path, "--epochs", 1, "--arch", "cnn")
    assert "F1" in output
    facts = json.loads((tmp_path / "reference.json").read_text())
    assert facts["arch"] == "cnn"
    assert set(facts["scores"]) == {"val", "check", "test"}
    assert load_reference(tmp_path).n_steps == 50


def test_a_weak_reference_is_reported(tiny, invoke, tmp_path):
    output = invoke("train", "freqshapes", "--out", tmp_path, "--epochs", 1)
    assert "weak model" in output
    assert "3 attempt(s)" in output
    assert "0.9716" in output  # the paper's F1


def test_the_output_folder_is_checked_before_the_training(fails, tmp_path, monkeypatch):
    (tmp_path / "model").write_text("a file")
    monkeypatch.setattr("timex.reference.train.train_references", lambda *_, **__: 1 / 0)
    assert "Expected a folder for --out, got the file" in fails("train", "freqshapes", "--out", tmp_path / "model")


def test_a_file_of_labelled_series_trains_a_model(invoke, series, tmp_path):
    write_series(tmp_path / "own.npz", series)
    data = labelled_dataset(str(tmp_path / "own.npz"), 0, None)
    assert [len(part) for part in (data.train, data.val, data.test)] == [28, 6, 6]
    ids = [name for part in (data.train, data.val, data.test) for name in part.ids]
    assert sorted(ids) == sorted(series.ids)
    assert all(set(part.labels) == {0, 1, 2} for part in (data.train, data.val, data.test))
    printed = invoke("train", tmp_path / "own.npz", "--out", tmp_path / "model", "--epochs", 1, "--arch", "cnn")
    assert "cnn on " in printed
    assert "paper" not in printed
    assert load_reference(tmp_path / "model").n_classes == 3


def test_a_file_without_labels_is_refused(fails, series, tmp_path):
    write_series(tmp_path / "own.npz", replace(series, y=None))
    assert "Expected labelled series to train on" in fails("train", tmp_path / "own.npz", "--out", tmp_path / "model")
