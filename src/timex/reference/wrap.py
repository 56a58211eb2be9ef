"""Any `torch.nn.Module` that maps (B, T, D) to logits (B, C), seen as a reference model.

The module is copied, never touched: no hook, mode, gradient flag or weight of the user's object changes.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from timex.engine import Noise
from timex.reference.base import ReferenceModel
from timex.reference.lstm import backward_in_eval, leave_weights_in_place
from timex.types import Output, warn_caller

Pool = int | Callable[[Tensor], Tensor]
Pick = int | str | Callable[[Any], Tensor]


class Wrapped(ReferenceModel):
    """A copy of a foreign module whose embedding is the output of one of its layers.

    Args:
        module: The user's model, (B, T, D) -> (B, C).
        embedding: Name of the layer whose output is z, as in `module.named_modules()`.
        x: A few samples, (B, T, D), to try the model on.
        pool: How to reduce a layer's output to (B, Z): the axis to average over, or a function. Without it a (B, T, Z) or
            (B, Z, T) output is averaged over its time axis.
        output: Which tensor of a layer that returns several: an index, a key, or a function. Recurrent layers of torch give
            their first (the states of all steps) by themselves.
    """

    arch = "wrapped"
    stackable = False  # nobody has promised that vmap can run it

    def __init__(
        self, module: nn.Module, embedding: str, x: Tensor, pool: Pool | None = None, output: Pick | None = None
    ) -> None:
        super().__init__()
        self.config = {"embedding": embedding}
        self.layer = find_layer(module, embedding)
        self.pool, self.pick = pool, output
        self.module = copied(module)
        self.n_steps, self.n_channels = x.shape[1], x.shape[2]
        tried = self._tried(x)
        self.embedding_size, self.n_classes = tried.z.shape[1], tried.logits.shape[1]
        warn_of_probabilities(tried.logits)

    @torch.no_grad()
    def _tried(self, x: Tensor) -> Output:
        """The output for x, and what may be wrong where the model fails on it."""
        try:
            return self.output(x)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(
                f"The model fails on x of shape {tuple(x.shape)}, as (B, T, D), and type float32. {type(error).__name__}: "
                f"{error}. Check the order of the axes, and that its weights are float32 too: model.float()."
            ) from error

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Embedding and logits of one pass; foreign models see the values alone."""
        set_mode(self.module, training=noise is not None)  # every time: somebody may have called train() on the whole
        caught: list[Any] = []
        handle = self.module.get_submodule(self.layer).register_forward_hook(lambda m, i, out: caught.append(out))
        try:
            with backward_in_eval(x):
                logits = self.module(x.clone())  # which it may write to
        finally:
            handle.remove()
        if not caught:
            raise ValueError(f"Layer {self.layer!r} did not run in the model's forward pass: name one that does.")
        if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[0] != x.shape[0]:
            raise ValueError(
                f"Expected the model to return logits of shape (B, C) for x of shape {tuple(x.shape)}, got {_describe(logits)}."
            )
        if logits.shape[1] < 2:
            raise ValueError(
                "Expected logits of at least 2 classes, got 1: wrap a binary model so that it returns [-logit, logit] / 2."
            )
        return Output(self._embedding(caught[-1], x), logits)  # a layer used twice counts where it is used last

    def encode(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """G(x), (B, Z)."""
        if mask is not None:
            raise ValueError("A wrapped model takes no attention mask: mask the values instead.")
        return self.output(x, times, observed, mask, noise).z

    def predict(self, z: Tensor) -> Tensor:
        """A wrapped module is one piece: its predictor cannot be run from the embedding."""
        raise ValueError("A wrapped model cannot predict from an embedding alone: use output(x).")

    def _embedding(self, out: Any, x: Tensor) -> Tensor:
        if isinstance(self.pick, int | str):
            out = out[self.pick]
        elif self.pick is not None:
            out = self.pick(out)
        elif isinstance(self.module.get_submodule(self.layer), nn.RNNBase):
            out = out[0]
        if not isinstance(out, Tensor):
            raise ValueError(
                f"Layer {self.layer!r} returns {_describe(out)}, not one tensor: say which with output= "
                "(an index, key or function)."
            )
        if callable(self.pool):
            z = self.pool(out)
        elif self.pool is not None:
            z = out.mean(dim=self.pool)
        else:
            z = _mean_over_time(out, x, self.layer)
        if z.ndim != 2 or z.shape[0] != x.shape[0]:
            raise ValueError(
                f"Expected an embedding of shape (B, Z), got {tuple(z.shape)} from layer {self.layer!r}: reduce it with pool=."
            )
        return z


def find_layer(module: nn.Module, name: str) -> str:
    """`name` if the module has such a layer, else a `ValueError` with the near misses."""
    names = [n for n, _ in module.named_modules() if n]
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Its layers: {', '.join(names[:20]) or 'none'}."
    raise ValueError(f"The model has no layer {name!r}. {hint}")


def _mean_over_time(out: Tensor, x: Tensor, layer: str) -> Tensor:
    if out.ndim == 2:
        return out
    axes = [axis for axis in range(1, out.ndim) if out.shape[axis] == x.shape[1]]
    if out.ndim != 3 or out.shape[0] != x.shape[0] or len(axes) != 1:
        raise ValueError(
            f"Layer {layer!r} gives {tuple(out.shape)} for x of shape {tuple(x.shape)}, which has no single time axis to "
            "average over: say how with pool= (an axis or a function)."
        )
    return out.mean(dim=axes[0])


def check_module(module: Any) -> None:
    """Refuse what is no module, one that cannot be looked into, and one that has no weights yet."""
    if not isinstance(module, nn.Module):
        raise ValueError(f"Expected a torch.nn.Module, got {type(module).__name__}.")
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError("Expected a plain torch.nn.Module, got one of torch.jit: pass the module it was made from.")
    lazy = [name for name, p in module.named_parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise ValueError(f"The model's {lazy[0]} has no values yet: run the model once, and train it, before explaining it.")


def copied(module: nn.Module) -> nn.Module:
    """A frozen copy in evaluation mode, without the user's hooks.

    Weight and spectral norm of old keep the weights they made last, which torch refuses to copy with their history.
    """
    kept = [v for layer in module.modules() for v in (*vars(layer).values(), *layer._buffers.values())]
    made = {id(v): v.detach().clone() for v in kept if isinstance(v, Tensor) and not v.is_leaf}
    copy_ = copy.deepcopy(module, made).eval().requires_grad_(False)
    clear_hooks(copy_)
    leave_weights_in_place(copy_)
    return copy_


def set_mode(module: nn.Module, training: bool) -> None:
    """Train or evaluate a foreign module; the running statistics of its normalisation layers stay as they are."""
    module.train(training)
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            layer.eval()


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn of a model whose outputs (B, C) already are probabilities, of which the softmax would be taken again."""
    if bool((logits >= 0).all()) and bool(((logits.sum(-1) - 1).abs() < 1e-4).all()):
        warn_caller(
            "The model seems to return probabilities (none negative, rows sum to 1) instead of logits, and softmax would be "
            "taken twice: explain it without its last softmax, or wrap it to return probabilities.log()."
        )


def clear_hooks(module: nn.Module) -> None:
    """Forget hooks that came along with the copy: they belong to the user's object, and may write to it.

    Those of torch.nn stay: spectral norm and pruning make the weights in them.
    """
    for layer in module.modules():
        for hooks in (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks):
            for key, hook in list(hooks.items()):
                if not str(getattr(hook, "__module__", "")).startswith("torch.nn."):
                    del hooks[key]


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__
