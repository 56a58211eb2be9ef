"""Trials of a model before a fit: each of their messages names what is wrong and what to pass instead.

Shapes: B samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from timex.checks import warn_caller
from timex.reference.adaptation import Adaptation
from timex.reference.answers import look_like_shares
from timex.reference.base import Output, ReferenceModel
from timex.reference.beside import beside, extras_of
from timex.reference.embedding import Tap

if TYPE_CHECKING:
    from timex.records import Series
    from timex.reference.wrapped import Wrapped

ASKED, AT_ONCE = 256, 8
"""Series that are asked for a gradient, at most, and how many of them at once."""


def failure(model: Wrapped, error: Exception, x: Tensor, times: Tensor | None, observed: Tensor | None) -> ValueError:
    """An error that says what to change, for a model that fails on series."""
    words = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if isinstance(error, TypeError) and "argument" in str(error) and "required positional" in str(error):
        return ValueError(
            f"The model needs more inputs than the series ({words}): pass forward=lambda model, x: model(x, ...) with them, or "
            "Series(x, extras={name: values}) if each series has its own."
        )
    if isinstance(error, TypeError) and "unexpected keyword" in str(error):
        return ValueError(f"The model takes no such keyword ({words}): pass another one as forward=.")
    other = "BTD" if model.how.layout == "BDT" else "BDT"
    shape = "(B, T, D)" if model.how.layout == "BTD" else "(B, D, T)"
    if _runs(model, x, times, observed, other):
        return ValueError(
            f"The model fails on x as {shape} and runs on it as {'(B, D, T)' if other == 'BDT' else '(B, T, D)'}: pass "
            f"layout={other!r} if x is (N, T, D), or transpose x if it is not. {words}"
        )
    if isinstance(error, RuntimeError) and any(name in str(error) for name in ("Half", "BFloat16")):
        return ValueError(
            f"The model's forward casts to half or bfloat16, and its weights are explained in float32 ({words}): cast to the "
            "type of the weights instead, x.to(next(self.parameters()).dtype)."
        )
    return ValueError(
        f"The model fails on x of shape {tuple(x.shape)}, handed over as {shape}, float32. {words}. Check T and D, and that "
        "the model takes float32."
    )


def _runs(model: Wrapped, x: Tensor, times: Tensor | None, observed: Tensor | None, layout: Any) -> bool:
    before = model.how
    model.how = dataclasses.replace(before, layout=layout)
    try:
        model.called(x, times, observed)
    except Exception:
        return False
    finally:
        model.how = before
    return True


def require_gradient(model: ReferenceModel, series: Series, method: str, device: torch.device | str = "cpu") -> None:
    """Refuse a model through which no gradient reaches the first series, nor these times a half or a tenth.

    A detector of rare events has no gradient on most series, so up to `ASKED` of them are asked, a few at a time.
    """
    for start in range(0, min(len(series), ASKED), AT_ONCE):
        few = series.take(slice(start, start + AT_ONCE)).tensors(device)
        with beside(few), torch.enable_grad():
            for scale in (1.0, 0.5, 0.1):  # a sure answer has none at x
                gradient = _gradient(model, scale * few["x"], few.get("times"), few.get("observed"))
                if gradient is not None and bool((gradient != 0).any()):
                    return
    raise ValueError(
        f"No gradient of the model's output reaches x, and {method} learns from gradients: the model rounds, detaches, or "
        "leaves torch. Pass it as a function, such as lambda x: model(torch.as_tensor(x)).softmax(-1), to explain it as a "
        "black box, or use a method without gradients, such as occlusion."
    )


def _gradient(model: ReferenceModel, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor | None:
    """The gradient of a sum of all logits with different weights, (B, T, D); None if they have no history."""
    point = x.detach().clone().requires_grad_()
    logits = model(point, times, observed)
    if not logits.requires_grad:
        return None
    weights = torch.arange(1, logits.shape[1] + 1, device=x.device)
    return torch.autograd.grad((logits * weights).sum(), point, allow_unused=True)[0]


def warn_of_chance(first: Tensor, second: Tensor) -> None:
    """Warn of a model that answers differently when the same series are shown twice, (B, C) each."""
    difference = float((first - second).abs().max())
    if difference > 1e-3 * float(first.abs().max()) + 1e-6:
        warn_caller(
            f"The model answers differently when it sees the same series twice (by up to {difference:.3g}): it draws random "
            "numbers, or it changes as it runs. Its explanations hold for one draw. Switch its dropout and noise off in eval "
            "mode, or return the mean of several answers."
        )


@torch.no_grad()
def warn_of_nan(model: ReferenceModel, x: Tensor, times: Tensor | None, observed: Tensor | None, instead: str) -> None:
    """Warn of a model that reads NaN: missing cells are 0 in the series that it gets.

    Args:
        model: A model that gets the values alone, and not `observed`.
        x: Series.
        times: Their times.
        observed: Their measured cells.
        instead: What to pass for a model that shall see NaN.
    """
    if observed is None or bool(observed.all()):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arithmetic with NaN
        try:
            changed = model(x.masked_fill(~observed, torch.nan), times, observed)
        except Exception:
            return  # many estimators refuse NaN
    if bool(changed.isfinite().all()) and not torch.allclose(changed, model(x, times, observed), atol=1e-5):
        warn_caller(f"The model reads NaN and answers differently when missing cells are 0, as they are here: pass {instead}.")


@torch.no_grad()
def warn_of_axes(model: Wrapped, x: Tensor, times: Tensor | None, observed: Tensor | None) -> None:
    """Warn of a convolution along the channels: x was handed over as (N, D, T)."""
    given: list[tuple[nn.Conv1d, Tensor]] = []
    handles = [
        layer.register_forward_pre_hook(lambda m, inputs: given.append((m, inputs[0])))
        for layer in model.module.modules()
        if isinstance(layer, nn.Conv1d) and layer.kernel_size[0] > 1
    ]
    try:
        model.called(x, times, observed)
    finally:
        for handle in handles:
            handle.remove()
    if given and given[0][1].shape == x.shape and x.shape[1] != x.shape[2] and torch.equal(given[0][1].float(), x):
        d, t = x.shape[2], x.shape[1]
        warn_caller(
            f"The model convolves along the last axis of x, which has {d} entries and is read as channels: if x is (N, D, T), "
            f"pass x.transpose(0, 2, 1), of shape (N, {d}, {t}), and layout='BDT'."
        )


def warn_of_unread(parameters: tuple[str, ...], n: int) -> None:
    """Warn of extras of the series that the model has no parameter for."""
    unread = [name for name in extras_of(n) if name not in parameters]
    if unread:
        warn_caller(
            f"The series have {', '.join(unread)} beside their values, and the model's forward has no parameter of that name: "
            f"pass forward=lambda model, x, {unread[0]}: model(x, ...), or rename it."
        )


def warn_of_shares(raw: Tensor, how: Adaptation) -> None:
    """Warn of outputs between 0 and 1 that are neither logits nor probabilities of classes.

    Args:
        raw: Answers (B, C) as the task reads them, which are no probabilities of classes.
        how: The task.
    """
    if how.numbers or not look_like_shares(raw if how.task == "classify" else raw[:, 1] * 2):
        return
    if how.task == "classify":
        warn_caller(
            "The model's outputs lie between 0 and 1 and do not sum to 1, so they are no logits of classes: for labels that "
            "may hold together pass task='multilabel', target=INDEX and output=lambda p: p.logit(1e-6); for numbers pass "
            "task='regress'."
        )
    else:
        warn_caller(
            "The model's outputs lie between 0 and 1, as probabilities do, and logits are expected: pass "
            "output=lambda p: p.logit(1e-6)."
        )


def warn_of_weak_embedding(model: ReferenceModel) -> None:
    """Warn of a foreign model without a layer to take the embedding from: its logits serve."""
    tap = getattr(model, "tap", None)
    if tap is not None and tap.place == "logits":
        warn_caller(
            "The model has no linear layer whose input could be its embedding, so the logits serve: they compare series by the "
            "decision alone, which gives weaker explanations. Name a layer with embedding= if the model has a suitable one."
        )


def warn_of_logits_as_embedding(out: Output, tap: Tap) -> None:
    """Warn of a named layer that is the head."""
    if tap.place == "output" and out.z.shape == out.logits.shape and torch.allclose(out.z, out.logits, atol=1e-6):
        warn_caller(
            f"The embedding, {tap}, equals the model's output: series would be compared by the decision alone. Name the layer "
            "before the head, or leave out embedding=."
        )
