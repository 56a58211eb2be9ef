"""A fitted TimeX as one program that runs without this package: x to p, to the model's logits, and to the agreement.

The generator reads gradients of the model. They are traced into the program, so that it needs no automatic differentiation.

Shapes: B samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from timex.io.atomic import atomic_path
from timex.method.explain import explain_batch
from timex.method.finish import Fitted
from timex.method.storage import wave
from timex.reference.student import Distilled

if TYPE_CHECKING:
    from timex.method.explainer import TimeX

Format = Literal["onnx", "torch"]
SUFFIXES: dict[str, str] = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-5
"""Largest difference between p of the program and p of `explain`."""
MOST = 65_536
"""Series in one call of the program."""
TRACED = 5
"""Series that the program is traced with: a number that no layer has by chance."""


class Explaining(nn.Module):
    """The explanation of complete series at times 1..T, with the frozen model inside."""

    def __init__(self, fitted: Fitted) -> None:
        super().__init__()
        self.fitted, self.model, self.reference = fitted, fitted.model, fitted.reference

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The p (B, T, D), the model's logits (B, C), and for classes whether the surrogate agrees, (B,)."""
        logits = self.reference(x)
        found = explain_batch(self.fitted, self.fitted.smoothing, x, None, None, logits)
        agreement = (found["agreement"],) if "agreement" in found else ()
        return found["attribution"], logits, *agreement


def export(explainer: TimeX, path: Path, kind: Format) -> float:
    """Write the program, check it against `explain`, and return the largest difference in p.

    Args:
        explainer: A fitted one.
        path: The file, ending in .onnx or .pt2.
        kind: "onnx" or "torch".
    """
    if kind not in SUFFIXES or path.suffix != SUFFIXES[kind]:
        raise ValueError(f"Expected a file ending in .onnx for onnx or in .pt2 for torch, got {path.name!r} for {kind!r}.")
    fitted = explainer.fitted
    if isinstance(fitted.reference, Distilled):
        raise ValueError("Expected a model that torch can trace, got a black box: export an explainer of a torch module.")
    if fitted.extras:
        raise ValueError(f"Expected a model that takes series alone, got one that takes {', '.join(fitted.extras)} too.")
    names = ["p", "logits", *([] if fitted.config.forecasts else ["agreement"])]
    facts = {"model_hash": fitted.reference_hash, "shape": list(fitted.shape), "outputs": names}
    with _quiet():
        program = _traced(Explaining(fitted).cpu().eval())
        with atomic_path(path) as beside:
            run = _write_onnx(program, beside, names, facts) if kind == "onnx" else _write_torch(program, beside, facts)
            difference = _difference(explainer, run)
            if not difference <= TOLERANCE:
                raise ValueError(f"Expected p of the exported program within {TOLERANCE} of explain, got {difference:.3g}.")
    return difference


def _traced(explaining: Explaining) -> torch.export.ExportedProgram:
    """The program with a free number of series."""
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.zeros(TRACED, *explaining.fitted.shape) + torch.as_tensor(wave(explaining.fitted.baseline))
    before = [(p, p.requires_grad) for p in explaining.parameters()]
    table: Any = {torch.ops.aten.convolution_backward.default: convolution_backward}
    try:
        for p, _ in before:
            p.requires_grad_(False)
        trace = make_fx(explaining, decomposition_table=table, tracing_mode="symbolic", _allow_non_fake_inputs=True)
        graph: Any = trace(x)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        batch = torch.export.Dim("batch", min=1, max=MOST)
        return torch.export.export(graph, (x,), dynamic_shapes=({0: batch},), strict=False)
    except Exception as error:  # torch raises errors of many kinds for what it cannot trace
        words = str(error).splitlines()[0] if str(error) else ""
        raise ValueError(
            f"The model cannot be traced for any number of series ({type(error).__name__}: {words}): leave out what depends on "
            "values or on len(x), and use x.shape[0] in its place."
        ) from error
    finally:
        for p, required in before:
            p.requires_grad_(required)


def convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, None, None]:
    """The gradient of a convolution with respect to its input, as a transposed convolution, which ONNX has."""
    if transposed:
        raise ValueError("transposed convolutions have no exported gradient")
    reach = [
        (gradient.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[2 + i] - 1) + 1
        for i in range(len(stride))
    ]
    rest = [int(x.shape[2 + i] - reach[i]) for i in range(len(stride))]
    found = torch.ops.aten.convolution(gradient, weight, None, stride, padding, dilation, True, rest, groups)
    return found if wanted[0] else None, None, None


Run = Callable[[Tensor], Tensor]


def _write_onnx(program: torch.export.ExportedProgram, path: Path, names: list[str], facts: dict[str, Any]) -> Run:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  torch needs it
    except ImportError as error:
        raise ValueError(f"Exporting to ONNX needs {error.name}: pip install 'timex-explain[export]'.") from None
    made: Any = torch.onnx.export(program, dynamo=True, input_names=["x"], output_names=names, verbose=False)
    made.model.metadata_props["timex"] = json.dumps(facts)
    made.save(str(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(["p"], {"x": x.numpy()})[0])


def _write_torch(program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any]) -> Run:
    with path.open("wb") as file:
        torch.export.save(program, file, extra_files={"timex.json": json.dumps(facts)})
    module = program.module()
    return lambda x: module(x)[0].detach()


def _difference(explainer: TimeX, run: Run) -> float:
    """The largest difference in p for one series, and for more than the program was traced with."""
    baseline = explainer.fitted.baseline
    rng = np.random.default_rng(0)
    largest = 0.0
    for n in (1, 2 * TRACED + 1):
        x = rng.normal(baseline.mean, np.maximum(baseline.std, 1e-3), (n, *explainer.fitted.shape)).astype(np.float32)
        found = explain_batch_of(explainer, torch.from_numpy(x))
        largest = max(largest, float((run(torch.from_numpy(x)) - found).abs().max()))
    return largest


def explain_batch_of(explainer: TimeX, x: Tensor) -> Tensor:
    """The p of complete series as `explain` gives it, without its checks and warnings."""
    fitted = explainer.fitted
    with torch.no_grad():
        return explain_batch(fitted, fitted.smoothing, x, None, None, fitted.reference(x))["attribution"]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes of torch's exporter, which speak of torch."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
