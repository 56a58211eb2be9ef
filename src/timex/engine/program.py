"""What is trained: a program for one member, the members, their schedule, and the result.

Shapes: N samples; a Program sees no leading axis of members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from timex.engine.noise import Noise

Tensors = dict[str, Tensor]


class Diverged(RuntimeError):
    """No epoch of a training gave a finite validation value; an argument, if any, names the training."""

    def __str__(self) -> str:
        return "".join(
            ["No epoch gave a finite validation value: lower the learning rate, or check the scale of x.", *self.args]
        )


class Program(Protocol):
    """What one member computes, as pure functions of tensors.

    Attributes:
        stackable: Whether `torch.vmap` can stack it. False for programs around foreign modules and recurrent layers:
            their members are trained one after another.
    """

    stackable: bool

    def loss(self, params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Loss terms on one batch, each a scalar; the entry "loss" is minimised, all are recorded."""

    def criterion(self, params: Tensors, frozen: Tensors, val: Tensors, hyper: Tensors, noise: Noise) -> Tensors:
        """Scores on validation data; "criterion" (lower is better) selects the epoch. The noise is the same every epoch."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One training: its own start, data, seed and scalar settings."""

    params: Tensors
    frozen: Tensors
    train: Tensors
    val: Tensors
    hyper: dict[str, float] = field(default_factory=dict)
    lr: float = 1e-3
    weight_decay: float = 0.0
    seed: int = 0
    places: Sequence[int] | None = None
    """The index of every training sample in the user's data, for messages; None if they are the same."""

    def signature(self) -> tuple[Any, ...]:
        """Members with equal signatures can share a program."""
        groups = (self.params, self.frozen, self.train, self.val)
        return (*(tuple((k, tuple(v.shape), v.dtype) for k, v in g.items()) for g in groups), tuple(self.hyper))


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast to train; the same for every member of a run."""

    epochs: int = 50
    """Ceiling on the number of epochs."""
    batch_size: int = 64
    """Samples in a step; smaller data sets take all their samples in one."""
    patience: int | None = None
    """Stop a member after this many epochs without a better criterion; None trains to the ceiling."""
    warmup: int = 0
    """Steps over which the learning rate rises linearly from zero."""
    decay: bool = False
    """Let the learning rate fall to zero along a half cosine over all epochs."""
    plateau_factor: float = 1.0
    """Multiply a member's learning rate by this when its criterion stalls; 1 never does."""
    plateau_patience: int = 5
    """Epochs without improvement before that happens."""
    plateau_start: int = 20
    """First epoch that counts; the best criterion and the epochs without improvement are counted from here."""
    clip: float = 1.0
    """Largest gradient norm of a member."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 2:
            raise ValueError(
                f"Expected epochs >= 1 and batch_size >= 2 (the losses compare pairs), got {self.epochs} and {self.batch_size}."
            )


@dataclass(frozen=True)
class Fault:
    """The step at which a loss stopped being finite, and the training with it.

    Attributes:
        epoch: The epoch, from 0.
        batch: The batch in it, from 0.
        terms: The terms of the loss that are NaN or infinite there.
        samples: The samples of the batch, by their index in the user's data.
    """

    epoch: int
    batch: int
    terms: dict[str, float]
    samples: tuple[int, ...]

    def __str__(self) -> str:
        terms = " and ".join(f"{name} became {value}" for name, value in self.terms.items())
        more = f" and {len(self.samples) - 10} more" if len(self.samples) > 10 else ""
        samples = ", ".join(map(str, self.samples[:10])) + more
        return f"in batch {self.batch} of epoch {self.epoch} the loss term {terms}, on the training samples {samples}"


@dataclass(frozen=True)
class Trained:
    """The result of one member: the weights of its best epoch, and a row of figures per epoch."""

    params: Tensors
    criterion: float
    epoch: int
    history: list[dict[str, float]]
    skipped_steps: int = 0
    fault: Fault | None = None

    def selected(self) -> Tensors:
        """The weights, or `Diverged` if no epoch gave any: `params` are then those of the start."""
        if self.epoch < 0:
            raise Diverged
        return self.params


@dataclass(frozen=True)
class Progress:
    """The state of a run after an epoch, for a progress bar."""

    members: int
    epoch: int
    epochs: int
    best: float
    active: int
