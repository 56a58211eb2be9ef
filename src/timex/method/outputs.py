"""What a fit computes of the frozen model before training: embeddings, answers, gradients, the unit of evidence, the fill.

Shapes: N samples, B samples of a batch, T time steps, D channels, C classes (or outputs of a forecast).
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from timex.engine import Noise, Tensors
from timex.method.explain import Masked, blank_answer, chunk_size, context_of, model_gradients
from timex.method.masking import time_shifted
from timex.records import Baseline, Series
from timex.reference.base import ReferenceModel
from timex.reference.beside import beside
from timex.reference.evidence import evidence

MAX_SPREAD = 1024
"""Training series from which the unit of a forecast's evidence is estimated, at most."""
MAX_FILL = 256
"""Validation series on which fills are compared, at most."""
NEUTRAL = 0.6
"""A shift takes the place of the mean where it changes the model's answers less than this share of what the mean changes."""
CACHE_BYTES = 2**30
"""Size of one kind of the model's outputs (embeddings, answers, gradients) above which it is kept on disk."""
PIECE = 0.1
"""Share of the window and of the cells that random pieces take when fills are compared."""


@dataclass(frozen=True, kw_only=True)
class FrozenModel:
    """The model being explained, as a fit evaluates it.

    Attributes:
        reference: The model. It is moved to the device of `mean` for a computation, and back to the CPU after it.
        masked: Hides cells, see `TimeXModel.masked`.
        mean: Mean of every cell over the training series, (T, D), on the device.
        spread: For forecasts, the unit of evidence; None for classes.
    """

    reference: ReferenceModel
    masked: Masked
    mean: Tensor
    spread: float | None


@torch.no_grad()
def spread_of(reference: ReferenceModel, train: Series, baseline: Baseline, device: torch.device) -> float:
    """For forecasts: the mean squared distance of the answers to training series from the answer to their mean."""
    part = train.take(slice(0, MAX_SPREAD)).tensors(device)
    reference.to(device)
    mean = torch.as_tensor(baseline.mean, device=device)[None]
    with beside(part):
        answers = reference.output(part["x"], part.get("times"), part.get("observed")).logits
        blank = reference.output(mean.expand_as(part["x"]) if train.extras else mean).logits
    reference.cpu()
    return max(float((answers - blank).square().mean()), 1e-12)


def outputs_of(frozen: FrozenModel, series: Series, n_points: int) -> Tensors:
    """Tensors of the series with the frozen model's outputs, on the CPU.

    Beside x, times and observed: the embeddings `z`, the answers `logits`, the answers `blank` to series of which every cell is
    hidden, the `context` of the generator, and the `gradient` of the evidence over `n_points` points, if any.
    """
    device = frozen.mean.device
    reference = frozen.reference.to(device)
    columns: Tensors = {}
    start = 0
    for part in series.chunks(chunk_size(series.shape[1])):
        b = part.tensors(device)
        x, times, observed = b["x"], b.get("times"), b.get("observed")
        with torch.no_grad(), beside(b):
            out = reference.output(x, times, observed)
            blank = blank_answer(reference, frozen.masked, x, times, observed, frozen.mean)
        if not (out.z.isfinite().all() and out.logits.isfinite().all()):
            raise ValueError("The model gives NaN or inf on some samples: explain a model with finite outputs.")
        found = {"z": out.z, "logits": out.logits, "blank": blank, "context": context_of(out, frozen.spread is not None)}
        if n_points:
            arguments = (x, times, observed, out.logits, frozen.mean, n_points, frozen.spread)
            with beside(b):
                found["gradient"] = model_gradients(reference, *arguments)
        for name, value in found.items():
            if name not in columns:
                columns[name] = room(len(series), *value.shape[1:])
            columns[name][start : start + len(part)] = value.detach()
        start += len(part)
    reference.cpu()
    tensors = {name: v for name, v in series.tensors().items() if name != "y"}
    return tensors | columns


def room(*shape: int) -> Tensor:
    """An empty tensor of float32: in memory, or in a file without a name above `CACHE_BYTES`, which the system then pages."""
    size = math.prod(shape)
    if 4 * size <= CACHE_BYTES:
        return torch.empty(shape)
    with tempfile.NamedTemporaryFile(prefix="timex-outputs-") as file:
        return torch.from_file(file.name, shared=True, size=size, dtype=torch.float32).view(shape)


@torch.no_grad()
def neutral_fill(frozen: FrozenModel, val: Series, outputs: Tensors, seed: int) -> str:
    """The fill, "mean" or "shift", that changes the model's answers less when random pieces of the series are replaced.

    A fill that resembles what decides turns pieces into evidence and changes the answers a lot: the mean, for a sensor that
    stands still.

    Args:
        frozen: The model.
        val: Validation series.
        outputs: Their `outputs_of`.
        seed: Seed of the pieces.
    """
    device, reference = frozen.mean.device, frozen.reference
    part = val.take(slice(0, MAX_FILL)).tensors(device)
    x, times, observed = part["x"], part.get("times"), part.get("observed")
    logits, blank = (outputs[name][: len(x)].to(device) for name in ("logits", "blank"))
    whole = evidence(logits, logits, frozen.spread)
    unit = (whole - evidence(blank, logits, frozen.spread)).clamp_min(1)
    noise = Noise(torch.tensor(seed))
    pieces = random_pieces(x.shape, noise).to(device)
    shift = ((0.25 + 0.5 * noise.uniform(len(x))) * x.shape[1]).long()
    changes = {}
    reference.to(device)
    for fill, values in (("mean", frozen.mean.expand_as(x)), ("shift", time_shifted(x, shift.to(device)))):
        view, attended = frozen.masked(x, observed, 1 - pieces, values)
        with beside(part):
            answer = reference.output(view, times, observed, attended).logits
        changes[fill] = float(((whole - evidence(answer, logits, frozen.spread)) / unit).clamp(-1, 1).abs().mean())
    reference.cpu()
    return "shift" if changes["shift"] < NEUTRAL * changes["mean"] else "mean"


def random_pieces(shape: torch.Size, noise: Noise) -> Tensor:
    """1 in random pieces of single channels that take about a tenth of the cells of every series, (B, T, D), else 0."""
    b, t, d = shape
    length = max(2, round(PIECE * t))
    count = max(1, round(PIECE * t * d / length))
    start = (noise.uniform(b, count, 1) * (t - length + 1)).long()
    channel = (noise.uniform(b, count) * d).long()
    steps = torch.arange(t)
    inside = (steps >= start) & (steps < start + length)  # (B, count, T)
    return torch.einsum("bct,bcd->btd", inside.float(), F.one_hot(channel, d).float()).clamp(max=1)
