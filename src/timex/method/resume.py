"""What makes two fits the same: a fit goes on from its checkpoints only with the same data, model and settings."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from timex import engine
from timex.engine import Checkpoint
from timex.method.task import Task
from timex.records import Series

if TYPE_CHECKING:
    from timex.method.explainer import TimeX

ANSWERS = 8
"""Training series whose answers are compared, and numbers of each: a function has no weights to compare."""


def expect_same_fit(checkpoint: Checkpoint, explainer: TimeX, train: Series, val: Series | None) -> None:
    """Refuse checkpoints of other data or settings, before any work."""
    checkpoint.expect(
        **{
            "settings": explainer.config.flat(),
            "way of calling the model": {name: str(value) for name, value in explainer.how.saved().items()},
            "training series": train.digest,
            "training labels": "none" if train.y is None else sha256(train.y.tobytes()).hexdigest(),
            "validation series": "held out" if val is None else val.digest,
        },
        **engine.surroundings(explainer.device),
    )


def expect_same_task(checkpoint: Checkpoint, task: Task) -> None:
    """Refuse checkpoints of another model, by its weights and by its answers."""
    answers = task.member.train["logits"][:ANSWERS, :ANSWERS].flatten().tolist()
    checkpoint.expect(**{"weights of the model": task.reference_hash, "answers of the model": answers})
