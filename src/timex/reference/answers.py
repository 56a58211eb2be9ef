"""From what a model returns to logits: find the tensor, then read it as the task says.

Shapes: B samples, T time steps, D channels, C classes, L labels, H steps ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from timex.reference.adaptation import Adaptation, Pick, Target

LOGITS = ("logits", "prediction_logits", "prediction_outputs", "regression_outputs")
"""Keys that hold the answer in outputs with several parts."""
LEAST = 1e-6
"""Probabilities below this one count as this one: their logarithm is not finite."""
MANY = 256
"""Outputs from which on it is no chance that all of them lie strictly between 0 and 1."""


def picked(value: Any, pick: Pick, name: str) -> Any:
    """The part of an output that a key, attribute, index or function names."""
    if callable(pick):
        return pick(value)
    try:
        if isinstance(pick, str) and not isinstance(value, Mapping):
            return getattr(value, pick)
        return value[pick]
    except (AttributeError, KeyError, IndexError, TypeError):
        raise ValueError(f"{name}={pick!r} is not in the output, which is {describe(value)}.") from None


def answer_tensor(value: Any, how: Adaptation, b: int) -> Tensor:
    """The tensor with the model's answer: as `output=` says, else the one obvious candidate.

    >>> answer_tensor({"loss": None, "logits": torch.zeros(2, 3)}, Adaptation(), 2).shape
    torch.Size([2, 3])
    """
    if how.output is not None:
        value = picked(value, how.output, "output")
    if isinstance(value, Tensor):
        return value
    parts = _parts(value)
    for name in LOGITS:
        if isinstance(parts.get(name), Tensor):
            return parts[name]
    wide = (1, 2, 3) if how.numbers else (1, 2)
    found = {
        name: part
        for name, part in parts.items()
        if isinstance(part, Tensor) and part.is_floating_point() and part.ndim in wide and part.shape[0] == b
    }
    if len(found) == 1:
        return next(iter(found.values()))
    raise ValueError(
        f"Expected one tensor with the model's answer, got {describe(value)}: choose it with output= (a key, attribute, index "
        "or function)."
    )


def _parts(value: Any) -> dict[Any, Any]:
    """The parts of an output by key or index."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    return {name: v for name, v in getattr(value, "__dict__", {}).items() if not name.startswith("_")}


