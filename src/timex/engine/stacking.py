"""Run a function of one member for K stacked members with `torch.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch

_stacking: ContextVar[bool] = ContextVar("stacking", default=False)


def stacking() -> bool:
    """Whether the code now running is being stacked by `stacked`: some kernels have no vmap rule, or a poor one.

    Compiled code counts as stacked: the compiler wants plain operations as well.
    """
    return torch.compiler.is_compiling() or _stacking.get()


def stacked(function: Callable[..., Any], compile: bool = False) -> Callable[..., Any]:
    """`torch.vmap` of a function of one member, compiled if wanted; `stacking()` is True inside."""
    vmapped = torch.vmap(function)
    if compile:
        vmapped = torch.compile(vmapped, dynamic=False)

    def call(*arguments: Any) -> Any:
        token = _stacking.set(True)
        try:
            return vmapped(*arguments)
        finally:
            _stacking.reset(token)

    return call
