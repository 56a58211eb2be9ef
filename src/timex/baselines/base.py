"""What the baselines share: checked input, chunks that fit memory, predictions, noise, and a model left as it was.

Shapes: N samples, T time steps, D channels, C classes; inside a chunk B samples, R altered copies of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from timex.engine import Noise, Tensors, mix
from timex.reference.base import ReferenceModel
from timex.reference.lstm import backward_in_eval
from timex.reference.wrap import check_module, copied, warn_of_probabilities
from timex.types import Explanation, check_labels, check_series

CHUNK_CELLS = 2**23
"""Activations of one layer (rows x T x max(T, 64)) in one pass through the model on a CPU: about 32 MB."""
CHUNK_CELLS_MAX = 2**28
"""The same on a GPU with memory to spare."""
MAX_VAL = 512
"""Validation samples used at most."""
VAL_SHARE = 0.1
"""Share of the training data set apart for selection when no validation data is given."""


class Batch(NamedTuple):
    """Samples on the device: x (B, T, D), target (B,), times (B, T) and observed (B, T, D) or None, place in the data (B,)."""

    x: Tensor
    target: Tensor
    times: Tensor | None
    observed: Tensor | None
    place: Tensor


class BaselineExplainer:
    """An explainer of one prediction at a time: subclasses write `_attribute`.

    Args:
        model: A reference model, or any module that maps (B, T, D) to logits (B, C). It is copied and never changed.
        config: Settings of the method; its defaults when None.
        device: Where to run it; by default the GPU if there is one.
    """

    name: ClassVar[str]
    signed: ClassVar[bool] = False
    config_class: ClassVar[type] = type(None)
    config: Any

    def __init__(self, model: nn.Module, config: Any = None, device: torch.device | str | None = None) -> None:
        check_module(model)
        self.config = self.config_class() if config is None else config
        if not isinstance(self.config, self.config_class):
            wanted = "no config" if self.config_class is type(None) else f"a {self.config_class.__name__}"
            raise ValueError(f"Expected {wanted} for {type(self).__name__}, got {type(config).__name__}.")
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = copied(model).to(self.device)

    def fit(
        self,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor | None = None,
        x_val: ArrayLike | Tensor | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        times_val: ArrayLike | Tensor | None = None,
        observed_val: ArrayLike | Tensor | None = None,
        progress: bool = True,
    ) -> Self:
        """Nothing to learn: takes what `FittedExplainer.fit` takes and returns self."""
        return self

    def explain(
        self,
        x: ArrayLike | Tensor,
        target: ArrayLike | Tensor | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        chunk: int | None = None,
    ) -> Explanation:
        """Explain the predicted class, or `target`, of every sample; the same samples give the same scores.

        Args:
            x: Series, (N, T, D).
            target: Classes to explain, (N,); by default those the model predicts.
            times: Times of the steps, (N, T).
            observed: Measured cells, (N, T, D) or (N, T).
            chunk: Samples on the device at once; by default as many as fit comfortably. It does not change the scores.
        """
        values, steps, seen = check_series(x, times, observed)
        self._check_ready(values)
        irregular = times is not None or not seen.all()
        size = chunk or max(1, self._rows(values.shape) // self._copies(values.shape))
        attributions, probabilities, classes = [], [], []
        for start in range(0, len(values), size):
            part = slice(start, start + size)
            batch = self._tensor(values[part])
            when, which = (self._tensor(steps[part]), self._tensor(seen[part])) if irregular else (None, None)
            with torch.no_grad():
                logits = self.logits(batch, when, which)
            if start == 0 and not isinstance(self.model, ReferenceModel):
                warn_of_probabilities(logits)
            probability = logits.softmax(-1)
            if target is None:
                wanted = probability.argmax(-1)
            else:
                labels = check_labels(
                    target if isinstance(target, Tensor) else np.asarray(target), len(values), probability.shape[1]
                )
                wanted = torch.as_tensor(labels[part], device=self.device)
            place = torch.arange(start, start + len(batch), device=self.device)
            out = self._attribute(Batch(batch, wanted, when, which, place))
            attributions.append(np.where(seen[part], out.detach().float().cpu().numpy(), np.float32(0)))
            probabilities.append(probability.float().cpu().numpy())
            classes.append(wanted.cpu().numpy())
        self._finish()
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

    def logits(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        """The model's logits, (B, C); only our own models know of times and missing cells."""
        return logits_of(self.model, x, times, observed)

    def logits_of_copies(self, copies: Tensor, batch: Batch) -> Tensor:
        """Logits (B, R, C) of R altered copies of every sample of a batch, (B, R, T, D)."""
        b, r = copies.shape[:2]
        times, observed = (None if v is None else v.repeat_interleave(r, 0) for v in (batch.times, batch.observed))
        return self.logits(copies.flatten(0, 1), times, observed).unflatten(0, (b, r))

    def _rows(self, shape: tuple[int, ...]) -> int:
        """How many series of shape (..., T, D) may pass through the model at once."""
        t, d = shape[-2:]
        cells = CHUNK_CELLS
        if self.device.type == "cuda":  # a pass with gradients keeps some dozens of such activations
            free, _ = torch.cuda.mem_get_info(self.device)
            free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            cells = min(CHUNK_CELLS_MAX, max(cells, free // (4 * 64)))
        return max(1, min(2**16, cells // (t * max(t, d, 64))))

    def _copies(self, shape: tuple[int, ...]) -> int:
        """How many altered copies of one sample (..., T, D) pass through the model together."""
        return 1

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        # torch warns of arrays it may not write to and refuses negative strides: such views are copied
        return torch.as_tensor(np.require(array, requirements=["C", "W"]), device=self.device)

    def _check_ready(self, x: NDArray[np.float32]) -> None:
        """Called before the chunks of an explain, with all of x."""

    def _finish(self) -> None:
        """Called after the chunks of an explain."""

    def _attribute(self, batch: Batch) -> Tensor:
        """Scores of the cells of one chunk, (B, T, D)."""
        raise NotImplementedError(f"{type(self).__name__} must define _attribute")


class FittedExplainer(BaselineExplainer):
    """A baseline that learns from data before it explains: subclasses write `_learn` and `_attribute`.

    Their config has a `seed`.
    """

    shape: tuple[int, ...] | None = None
    """(T, D) of the series fitted on; None before."""
    n_classes: int

    def fit(
        self,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor | None = None,
        x_val: ArrayLike | Tensor | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        times_val: ArrayLike | Tensor | None = None,
        observed_val: ArrayLike | Tensor | None = None,
        progress: bool = True,
    ) -> Self:
        """Learn what the method needs to know before it can explain.

        Args:
            x: Training series, (N, T, D): best those the model was trained on.
            y: Labels, (N,), for methods that train a classifier; the model's own predictions serve otherwise.
            x_val: Series to select or tune by; without it a tenth of x is set apart.
            times: Times of the steps of x, (N, T), for irregular sampling.
            observed: Measured cells of x, (N, T, D) or (N, T); others may hold anything.
            times_val: As times, for x_val.
            observed_val: As observed, for x_val.
            progress: Show progress bars.

        Returns:
            self
        """
        train = self._data(x, y, times, observed)
        if x_val is None:
            n = len(train["x"])
            held = max(1, round(VAL_SHARE * n))
            if n - held < 2:
                raise ValueError(f"Expected at least 3 samples to fit and validate on, got {n}: pass more, or x_val=.")
            order = torch.randperm(n, generator=torch.Generator().manual_seed(self.config.seed))
            val = {name: v[order[:held]] for name, v in train.items()}
            train = {name: v[order[held:]] for name, v in train.items()}
        else:
            val = self._data(x_val, None, times_val, observed_val, irregular="times" in train)
        val = {name: v[:MAX_VAL] for name, v in val.items()}
        if val["x"].shape[1:] != train["x"].shape[1:]:
            raise ValueError(f"Expected x_val with (T, D) = {tuple(train['x'].shape[1:])}, got {tuple(val['x'].shape[1:])}.")
        self._learn(train, val, progress)
        self.shape = tuple(train["x"].shape[1:])
        return self

    def _data(self, x: Any, y: Any, times: Any, observed: Any, irregular: bool = False) -> Tensors:
        """Checked tensors on the CPU, as the engine takes them: x, y, and times and observed where they say something."""
        values, steps, seen = check_series(x, times, observed)
        irregular = irregular or times is not None or not bool(seen.all())
        data = {"x": torch.from_numpy(np.ascontiguousarray(values))}
        if irregular:
            data |= {"times": torch.from_numpy(np.ascontiguousarray(steps)), "observed": torch.from_numpy(seen)}
        logits = [self.logits(b.x, b.times, b.observed) for b in self._batches(data)]
        self.n_classes = logits[0].shape[1]
        if y is None:
            data["y"] = torch.cat(logits).argmax(-1).cpu()
        else:
            data["y"] = torch.from_numpy(
                check_labels(y if isinstance(y, Tensor) else np.asarray(y), len(values), self.n_classes)
            )
        return data

    def _batches(self, data: Tensors, copies: int = 1) -> Iterator[Batch]:
        """Chunks of fitted data on the device; the target is `y`."""
        size = max(1, self._rows(data["x"].shape) // copies)
        for start in range(0, len(data["x"]), size):
            part = {name: v[start : start + size].to(self.device) for name, v in data.items()}
            n = len(part["x"])
            target = part.get("y", torch.zeros(n, dtype=torch.int64, device=self.device))
            place = torch.arange(start, start + n, device=self.device)
            yield Batch(part["x"], target, part.get("times"), part.get("observed"), place)

    def _check_ready(self, x: NDArray[np.float32]) -> None:
        if self.shape is None:
            raise RuntimeError(f"This {type(self).__name__} has not been fitted: call fit(x) with training series first.")
        if x.shape[1:] != self.shape:
            raise ValueError(f"Expected x of shape (N, {self.shape[0]}, {self.shape[1]}) as in fit, got {x.shape}.")

    def _learn(self, train: Tensors, val: Tensors, progress: bool) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _learn")


def logits_of(model: nn.Module, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
    """Logits (B, C) of a model in evaluation mode, whose gradient with respect to x may be asked for on any device."""
    if isinstance(model, ReferenceModel):
        return model(x, times, observed)
    with backward_in_eval(x):
        return model(x.clone())  # which it may write to


def uniform_per_sample(seed: int, place: Tensor, *shape: int) -> Tensor:
    """Uniform noise (B, *shape) on (0, 1) that depends on the seed and each sample's place in the data, not on chunks.

    >>> both, second = (uniform_per_sample(7, torch.tensor(i), 3) for i in ([0, 1], [1]))
    >>> torch.equal(both[1:], second)
    True
    """
    keys = mix(mix(torch.tensor(seed, device=place.device)) + place)
    return torch.vmap(lambda key: Noise(key).uniform(*shape))(keys)