def describe(value: Any) -> str:
    """An output in words: its type, and the shapes of its parts."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    tensors = {name: part for name, part in _parts(value).items() if isinstance(part, Tensor)}
    if not tensors:
        return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__
    return f"{type(value).__name__} with " + ", ".join(f"{name} {tuple(part.shape)}" for name, part in tensors.items())


# ------------------------------------------------------------------------------------------------------------- the task


def logits_of_answer(answer: Tensor, how: Adaptation, x: Tensor) -> Tensor:
    """Logits (B, C) for classes and labels, or the numbers to explain (B, H), before any scaling.

    Args:
        answer: What the model answered, (B, ...).
        how: Its task and target.
        x: The series, for messages.

    Example:
        >>> logits_of_answer(torch.tensor([3.0]), Adaptation(task="binary"), torch.zeros(1, 4, 2))
        tensor([[-1.5000,  1.5000]])
    """
    if answer.ndim == 0 or answer.shape[0] != x.shape[0]:
        raise ValueError(
            f"Expected one answer for each of {len(x)} series of shape {tuple(x.shape)}, got {describe(answer)}: choose it "
            "with output=, or call the model with forward=."
        )
    answer = answer.float()
    return _READERS[how.task](answer, how, x)


def _classes(answer: Tensor, how: Adaptation, x: Tensor) -> Tensor:
    if answer.ndim == 1 or tuple(answer.shape[1:]) == (1,):
        raise ValueError(
            f"Expected logits of at least 2 classes, got {describe(answer)}: pass task='binary' for one logit, or "
            "task='regress' for a number."
        )
    if answer.ndim != 2:
        raise ValueError(
            f"Expected the model to return logits of shape (B, C) for x of shape {tuple(x.shape)}, got {describe(answer)}: "
            "reduce it with output= (for one step of many, lambda out: out[:, -1]), or pass task='forecast'."
        )
    return answer


def _binary(answer: Tensor, how: Adaptation, x: Tensor) -> Tensor:
    if answer.shape[1:].numel() != 1:
        raise ValueError(f"Expected one logit per series with task='binary', got {describe(answer)}: pass task='classify'.")
    return two_logits(answer.flatten())


def _label(answer: Tensor, how: Adaptation, x: Tensor) -> Tensor:
    if answer.ndim != 2:
        raise ValueError(f"Expected logits (B, L) with task='multilabel', got {describe(answer)}: reduce it with output=.")
    return two_logits(_chosen(answer, how)[:, 0])


def _numbers(answer: Tensor, how: Adaptation, x: Tensor) -> Tensor:
    return _chosen(answer if answer.ndim > 1 else answer[:, None], how)


_READERS = {"classify": _classes, "binary": _binary, "multilabel": _label, "regress": _numbers, "forecast": _numbers}


def _chosen(answer: Tensor, how: Adaptation) -> Tensor:
    """The part of an answer that `target` names, (B, H)."""
    if how.target is None:
        return answer.flatten(1)
    index = how.target if isinstance(how.target, tuple) else (how.target,)
    part = answer
    try:
        for i in index:
            part = part[:, i]
        return part.reshape(answer.shape[0], -1)
    except (IndexError, TypeError):
        raise ValueError(f"target={how.target!r} is not in the model's answer, {describe(answer)}.") from None


def about(logits: Tensor, target: Target | None) -> Tensor:
    """Logits (B, C) reduced to no and yes, (B, 2): one class against all others, or (class, other); unchanged for None.

    >>> about(torch.tensor([[1.0, 4.0, 2.0]]), (1, 0))
    tensor([[-1.5000,  1.5000]])
    """
    if target is None:
        return logits
    n = logits.shape[1]
    classes = target if isinstance(target, tuple) else (target,)
    if not all(isinstance(c, int) and 0 <= c < n for c in classes):
        raise ValueError(f"Expected target= among the model's {n} classes, 0 to {n - 1}, got {target!r}.")
    own = logits[:, classes[0]]
    if len(classes) == 2:
        return two_logits(own - logits[:, classes[1]])
    others = torch.cat([logits[:, : classes[0]], logits[:, classes[0] + 1 :]], dim=1)
    return two_logits(own - others.logsumexp(dim=1))


def two_logits(logit: Tensor) -> Tensor:
    """The logits of two classes (B, 2) with the log-odds (B,): no and yes."""
    return torch.stack([-logit, logit], dim=-1) / 2


def are_probabilities(logits: Tensor) -> bool:
    """Whether outputs (B, C) already are probabilities: none negative, rows sum to 1."""
    return bool((logits >= 0).all()) and bool(((logits.sum(-1) - 1).abs() < 1e-4).all())


def look_like_shares(answer: Tensor) -> bool:
    """Whether outputs lie in 0..1 as those of a sigmoid do: near both ends of it, or many of them strictly inside.

    A few small logits often lie in 0..1 by chance, but hardly ever near both ends. Many logits hardly ever all lie inside.

    >>> look_like_shares(torch.tensor([0.1, 0.9])), look_like_shares(torch.tensor([0.4, 0.6]))
    (True, False)
    >>> look_like_shares(torch.linspace(0.1, 0.3, MANY))
    True
    """
    low, high = float(answer.min()), float(answer.max())
    near_both_ends = answer.numel() > 1 and 0 <= low < 0.25 and 0.75 < high <= 1
    return near_both_ends or (answer.numel() >= MANY and low > 0 and high < 1)


def log_probabilities(p: Tensor) -> Tensor:
    """The logarithm of probabilities, finite also at 0."""
    return p.clamp_min(LEAST).log()
