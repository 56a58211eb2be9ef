"""Explaining: p, the surrogate's answer and the landmark of every series; nothing is random.

Shapes: B samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from timex.engine import Tensors
from timex.method.convolutional import ConvolutionalGenerator, start_probability
from timex.method.evidence import openness
from timex.method.losses import cosine_similarity, js
from timex.method.masking import filled
from timex.reference.base import Output, ReferenceModel
from timex.reference.evidence import evidence, path_gradients, smoothed

if TYPE_CHECKING:
    from timex.method.fit import Fitted
    from timex.method.task import Task

Masked = Callable[[Tensor, Tensor | None, Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""Hides cells, see `TimeXModel.masked`."""
CHUNK_CELLS = 2**23
"""Attention weights (chunk x T x T) held at once while explaining: about 32 MB each."""


def context_of(out: Output, forecasts: bool) -> Tensor:
    """The model's embedding and its probabilities or forecast values, which the generator reads, (B, Z + C)."""
    return torch.cat([out.z, out.logits if forecasts else out.logits.softmax(-1)], dim=-1).float()


def blank_answer(
    reference: ReferenceModel, masked: Masked, x: Tensor, times: Tensor | None, observed: Tensor | None, mean: Tensor
) -> Tensor:
    """The model's outputs for the series with every cell hidden, (B, C)."""
    hidden, attended = masked(x, observed, torch.zeros_like(x), mean)
    return reference.output(hidden, times, observed, attended).logits


def model_gradients(
    reference: ReferenceModel,
    x: Tensor,
    times: Tensor | None,
    observed: Tensor | None,
    answer: Tensor,
    mean: Tensor,
    n_points: int,
    spread: float | None,
) -> Tensor:
    """Integrated gradients of the model's evidence for its own answer, from the training mean, (B, T, D)."""
    baseline = mean.expand_as(x) if observed is None else mean * observed

    def evidence_of(point: Tensor) -> Tensor:
        return evidence(reference.output(point, times, observed).logits, answer, spread)

    return path_gradients(evidence_of, x, baseline, n_points)


@torch.no_grad()
def explain_batch(
    by: Task | Fitted, smoothing: int, x: Tensor, times: Tensor | None, observed: Tensor | None, logits: Tensor
) -> Tensors:
    """The fields of an `Explanation` for one batch of series."""
    batch = {"x": x, "times": times, "observed": observed, "logits": logits}
    if isinstance(by.model.generator, ConvolutionalGenerator):
        batch |= generator_inputs(by, x, times, observed)
        mean = torch.as_tensor(by.baseline.mean, device=x.device)
        batch["blank"] = blank_answer(by.reference, by.model.masked, x, times, observed, mean)
    given = {name: value for name, value in batch.items() if value is not None}
    p = smoothed_probability(keep_probability(by, given), smoothing, observed)
    found = explain_masks(by, given, p)
    if "gradient" in given:
        found["direction"] = direction_of(given["gradient"], found["mask"], smoothing, observed)
    return found


def direction_of(gradient: Tensor, kept: Tensor, smoothing: int, observed: Tensor | None) -> Tensor:
    """Whether a cell speaks for the model's answer (1) or against it (-1), (B, T, D) int8; 0 where nothing was measured.

    A run of kept cells has the sign of the sum of its integrated gradients: the evidence that its values add to those of the
    training mean. Single cells of a motif often have the other sign, and hiding them does not do what it promises. A cell
    that is not kept has the sign of its own gradient, smoothed as the explanation is.

    Args:
        gradient: Integrated gradients of the evidence, (B, T, D), signed.
        kept: The cells of the mask, (B, T, D).
        smoothing: Standard deviation in steps of the Gaussian over time.
        observed: Measured cells, (B, T, D), or None.
    """
    sign = torch.where(kept, run_sums(gradient, kept), smoothed(gradient, smoothing, observed)).sign().to(torch.int8)
    return sign if observed is None else torch.where(observed, sign, 0)


