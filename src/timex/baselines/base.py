"""What the explainers that need no fitting share: checked input, chunks, predictions, and a model left as it was.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from timex.reference.base import ReferenceModel
from timex.reference.wrap import clear_hooks
from timex.types import Explanation, check_labels, check_series


class Unfitted:
    """An explainer without a training phase: subclasses write `_attribute`.

    Args:
        model: A reference model, or any module that maps (B, T, D) to logits (B, C). It is copied and never changed.
        device: Where to run it; by default the GPU if there is one.
    """

    name: ClassVar[str]
    signed: ClassVar[bool] = False

    def __init__(self, model: nn.Module, device: torch.device | str | None = None) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = copy.deepcopy(model).to(self.device).eval().requires_grad_(False)
        clear_hooks(self.model)

    def fit(
        self,
        x: ArrayLike | Tensor,
        y: ArrayLike | None = None,
        x_val: ArrayLike | None = None,
        times: ArrayLike | None = None,
        observed: ArrayLike | None = None,
    ) -> Self:
        """Nothing to learn."""
        return self

    def explain(
        self,
        x: ArrayLike | Tensor,
        target: ArrayLike | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        chunk: int = 64,
    ) -> Explanation:
        """Explain the predicted class, or `target` (N,), of every sample.

        Args:
            x: Series, (N, T, D).
            target: Classes to explain; by default those the model predicts.
            times: Times of the steps, (N, T).
            observed: Measured cells, (N, T, D) or (N, T).
            chunk: Samples on the device at once.
        """
        values, steps, seen = check_series(x, times, observed)
        self._start()
        irregular = times is not None or not seen.all()
        attributions, probabilities, classes = [], [], []
        for start in range(0, len(values), chunk):
            part = slice(start, start + chunk)
            batch = self._tensor(values[part])
            extra = (self._tensor(steps[part]), self._tensor(seen[part])) if irregular else (None, None)
            with torch.no_grad():
                probability = self.logits(batch, *extra).softmax(-1)
            if target is None:
                wanted = probability.argmax(-1)
            else:
                labels = check_labels(np.asarray(target), len(values), probability.shape[1])
                wanted = torch.as_tensor(labels[part], device=self.device)
            out = self._attribute(batch, wanted, *extra)
            attributions.append(np.where(seen[part], out.detach().float().cpu().numpy(), np.float32(0)))
            probabilities.append(probability.float().cpu().numpy())
            classes.append(wanted.cpu().numpy())
        return Explanation(
            x=values,
            attribution=np.concatenate(attributions),
            prediction=np.concatenate(classes),
            probability=np.concatenate(probabilities),
            signed=self.signed,
            method=self.name,
            observed=None if seen.all() else seen,
            times=None if times is None else steps,
        )

    def logits(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        """The model's logits; only our own models know of times and missing cells."""
        return self.model(x, times, observed) if isinstance(self.model, ReferenceModel) else self.model(x)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        # torch warns of arrays it may not write to and refuses negative strides: such views are copied
        return torch.as_tensor(np.require(array, requirements=["C", "W"]), device=self.device)

    def _start(self) -> None:
        """Called once before the chunks of an explain; a random explainer seeds itself here."""

    def _attribute(self, x: Tensor, target: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _attribute")
