"""The class to explain: the predicted one, or a target by index, by name, one per sample, or runner-up; and two of them.

Shapes: N samples, B in a chunk, C classes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.records import Explanation

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
