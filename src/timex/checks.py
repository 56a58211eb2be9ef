"""Checks of the users' data, made once, where they enter the package.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.conversions import as_flags, as_numbers, without_mask

SKIPPED = (__package__, "torch")
"""Packages whose frames a warning passes over: torch's decorators stand between ours and the user's line."""


def check_series(
    x: ArrayLike | Tensor, times: ArrayLike | Tensor | None = None, observed: ArrayLike | Tensor | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Return x as float32 (N, T, D), times as float32 (N, T) and observed as bool (N, T, D), or raise a `ValueError`.

    Cells that are not observed may hold any value, NaN included; they become zero. `observed` may be (N, T) or (N, T, D); in a
    masked array the cells under the mask are not observed. A single series (T, D) counts as one sample; its `times` and
    `observed` may lack the batch axis too.

    >>> check_series(np.ones(200))
    Traceback (most recent call last):
    ...
    ValueError: Expected x of shape (N, T, D), or (T, D) for one sample, got (200,): add the channels with x[:, None].
    """
    x, visible = without_mask(x)
    if visible is not None:
        if observed is not None:
            raise ValueError("Expected missing cells marked once, got a masked array as x and observed= beside it.")
        observed = visible
    array = as_numbers(x, np.float32, "x")
    if array.ndim == 2:
        array = array[None]
        observed = None if observed is None else _with_batch_axis(observed, array.shape)
    if array.ndim != 3:
        hint = ": add the channels with x[:, None]." if array.ndim == 1 else "."
        raise ValueError(f"Expected x of shape (N, T, D), or (T, D) for one sample, got {array.shape}{hint}")
    n, t, d = array.shape
    if n == 0 or t < 2 or d == 0:
        raise ValueError(
            f"Expected at least 1 sample, 2 time steps and 1 channel, got x of shape {array.shape} as (N, T, D): "
            "check the order of the axes."
        )
    seen: NDArray[np.bool_] = np.ones((n, t, d), dtype=bool) if observed is None else as_flags(observed, "observed")
    if seen.shape == (n, t):
        seen = np.broadcast_to(seen[:, :, None], (n, t, d)).copy()
    if seen.shape != (n, t, d):
        raise ValueError(f"Expected observed of shape {(n, t, d)} or {(n, t)}, got {seen.shape}.")
    bad = seen & ~np.isfinite(array)
    if bad.any():
        i, j, k = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"Expected finite values, got {array[i, j, k]} at sample {i}, step {j}, channel {k} ({int(bad.sum())} such "
            "cells): fill them, or pass observed= with False there."
        )
    if not seen.all():
        array = np.where(seen, array, np.float32(0))
    steps = _check_times(times, seen)
    return array, steps, seen


