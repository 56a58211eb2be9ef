"""What is explained and how: a record that any process can carry out, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from timex.explainers.base import Explainer
from timex.io.parts import Parts
from timex.io.sources import Chunk, Source, with_steps
from timex.records import Explanation


@dataclass(frozen=True, kw_only=True)
class Job:
    """Explanations of a source.

    Attributes:
        open: Makes the explainer: once in every process.
        source: The series.
        n_steps: T of the model. Shorter chunks are padded, since they may be part of a set with longer samples.
        names: Names and scaling for series that have none, the fields of `timex.method.task.Names`.
        target: The class to explain, as `explain` takes it; None for the predicted one.
        contrast: The class to contrast it with, or None.
        parts: Where explanations are written, or None.
    """

    open: Callable[[], Explainer[Any]]
    source: Source
    n_steps: int
    names: dict[str, Any] = field(default_factory=dict)
    target: Any = None
    contrast: Any = None
    parts: Parts | None = None

    def explain(self, explainer: Explainer[Any], chunks: Iterable[Chunk]) -> Iterator[tuple[Explanation, dict[str, int]]]:
        """The explanations of some chunks with the facts about each, written if there is a place for them."""
        for chunk, series in self.source.read(chunks):
            longest = series.shape[1]
            padded = with_steps(series, self.n_steps if len(self.source.chunks) > 1 else longest)
            explanation = explainer.explain_part(padded.named(**self.names), chunk.first, self.target, self.contrast)
            missing = {"missing": int((~series.observed).sum()), "cells": series.x.size}
            facts = {**facts_of(explanation), "longest": longest, **missing}
            if self.parts is not None:
                self.parts.write(chunk, explanation, facts)
            yield explanation, facts


def facts_of(explanation: Explanation) -> dict[str, int]:
    """Numbers of samples: all, and those on which the surrogate agrees with the model, if there is one."""
    agreement = explanation.agreement
    return {"samples": len(explanation)} | ({} if agreement is None else {"agreeing": int(np.sum(agreement))})
