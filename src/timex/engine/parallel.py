"""One training by several processes, as `torchrun` starts them: each takes its rows of every batch.

Gradients and terms are averaged over the processes after every step, as DDP does. A term that compares the samples of a batch
with each other gathers them from all processes first (`gathered`), so that its value and its gradient are those of one process
with the whole batch. Random numbers are those of the whole batch too, each process takes its rows of them.

Shapes: B samples of a batch, W processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor


class Part(NamedTuple):
    """The place of this process among those that train together."""

    rank: int
    size: int

    def rows(self, n: int) -> slice:
        """The rows of n that belong to this process."""
        return slice(n * self.rank // self.size, n * (self.rank + 1) // self.size)


WHOLE = Part(0, 1)
"""One process that trains alone."""
_part: ContextVar[Part] = ContextVar("part", default=WHOLE)


def own_part() -> Part:
    """The place of this process; `WHOLE` unless `torch.distributed` runs."""
    return Part(dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else WHOLE


@contextmanager
def processes(device: str) -> Iterator[str]:
    """Join the processes that `torchrun` started, if it did, for the block; gives the device of this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield device
        return
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def wait() -> None:
    """Until all processes are here."""
    if own_part().size > 1:
        dist.barrier()


@contextmanager
def sharded(part: Part) -> Iterator[None]:
    """Within it, `gathered` collects the rows of all processes."""
    token = _part.set(part)
    try:
        yield
    finally:
        _part.reset(token)


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes below each other, (W * B, ...); `rows` as they are in a process that trains alone.

    The gradient of the rows of this process is multiplied by W, since the average over processes divides by it.
    """
    part = _part.get()
    return rows if part.size == 1 else _Gathered.apply(rows.contiguous(), part)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, part: Part) -> Tensor:
        ctx.part = part
        sent = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
        parts = [torch.empty_like(sent) for _ in range(part.size)]
        dist.all_gather(parts, sent)
        return torch.cat(parts).to(rows.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient[ctx.part.rows(len(gradient))] * ctx.part.size, None


def averaged(values: Tensor, part: Part) -> Tensor:
    """The mean over processes."""
    if part.size == 1:
        return values
    dist.all_reduce(values)
    return values / part.size


def expect_equal(value: int, what: str, part: Part, device: torch.device) -> None:
    """Raise a `RuntimeError` if a number differs between processes: they would wait for each other forever."""
    if part.size == 1:
        return
    both = torch.tensor([value, -value], device=device)
    dist.all_reduce(both, op=dist.ReduceOp.MAX)
    if int(both[0]) != -int(both[1]):
        raise RuntimeError(f"Expected the same {what} in all processes, got {-int(both[1])} to {int(both[0])}: share the disk.")
