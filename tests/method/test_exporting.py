"""An exported explainer gives what `explain` gives, for any number of series, in ONNX Runtime and in torch alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from timex import TimeX, TimeXConfig
from timex.method.exporting import Explaining, convolution_backward
from timex.reference.base import initialised

T, D, C = 12, 2, 3
pytestmark = pytest.mark.filterwarnings("ignore:The model predicts class")


def series(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, T, D)).astype(np.float32)


def fitted(model, settings=None):
    config = TimeXConfig(epochs=1, batch_size=16, smoothing=2).replaced(settings or {})
    return TimeX(model, config=config, device="cpu").fit(series(40), progress=False)


def foreign():
    return fitted(nn.Sequential(nn.Flatten(), nn.Linear(T * D, 6), nn.Tanh(), nn.Linear(6, C)))


def ours(arch):
    """One point of the gradient's path instead of four: the program is a third as long."""
    model = initialised(arch, {"n_channels": D, "n_classes": C, "n_steps": T}, 0).eval()
    return fitted(model, {"generator.gradient_points": 1})


MODELS = {"foreign": foreign, "cnn": lambda: ours("cnn"), "transformer": lambda: ours("transformer")}


def same(explainer, run):
    """The program's p, logits and agreement beside those of `explain`."""
    for n in (1, 2, 33):
        x = series(n, seed=n)
        e = explainer.explain(x)
        p, logits, agreement = run(x)
        np.testing.assert_allclose(p, e.attribution, atol=1e-5)
        np.testing.assert_allclose(torch.tensor(logits).softmax(-1), e.probability, atol=1e-5)
        np.testing.assert_array_equal(agreement, e.agreement)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_onnx(tmp_path, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    explainer = MODELS[name]()
    assert explainer.export(tmp_path / "e.onnx") <= 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    same(explainer, lambda x: session.run(["p", "logits", "agreement"], {"x": x}))
    facts = json.loads(session.get_modelmeta().custom_metadata_map["timex"])
    assert facts == {"model_hash": explainer.fitted.reference_hash, "shape": [T, D], "outputs": ["p", "logits", "agreement"]}
    assert [path.name for path in tmp_path.iterdir()] == ["e.onnx"]


@pytest.mark.slow
def test_torch(tmp_path):
    explainer = foreign()
    assert explainer.export(tmp_path / "e.pt2", "torch") <= 1e-5
    module = torch.export.load(tmp_path / "e.pt2").module()
    same(explainer, lambda x: [v.detach().numpy() for v in module(torch.as_tensor(x))])
    assert all(p.requires_grad is False for p in explainer.fitted.model.parameters())


def test_the_gradient_of_a_convolution():
    x = torch.randn(4, 6, 11, requires_grad=True)
    for settings in ({}, {"stride": 2}, {"padding": 3, "dilation": 2}, {"groups": 2, "stride": 3, "padding": 1}):
        conv = nn.Conv1d(6, 8, 4, **settings)
        y = conv(x)
        gradient = torch.randn_like(y)
        (expected,) = torch.autograd.grad(y, x, gradient)
        shared = ([8], conv.stride, conv.padding, conv.dilation, False, [0], conv.groups, [True, False, False])
        found = convolution_backward(gradient, x, conv.weight, *shared)[0]
        torch.testing.assert_close(found, expected)


def test_what_cannot_be_exported_is_named(tmp_path):
    explainer = foreign()
    with pytest.raises(ValueError, match=r"a file ending in \.onnx for onnx or in \.pt2 for torch, got 'e\.zip' for 'onnx'"):
        explainer.export(tmp_path / "e.zip")
    with pytest.raises(RuntimeError, match="has not been fitted"):
        TimeX(explainer.model).export(tmp_path / "e.onnx")


def test_a_black_box_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("timex.reference.student.STEPS", 2)
    explainer = fitted(lambda x: np.stack([x.mean((1, 2)), x.max((1, 2))], axis=1))
    with pytest.raises(ValueError, match="Expected a model that torch can trace, got a black box"):
        explainer.export(tmp_path / "e.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_program_computes_what_explain_computes():
    explainer = foreign()
    p, logits, agreement = Explaining(explainer.fitted)(torch.as_tensor(series(7)))
    e = explainer.explain(series(7))
    np.testing.assert_array_equal(p, e.attribution)
    assert logits.shape == (7, C)
    np.testing.assert_array_equal(agreement, e.agreement)
