"""What belongs to a series beside its values, such as the age of a patient: models that have parameters for it get it.

With an argument for extras, every function between the batch and the model would have to hand it on. Instead, the code that
has a batch of series opens the context `beside` around its passes through the model, and the model's adapter reads the extras
there. A pass over another number of series is refused, so that no series gets the extras of another one.

Shapes: B series.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from timex.engine import Tensors
from timex.records.series import EXTRA

KNOWN = ("times", "observed", "lengths")
"""What every series has beside its values."""

_extras: ContextVar[Tensors] = ContextVar("extras")


@contextmanager
def beside(tensors: Tensors) -> Iterator[None]:
    """Within it, models see the extras among the tensors of a batch (`Series.tensors`), and no others."""
    token = _extras.set({name.removeprefix(EXTRA): v for name, v in tensors.items() if name.startswith(EXTRA)})
    try:
        yield
    finally:
        _extras.reset(token)


@contextmanager
def each(rows: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within it, the extras in force are those that `rows` makes of them, such as one for each copy of a series."""
    token = _extras.set({name: rows(value) for name, value in _extras.get({}).items()})
    try:
        yield
    finally:
        _extras.reset(token)


def extras_of(n: int) -> Tensors:
    """The extras in force by name, one row for each of `n` series.

    >>> with beside({"x": torch.zeros(2, 5, 1), "extra.age": torch.tensor([30, 40])}):
    ...     extras_of(2)
    {'age': tensor([30, 40])}
    """
    extras = _extras.get({})
    for name, value in extras.items():
        if len(value) != n:
            raise RuntimeError(f"The model got {n} series and {len(value)} values of {name}: put the extras in force by row.")
    return extras


def parameters_of(function: Callable[..., Any], first: int = 1) -> tuple[str, ...]:
    """The names of a function's parameters behind the `first`, which are taken; none for a function written in C."""
    try:
        return tuple(inspect.signature(function).parameters)[first:]
    except (TypeError, ValueError):
        return ()


def given(names: tuple[str, ...], x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensors:
    """What a model with parameters of these names gets beside series (B, T, D): times, observed, lengths, extras."""
    extras = extras_of(x.shape[0])
    if not any(name in names for name in (*KNOWN, *extras)):
        return {}
    b, t, _ = x.shape
    seen = torch.ones_like(x, dtype=torch.bool) if observed is None else observed
    steps = torch.arange(1, t + 1, device=x.device)
    every = {
        "times": steps.to(x.dtype).expand(b, t) if times is None else times,
        "observed": seen,
        "lengths": (seen.any(2) * steps).amax(1).clamp_min(1),
        **extras,
    }
    return {name: every[name] for name in names if name in every}
