"""Explanations of N samples, with what is needed to trust and to draw them.

Shapes: N samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from timex.io.arrays import read_arrays, write_arrays
from timex.records.series import EXTRA, Series, taken_extras

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timex.report.spans import Span


_CELLS, _ROWS, _TABLE = ("N", "T", "D"), ("N",), ("N", "any")
_KINDS = {"f": "floating-point numbers", "iu": "whole numbers", "b": "bools"}
ARRAYS: dict[str, tuple[tuple[str, ...], str]] = {
    "attribution": (_CELLS, "f"),
    "prediction": (_ROWS, "iu"),
    "probability": (_TABLE, "f"),
    "contrast": (_ROWS, "iu"),
    "mask": (_CELLS, "b"),
    "direction": (_CELLS, "iu"),
    "embedding": (_TABLE, "f"),
    "landmark": (_ROWS, "iu"),
    "agreement": (_ROWS, "b"),
    "divergence": (_ROWS, "f"),
    "numbers": (_TABLE, "f"),
    "unfamiliar": (_ROWS, "b"),
}
"""The shape of every array of an explanation, and numpy's letters for what it may hold."""
REQUIRED = ("attribution", "prediction", "probability")


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Explanations of N samples, with what is needed to trust and to draw them.

    Attributes:
        series: The explained series in the user's own units, with their ids, labels, truth and times.
        attribution: The importance of every cell, (N, T, D). TimeX gives probabilities in [0, 1].
        prediction: The explained class of every sample, (N,): the model's own unless a target was given.
        probability: The model's class probabilities, (N, C).
        signed: Whether a negative attribution means "speaks against the class".
        method: The registry name of the explainer.
        contrast: The class that `prediction` is contrasted with, (N,), or None: "why this class and not that?".
        mask: The cells kept, attribution > .5 for TimeX, (N, T, D) bool, or None.
        embedding: The explanation's place in the latent space of explanations, (N, Z), or None.
        landmark: The nearest landmark, (N,), or None.
        agreement: Whether the surrogate, seeing only the explanation, predicts the model's class, (N,) bool, or None.
        divergence: Jensen-Shannon divergence of surrogate and model, (N,), 0 (equal) to log 2, or None.
        direction: Whether a cell speaks for the prediction (1) or against it (-1), (N, T, D) int8, or None; 0 where nothing was
            measured. A signed attribution has its direction in its sign.
        unfamiliar: Whether a series lies outside the range of the training series, (N,) bool, or None if that is not known.
        model_hash: The SHA-256 of the weights of the model that is explained; empty for a black box.
        numbers: The model's numbers in their own units, (N, H), for a regression or forecast, else None; `prediction` is 0.
    """

    series: Series
    attribution: NDArray[np.float32]
    prediction: NDArray[np.int64]
    probability: NDArray[np.float32]
    signed: bool = False
    method: str = ""
    contrast: NDArray[np.int64] | None = None
    mask: NDArray[np.bool_] | None = None
    embedding: NDArray[np.float32] | None = None
    landmark: NDArray[np.int64] | None = None
    agreement: NDArray[np.bool_] | None = None
    divergence: NDArray[np.float32] | None = None
    direction: NDArray[np.int8] | None = None
    numbers: NDArray[np.float32] | None = None
    unfamiliar: NDArray[np.bool_] | None = None
    model_hash: str = ""

    def __post_init__(self) -> None:
        n, t, d = self.x.shape
        for name, (shape, kinds) in ARRAYS.items():
            value = getattr(self, name)
            if value is None and name not in REQUIRED:
                continue
            if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
                kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
                raise ValueError(f"Expected {name} as an array of {_KINDS[kinds]}, got {kind}.")
            wanted = tuple({"N": n, "T": t, "D": d}.get(axis, axis) for axis in shape)
            if len(value.shape) != len(wanted) or any(w not in (v, "any") for v, w in zip(value.shape, wanted, strict=True)):
                like = "of the shape of x" if shape == ("N", "T", "D") else "with a row for each series"
                raise ValueError(f"Expected {name} {like}, {self.x.shape}, got {value.shape}.")

    def __len__(self) -> int:
        return len(self.series)

    @property
    def x(self) -> NDArray[np.float32]:
        """The explained series, (N, T, D), in the user's own units."""
        return self.series.x

    @property
    def times(self) -> NDArray[np.float32]:
        """The time of every step, (N, T)."""
        return self.series.times

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Which cells were measured, (N, T, D)."""
        return self.series.observed

    @property
    def channels(self) -> tuple[str, ...]:
        """Channel names with their units, or empty."""
        return self.series.channel_labels

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, or empty."""
        return self.series.classes

    # ------------------------------------------------------------------------------------------------------ parts

    @classmethod
    def joined(cls, parts: Sequence[Explanation]) -> Explanation:
        """Explanations of one explainer below each other, such as those of `explain_stream`."""
        first = parts[0]
        values = {f.name: getattr(first, f.name) for f in fields(cls) if f.name != "series"}
        rows = {name: [getattr(p, name) for p in parts] for name, v in values.items() if isinstance(v, np.ndarray)}
        arrays: dict[str, Any] = {name: np.concatenate(column) for name, column in rows.items()}
        return replace(first, series=Series.joined([p.series for p in parts]), **arrays)

    def __getitem__(self, index: Any) -> Explanation:
        """The explanations at `index`: a number, a slice, numbers, or a mask of N truth values; e[0] holds one explanation."""
        rows = _rows(index, len(self))
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        taken: dict[str, Any] = {name: value[rows] for name, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, series=self.series.take(rows), **taken)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def directed(self) -> Explanation:
        """The same with a signed attribution: attribution times direction. A signed explanation is returned as it is."""
        if self.signed:
            return self
        if self.direction is None:
            raise ValueError(
                f"Expected an explanation with a direction, got none from {self.method or 'this method'}: TimeX gives one with "
                "the evidence objective and generator.gradient_points > 0."
            )
        return replace(self, attribution=self.attribution * self.direction.astype(np.float32), signed=True, direction=None)

    # ---------------------------------------------------------------------------------- in words, figures and tables
    # `report` comes later in the order of the tree. It is imported when it is used.

    def __repr__(self) -> str:
        from timex.report.notebook import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        from timex.report.notebook import explanation_html

        return explanation_html(self)

    def spans(self, i: int, n: int = 3) -> list[Span]:
        """The `n` stretches of time and channel that matter most in sample `i`, the heaviest first."""
        from timex.report.spans import important_spans

        return important_spans(self, i, n)

    def summary(self) -> pd.DataFrame:
        """One row per explained class: what the model looks at, and how far to trust it.

        Columns: samples, accuracy, agreement, kept (share of cells), channels (the three most important with their share of the
        attribution), spans (mean number per sample), typical (the most typical sample) and its heaviest spans. A column that is
        not known for these explanations is left out.
        """
        from timex.report.frame import class_frame

        return class_frame(self)

    def plot(
        self,
        i: int = 0,
        *,
        channels: Sequence[str | int] | None = None,
        time: tuple[float, float] | None = None,
        ax: Axes | None = None,
        title: str | None = None,
    ) -> Figure:
        """Draw sample `i`: every channel with its attribution as colour, the truth if known, and how far to trust it.

        Args:
            i: Which sample.
            channels: Names or numbers of the channels to draw; by default those with the largest total attribution.
            time: (first, last) time to draw, in the unit of `times`.
            ax: Axes to draw into: one channel with its values and strips, or several as lanes; by default a new figure.
            title: The title, instead of the predicted class.
        """
        from timex.report.plots import plot_explanation

        return plot_explanation(self, i, channels=channels, time=time, ax=ax, title=title)

    def to_frame(self) -> pd.DataFrame:
        """One row per observed cell: sample, step, time, channel, value, attribution and the sample's prediction.

        Where the series have them: the sample's own name (id), its true class (label) and the cell's truth.
        """
        from timex.report.frame import cell_frame

        return cell_frame(self)

    # ---------------------------------------------------------------------------------------------- save and load

    def save(self, path: str | Path) -> Path:
        """Write everything to one .npz file; a failing write leaves no half file."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "series"}
        of_series = {f.name: getattr(self.series, f.name) for f in fields(self.series) if f.name != "extras"}
        of_series |= {EXTRA + name: value for name, value in self.series.extras.items()}
        values = {**own, **{f"series.{name}": value for name, value in of_series.items()}}
        arrays = {name: np.asarray(v) for name, v in values.items() if v is not None and np.size(v)}
        return write_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path, max_bytes: int | None = None) -> Explanation:
        """Read what `save` wrote; files that need more than `max_bytes` of memory are refused (see `read_arrays`)."""
        known = {f.name for f in fields(cls)} | {f"series.{f.name}" for f in fields(Series)} | {f"series.{EXTRA}"}
        values: dict[str, Any] = read_arrays(path, known, max_bytes)
        missing = {"series.x", "attribution", "prediction", "probability"} - set(values)
        if missing:
            raise ValueError(f"{path} is no saved explanation: it lacks {', '.join(sorted(missing))}.")
        of_series = {name.removeprefix("series."): values.pop(name) for name in list(values) if name.startswith("series.")}
        of_series["extras"] = taken_extras(of_series)
        for name in ("ids", "channels", "units", "classes"):
            of_series[name] = tuple(np.ravel(of_series.get(name, ())).astype(str).tolist())
        try:
            if "sampling_rate" in of_series:
                of_series["sampling_rate"] = float(of_series["sampling_rate"].reshape(()))
            values["signed"] = bool(values.get("signed", np.False_).reshape(()))
            values |= {name: str(values.get(name, "")) for name in ("method", "model_hash")}
            return cls(series=Series(**of_series), **values)
        except ValueError as error:
            raise ValueError(f"{path} is no saved explanation: {error}") from error


def _rows(index: Any, n: int) -> slice | NDArray[Any]:
    """What picks the rows of arrays of `n` samples; a number becomes a slice, so that the first axis stays."""
    if isinstance(index, slice):
        return index
    rows = np.asarray(index)
    if rows.dtype == bool and rows.shape != (n,):
        raise IndexError(f"Expected a mask of {n} truth values, one for each sample, got the shape {rows.shape}.")
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64)
    if rows.dtype != bool and (not np.issubdtype(rows.dtype, np.integer) or rows.ndim > 1):
        raise IndexError(f"Expected a number, a slice, a list of numbers or a mask, got {index!r}.")
    if rows.dtype != bool and not (-n <= rows.min() and rows.max() < n):
        raise IndexError(f"Expected samples {-n}..{n - 1}, got {index}.")
    return slice(int(rows) % n, int(rows) % n + 1) if rows.ndim == 0 else rows
