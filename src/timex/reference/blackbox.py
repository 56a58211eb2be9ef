"""Models that give answers and no gradients: estimators, functions, ONNX sessions.

Shapes: N, B samples, T time steps, D channels, C classes, Z the width of the student's embedding.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timex.engine import Noise
from timex.reference import probes
from timex.reference.adaptation import Adaptation
from timex.reference.answers import about, answer_tensor, are_probabilities, log_probabilities, logits_of_answer, two_logits
from timex.reference.base import Output, ReferenceModel
from timex.reference.beside import given, parameters_of

log = logging.getLogger(__name__)

BATCH = 1024
"""Largest number of series in one call."""
TWICE = 4
"""Number of series that the model answers twice, to notice answers that depend on chance."""
CACHED = 65_536
"""Largest number of answers in the cache; the model is not called again for a series in the cache."""


Arrays = dict[str, NDArray[Any]]


class Answering(NamedTuple):
    """How a black box answers: the function from an array to answers, and what kind of answers they are."""

    call: Callable[..., Any]
    kind: str


def answering(model: Any) -> Answering:
    """The function that a black box is called by; raises a `ValueError` for an object that is no model."""
    for kind in ("predict_proba", "decision_function"):
        if callable(getattr(model, kind, None)):
            return Answering(getattr(model, kind), kind)
    if callable(getattr(model, "predict", None)):
        return Answering(model.predict, "predict")
    if callable(getattr(model, "run", None)) and callable(getattr(model, "get_inputs", None)):  # ONNX Runtime
        return Answering(lambda x: model.run(None, {model.get_inputs()[0].name: x}), "onnx")
    if callable(model):
        return Answering(model, "function")
    raise ValueError(
        f"Expected a torch.nn.Module, an estimator with predict_proba or predict, or a function x -> output, got "
        f"{type(model).__name__}."
    )


class BlackBox(ReferenceModel):
    """A model that gives answers alone. Its embedding is its answer.

    The model is called on batches, and answers are cached by series, since a call may be slow or cost money.

    Args:
        model: An estimator, a function or an ONNX Runtime session.
        how: How to call and read it; `embedding`, `embedding_output`, `pool` and `forward` play no part. A function that has
            parameters called `times`, `observed`, `lengths` or as an extra of the series gets these too, as arrays.

    Attributes:
        asked: Number of series that the model was called on.
        calls: Number of calls.
    """

    arch = "black box"
    stackable = False
    gradients = False

    def __init__(self, model: Any, how: Adaptation) -> None:
        super().__init__()
        unused = [f"{name}=" for name in ("embedding", "embedding_output", "pool", "forward") if name in how.given]
        if unused:
            raise ValueError(
                f"A {type(model).__name__} is explained as a black box, which has no layers: leave out {', '.join(unused)}."
            )
        self.how, self.numbers, self.config = how, how.numbers, {}
        self.model = model
        self.flat: bool | None = None  # whether the model takes (N, T * D)
        self.log = False
        self.asked = self.calls = 0
        self.extras = parameters_of(model) if answering(model).kind == "function" else ()
        self._cache: dict[bytes, NDArray[np.float32]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> BlackBox:
        """The same object: a copy would cost memory, and a session or a remote function has none."""
        return self

    def tried(
        self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None, *, scale_numbers: bool = False
    ) -> Self:
        """Call the model on a few series (B, T, D): find the shape that it takes, and whether it gives probabilities."""
        if self.flat is None:
            self.n_steps, self.n_channels = x.shape[1:]
            self.flat = self._takes_flat(x[:2], {name: v[:2] for name, v in self._beside(x, times, observed).items()})
            raw = self._raw(x, times, observed)
            probes.warn_of_chance(raw[:TWICE].cpu(), self._asked_again(x, times, observed))
            probes.warn_of_unread(self.extras, len(x))
            self.log = self.how.task == "classify" and are_probabilities(raw)
            if not self.log:
                probes.warn_of_shares(raw, self.how)
            if "observed" not in self.extras:
                probes.warn_of_nan(self, x, times, observed, self._reading_nan())
            self.n_classes = self.embedding_size = self._logits(raw).shape[1]
        return self

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """The answer, both as embedding and as logits (B, C), without a gradient."""
        logits = self._logits(self._raw(x, times, observed))
        return Output(logits, logits)

    def _reading_nan(self) -> str:
        """How to hand over the black box if it shall see NaN in missing cells."""
        kind = answering(self.model).kind
        call = "model" if kind in ("function", "onnx") else f"model.{kind}"
        rows = ".reshape(len(x), -1)" if self.flat else ""
        return f"lambda x, observed: {call}(np.where(observed, x, np.nan){rows}) as the model"

    def _logits(self, raw: Tensor) -> Tensor:
        """Answers (B, C) as logits."""
        return about(log_probabilities(raw) if self.log else raw, self.how.about)

    def _beside(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Arrays:
        """The arrays beside the series that the function has parameters for, by name."""
        every = {name: value.detach().cpu().numpy() for name, value in given(self.extras, x, times, observed).items()}
        if "observed" in every and self.how.layout == "BDT":
            every["observed"] = every["observed"].transpose(0, 2, 1)
        return every

    def _asked_again(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        """Answers to the first few series, without the cache."""
        more = {name: v[:TWICE] for name, v in self._beside(x, times, observed).items()}
        return torch.from_numpy(self._ask(x[:TWICE].detach().cpu().float().numpy(), more))

    def _raw(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        """The answers as the task reads them, (B, C); answers in the cache cost no call."""
        rows, more = x.detach().cpu().float().numpy(), self._beside(x, times, observed)
        keys = [
            hashlib.blake2b(b"".join(v[i].tobytes() for v in (rows, *more.values())), digest_size=16).digest()
            for i in range(len(rows))
        ]
        new = {key: i for i, key in enumerate(keys) if key not in self._cache}
        found: dict[bytes, NDArray[np.float32]] = {}
        order = list(new.values())
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            answers = self._ask(rows[part], {name: v[part] for name, v in more.items()})
            found |= zip((keys[i] for i in part), answers, strict=True)
        answers = np.stack([found[key] if key in found else self._cache[key] for key in keys])
        if len(self._cache) + len(found) > CACHED:
            self._cache.clear()
        self._cache |= found
        return torch.as_tensor(answers, device=x.device)

    def _ask(self, x: NDArray[np.float32], more: Arrays) -> NDArray[np.float32]:
        self.asked, self.calls = self.asked + len(x), self.calls + 1
        call, kind = answering(self.model)
        laid = x if self.how.layout == "BTD" else np.ascontiguousarray(x.transpose(0, 2, 1))
        value = call(laid.reshape(len(laid), -1) if self.flat else laid, **more)
        return self._read(value, kind, x).numpy()

    def _read(self, value: Any, kind: str, x: NDArray[np.float32]) -> Tensor:
        series = torch.from_numpy(x)
        if kind == "onnx" and self.how.output is None:
            value = [v for v in value if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        if kind == "predict" and not self.how.numbers:
            return self._one_hot(np.asarray(value))
        if self.how.output is not None or (isinstance(value, list | tuple | dict) and not _is_rows(value)):
            value = answer_tensor(_tensors(value), self.how, len(x))
        answer = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        if kind == "decision_function" and answer.ndim == 1:
            return two_logits(answer.float())
        return logits_of_answer(answer.detach().cpu(), self.how, series)

    def _one_hot(self, predicted: NDArray[Any]) -> Tensor:
        """Predicted classes as probabilities 0 and 1."""
        classes = getattr(self.model, "classes_", None)
        if classes is None:
            raise ValueError(
                f"{type(self.model).__name__} has predict alone: pass task='regress' if it gives numbers, or a function that "
                "returns class probabilities."
            )
        return torch.from_numpy((predicted[:, None] == np.asarray(classes)).astype(np.float32))

    def _takes_flat(self, x: Tensor, more: Arrays) -> bool:
        """Whether the model takes (N, T * D): its `n_features_in_` is T * D, or it fails on (N, T, D)."""
        features = getattr(self.model, "n_features_in_", None)
        if features is not None and int(features) == x[0].numel():
            return True
        few = x.cpu().float().numpy()
        try:
            self._ask(few, more)
            return False
        except Exception as error:
            first = error
        self.flat = True
        try:
            self._ask(few, more)
        except Exception:
            raise ValueError(
                f"The black box fails on x of shape {tuple(x.shape)}, and as (N, T * D) too. "
                f"{type(first).__name__}: {first}. Pass layout='BDT' if it takes (N, D, T), or a "
                "function that brings x into its shape."
            ) from first
        finally:
            self.flat = None
        return True


def _is_rows(value: Any) -> bool:
    """Whether a list holds numbers or rows of numbers, and not several outputs."""
    return isinstance(value, list) and bool(value) and not isinstance(value[0], np.ndarray | Tensor)


def _tensors(value: Any) -> Any:
    """Arrays in an output as tensors."""
    if isinstance(value, dict):
        return {name: _tensors(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_tensors(v) for v in value]
    return torch.as_tensor(value) if isinstance(value, np.ndarray) else value
