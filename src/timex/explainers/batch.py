"""The batch that an explainer receives, its size, random numbers for each sample, and the check for finite values.

Shapes: B samples of a chunk, T time steps, D channels, C classes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from timex.engine import Noise, mix

CHUNK_CELLS = 2**23
"""Activations of one layer (rows x T x max(T, 64)) in one pass through the model on a CPU: about 32 MB."""
CHUNK_CELLS_MAX = 2**28
"""The same on a GPU with enough free memory."""


class Batch(NamedTuple):
    """Samples on the device: the argument of `_explain`.

    Attributes:
        x: Series, (B, T, D).
        target: The class to explain, (B,).
        times: Times of the steps, (B, T), or None for 1..T.
        observed: Measured cells, (B, T, D), or None for all.
        place: The index of each sample in the data, (B,), for random numbers that do not depend on chunks.
        logits: The model's logits, (B, C).
    """

    x: Tensor
    target: Tensor
    times: Tensor | None
    observed: Tensor | None
    place: Tensor
    logits: Tensor


def rows_at_once(shape: tuple[int, ...], device: torch.device) -> int:
    """How many series of shape (..., T, D) may pass through a model at once."""
    t, d = shape[-2:]
    cells = CHUNK_CELLS
    if device.type == "cuda":  # a pass with gradients keeps some dozens of such activations
        free, _ = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        cells = min(CHUNK_CELLS_MAX, max(cells, free // (4 * 64)))
    return max(1, min(2**16, cells // (t * max(t, d, 64))))


def expect_finite(values: Tensor, what: str, start: int, x: Tensor) -> None:
    """Raise a `ValueError` that names the samples whose values are NaN or infinite.

    Args:
        values: A value or more per sample of a chunk, (B, ...).
        what: What the values are.
        start: The place of the first sample of the chunk in the data.
        x: The series, (B, T, D): very large ones are the usual reason.
    """
    bad = ~values.isfinite().flatten(1).all(dim=1)  # (B,)
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        raise ValueError(
            f"Expected finite numbers, got NaN or inf as {what} for {int(bad.sum())} of {len(bad)} samples, first for sample "
            f"{start + first}, whose largest value is {float(x[first].abs().max()):.3g}: scale the series as the model's "
            "training data, or leave these samples out."
        )


def uniform_per_sample(seed: int, place: Tensor, *shape: int) -> Tensor:
    """Uniform noise (B, *shape) on (0, 1) that depends on the seed and each sample's place in the data, not on chunks.

    >>> both, second = (uniform_per_sample(7, torch.tensor(i), 3) for i in ([0, 1], [1]))
    >>> torch.equal(both[1:], second)
    True
    """
    keys = mix(mix(torch.tensor(seed, device=place.device)) + place)
    return torch.vmap(lambda key: Noise(key).uniform(*shape))(keys)
