"""Class labels in files: texts or numbers there, numbers 0..C-1 with class names here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CLASSES = 10_000
"""A larger label is more likely a sample number than a class number."""


def encode(labels: Sequence[Any], classes: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels of any kind as class numbers, (N,), and class names.

    A label found in `classes` gets its place there. Otherwise whole numbers from 0 up are class numbers already, so that
    a file without some class keeps the numbers of the rest. Anything else is a name, numbered in sorted order.

    >>> encode(["walk", "rest", "walk"], ())
    (array([1, 0, 1]), ('rest', 'walk'))
    """
    texts = [_text(label) for label in labels]
    names = sorted(set(texts))
    whole = all(name.isdecimal() for name in names)
    if not classes:
        classes = numbered(max(map(int, names))) if whole else tuple(sorted(names, key=_sort_key(names)))
    number = {name: c for c, name in enumerate(classes)}
    if whole and not all(name in number for name in names):
        number = {name: int(name) for name in names if int(name) < len(classes)}
    odd = [name for name in names if name not in number]
    if odd:
        raise ValueError(f"Expected labels among the classes {list(classes)}, got {odd[:10]}.")
    return np.array([number[text] for text in texts], dtype=np.int64), classes


def numbered(largest: int) -> tuple[str, ...]:
    """Names "0", "1", ... for classes without names."""
    if largest >= MAX_CLASSES:
        raise ValueError(
            f"Expected whole-number labels to be class numbers 0..C-1, got {largest}: "
            "name the classes with classes=, or renumber them."
        )
    return tuple(str(c) for c in range(largest + 1))


def _text(label: Any) -> str:
    # a gap elsewhere in a column makes pandas read its whole numbers as floats
    return str(int(label)) if isinstance(label, float | np.floating) and label.is_integer() else str(label)


def _sort_key(names: list[str]) -> Callable[[str], Any]:
    """Numbers sort as numbers (-1 before 2 before 10), anything else as text."""
    try:
        for name in names:
            float(name)
    except ValueError:
        return str
    return float
