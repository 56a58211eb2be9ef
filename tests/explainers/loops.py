"""Slow, obvious loops of the baselines' equations: the references for the fast code, and for its speed in benchmarks."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F


def blur_by_loop(x, mask, sigma_max):
    """Every cell of one series (T, D) as a Gaussian mean over time of width sigma_max * (1 - mask)."""
    t, d = x.shape
    rows = []
    for i in range(t):
        cells = []
        for k in range(d):
            sigma = sigma_max * (1 - mask[i, k]) + 1e-5
            weight = torch.exp(-((torch.arange(t, device=x.device) - i) ** 2) / (2 * sigma**2))
            cells.append((weight * x[:, k]).sum() / weight.sum())
        rows.append(torch.stack(cells))
    return torch.stack(rows)


def blur_of_sample(x, mask, sigma_max):
    """The same for one series without the loop over cells, by the full T x T x D weights."""
    t = torch.arange(x.shape[0], device=x.device)
    distance = (t[:, None] - t[None, :]) ** 2  # (T, S)
    sigma = sigma_max * (1 - mask) + 1e-5
    weight = torch.exp(-distance[:, :, None] / (2 * sigma[:, None] ** 2))  # (T, S, D)
    return (weight * x[None]).sum(1) / weight.sum(1)


def dynamask_by_loop(model, x, target, config, blur=blur_of_sample, delete=False):
    """The mask of one series (T, D), with torch's own SGD; in the deletion game the mask marks what is blurred."""
    mask = torch.full_like(x, 0.5, requires_grad=True)
    optimiser = torch.optim.SGD([mask], lr=config.lr, momentum=config.momentum)
    wanted = torch.zeros(x.numel(), device=x.device)
    wanted[: max(1, round(config.keep_ratio[0] * x.numel()))] = 1
    weight = config.size_weight
    for _ in range(config.steps):
        optimiser.zero_grad()
        logits = model(blur(x, 1 - mask if delete else mask, config.sigma_max[0])[None])
        ordered = mask.flatten().sort(descending=True, stable=True).values
        loss = (-1 if delete else 1) * F.cross_entropy(logits, target[None]) + weight * ((ordered - wanted) ** 2).mean()
        if config.time_weight:
            loss = loss + config.time_weight * (mask[1:] - mask[:-1]).abs().mean()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            mask.clamp_(0, 1)
        weight *= math.exp(math.log(config.size_growth[0]) / config.steps)
    return mask.detach()


@torch.no_grad()
def window_effect(model, x, draws, channel, start, end, before):
    """Mean change of the class probabilities `before` of one series (T, D) over the draws (R, T, W, D) of one window."""
    copies = x.repeat(len(draws), 1, 1)
    copies[:, start : end + 1, channel] = draws[:, start, : end + 1 - start, channel]
    return (model(copies).softmax(-1) - before).abs().sum(-1).mean()


@torch.no_grad()
def winit_by_loop(model, x, draws, past_only):
    """Scores of one series (T, D), one window at a time."""
    t, d = x.shape
    window = draws.shape[2]
    effect = {}
    for end in range(t):
        known = x[: end + 1] if past_only else x
        before = model(known[None]).softmax(-1)
        for start in range(max(0, end + 1 - window), end + 1):
            for k in range(d):
                effect[k, start, end] = float(window_effect(model, known, draws, k, start, end, before))
    scores = np.zeros((t, d))
    for k in range(d):
        for step in range(t):
            ends = range(step, min(step + window, t))
            scores[step, k] = np.mean([effect[k, step, e] - effect.get((k, step + 1, e), 0.0) for e in ends])
    return scores


def shapley_by_enumeration(value, x):
    """Exact Shapley values of the cells of one series (T, D) against zero, from every subset of the others."""
    cells = x.numel()
    scores = []
    for i in range(cells):
        others = [j for j in range(cells) if j != i]
        total = 0.0
        for size in range(cells):
            for subset in itertools.combinations(others, size):
                keep = torch.zeros(cells)
                keep[list(subset)] = 1
                without = value((x.flatten() * keep).view_as(x))
                keep[i] = 1
                gain = value((x.flatten() * keep).view_as(x)) - without
                total = total + gain * math.factorial(size) * math.factorial(cells - size - 1) / math.factorial(cells)
        scores.append(total)
    return torch.stack(scores).view(*x.shape, -1)
