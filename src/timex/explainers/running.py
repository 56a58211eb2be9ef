"""The frozen model as an explainer runs it: adapted once, tried on the first series, then run in chunks.

Shapes: N samples, T time steps, D channels, C classes; inside a chunk B samples, R altered copies of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from timex.checks import check_labels
from timex.engine import Tensors
from timex.explainers.batch import Batch, rows_at_once
from timex.explainers.splitting import split
from timex.records import Series, to_tensor
from timex.reference.adapt import adapt, tried
from timex.reference.adaptation import Adaptation
from timex.reference.base import ReferenceModel
from timex.reference.beside import beside, each
from timex.reference.probes import require_gradient

MAX_VAL = 512
"""Validation samples that baselines use at most."""


class RunsModel:
    """How an `Explainer` runs its model. Subclasses of `Explainer` call these methods."""

    needs_gradients: ClassVar[bool]
    config: Any
    how: Adaptation
    device: torch.device
    model: Any
    _tried_shape: tuple[int, ...] | None = None
    """(T, D) of the series on which the model was tried last; None before the first series."""

    def logits(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        """The logits of the model that is run, (B, C); foreign modules see times and missing cells if their forward does."""
        return self.model(x, times, observed)

    def answers(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        """The logits of the model that is explained, (B, C): those of `logits`, unless a student stands for it."""
        return self._reference.answers(x, times, observed)

    @property
    def _reference(self) -> ReferenceModel:
        """The model as it is explained."""
        return self.model

    def logits_of_copies(self, copies: Tensor, batch: Batch) -> Tensor:
        """Logits (B, R, C) of R altered copies of every sample of a batch, (B, R, T, D)."""
        b, r = copies.shape[:2]
        times, observed = (None if v is None else v.repeat_interleave(r, 0) for v in (batch.times, batch.observed))
        with each(lambda rows: rows.repeat_interleave(r, 0)):
            return self.logits(copies.flatten(0, 1), times, observed).unflatten(0, (b, r))

    def batches(self, data: Tensors, copies: int = 1) -> Iterator[Batch]:
        """Tensors of series in chunks on the device, small enough for `copies` of each sample; targets are predictions."""
        size = max(1, self._rows(data["x"].shape) // copies)
        for start in range(0, len(data["x"]), size):
            part = {name: v[start : start + size].to(self.device) for name, v in data.items()}
            x, times, observed = part["x"], part.get("times"), part.get("observed")
            with beside(part):  # until the next batch is asked for
                with torch.no_grad():
                    logits = self.logits(x, times, observed)
                place = torch.arange(start, start + len(x), device=self.device)
                yield Batch(x, logits.argmax(-1), times, observed, place, logits)

    def training_tensors(self, train: Series, val: Series | None) -> tuple[Tensors, Tensors]:
        """Tensors to fit on and to validate on; y are the labels, or the model's predictions where there are none."""
        kept, held, _ = split(train, val, self.config.seed, MAX_VAL)
        irregular = not (kept.regular and held.regular)
        tensors = []
        for series in (kept, held):
            data = series.tensors()
            if irregular:
                data |= {"times": to_tensor(series.times), "observed": to_tensor(series.observed)}
            n_classes = (logits := self.predictions(data)).shape[1]
            y = logits.argmax(-1) if series.y is None else torch.from_numpy(check_labels(series.y, len(series), n_classes))
            tensors.append({**data, "y": y})
        return tensors[0], tensors[1]

    def predictions(self, data: Tensors) -> Tensor:
        """The model's logits of every series, (N, C), on the CPU."""
        return torch.cat([batch.logits.cpu() for batch in self.batches(data)])

    def _own_model(self, model: Any) -> Any:
        """The copy of the model that the explainer works with."""
        adapted = adapt(model, **self.how.given).to(self.device)
        if self.needs_gradients and not adapted.gradients:
            raise ValueError(
                f"{type(self).__name__} needs gradients, and {type(model).__name__} is explained as a black box, which has "
                "none: use occlusion, shapley_sampling, or TimeX, which fits a student to its answers."
            )
        return adapted

    def _try_model(self, series: Series, scale_numbers: bool = False) -> None:
        """Run the model on a few series the first time, or of another shape: this finds what is wrong before any work."""
        if self._tried_shape == series.shape[1:]:
            return
        tried(self.model, series, scale_numbers)
        if self.needs_gradients:
            require_gradient(self.model, series, type(self).__name__, self.device)
        self._tried_shape = series.shape[1:]

    def _chunk(self, shape: tuple[int, ...]) -> int:
        """How many samples (N, T, D) to explain at once."""
        return max(1, self._rows(shape) // self._copies(shape))

    def _rows(self, shape: tuple[int, ...]) -> int:
        """How many series of shape (..., T, D) may pass through the model at once."""
        return rows_at_once(shape, self.device)

    def _copies(self, shape: tuple[int, ...]) -> int:
        """How many altered copies of one sample (..., T, D) pass through the model together."""
        return 1
