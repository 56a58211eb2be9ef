"""Time series and everything known about them.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.checks import check_extras, check_labels, check_names, check_rate, check_scaling, check_series, check_truth
from timex.conversions import as_numbers, without_mask

EXTRA = "extra."
"""Starts the names of extras among the tensors of a batch and among the arrays of a file."""
PER_SAMPLE = ("x", "times", "observed", "y", "truth")
"""The fields of `Series` with one row per sample, beside `ids`."""


class Baseline(NamedTuple):
    """Mean and standard deviation of every (time, channel) cell over the observed training cells, each (T, D)."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]


@dataclass(frozen=True)
class Series:
    """N time series and everything known about them. Values are checked and converted when the record is made.

    Attributes:
        x: The series, (N, T, D) float32, zero where not observed. A single series (T, D) becomes (1, T, D).
        times: The time of every step, (N, T) float32, in any unit; None becomes 1..T. Zero in the padding.
        observed: Which cells were measured, (N, T, D) bool; None means all. Padding is a step with no observed cell.
        y: Class labels 0..C-1, (N,) int64, or None.
        truth: Cells known to decide the class, (N, T, D) bool, or None.
        ids: The name of every sample, or empty.
        channels: Channel names, or empty.
        units: Channel units, or empty.
        classes: Class names in the order of the labels, or empty.
        sampling_rate: Steps per second, or None.
        scaling: (offset, scale), each one number or one per channel, if x was scaled as (value - offset) / scale.
        extras: What else a model reads of every sample, by the name of its parameter: arrays of numbers, (N, ...).

    Example:
        >>> series = Series(np.zeros((3, 5, 2)), y=[0, 1, 0], classes=("rest", "walk"))
        >>> len(series), series.x.shape, series.regular
        (3, (3, 5, 2), True)
    """

    x: NDArray[np.float32]
    times: NDArray[np.float32] = None  # type: ignore[assignment]  # filled in below
    observed: NDArray[np.bool_] = None  # type: ignore[assignment]  # filled in below
    y: NDArray[np.int64] | None = None
    truth: NDArray[np.bool_] | None = None
    ids: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    sampling_rate: float | None = None
    scaling: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    if TYPE_CHECKING:  # the fields hold what `__post_init__` makes of these

        def __init__(
            self,
            x: ArrayLike | Tensor,
            times: ArrayLike | Tensor | None = None,
            observed: ArrayLike | Tensor | None = None,
            y: ArrayLike | Tensor | None = None,
            truth: ArrayLike | None = None,
            ids: Sequence[str] = (),
            channels: Sequence[str] = (),
            units: Sequence[str] = (),
            classes: Sequence[str] = (),
            sampling_rate: float | None = None,
            scaling: tuple[ArrayLike, ArrayLike] | None = None,
            extras: Mapping[str, ArrayLike | Tensor] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        x, times, observed = check_series(self.x, self.times, self.observed)
        n, _, d = x.shape
        checked = {
            "x": x,
            "times": times,
            "observed": observed,
            "y": None if self.y is None else check_labels(self.y, n, len(self.classes) or None),
            "truth": None if self.truth is None else check_truth(self.truth, x.shape),
            "ids": check_names(self.ids, "ids", n),
            "channels": check_names(self.channels, "channels", d),
            "units": check_names(self.units, "units", d, unique=False),
            "classes": check_names(self.classes, "classes"),
            "sampling_rate": None if self.sampling_rate is None else check_rate(self.sampling_rate),
            "scaling": None if self.scaling is None else check_scaling(self.scaling, d),
            "extras": check_extras(self.extras, n),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def with_gaps(cls, x: ArrayLike, times: ArrayLike | None = None, observed: ArrayLike | None = None, **rest: Any) -> Series:
        """A series whose NaN cells count as not observed, unless `observed` is given."""
        values, visible = without_mask(x)
        array = as_numbers(values, np.float32, "x")
        seen = ~np.isnan(array) if visible is None else visible & ~np.isnan(array)
        return cls(array, times, seen if observed is None else observed, **rest)

    @classmethod
    def from_(cls, data: Any, y: Any = None, **how: Any) -> Series:
        """Series from what other libraries hold them in; see `timex.io.containers.series_from`."""
        from timex.io.containers import series_from  # against the order of the tree: a short name for a reader

        return series_from(data, y, **how)

    @classmethod
    def joined(cls, parts: Sequence[Series]) -> Series:
        """Series of equal length and channels below each other; names and scaling are those of the first."""
        first = parts[0]
        names = [name for name in PER_SAMPLE if getattr(first, name) is not None]
        rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        extras = {name: np.concatenate([part.extras[name] for part in parts]) for name in first.extras}
        return first._unchecked(**rows, ids=tuple(name for part in parts for name in part.ids), extras=extras)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        n, t, d = self.shape
        known = [name for name in ("y", "truth", "ids") if getattr(self, name) is not None and len(getattr(self, name))]
        known += self.extras
        facts = [f"{n} x {t} x {d}", *([] if self.regular else [f"{self.observed.mean():.0%} observed"]), *known]
        return f"Series({', '.join(facts)})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, T, D)."""
        return self.x.shape

    @cached_property
    def regular(self) -> bool:
        """Whether every cell was measured, at times 1..T: times and observed then carry no information."""
        return bool(self.observed.all()) and bool((self.times == np.arange(1, self.x.shape[1] + 1)).all())

    @property
    def labels(self) -> NDArray[np.int64]:
        """`y`, or a `ValueError` for series without labels."""
        if self.y is None:
            raise ValueError(
                "Expected labels, got series without y: add a label column (tables), y (.npz) or @classLabel (.ts)."
            )
        return self.y

    @property
    def channel_labels(self) -> tuple[str, ...]:
        """Channel names with their units in brackets, or empty."""
        if not self.units:
            return self.channels
        return tuple(f"{c} [{u}]" if u else c for c, u in zip(self.channels, self.units, strict=True))

    def take(self, index: ArrayLike | slice) -> Series:
        """The samples at `index` (integers, booleans or a slice), as a new record."""
        i = index if isinstance(index, slice) else np.asarray(index)
        rows = {name: getattr(self, name)[i] for name in PER_SAMPLE if getattr(self, name) is not None}
        ids = tuple(np.asarray(self.ids)[i].tolist()) if self.ids else ()
        return self._unchecked(**rows, ids=ids, extras={name: v[i] for name, v in self.extras.items()})

    def chunks(self, size: int) -> Iterator[Series]:
        """The samples in order, at most `size` at a time."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def tensors(self, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """x, and y, times and observed where they carry information, as tensors on `device`; extras as `extra.NAME`."""
        names = ("x", *(() if self.regular else ("times", "observed")), *(() if self.y is None else ("y",)))
        tensors = {name: to_tensor(getattr(self, name), device) for name in names}
        return tensors | {EXTRA + name: to_tensor(value, device) for name, value in self.extras.items()}

    def in_own_units(self) -> Series:
        """The series before scaling: x * scale + offset, zero where not observed."""
        if self.scaling is None:
            return self
        offset, scale = (np.asarray(v, dtype=np.float32) for v in self.scaling)
        x = np.where(self.observed, self.x * scale + offset, 0).astype(np.float32)
        return self._unchecked(x=x, scaling=None)

    def named(
        self,
        channels: Sequence[str] = (),
        units: Sequence[str] = (),
        classes: Sequence[str] = (),
        scaling: Any = None,
    ) -> Series:
        """The series with these names and this scaling where it has none."""
        d = self.x.shape[2]
        return self._unchecked(
            channels=self.channels or check_names(channels, "channels", d),
            units=self.units or check_names(units, "units", d, unique=False),
            classes=self.classes or check_names(classes, "classes"),
            scaling=self.scaling or (None if scaling is None else check_scaling(scaling, d)),
        )

    @cached_property
    def digest(self) -> str:
        """A hash of x, times, observed and extras: equal for equal series."""
        digest = hashlib.sha256(repr(self.x.shape).encode())
        for array in (self.x, self.times, np.packbits(self.observed)):
            digest.update(np.ascontiguousarray(array).tobytes())
        for name, array in self.extras.items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @cached_property
    def time_unit(self) -> float:
        """The usual interval between neighbouring measured steps (the median), in the unit of `times`."""
        if self.regular:
            return 1.0
        measured = np.logical_or.reduce(self.observed, axis=2)
        both = measured[:, 1:] & measured[:, :-1]
        between = np.diff(self.times.astype(np.float64), axis=1)[both]
        return float(np.median(between)) if len(between) else 1.0

    def usual_extras(self) -> dict[str, NDArray[Any]]:
        """One row that stands for all, (1, ...) by name: the mean of real numbers, the middle one of others."""
        middle = len(self) // 2
        return {
            name: v.mean(axis=0, keepdims=True) if v.dtype.kind == "f" else np.sort(v, axis=0)[middle : middle + 1]
            for name, v in self.extras.items()
        }

    def baseline(self) -> Baseline:
        """Mean and standard deviation per (time, channel) cell over observed samples; 0 and 0 where nothing was observed."""
        count = np.maximum(self.observed.sum(axis=0), 1)
        mean = np.where(self.observed, self.x, 0).sum(axis=0, dtype=np.float64) / count
        variance = np.where(self.observed, (self.x - mean) ** 2, 0).sum(axis=0, dtype=np.float64) / count
        return Baseline(mean.astype(np.float32), np.sqrt(variance).astype(np.float32))

    def _unchecked(self, **changes: Any) -> Series:
        """A copy with other values, which are known to be right: checking a large array takes time."""
        new = object.__new__(Series)
        for f in fields(self):
            object.__setattr__(new, f.name, changes.get(f.name, getattr(self, f.name)))
        return new


def taken_extras(arrays: dict[str, Any]) -> dict[str, Any]:
    """The extras among the arrays of a file, by name; they are taken out of `arrays`."""
    return {name.removeprefix(EXTRA): arrays.pop(name) for name in list(arrays) if name.startswith(EXTRA)}


def to_tensor(array: NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
    """The array on `device`. Read-only views and negative strides, which torch does not take, are copied."""
    return torch.as_tensor(np.require(array, requirements=["C", "W"]), device=device)


def as_series(value: Any, times: Any = None, observed: Any = None, **rest: Any) -> Series:
    """A `Series` as it is, or one made of an array.

    >>> as_series(np.zeros((4, 2))).shape
    (1, 4, 2)
    """
    if not isinstance(value, Series):
        return Series(value, times, observed, **rest)
    given = {name: v for name, v in {"times": times, "observed": observed, **rest}.items() if v is not None}
    if given:
        raise ValueError(f"Expected {', '.join(given)} inside the Series, got it beside one: use dataclasses.replace.")
    return value
