"""How a user's model is called and read: the keywords that every explainer takes, checked once.

Shapes: B samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from torch import Tensor

Pool = int | Callable[[Tensor], Tensor]
Pick = int | str | Callable[[Any], Any]
Target = int | tuple[int, ...]
TaskName = Literal["classify", "binary", "multilabel", "regress", "forecast"]
NUMBERS = ("regress", "forecast")
"""The tasks whose outputs are numbers and not classes."""


class Calling(TypedDict, total=False):
    """The keywords of `adapt` beside `embedding`; `Adaptation` has their meaning."""

    embedding_output: Pick | None
    pool: Pool | None
    layout: Literal["BTD", "BDT"]
    forward: str | Callable[..., Any] | None
    output: Pick | None
    task: TaskName
    target: Target | None


class How(Calling, total=False):
    """The keywords of `adapt`."""

    embedding: str | None


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """How to call a model and how to read its output.

    Attributes:
        embedding: The layer whose output is the embedding z, as in `named_modules()`. None takes the input of the last linear
            layer, else the logits.
        embedding_output: Which tensor of a layer that returns several: an index, a key, or a function.
        pool: How to reduce that layer's output to (B, Z): an axis to average over, or a function. Without it a (B, T, Z) or
            (B, Z, T) output is averaged over time.
        layout: What the model takes: "BTD" or channels first, "BDT". Series are (N, T, D) in any case.
        forward: The keyword that the model takes series by, or a function (model, x) -> output. A function, or the model's own
            forward, that has parameters called `times`, `observed` or `lengths` gets these too.
        output: Which part of the model's output holds the answer: a key, an attribute, an index or a function.
        task: What the answer means: "classify" (logits or probabilities, (B, C)), "binary" (one logit), "multilabel" (one logit
            per label), "regress" (numbers) or "forecast" (numbers per step ahead).
        target: Which label or number to explain, as an index or (step, channel). Needed for "multilabel"; None explains all
            numbers together. For "classify", one class against all others, or (class, other) for one against another: the
            explained answers are then no and yes.
    """

    embedding: str | None = None
    embedding_output: Pick | None = None
    pool: Pool | None = None
    layout: Literal["BTD", "BDT"] = "BTD"
    forward: str | Callable[..., Any] | None = None
    output: Pick | None = None
    task: TaskName = "classify"
    target: Target | None = None

    def __post_init__(self) -> None:
        for name, known in (("layout", ("BTD", "BDT")), ("task", typing.get_args(TaskName))):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"Expected {name} as one of {', '.join(map(repr, known))}, got {value!r}.")
        if self.embedding is not None and not isinstance(self.embedding, str):
            raise ValueError(f"Expected embedding as the name of a layer, got {self.embedding!r}.")
        if isinstance(self.pool, bool) or not (self.pool is None or isinstance(self.pool, int) or callable(self.pool)):
            raise ValueError(f"Expected pool as an axis or a function, got {self.pool!r}.")
        if isinstance(self.target, list):
            object.__setattr__(self, "target", tuple(self.target))
        if self.task == "multilabel" and not isinstance(self.target, int):
            raise ValueError("Expected target=INDEX with task='multilabel': labels are explained one at a time.")
        if self.task == "binary" and self.target is not None:
            raise ValueError("Expected no target= with task='binary', whose answers already are no and yes.")
        if self.task == "classify" and isinstance(self.target, tuple) and (len(self.target) != 2 or len(set(self.target)) < 2):
            raise ValueError(f"Expected target as a class or as two different classes, got {self.target}.")
        if self.forward is not None and not (callable(self.forward) or isinstance(self.forward, str)):
            raise ValueError(f"Expected forward as a keyword or a function (model, x), got {type(self.forward).__name__}.")

    @classmethod
    def of(cls, how: Mapping[str, Any]) -> Adaptation:
        """The keywords, or a `ValueError` that names the nearest known one."""
        known = [f.name for f in fields(cls)]
        for name in how:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}=?" if near else f"known: {', '.join(known)}."
                raise ValueError(f"Unknown keyword {name}=: {hint}")
        return cls(**how)

    @property
    def numbers(self) -> bool:
        """Whether the answers are numbers, and not classes."""
        return self.task in NUMBERS

    @property
    def about(self) -> Target | None:
        """The class, or the two classes, that answers are reduced to; None if they are not."""
        return self.target if self.task == "classify" else None

    @property
    def given(self) -> dict[str, Any]:
        """The values that differ from the defaults, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    def saved(self) -> dict[str, Any]:
        """The values that a file can hold; a function is saved as None, and `restored` asks for it."""
        return {name: None if callable(value) else value for name, value in self.given.items()}

    @classmethod
    def restored(cls, saved: Mapping[str, Any], given: Mapping[str, Any]) -> Adaptation:
        """What `saved` kept, with the functions that were not; what is given takes precedence."""
        lost = [name for name, value in saved.items() if value is None and name not in given]
        if lost:
            names = " and ".join(f"{name}=" for name in lost)
            raise ValueError(f"The explainer was fitted with a function as {names}, which is not saved: pass it to load again.")
        return cls.of({**{name: v for name, v in saved.items() if v is not None}, **given})
