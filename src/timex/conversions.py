"""Plain arrays from what users hand in. What holds no plain numbers is refused: a silent cast would change its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

KINDS = {
    "M": "dates: subtract the first one and divide by a unit, as in (t - t[0]) / np.timedelta64(1, 's')",
    "m": "durations: divide them by a unit, as in t / np.timedelta64(1, 's')",
    "c": "complex numbers: pass their real and imaginary parts as two channels",
    "U": "texts: convert them to numbers first",
    "S": "texts: convert them to numbers first",
    "V": "records of several fields: pass one array of numbers",
}
"""What numpy's other kinds of values are, and what to do with them."""


def as_numbers(value: Any, dtype: Any, name: str) -> NDArray[Any]:
    """The value as an array of `dtype`, None for its own; a `ValueError` for anything but bools and real numbers.

    >>> as_numbers(["2024-01-01"], np.float64, "times")
    Traceback (most recent call last):
    ...
    ValueError: Expected times as numbers, got texts: convert them to numbers first.
    """
    array = _plain(value, name)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"Expected {name} as numbers, got {KINDS.get(array.dtype.kind, f'values of type {array.dtype}')}.")
    with np.errstate(over="ignore"):  # a value too large for float32 becomes inf, which the checks report
        return array if dtype is None else array.astype(dtype, copy=False)


def as_flags(value: Any, name: str) -> NDArray[np.bool_]:
    """The value as an array of bools; a `ValueError` for anything but bools and the numbers 0 and 1.

    >>> as_flags([0.0, 1.0], "observed")
    array([False,  True])
    """
    array = as_numbers(value, None, name)
    if array.dtype.kind != "b" and not ((array == 0) | (array == 1)).all():
        odd = array[(array != 0) & (array != 1)].ravel()[0]
        raise ValueError(f"Expected {name} as True and False, or 1 and 0, got {odd}: pass a comparison, such as ~np.isnan(x).")
    return array.astype(bool, copy=False)


def without_mask(value: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """A masked array as its values, 0 under the mask, and the cells that are not masked; anything else with None."""
    if not isinstance(value, np.ma.MaskedArray):
        return value, None
    visible = ~np.ma.getmaskarray(value)
    return np.where(visible, np.ma.getdata(value), np.zeros(1, value.dtype)), visible


def _plain(value: Any, name: str) -> NDArray[Any]:
    """The value as an array of whatever type it has."""
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"Expected {name} without a mask, got a masked array: fill it with {name}.filled(...).")
    if isinstance(value, Tensor):
        value = _of_tensor(value, name)
    try:
        array = np.asarray(value)
        return _of_objects(array) if array.dtype == object else array
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"Expected {name} as a rectangular array of numbers, got {type(value).__name__}: {error}. "
            "Pad series of different length and mark the padding with observed=."
        ) from None


def _of_tensor(tensor: Tensor, name: str) -> NDArray[Any]:
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
        what = "no values" if tensor.is_meta else "quantised values" if tensor.is_quantized else f"layout {tensor.layout}"
        raise ValueError(f"Expected {name} as a dense tensor with values, got one with {what}: use to_dense() or dequantize().")
    tensor = tensor.detach().cpu()
    narrow = tensor.dtype.is_floating_point and tensor.dtype.itemsize <= 2 and tensor.dtype != torch.float16
    return (tensor.float() if narrow else tensor).resolve_conj().resolve_neg().numpy()  # numpy has no bfloat16


def _of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Python numbers, and None for a missing one, as floating-point numbers; other objects as what numpy finds in them."""
    found = np.asarray(array.tolist())
    if found.dtype != object:
        return found
    for item in array.ravel():
        if not (item is None or np.isscalar(item)) or isinstance(item, str | bytes | complex | np.complexfloating):
            raise ValueError(f"a cell holds a {type(item).__name__}")
    return array.astype(np.float64)
