"""The records that everything else passes around, and the checks on what users hand in.

Shapes: N samples, T time steps, D channels, C classes, Z the width of the embedding; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Baseline(NamedTuple):
    """Mean and standard deviation of every (time, channel) cell over the observed training cells, each (T, D)."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """One part (train, val or test) of a data set.

    Attributes:
        x: The series, (N, T, D) float32; zero where not observed.
        times: The time of every step, (N, T) float32, 1..T when regularly sampled; zero in the padding.
        observed: Which cells were measured, (N, T, D) bool; padding is a step with no observed cell.
        y: Class labels 0..C-1, (N,) int64.
        truth: Cells known to decide the class, (N, T, D) bool, or None where nobody knows.
    """

    x: NDArray[np.float32]
    times: NDArray[np.float32]
    observed: NDArray[np.bool_]
    y: NDArray[np.int64]
    truth: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        x, times, observed = check_series(self.x, self.times, self.observed)
        y = check_labels(self.y, len(x))
        truth = None if self.truth is None else np.asarray(self.truth, dtype=bool)
        if truth is not None and truth.shape != x.shape:
            raise ValueError(f"Expected truth of the shape of x, {x.shape}, got {truth.shape}.")
        for name, value in {"x": x, "times": times, "observed": observed, "y": y, "truth": truth}.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: ArrayLike) -> Part:
        """The samples at `index` (integers or booleans), as a new part."""
        i = np.asarray(index)
        truth = None if self.truth is None else self.truth[i]
        return Part(self.x[i], self.times[i], self.observed[i], self.y[i], truth)


@dataclass(frozen=True)
class Dataset:
    """A data set in three parts, with the names a plot needs and the baseline distribution a mask needs."""

    name: str
    train: Part
    val: Part
    test: Part
    channels: tuple[str, ...]
    classes: tuple[str, ...]
    fold: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.channels) != self.train.x.shape[2]:
            raise ValueError(f"Expected {self.train.x.shape[2]} channel names, got {len(self.channels)}.")
        for part_name in ("train", "val", "test"):
            part: Part = getattr(self, part_name)
            if part.x.shape[1:] != self.train.x.shape[1:]:
                raise ValueError(
                    f"Expected every part to have (T, D) = {self.train.x.shape[1:]}, got {part.x.shape[1:]} in {part_name}."
                )
            if len(part) and part.y.max() >= len(self.classes):
                raise ValueError(
                    f"Expected labels 0..{len(self.classes) - 1} for the classes {self.classes}, got {part.y.max()} "
                    f"in {part_name}: name every class or renumber the labels."
                )

    @cached_property
    def baseline(self) -> Baseline:
        """Mean and standard deviation per (time, channel) cell of the training part."""
        return baseline_of(self.train.x, self.train.observed)


@dataclass(frozen=True)
class Explanation:
    """Explanations of N samples, with what is needed to trust and to draw them.

    Attributes:
        x: The explained series, (N, T, D), in the user's own units.
        attribution: The importance of every cell, (N, T, D). TimeX gives probabilities in [0, 1].
        prediction: The explained class of every sample, (N,): the model's own unless a target was asked for.
        probability: The model's class probabilities, (N, C).
        signed: Whether a negative attribution means "speaks against the class".
        method: The registry name of the explainer.
        mask: The cells kept, attribution > .5 for TimeX, (N, T, D) bool, or None.
        embedding: The explanation's place in the latent space of explanations, (N, Z), or None.
        landmark: The nearest landmark, (N,), or None.
        agreement: Whether the surrogate, seeing only the explanation, predicts the model's class, (N,) bool, or None.
        divergence: Jensen-Shannon divergence of surrogate and model, (N,), 0 (equal) to log 2, or None.
        observed: Which cells were measured, (N, T, D) bool, or None for all.
        times: The time of every step, (N, T), or None for 1..T.
        channels: Channel names, or empty.
        classes: Class names, or empty.
    """

    x: NDArray[np.float32]
    attribution: NDArray[np.float32]
    prediction: NDArray[np.int64]
    probability: NDArray[np.float32]
    signed: bool = False
    method: str = ""
    mask: NDArray[np.bool_] | None = None
    embedding: NDArray[np.float32] | None = None
    landmark: NDArray[np.int64] | None = None
    agreement: NDArray[np.bool_] | None = None
    divergence: NDArray[np.float32] | None = None
    observed: NDArray[np.bool_] | None = None
    times: NDArray[np.float32] | None = None
    channels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.attribution.shape != self.x.shape:
            raise ValueError(f"Expected attribution of the shape of x, {self.x.shape}, got {self.attribution.shape}.")

    def __len__(self) -> int:
        return len(self.x)

    def plot(self, i: int = 0, truth: NDArray[np.bool_] | None = None) -> Figure:
        """Draw sample `i`: every channel with its attribution as colour, and how far to trust it."""
        from timex.report.plots import plot_explanation  # the one import against the grain: drawing is optional

        return plot_explanation(self, i, truth=truth)

    def to_frame(self) -> pd.DataFrame:
        """One row per observed cell: sample, step, time, channel, value, attribution and the sample's prediction."""
        import pandas as pd

        n, t, d = self.x.shape
        names = np.array(self.channels or [f"channel_{k}" for k in range(d)])
        labels = np.array(self.classes or [str(c) for c in range(self.probability.shape[1])])
        times = np.broadcast_to(np.arange(1, t + 1, dtype=np.float32), (n, t)) if self.times is None else self.times
        frame = {
            "sample": np.repeat(np.arange(n), t * d),
            "step": np.tile(np.repeat(np.arange(t), d), n),
            "time": np.repeat(times.reshape(-1), d),
            "channel": np.tile(names, n * t),
            "value": self.x.reshape(-1),
            "attribution": self.attribution.reshape(-1),
            "prediction": np.repeat(labels[self.prediction], t * d),
        }
        if self.mask is not None:
            frame["mask"] = self.mask.reshape(-1)
        if self.agreement is not None:
            frame["agreement"] = np.repeat(self.agreement, t * d)
        table = pd.DataFrame(frame)
        return table if self.observed is None else table[self.observed.reshape(-1)].reset_index(drop=True)

    def save(self, path: str | Path) -> Path:
        """Write everything to one .npz file (beside first, then renamed, so that no half file is ever seen)."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        # A handle, since savez would add .npz to the temporary name.
        with atomic_path(path) as beside, open(beside, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{name: np.asarray(v) for name, v in arrays.items()})
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            values: dict[str, Any] = {name: file[name] for name in file.files}
        missing = {"x", "attribution", "prediction", "probability"} - set(values)
        if missing:
            raise ValueError(f"{path} is no saved explanation: it lacks {sorted(missing)}.")
        for name in ("channels", "classes"):
            values[name] = tuple(str(v) for v in values.get(name, ()))
        values["signed"] = bool(values.get("signed", False))
        values["method"] = str(values.get("method", ""))
        return cls(**values)


class Output(NamedTuple):
    """What a reference model says about a batch: the embedding z (B, Z) and the logits (B, C)."""

    z: Tensor
    logits: Tensor


@runtime_checkable
class Reference(Protocol):
    """The model being explained, y = F(G(x)). Every argument after x may be None."""

    def encode(self, x: Tensor, times: Tensor | None, observed: Tensor | None, mask: Tensor | None) -> Tensor:
        """G: the embedding z, (B, Z)."""

    def predict(self, z: Tensor) -> Tensor:
        """F: logits, (B, C)."""


@runtime_checkable
class Explainer(Protocol):
    """Anything that can be fitted to a model and then explain its predictions."""

    def fit(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        x_val: ArrayLike | None = None,
        times: ArrayLike | None = None,
        observed: ArrayLike | None = None,
    ) -> Explainer:
        """Learn what must be learned; returns self. A no-op for gradient methods."""

    def explain(self, x: ArrayLike, target: ArrayLike | None = None) -> Explanation:
        """Explain the predicted class (or `target`) of every sample."""


# --------------------------------------------------------------------------------------------------- regular sampling


def regular_times(n: int, t: int) -> NDArray[np.float32]:
    """Times 1..T for N samples, (N, T)."""
    return np.tile(np.arange(1, t + 1, dtype=np.float32), (n, 1))


def is_regular(times: NDArray[Any], observed: NDArray[np.bool_]) -> bool:
    """Whether every cell was measured, at times 1..T: times and observed then say nothing and need not travel."""
    return bool(observed.all()) and bool((times == np.arange(1, times.shape[1] + 1)).all())


def regular_part(x: NDArray[Any], y: NDArray[np.int64], truth: NDArray[np.bool_] | None = None) -> Part:
    """A part whose every cell was measured, at times 1..T."""
    return Part(x.astype(np.float32), regular_times(*x.shape[:2]), np.ones(x.shape, dtype=bool), y, truth)


# ---------------------------------------------------------------------------------------------------- checks on input


def check_series(
    x: ArrayLike | Tensor, times: ArrayLike | Tensor | None = None, observed: ArrayLike | Tensor | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Turn what a user calls a batch of series into float32 x (N, T, D), times (N, T) and observed (N, T, D), or say why not.

    Cells that are not observed may hold anything, NaN included; they come back as zero. `observed` may be (N, T) or (N, T, D).

    >>> check_series(np.ones((200, 4)))
    Traceback (most recent call last):
    ...
    ValueError: Expected x of shape (N, T, D), got (200, 4): add the batch axis with x[None], or the channels with x[..., None].
    """
    array = _numpy(x, np.float32, "x")
    if array.ndim != 3:
        raise ValueError(
            f"Expected x of shape (N, T, D), got {array.shape}: add the batch axis with x[None], "
            "or the channels with x[..., None]."
        )
    n, t, d = array.shape
    if n == 0 or t < 2 or d == 0:
        raise ValueError(
            f"Expected at least 1 sample, 2 time steps and 1 channel, got x of shape {array.shape} as (N, T, D): "
            "check the order of the axes."
        )
    seen = np.ones((n, t, d), dtype=bool) if observed is None else _numpy(observed, bool, "observed")
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
    if times is None:
        steps = np.broadcast_to(np.arange(1, t + 1, dtype=np.float32), (n, t)).copy()
    else:
        steps = _numpy(times, np.float32, "times")
        if steps.shape == (t,):
            steps = np.broadcast_to(steps, (n, t)).copy()
        if steps.shape != (n, t):
            raise ValueError(f"Expected times of shape {(n, t)} or {(t,)}, got {steps.shape}.")
        if not np.isfinite(steps).all():
            raise ValueError("Expected finite times, got NaN or inf: give the padding any finite time.")
        _check_order(steps, seen)
    return array, steps, seen


