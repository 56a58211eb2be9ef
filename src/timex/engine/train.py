"""K independent trainings run as one program: folds, seeds, ablation arms.

Small models are bound by kernel launches, not by arithmetic, so K of them cost little more than one when their parameters
are stacked on a leading axis. A `Program` is written for *one* member; the engine stacks it with `torch.vmap`, trains with one
written-out AdamW over a flat (K, P) buffer, keeps the best weights of each member on the device, and on CUDA captures the whole
step in a graph. A member's result does not depend on who trains beside it: its data order and every random number come from
a hash of the member's seed, the step and the element index (`Noise`).

A Program sees no leading axis of members; `group.py` has the state of K of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from timex.engine.group import Group
from timex.engine.program import Member, Program, Progress, Schedule, Trained
from timex.engine.state import Keeper
from timex.engine.torch_state import matmul_precision

log = logging.getLogger(__name__)


def train(
    program: Program,
    members: Sequence[Member],
    schedule: Schedule,
    *,
    device: torch.device | str = "cpu",
    capture: bool | None = None,
    compile: bool = False,
    max_members: int | None = None,
    on_epoch: Callable[[Progress], None] | None = None,
    keeper: Keeper | None = None,
) -> list[Trained]:
    """Train every member and return them in order.

    Args:
        program: What one member computes.
        members: The trainings. Members with equal shapes run as one program, other groups one after another.
        schedule: Epochs, batch size, learning-rate schedule, stopping.
        device: Where to train.
        capture: Capture the step in a CUDA graph; by default on CUDA. A capture that fails falls back to plain steps.
        compile: Compile the forward and backward with `torch.compile` first (a minute once; pays for long runs on CUDA).
        max_members: Largest number trained together; by default as many as the memory of the device is estimated to hold.
        on_epoch: Called after every epoch.
        keeper: Keeps the state of a single member after every epoch. A run that finds a kept state goes on from it.
    """
    if keeper is not None and len(members) != 1:
        raise ValueError(f"Expected a single training with checkpoints, got {len(members)}: train them one after another.")
    device = torch.device(device)
    capture = device.type == "cuda" if capture is None else capture
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, member in enumerate(members):
        groups.setdefault(member.signature(), []).append(i)
    results: dict[int, Trained] = {}
    with matmul_precision("high" if device.type == "cuda" else None):
        for indices in groups.values():
            size = _group_size(program, members[indices[0]], schedule, device, len(indices), max_members)
            for start in range(0, len(indices), size):
                chunk = indices[start : start + size]
                run = Group(program, [members[i] for i in chunk], schedule, device, capture, compile)
                results.update(zip(chunk, run.fit(on_epoch, keeper), strict=True))
    for i, result in results.items():
        if result.skipped_steps:
            log.warning("member %d: %d steps were skipped, their gradient was not finite", i, result.skipped_steps)
        if result.fault is not None:
            name = f"member {i}: " if len(members) > 1 else ""
            log.warning("%straining stopped: %s. The best weights before it are kept", name, result.fault)
    return [results[i] for i in range(len(members))]


def _group_size(
    program: Program, member: Member, schedule: Schedule, device: torch.device, n: int, max_members: int | None
) -> int:
    """How many members of this shape to train together."""
    if not program.stackable:
        return 1
    if max_members is not None or n == 1 or device.type != "cuda":
        return max(1, min(n, max_members or n))
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    Group(program, [member], schedule, device, capture=False, compile=False).step()
    one = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    fits = max(1, int(0.7 * free / max(one, 1)))
    if fits < n:
        log.info("training %d members in groups of %d: one takes %.0f MB", n, fits, one / 1e6)
    return min(n, fits)