def run_sums(values: Tensor, cells: Tensor) -> Tensor:
    """For every cell the sum of `values` over its run of `cells` along time, (B, T, D); 0 outside.

    >>> run_sums(torch.tensor([[[1.0], [2.0], [5.0], [-1.0]]]), torch.tensor([[[True], [True], [False], [True]]])).flatten()
    tensor([ 3.,  3.,  0., -1.])
    """
    start = cells.clone()
    start[:, 1:] &= ~cells[:, :-1]
    run = start.long().cumsum(1) * cells  # 1, 2, ... in the runs, 0 outside
    totals = values.new_zeros(values.shape[0], values.shape[1] + 1, values.shape[2]).scatter_add_(1, run, values * cells)
    return totals.gather(1, run)


def generator_inputs(by: Task | Fitted, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensors:
    """What the convolutional generator reads of the frozen model: its standardised context and its gradient."""
    out = by.reference.output(x, times, observed)
    context = (context_of(out, by.config.forecasts) - by.model.context_mean) / by.model.context_std
    points = by.config.generator.gradient_points
    if not points:
        return {"context": context}
    mean = torch.as_tensor(by.baseline.mean, device=x.device)
    gradient = model_gradients(by.reference, x, times, observed, out.logits, mean, points, by.spread)
    return {"context": context, "gradient": gradient}


@torch.no_grad()
def keep_probability(by: Task | Fitted, batch: Tensors) -> Tensor:
    """The probability p of being kept before smoothing, (B, T, D); 0 where nothing was measured.

    With the evidence objective it is (open * p + (1 - open) * p_start) * (1 + open) / 2. The generator learned p from the
    evidence, which says nothing about a class that a blank series gets too (open = 0). There p_start ranks the cells by the
    model's gradients, and the last factor keeps p below .5: the model needs no cell to give this class.
    """
    generator, x, times, observed = by.model.generator, batch["x"], batch.get("times"), batch.get("observed")
    if isinstance(generator, ConvolutionalGenerator):
        prices, gradient = by.config.evidence, batch.get("gradient")
        p = generator(x, gradient, batch["context"], times, observed).p(prices.price_low, prices.price_high)
        if gradient is not None:
            open_ = openness(batch["logits"], batch["blank"], by.fill, by.config.forecasts)[:, None, None]
            p = (open_ * p + (1 - open_) * start_probability(gradient, observed)) * (1 + open_) / 2
    else:
        p = generator(x, times, observed)
    return p.float() if observed is None else torch.where(observed, p, 0.0).float()


def smoothed_probability(p: Tensor, smoothing: int, observed: Tensor | None) -> Tensor:
    """The p that users see, (B, T, D): smoothed over time, 0 where nothing was measured."""
    p = smoothed(p, smoothing, observed).clamp(max=1)
    return p if observed is None else torch.where(observed, p, 0.0)


@torch.no_grad()
def explain_masks(by: Task | Fitted, batch: Tensors, p: Tensor) -> Tensors:
    """The fields of an `Explanation` that follow from p: the mask, the surrogate's answer to it, and the landmark."""
    x, times, observed, logits = batch["x"], batch.get("times"), batch.get("observed"), batch["logits"]
    mask = p > 0.5
    mean, std = (torch.as_tensor(v, device=x.device) for v in by.baseline)
    x_m, attended = by.model.masked(x, observed, mask.to(x.dtype), filled(by.fill, x, mean, std, None))
    z_e, logits_e = by.model.surrogate(x_m, times, observed, attended, None)
    found = {
        "attribution": p,
        "mask": mask,
        "embedding": z_e.float(),
        "landmark": cosine_similarity(z_e, by.model.landmarks).argmax(-1),
    }
    if not by.config.forecasts:  # agreement is undefined for forecasts
        found["agreement"] = logits_e.argmax(-1) == logits.argmax(-1)
        found["divergence"] = js(logits, logits_e).float()
    return found


def chunk_size(n_steps: int) -> int:
    """How many series of T steps to explain at once."""
    return max(1, min(4096, CHUNK_CELLS // (n_steps * n_steps)))
