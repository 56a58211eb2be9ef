"""Numbers for JSON with the digits that mean something."""

from __future__ import annotations

from typing import Any

import numpy as np

DIGITS = 4
"""Significant digits of what is measured over samples."""


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """Fractions to `digits` significant digits, at any depth; other values stay.

    >>> rounded({"kept": [0.123456, 12345], "name": "calm"})
    {'kept': [0.1235, 12345], 'name': 'calm'}
    """
    if isinstance(value, dict):
        return {key: rounded(v, digits) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float | np.floating) else value
