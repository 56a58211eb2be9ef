"""Frozen copies of users' modules: no hook, mode, gradient flag or weight of the user's object ever changes."""

from __future__ import annotations

import copy
import logging
from typing import Any

import torch
from torch import Tensor, nn

from timex.reference.lstm import leave_weights_in_place

log = logging.getLogger(__name__)


def copied(module: nn.Module) -> nn.Module:
    """A frozen copy in evaluation mode, in float32, without the user's hooks.

    Parameters that cannot or must not be trained become buffers: integers, complex numbers, and those whose
    `requires_grad` is False, unless the whole module is frozen. `named_parameters` then lists what a surrogate may train.
    """
    copy_ = _deep_copy(module)
    wide = {v.dtype for v in (*copy_.parameters(), *copy_.buffers()) if v.is_floating_point()} - {torch.float32}
    if wide:
        log.info("the model's %s weights are explained in float32", ", ".join(sorted(map(str, wide))))
        copy_.float()
    _keep_frozen(copy_)
    clear_hooks(copy_)
    leave_weights_in_place(copy_)
    return copy_.eval().requires_grad_(False)


def without_history(module: nn.Module) -> dict[int, Tensor]:
    """Copies of the tensors that deepcopy refuses, by id: activations and weights made by a hook, which have a history."""
    kept = (v for layer in module.modules() for v in (*vars(layer).values(), *layer._buffers.values()))
    return {id(t): t.detach().clone() for v in kept for t in _tensors(v) if not t.is_leaf}


def _deep_copy(module: nn.Module) -> nn.Module:
    """A copy of a user's module; raises a `ValueError` if it cannot be copied."""
    try:
        return copy.deepcopy(module, without_history(module))
    except Exception as error:
        raise ValueError(
            f"{type(module).__name__} cannot be copied ({type(error).__name__}: {error}): take off what it keeps beside its "
            "layers, such as open files, locks or a trainer, or pass a function x -> output, which is explained as a black box."
        ) from error


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in an attribute: itself, or those in a list, tuple or dict."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, list | tuple) else []


def _keep_frozen(module: nn.Module) -> None:
    """Turn parameters that are not to be trained into buffers of the same name."""
    all_frozen = not any(p.requires_grad for p in module.parameters())
    for layer in module.modules():
        for name, p in list(layer._parameters.items()):
            if p is not None and not (p.is_floating_point() and (p.requires_grad or all_frozen)):
                del layer._parameters[name]
                layer.register_buffer(name, p.detach())


def set_mode(module: nn.Module, training: bool) -> None:
    """Train or evaluate a foreign module; the running statistics of its normalisation layers stay as they are."""
    module.train(training)
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            layer.eval()


def clear_hooks(module: nn.Module) -> None:
    """Forget hooks that came along with the copy: they belong to the user's object, and may write to it.

    Those of torch.nn stay: spectral norm and pruning make the weights in them.
    """
    for layer in module.modules():
        for hooks in (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks):
            for key, hook in list(hooks.items()):
                if not str(getattr(hook, "__module__", "")).startswith("torch.nn."):
                    del hooks[key]
