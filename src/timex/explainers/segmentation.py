"""Cutting every channel of every series into segments: of equal length, where its mean changes, or where its shapes change.

Shapes: B samples, T time steps, D channels; P segments of a channel.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

PROFILE_CELLS = 2**24
"""Distances between windows that the matrix profile holds at once: 64 MB."""


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


def shape_changes(x: Tensor, observed: Tensor | None, n_segments: int) -> Tensor:
    """Whether a segment begins at a cell, (B, T, D): every channel is cut where its shapes change, P - 1 times.

    After FLUSS (Gharghabi et al., 2017): an arc leads from every window to the most similar other one, by the matrix profile.
    Windows of one regime resemble each other, so few arcs cross the borders of a regime. Cuts lie where fewest arcs cross,
    relative to random arcs, and at least a window apart if possible. Missing cells count as zero.
    """
    b, t, d = x.shape
    p = min(n_segments, t)
    width = max(3, t // (2 * p))
    first = (torch.arange(t, device=x.device) == 0).expand(b * d, -1).clone()
    rows = x.transpose(1, 2).reshape(b * d, t)
    cost = crossings(rows, width) if width < t else torch.ones_like(rows)
    for _ in range(p - 1):
        near = F.max_pool1d(F.pad(first.to(x.dtype), (width - 1, width - 1)), 2 * width - 1, 1) > 0
        found = (cost + 10 * near).masked_fill(first, torch.inf)
        first.scatter_(1, found.argmin(1, keepdim=True), True)
    return first.view(b, d, t).transpose(1, 2)


def crossings(rows: Tensor, width: int) -> Tensor:
    """Arcs that cross the border before every step, over those expected of random arcs, at most 1, (R, T); 1 near the ends.

    An arc joins each window of `width` steps and the other window nearest to it by the distance of their z-scores; windows that
    overlap by more than half do not count as other. n windows with random arcs would have 2 i (n - i) / n across place i.

    Args:
        rows: Series of one channel, (R, T).
        width: Steps of a window, fewer than T.
    """
    windows = rows.unfold(1, width, 1)  # (R, W, width)
    n = windows.shape[1]
    centred = windows - windows.mean(2, keepdim=True)
    scaled = centred / centred.square().mean(2, keepdim=True).sqrt().clamp_min(1e-6)
    place = torch.arange(n, device=rows.device)
    overlap = (place[:, None] - place).abs() < max(1, min(width // 2, (n - 1) // 2))
    parts = [
        torch.cdist(part, part).masked_fill(overlap, torch.inf).argmin(2)
        for part in scaled.split(max(1, PROFILE_CELLS // n**2))
    ]
    partner = torch.cat(parts)  # (R, W)
    low, high = torch.minimum(place, partner), torch.maximum(place, partner)
    change = torch.zeros(len(rows), n + 1, device=rows.device)
    one = torch.ones_like(low, dtype=change.dtype)
    change.scatter_add_(1, low + 1, one).scatter_add_(1, high + 1, -one)
    arcs = change.cumsum(1)[:, :n]  # that begin before a place and end at it or after it
    expected = (2 * place * (n - place) / n).clamp_min(1)
    found = torch.ones_like(rows)
    inner = slice(min(width, n // 2), max(n - width, n // 2))
    shift = width // 2  # a window stands for its middle
    found[:, inner.start + shift : inner.stop + shift] = (arcs / expected).clamp(max=1)[:, inner]
    return found


def lines_across(x: Tensor, labels: Tensor) -> Tensor:
    """Every run of equal labels replaced by the straight line from the value before it to the value after it, (B, T, D).

    At an end of the series the line is level; a channel that is one run becomes its mean.

    Example:
        >>> lines_across(torch.tensor([[[1.0], [9.0], [9.0], [4.0]]]), torch.tensor([[[0], [1], [1], [2]]])).flatten()
        tensor([9., 2., 3., 9.])
    """
    b, t, d = x.shape
    rows, of = (v.transpose(1, 2).reshape(b * d, t) for v in (x, labels))
    step = torch.arange(t, device=x.device).expand(b * d, -1)
    new = torch.ones_like(of, dtype=torch.bool)
    new[:, 1:] = of[:, 1:] != of[:, :-1]
    start = torch.where(new, step, 0).cummax(1).values
    last = torch.ones_like(new)
    last[:, :-1] = new[:, 1:]
    end = torch.where(last, step, t).flip(1).cummin(1).values.flip(1)  # the last step of the run
    before, after = (start - 1).clamp_min(0), (end + 1).clamp_max(t - 1)
    left, right = rows.gather(1, before), rows.gather(1, after)
    left, right = torch.where(start > 0, left, right), torch.where(end < t - 1, right, left)
    share = (step - start + 1) / (end - start + 2)
    line = torch.where((start == 0) & (end == t - 1), rows.mean(1, keepdim=True), left + share * (right - left))
    return line.view(b, d, t).transpose(1, 2)


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