def _with_batch_axis(observed: ArrayLike | Tensor, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """`observed` of a single series, (T, D) or (T,), as (1, T, D) or (1, T)."""
    seen = as_flags(observed, "observed")
    return seen[None] if seen.shape in (shape[1:], shape[1:2]) else seen


def _check_times(times: ArrayLike | Tensor | None, observed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Times as float32 (N, T); 1..T when None.

    If 32 bits cannot hold the difference of neighbouring steps, as for dates, times are counted from each series' first step.
    """
    n, t, _ = observed.shape
    if times is None:
        return np.broadcast_to(np.arange(1, t + 1, dtype=np.float32), (n, t)).copy()
    steps = as_numbers(times, np.float64, "times")
    if steps.shape == (t,):
        steps = np.broadcast_to(steps, (n, t)).copy()
    if steps.shape != (n, t):
        raise ValueError(f"Expected times of shape {(n, t)} or {(t,)}, got {steps.shape}.")
    if not np.isfinite(steps).all():
        raise ValueError("Expected finite times, got NaN or inf: give the padding any finite time.")
    measured: NDArray[np.bool_] = np.logical_or.reduce(observed, axis=2)  # (N, T)
    _check_order(steps, measured)
    short = steps.astype(np.float32)
    if _increases(short, measured).all():
        return short
    first = np.where(measured, steps, np.inf).min(axis=1, keepdims=True)  # (N, 1)
    return np.where(measured, steps - np.where(np.isfinite(first), first, 0), 0).astype(np.float32)


def warn_caller(message: str) -> None:
    """Warn at the user's line: the first one on the stack outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in SKIPPED:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def check_labels(y: ArrayLike | Tensor, n: int, n_classes: int | None = None) -> NDArray[np.int64]:
    """Labels as int64 (N,), 0..C-1, or a `ValueError` that names the value received.

    >>> check_labels([1.5, 2], n=2)
    Traceback (most recent call last):
    ...
    ValueError: Expected whole-number labels 0..C-1, got values such as 1.5: encode the classes as 0, 1, 2, ...
    """
    if isinstance(y, np.ma.MaskedArray):
        raise ValueError("Expected a label for every sample, got a masked array: leave out the samples without one.")
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"Expected one label per sample, shape ({n},), got {labels.shape}.")
    if labels.dtype.kind not in "iub":
        whole = labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all()
        if not whole:
            odd = next((v for v in labels.tolist() if not isinstance(v, float) or not v.is_integer()), labels.tolist()[:1])
            raise ValueError(
                f"Expected whole-number labels 0..C-1, got values such as {odd!r}: encode the classes as 0, 1, 2, ..."
            )
    labels = labels.astype(np.int64)
    if n and (labels.min() < 0 or (n_classes is not None and labels.max() >= n_classes)):
        top = "C-1" if n_classes is None else str(n_classes - 1)
        raise ValueError(f"Expected labels 0..{top}, got {labels.min()}..{labels.max()}: renumber the classes from 0.")
    return labels


def _increases(times: NDArray[Any], measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each measured step comes after all measured steps before it, (N, T - 1)."""
    latest = np.maximum.accumulate(np.where(measured, times, -np.inf), axis=1)
    return ~measured[:, 1:] | (times[:, 1:] > latest[:, :-1])


def _check_order(times: NDArray[np.float64], measured: NDArray[np.bool_]) -> None:
    """Refuse times (N, T) that do not increase from one measured step to the next."""
    late = ~_increases(times, measured)
    if late.any():
        i, j = (int(v) for v in np.argwhere(late)[0])
        before = times[i, : j + 1][measured[i, : j + 1]].max()
        raise ValueError(
            f"Expected times that increase from step to step, got {times[i, j + 1]:g} after {before:g} at sample {i}, "
            f"step {j + 1}: sort the steps by time, one per time."
        )


def check_truth(truth: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Truth as bool (N, T, D), or a `ValueError` if it has another shape than x; (T, D) counts as one sample."""
    known = as_flags(truth, "truth")
    known = known[None] if known.shape == shape[1:] and shape[0] == 1 else known
    if known.shape != shape:
        raise ValueError(f"Expected truth of the shape of x, {shape}, got {known.shape}.")
    return known


def check_extras(extras: Any, n: int) -> dict[str, NDArray[Any]]:
    """Extras by name as float32, int64 or bool arrays of `n` rows.

    >>> check_extras({"age": [30, 40]}, 3)
    Traceback (most recent call last):
    ...
    ValueError: Expected one row of age for each of 3 samples, got shape (2,).
    """
    found: dict[str, NDArray[Any]] = {}
    for name, value in dict(extras).items():
        if not str(name).isidentifier() or name in ("x", "times", "observed"):
            raise ValueError(f"Expected extras named as a parameter of the model, beside x, times and observed, got {name!r}.")
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"Expected numbers as {name}, got {array.dtype}: encode them as the model takes them.")
        if array.shape[:1] != (n,):
            raise ValueError(f"Expected one row of {name} for each of {n} samples, got shape {array.shape}.")
        found[str(name)] = array.astype({"f": np.float32, "b": np.bool_}.get(array.dtype.kind, np.int64))
    return found


def check_names(names: Any, kind: str, n: int | None = None, unique: bool = True) -> tuple[str, ...]:
    """Names as a tuple of strings, none at all or one for each of `n`.

    >>> check_names(["a", "a"], "channels", 2)
    Traceback (most recent call last):
    ...
    ValueError: Expected different names in channels, got 'a' twice.
    """
    if isinstance(names, str):
        raise ValueError(f"Expected {kind} as a list of names, got the text {names!r}.")
    if not isinstance(names, Iterable):
        raise ValueError(f"Expected {kind} as a list of names, got {names!r}.")
    listed = tuple(str(name) for name in names)
    if n is not None and len(listed) not in (0, n):
        raise ValueError(f"Expected one name for each of {n} in {kind}, or none, got {len(listed)}.")
    if unique and len(set(listed)) != len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise ValueError(f"Expected different names in {kind}, got {twice!r} twice.")
    return listed


def check_scaling(scaling: Any, n_channels: int | None = None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(offset, scale) as two tuples of numbers, each one number or one per channel."""
    if not isinstance(scaling, Iterable) or len(pair := tuple(scaling)) != 2:
        raise ValueError(f"Expected scaling as (offset, scale), got {scaling!r}.")
    offset, scale = (tuple(np.atleast_1d(as_numbers(v, np.float32, "scaling")).ravel().tolist()) for v in pair)
    if not np.isfinite([*offset, *scale]).all() or 0 in scale:
        raise ValueError(f"Expected a finite offset and a finite scale other than 0, got {offset} and {scale}.")
    for values in (offset, scale):
        if n_channels is not None and len(values) not in (1, n_channels):
            raise ValueError(f"Expected scaling as one number or {n_channels}, one per channel, got {len(values)}.")
    return offset, scale


def check_rate(rate: Any) -> float:
    """A sampling rate as a positive number."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.integer | np.floating) or not 0 < rate < np.inf:
        raise ValueError(f"Expected sampling_rate as a positive number of steps per second, got {rate!r}.")
    return float(rate)


def checked_device(device: torch.device | str | None) -> torch.device:
    """The device to run on, by default the GPU if there is one; a `ValueError` if this machine does not have it."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"Expected device=cpu, device=cuda or device=cuda:NUMBER, got {device!r}.") from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found.type == "meta":
        raise ValueError("Expected a device that holds values, got device=meta: use device=cpu.")
    if found.type == "cuda" and (found.index or 0) >= count:
        raise ValueError(f"Expected a CUDA device for device={found}; torch finds {count} on this machine. Use device=cpu.")
    return found
