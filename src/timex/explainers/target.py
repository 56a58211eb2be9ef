"""The class to explain: the predicted one, or a target by index, by name, one per sample, or runner-up; and two of them.

Shapes: N samples, B in a chunk, C classes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.checks import check_labels
from timex.records import Explanation, Series

log = logging.getLogger(__name__)

RUNNER_UP = "runner-up"
"""The target that means each sample's second most probable class."""


def target_indices(target: ArrayLike | Tensor, n: int, classes: Sequence[str] = ()) -> NDArray[Any]:
    """Class indices of n samples, (N,), not yet compared with the number of the model's classes.

    Args:
        target: A class for all samples, or one class per sample; by index or by name.
        n: Number of samples.
        classes: Class names in the order of the labels.

    Example:
        >>> target_indices("walk", 2, ("rest", "walk"))
        array([1, 1])
    """
    given = target.detach().cpu().numpy() if isinstance(target, Tensor) else np.asarray(target)
    if given.dtype.kind in "UO" and given.size and all(isinstance(name, str) for name in given.ravel()):
        given = np.array([_index(str(name), classes) for name in given.ravel()]).reshape(given.shape)
    return np.full(n, given) if given.ndim == 0 else given


def wanted_classes(logits: Tensor, target: Any, start: int, n: int, classes: Sequence[str]) -> Tensor:
    """The class to explain for every sample of a chunk, (B,): the predicted one, the runner-up, or `target`.

    Args:
        logits: The model's logits of the chunk, (B, C).
        target: As `Explainer.explain` takes it.
        start: The place of the chunk's first sample among the n that are explained.
        n: Number of samples that are explained.
        classes: Class names in the order of the labels.
    """
    if target is None:
        return logits.argmax(-1)
    if isinstance(target, str) and target == RUNNER_UP:
        return runner_up(logits)
    every = check_labels(target_indices(target, n, classes), n, logits.shape[1])
    return torch.as_tensor(every[start : start + len(logits)], device=logits.device)


def part_of_target(target: Any, first: int, n: int) -> Any:
    """The targets of n samples from the index `first`; one class for all stays as it is."""
    return target if target is None or isinstance(target, str) or np.ndim(target) == 0 else target[first : first + n]


def about(series: Series, target: int | tuple[int, ...] | None) -> Series:
    """Series as a model sees them whose answers are no and yes: one class against all others, or against another.

    Labels become 0 and 1, or are left out for two of several classes, to which the other series do not belong.

    >>> about(Series([[[0.0], [1.0]]] * 3, y=[0, 2, 1], classes=("rest", "walk", "fall")), 2).classes
    ('not fall', 'fall')
    """
    if target is None:
        return series
    y = None if series.y is None or isinstance(target, tuple) else (series.y == target).astype(np.int64)
    return replace(series, y=y, classes=about_names(series.classes, target))


def about_names(classes: Sequence[str], target: int | tuple[int, ...] | None) -> tuple[str, ...]:
    """The names of no and yes, where the classes have names.

    >>> about_names(("rest", "walk", "fall"), (2, 1))
    ('walk', 'fall')
    """
    if target is None or not classes:
        return tuple(classes)
    own, *other = target if isinstance(target, tuple) else (target,)
    if not all(0 <= c < len(classes) for c in (own, *other)):
        raise ValueError(f"Expected target= among {len(classes)} classes ({', '.join(classes)}), got {target}.")
    return (classes[other[0]] if other else f"not {classes[own]}", classes[own])


def runner_up(logits: Tensor) -> Tensor:
    """The second most probable class of every sample, (B,)."""
    return logits.topk(2, dim=-1).indices[:, 1]


def contrasted(target: Explanation, contrast: Explanation) -> Explanation:
    """Why the one class and not the other: the attributions of `target` less those of `contrast`, signed.

    Where both are the same class there is nothing to contrast: the attribution is 0, and a warning counts the samples.
    """
    same = int((target.prediction == contrast.prediction).sum())
    if same == len(target):
        raise ValueError("Expected contrast= to differ from target= in some sample, got the same class in all of them.")
    if same:
        log.warning("%d of %d samples have the same class as target and contrast: their attribution is 0", same, len(target))
    difference = target.attribution - contrast.attribution
    return replace(target, attribution=difference, contrast=contrast.prediction, signed=True, mask=None)


def _index(name: str, classes: Sequence[str]) -> int:
    if name in classes:
        return list(classes).index(name)
    known = f"among {', '.join(classes)}" if classes else "as a number, since the series name no classes"
    raise ValueError(f"Expected target {known}, or {RUNNER_UP!r}, got {name!r}.")
