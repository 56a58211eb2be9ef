"""timex export: where it writes, and what it refuses before any work."""

import numpy as np
import pytest


def test_wrong_outputs_are_refused_at_once(small, fails, tmp_path):
    assert "Expected --out to end in .onnx" in fails("export", small.explainer, "--out", tmp_path / "e.zip")
    assert "Expected --out to end in .pt2" in fails("export", small.explainer, "--format", "torch", "--out", "e.onnx")
    assert "holds no explainer" in fails("export", tmp_path / "nowhere", "--out", tmp_path / "e.onnx")


@pytest.mark.slow
def test_the_program_gives_what_explain_gives(small, invoke, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    printed = invoke("export", small.explainer, "--out", tmp_path / "e.onnx")
    assert "from timex explain. Written to" in printed
    invoke("explain", "--explainer", small.explainer, "--data", "freqshapes", "--out", tmp_path / "e.npz")
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    (p,) = session.run(["p"], {"x": small.test.x})
    with np.load(tmp_path / "e.npz") as kept:
        np.testing.assert_allclose(p, kept["attribution"], atol=1e-5)
