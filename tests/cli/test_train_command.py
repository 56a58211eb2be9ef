"""`timex train`."""

import json

from timex import load_reference


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
