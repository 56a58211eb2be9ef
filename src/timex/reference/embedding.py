"""Where a foreign model's embedding z comes from: the output of a named layer, or the input of its last linear layer.

Shapes: B samples, T time steps, D channels, Z the width of the embedding.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from timex.reference.adaptation import Pick, Pool
from timex.reference.answers import describe, picked

Place = Literal["output", "input", "logits"]


@dataclass(frozen=True)
class Tap:
    """Where z is taken: the output or the input of a layer, or the model's logits."""

    layer: str
    place: Place

    def __str__(self) -> str:
        return "the model's logits" if self.place == "logits" else f"the {self.place} of layer {self.layer!r}"


def find_layer(module: nn.Module, name: str) -> str:
    """`name` if the module has such a layer; raises a `ValueError` with similar names otherwise."""
    names = [n for n, _ in module.named_modules() if n]
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Its layers: {', '.join(names[:20]) or 'none'}."
    raise ValueError(f"The model has no layer {name!r}. {hint}")


@contextmanager
def caught(module: nn.Module, tap: Tap | None) -> Iterator[list[Any]]:
    """A list that receives what passes through the tap, in the order of the calls."""
    values: list[Any] = []
    if tap is None or tap.place == "logits":
        yield values
        return
    layer = module.get_submodule(tap.layer)
    if tap.place == "input":
        handle = layer.register_forward_pre_hook(lambda m, given: values.append(given[0]))
    else:
        handle = layer.register_forward_hook(lambda m, given, out: values.append(out))
    try:
        yield values
    finally:
        handle.remove()


def pooled(out: Tensor, x: Tensor, pool: Pool | None, tap: Tap) -> Tensor:
    """An output or input of a layer as z, (B, Z).

    Args:
        out: The tensor at the tap.
        x: The series that the model was called with, (B, T, D).
        pool: As in `Adaptation`.
        tap: The layer, for messages and for its features: the input of a linear layer has them on its last axis.
    """
    if callable(pool):
        z = pool(out)
    elif pool is not None:
        if not -out.ndim <= pool < out.ndim:
            raise ValueError(f"Expected pool as an axis of {tap}, whose shape is {tuple(out.shape)}, got {pool}.")
        z = out.mean(dim=pool)
    elif tap.place == "input" and out.shape[0] == x.shape[0]:
        z = out.flatten(1, -2).mean(1) if out.ndim > 2 else out
    else:
        z = _mean_over_time(out, x, tap)
    if z.ndim != 2 or z.shape[0] != x.shape[0]:
        raise ValueError(f"Expected an embedding of shape (B, Z), got {tuple(z.shape)} from {tap}: reduce it with pool=.")
    return z.float()


def _mean_over_time(out: Tensor, x: Tensor, tap: Tap) -> Tensor:
    short = [axis for axis in range(1, out.ndim) if out.shape[axis] == 1 and out.ndim > 2]
    out = out.squeeze(short) if len(short) < out.ndim - 1 else out.flatten(1)  # poolings of length 1
    if out.ndim == 2:
        return out
    axes = [axis for axis in range(1, out.ndim) if out.shape[axis] == x.shape[1]]
    if out.ndim != 3 or out.shape[0] != x.shape[0] or len(axes) != 1:
        raise ValueError(
            f"{str(tap).removeprefix('the ').capitalize()} has shape {tuple(out.shape)} for x of shape {tuple(x.shape)}, which "
            "has no single time axis to average over: reduce it with pool= (an axis or a function)."
        )
    return out.mean(dim=axes[0])


def one_tensor(out: Any, pick: Pick | None, layer: nn.Module, tap: Tap) -> Tensor:
    """The tensor of a layer that may return several; recurrent layers of torch give the states of all steps first."""
    if pick is not None:
        out = picked(out, pick, "embedding_output")
    elif isinstance(layer, nn.RNNBase) and tap.place == "output":
        out = out[0]
    if not isinstance(out, Tensor):
        raise ValueError(
            f"Layer {tap.layer!r} returns {describe(out)}, not one tensor: choose one with embedding_output= (an index, key or "
            "function)."
        )
    return out


# ------------------------------------------------------------------------------------------------------------- a search


def last_linear(module: nn.Module, call: Callable[[], Any], x: Tensor) -> Tap:
    """The input of the linear layer that runs last, or the logits if the model has none or it reads the series themselves.

    Args:
        module: The model.
        call: Runs it.
        x: The series it is run with, (B, T, D).
    """
    seen: list[tuple[str, Tensor]] = []
    handles = [
        layer.register_forward_pre_hook(lambda m, given, name=name: seen.append((name, given[0])))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear) and name
    ]
    try:
        call()
    finally:
        for handle in handles:
            handle.remove()
    if not seen or not isinstance(seen[-1][1], Tensor):
        return Tap("", "logits")
    name, given = seen[-1]
    raw = given.numel() == x.numel() and bool(given.detach().flatten().float().sort().values.equal(x.flatten().sort().values))
    fits = given.ndim >= 2 and given.shape[0] == x.shape[0]
    return Tap(name, "input") if fits and not raw else Tap("", "logits")


@dataclass(frozen=True)
class LayerRow:
    """One layer of a model, as `timex inspect` lists it.

    Attributes:
        name: As in `named_modules()`.
        kind: Its class.
        shape: Shapes of its output.
        width: Z if its output can be the embedding without pool= or embedding_output=, else None.
    """

    name: str
    kind: str
    shape: str
    width: int | None


@torch.no_grad()
def layers(module: nn.Module, call: Callable[[], Any], x: Tensor) -> list[LayerRow]:
    """The layers that run when the model is called, in the order of their last run."""
    outputs: dict[str, Any] = {}

    def keep(name: str, out: Any) -> None:
        outputs.pop(name, None)
        outputs[name] = out

    handles = [
        layer.register_forward_hook(lambda m, given, out, name=name: keep(name, out))
        for name, layer in module.named_modules()
        if name
    ]
    try:
        call()
    finally:
        for handle in handles:
            handle.remove()
    rows = []
    for name, out in outputs.items():
        layer, tap = module.get_submodule(name), Tap(name, "output")
        try:
            width: int | None = pooled(one_tensor(out, None, layer, tap), x, None, tap).shape[1]
        except ValueError:
            width = None
        shown = describe(out).removeprefix("a tensor of shape ")
        rows.append(LayerRow(name, type(layer).__name__, shown, width))
    return rows
