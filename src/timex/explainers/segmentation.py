"""Cutting every channel of every series into segments: at equal distances, or where its mean changes.

Shapes: B samples, T time steps, D channels; P segments of a channel.
"""

from __future__ import annotations

import torch
from torch import Tensor


def uniform_cuts(x: Tensor, observed: Tensor | None, n_segments: int) -> Tensor:
    """Whether a segment begins at a cell, (B, T, D): P segments of every channel, whose lengths differ by at most one."""
    t = x.shape[1]
    p = min(n_segments, t)
    first = torch.zeros(t, dtype=torch.bool, device=x.device)
    first[torch.arange(p, device=x.device) * t // p] = True
    return first[:, None].expand_as(x)


def change_points(x: Tensor, observed: Tensor | None, n_segments: int) -> Tensor:
    """Whether a segment begins at a cell, (B, T, D): every channel is cut where its mean changes most, P - 1 times.

    Binary segmentation (Scott & Knott, 1974): each cut is the one that lowers the squared distance from the segments' means
    most. Missing cells have no weight.

    >>> change_points(torch.tensor([[[0.0], [0.0], [5.0], [5.0], [9.0]]]), None, 3).flatten().int()
    tensor([1, 0, 1, 0, 1], dtype=torch.int32)
    """
    b, t, d = x.shape
    rows = x.transpose(1, 2).reshape(b * d, t).double()
    seen = torch.ones_like(rows) if observed is None else observed.transpose(1, 2).reshape(b * d, t).double()
    zero = rows.new_zeros(len(rows), 1)
    total, count = (torch.cat([zero, v.cumsum(1)], 1) for v in (rows * seen, seen))  # (B D, T + 1), of all before a step
    step = torch.arange(t, device=x.device)
    first = (step == 0).expand(len(rows), -1).clone()
    for _ in range(min(n_segments, t) - 1):
        start = torch.where(first, step, 0).cummax(1).values  # of the segment that a step is in
        end = torch.where(first, step, t).roll(-1, 1)
        end[:, -1] = t
        end = end.flip(1).cummin(1).values.flip(1)
        gain = _square(total, count, start, step) + _square(total, count, step, end) - _square(total, count, start, end)
        first.scatter_(1, gain.masked_fill(first, -torch.inf).argmax(1, keepdim=True), True)
    return first.view(b, d, t).transpose(1, 2)


def _square(total: Tensor, count: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Squared sum over count of the values from start to before end: what their mean explains, (B D, T)."""
    start, end = (v.expand(len(total), -1) for v in (start, end))
    value, number = (v.gather(1, end) - v.gather(1, start) for v in (total, count))
    return value.square() / number.clamp_min(1)


def labels_of(first: Tensor) -> Tensor:
    """The segment of every cell, 0 .. P D - 1, (B, T, D), from where segments begin; every channel has as many."""
    within = first.long().cumsum(1) - 1
    number = first[:, :, :1].sum(1, keepdim=True)  # (B, 1, 1)
    return within + number * torch.arange(first.shape[2], device=first.device)