def warn_caller(message: str) -> None:
    """Warn, at the line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def check_labels(y: ArrayLike | Tensor, n: int, n_classes: int | None = None) -> NDArray[np.int64]:
    """Labels as int64 (N,), 0..C-1, or a `ValueError` that says what came.

    >>> check_labels([1.5, 2], n=2)
    Traceback (most recent call last):
    ...
    ValueError: Expected whole-number labels 0..C-1, got values such as 1.5: encode the classes as 0, 1, 2, ...
    """
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"Expected one label per sample, shape ({n},), got {labels.shape}.")
    if labels.dtype.kind not in "iub":
        whole = labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all()
        if not whole:
            odd = next((v for v in labels.tolist() if not isinstance(v, float) or v != round(v)), labels.tolist()[:1])
            raise ValueError(
                f"Expected whole-number labels 0..C-1, got values such as {odd!r}: encode the classes as 0, 1, 2, ..."
            )
    labels = labels.astype(np.int64)
    if n and (labels.min() < 0 or (n_classes is not None and labels.max() >= n_classes)):
        top = "C-1" if n_classes is None else str(n_classes - 1)
        raise ValueError(f"Expected labels 0..{top}, got {labels.min()}..{labels.max()}: renumber the classes from 0.")
    return labels


def baseline_of(x: NDArray[np.float32], observed: NDArray[np.bool_]) -> Baseline:
    """Mean and standard deviation per (time, channel) cell over observed samples; 0 and 0 where nothing was observed."""
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, x, 0).sum(axis=0, dtype=np.float64) / count
    variance = np.where(observed, (x - mean) ** 2, 0).sum(axis=0, dtype=np.float64) / count
    return Baseline(mean.astype(np.float32), np.sqrt(variance).astype(np.float32))


def _check_order(times: NDArray[np.float32], observed: NDArray[np.bool_]) -> None:
    """Refuse times (N, T) that do not increase from one step with an observed cell (N, T, D) to the next."""
    measured = np.any(observed, axis=2, keepdims=True)[:, :, 0]  # (N, T)
    latest = np.maximum.accumulate(np.where(measured, times, -np.inf), axis=1)
    late = measured[:, 1:] & (times[:, 1:] <= latest[:, :-1])
    if late.any():
        i, j = (int(v) for v in np.argwhere(late)[0])
        raise ValueError(
            f"Expected times that increase from step to step, got {times[i, j + 1]:g} after {latest[i, j]:g} at sample {i}, "
            f"step {j + 1}: sort the steps by time, one per time, and count from the start of the series (times are kept in "
            "32 bits, too few to tell the seconds of a date apart)."
        )


def _numpy(value: ArrayLike | Tensor, dtype: Any, name: str) -> NDArray[Any]:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        array: Any = (value.float() if value.dtype == torch.bfloat16 else value).numpy()  # numpy has no bfloat16
    else:
        array = value
    try:
        return np.asarray(array, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {name} as a rectangular array of numbers, got {type(value).__name__}: {error}. "
            "Pad series of different length and mark the padding with observed=."
        ) from None


class atomic_path:
    """A temporary path beside `path`, renamed to it when the block ends well and removed when it does not."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        os.close(handle)
        self.beside = Path(name)
        return self.beside

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            umask = os.umask(0)
            os.umask(umask)
            self.beside.chmod(0o666 & ~umask)  # mkstemp's private mode is not what a user expects of an output file
            os.replace(self.beside, self.path)
        else:
            self.beside.unlink(missing_ok=True)


def to_tensors(part: Part, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """The arrays of a part as tensors on `device`, by name."""
    named = {"x": part.x, "times": part.times, "observed": part.observed, "y": part.y}
    # torch warns about arrays it may not write to, which views and memory maps are
    return {name: torch.as_tensor(v if v.flags.writeable else v.copy(), device=device) for name, v in named.items()}
