"""The answers of a model, whole and with cells hidden: probabilities of classes, or numbers.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from timex.metrics.hiding import Predict
from timex.records.series import EXTRA
from timex.reference.base import ReferenceModel
from timex.reference.beside import beside


def model_predict(
    model: Any,
    device: torch.device | str = "cpu",
    attention: bool = True,
    times: NDArray[np.float32] | None = None,
    observed: NDArray[np.bool_] | None = None,
    extras: Mapping[str, NDArray[Any]] | None = None,
    chunk: int = 512,
) -> Predict:
    """A `Predict` from a reference model or any torch module that maps (B, T, D) to logits (B, C).

    It gives the probabilities of the classes; for a regression or forecast the numbers as the reference model scales them.

    Args:
        model: The model; it is moved to `device` and put into evaluation mode.
        device: Where to run it.
        attention: Whether models that support it also mask their attention at steps of which no cell is kept.
        times: Times of the steps, (N, T), for our own models.
        observed: Measured cells, (N, T, D), for our own models.
        extras: What else the model reads of every sample, (N, ...) by name.
        chunk: Samples on the device at once.
    """
    ours = isinstance(model, ReferenceModel)
    numbers = ours and model.numbers
    model = model.to(device).eval()

    @torch.no_grad()
    def predict(x: NDArray[np.float32], kept: NDArray[np.bool_]) -> NDArray[Any]:
        rows = []
        for start in range(0, len(x), chunk):
            part = slice(start, start + chunk)
            batch = torch.as_tensor(x[part], device=device)
            if ours:
                extra = [None if v is None else torch.as_tensor(v[part], device=device) for v in (times, observed)]
                steps = (
                    torch.as_tensor(kept[part].any(axis=2), device=device).float() if attention and model.attention else None
                )
                besides = {EXTRA + name: torch.as_tensor(v[part], device=device) for name, v in (extras or {}).items()}
                with beside(besides):
                    logits = model.answers(batch, *extra) if steps is None else model(batch, *extra, steps)
            else:
                logits = model(batch)
            rows.append((logits.double() if numbers else logits.double().softmax(-1)).cpu())
        return torch.cat(rows).numpy()

    return predict
