"""What a frozen model answers: evidence for a prediction, gradients of that evidence, and the gap of an explanation.

Shapes: B samples, T time steps, D channels, C classes (or outputs of a forecast).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Answer = Callable[[Tensor], Tensor]
"""A model's answer to a batch of series, (B, T, D) -> (B, C)."""
Part = tuple[Callable[[Tensor], Tensor], Tensor, Tensor | None]
"""Some series: the gap (B,) as a function of an attribution (B, T, D), their attribution, and their measured cells."""

SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Shares of the cells that the gap keeps and removes."""
WIDTHS = (0, 1, 2, 3, 4, 6)
"""Standard deviations, in steps, among which the smoothing of an attribution is chosen."""
REACH = 4
"""Standard deviations after which a smoothing window ends."""


def log_odds(logits: Tensor, target: Tensor) -> Tensor:
    """The log-odds of the class `target` (B,) in `logits` (B, C), as (B,).

    Example:
        >>> [round(float(e), 4) for e in log_odds(torch.tensor([[0.2, 0.8]]).log(), torch.tensor([1]))]  # log 4
        [1.3863]
    """
    c = target[:, None]
    others = torch.ones_like(logits, dtype=torch.bool).scatter(-1, c, False)
    least = torch.finfo(logits.dtype).min
    return logits.gather(-1, c).squeeze(-1) - logits.where(others, least).logsumexp(-1)


def evidence(view: Tensor, answer: Tensor, spread: Tensor | float | None = None) -> Tensor:
    """How much `view` speaks for `answer`, per sample.

    For classes, the log-odds of the class that `answer` predicts. For numbers, minus the mean squared distance from `answer`
    in units of `spread`.

    Args:
        view: Output for an altered series, (B, C).
        answer: Output for the series itself, (B, C).
        spread: For numbers, the mean squared distance of training answers from the answer to a blank series; None for classes.
    """
    if spread is None:
        return log_odds(view, answer.argmax(-1))
    return -(view - answer).square().mean(-1) / spread


def open_share(answer: Tensor, blank: Tensor) -> Tensor:
    """How open the predicted class is for a blank series, (B,), from 0 to 1.

    It is 0 if the blank series surely gets this class, and 1 if the class has a probability of at most 1 / C there. The
    evidence of a class that the model gives to a blank series says little about cells: the class stays, whatever is hidden.

    Args:
        answer: Logits of the series, (B, C).
        blank: Logits of a blank series, (B, C).

    Example:
        >>> blank = torch.tensor([[0.9, 0.1]]).log().expand(2, 2)
        >>> open_share(torch.tensor([[5.0, 0.0], [0.0, 5.0]]), blank)
        tensor([0.2000, 1.0000])
    """
    n_classes = blank.shape[-1]
    given = blank.softmax(-1).gather(-1, answer.argmax(-1, keepdim=True)).squeeze(-1)
    return ((1 - given) * n_classes / (n_classes - 1)).clamp(max=1)


def path_gradients(evidence_of: Answer, x: Tensor, baseline: Tensor, n_points: int) -> Tensor:
    """Integrated gradients of `evidence_of` (B, T, D) -> (B,) from `baseline` to x by the midpoint rule, (B, T, D), signed."""
    total = torch.zeros_like(x)
    with torch.enable_grad():
        for k in range(n_points):
            point = (baseline + (x - baseline) * ((k + 0.5) / n_points)).detach().requires_grad_()
            (gradient,) = torch.autograd.grad(evidence_of(point).sum(), point)
            total = total + gradient
    return (x - baseline) * total / n_points


def smoothed(a: Tensor, width: float, observed: Tensor | None = None) -> Tensor:
    """`a` (B, T, D) averaged over time by a Gaussian with a standard deviation of `width` steps; 0 changes nothing.

    Weights outside the series, and of cells that were not measured, are left out of the average.

    Example:
        >>> smoothed(torch.tensor([[[1.0], [1.0], [1.0]]]), 2.0).flatten()
        tensor([1., 1., 1.])
    """
    if width == 0:
        return a
    reach = min(int(REACH * width + 0.5), a.shape[1] - 1)
    offset = torch.arange(-reach, reach + 1, device=a.device, dtype=a.dtype)
    kernel = torch.exp(-0.5 * (offset / width) ** 2)[None, None]
    seen = torch.ones_like(a) if observed is None else observed.to(a.dtype)

    def window(v: Tensor) -> Tensor:
        rows = v.transpose(1, 2).flatten(0, 1)[:, None]  # (B D, 1, T)
        return F.conv1d(rows, kernel, padding=reach)[:, 0].unflatten(0, (v.shape[0], -1)).transpose(1, 2)

    return window(a * seen) / window(seen).clamp_min(torch.finfo(a.dtype).tiny)


def gap(
    answer: Answer,
    x: Tensor,
    attribution: Tensor,
    fill: Tensor,
    *,
    blank: Tensor | None = None,
    spread: float | None = None,
    observed: Tensor | None = None,
) -> Tensor:
    """The share of the evidence in the highest cells less the share in the rest, per sample, (B,), from -2 to 2.

    Averaged over keeping the highest share s of the cells, s in `SHARES`. It needs the model alone, and no ground truth.

    Args:
        answer: The model.
        x: Series, (B, T, D).
        attribution: Scores, (B, T, D).
        fill: Values of the hidden cells, broadcast to (B, T, D).
        blank: The answers that count as no evidence, (B, C); by default those to `fill` alone.
        spread: For numbers, see `evidence`.
        observed: Measured cells, (B, T, D); the others are neither kept nor removed.
    """
    fill = fill.expand_as(x)
    whole = answer(x)
    nothing = evidence(answer(fill) if blank is None else blank, whole, spread)
    unit = (evidence(whole, whole, spread) - nothing).clamp_min(1)
    scores = attribution if observed is None else attribution.masked_fill(~observed, -torch.inf)
    rank = scores.flatten(1).argsort(dim=1, descending=True).argsort(dim=1).view_as(x)
    cells = torch.full((len(x), 1, 1), float(x[0].numel())) if observed is None else observed.sum((1, 2), keepdim=True)
    cells = cells.to(x.device)
    total = torch.zeros(len(x), device=x.device)
    for share in SHARES:
        top = rank < (share * cells).round().clamp_min(1)
        for sign, view in ((1, torch.where(top, x, fill)), (-1, torch.where(top, fill, x))):
            total += sign * ((evidence(answer(view), whole, spread) - nothing) / unit).clamp(-1, 1)
    return total / len(SHARES)


def gaps_by_width(parts: Iterable[Part], widths: Sequence[int] = WIDTHS) -> dict[int, float]:
    """The mean gap of attributions smoothed by each width. The width with the largest gap is the one to smooth by.

    Args:
        parts: The gap as a function of the attribution, the attribution (B, T, D) and its measured cells, chunk by chunk.
        widths: The widths to compare.
    """
    columns: dict[int, list[Tensor]] = {width: [] for width in widths}
    for gap_of, attribution, observed in parts:
        for width in widths:
            columns[width].append(gap_of(smoothed(attribution, width, observed)))
    return {width: float(torch.cat(column).mean()) for width, column in columns.items()}
