"""What torch holds globally and a training needs otherwise; afterwards it is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def matmul_precision(precision: str | None) -> Iterator[None]:
    """On GPUs products take the tensor cores (TF32) while training; what the user had set comes back afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision or before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's own generators seeded: layers that we did not write draw from them."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which reseeds every GPU
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
