"""Running a method once: fit where needed, explain, take the time, and keep the result for the next comparison."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import timex
from timex.engine import Checkpoint
from timex.explainers.base import Explainer
from timex.io.atomic import atomic_path
from timex.records import Explanation, Series
from timex.reference.base import ReferenceModel, weights_hash
from timex.trust.interval import plain
from timex.trust.memory import Peak

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """What a method found.

    Attributes:
        explanation: Its explanations.
        seconds: Time to explain one sample.
        fit_seconds: Time of the fit; 0 without one, or if the explainer came fitted.
        megabytes: Memory at the peak of explaining, beyond what was held before; NaN where it cannot be measured.
    """

    explanation: Explanation
    seconds: float
    fit_seconds: float
    megabytes: float = float("nan")


class Runs:
    """Runs methods on the same model and series, and keeps the results in a folder for the next time.

    A result is kept under everything that decides it: method, settings, model, series, training series, version of timex.
    Explainers that came fitted are not kept: what they learned is no setting, and they explain quickly.

    Args:
        model: The explained model.
        answers: Its explanation by any method: the probabilities tell black boxes apart, which have no weights.
        train: Series to fit on.
        folder: Where to keep results; None keeps nothing.
        progress: Show the progress of fits.
    """

    def __init__(
        self, model: ReferenceModel, answers: Explanation, train: Series, folder: Path | None, progress: bool = True
    ) -> None:
        self.train, self.folder, self.progress = train, folder, progress
        probability = hashlib.sha256(np.ascontiguousarray(answers.probability).tobytes()).hexdigest()
        self.context = (timex.__version__, weights_hash(model), probability, train.digest) if folder is not None else ()

    def of(self, explainer: Explainer[Any], series: Series) -> Run:
        """The result in the folder, or a new one, which is written there."""
        if self.folder is None or explainer.fitted_ is not None:
            return self._made(explainer, series)
        key = hashlib.sha256(repr((*self.context, series.digest, explainer.config)).encode()).hexdigest()
        path = self.folder / f"{explainer.name}-{key[:16]}.npz"
        times = path.with_suffix(".json")
        if path.is_file() and times.is_file():
            kept = {"megabytes": None, **json.loads(times.read_text())}
            kept["megabytes"] = float("nan") if kept["megabytes"] is None else kept["megabytes"]
            return Run(Explanation.load(path), **kept)
        checkpoint = path.with_suffix(".fit") if explainer.keeps_checkpoints else None
        made = self._made(explainer, series, checkpoint)
        made.explanation.save(path)
        cost = {"seconds": made.seconds, "fit_seconds": made.fit_seconds, "megabytes": made.megabytes}
        with atomic_path(times) as beside:  # written last: a result without it is not complete
            beside.write_text(json.dumps(plain(cost)) + "\n")
        if checkpoint is not None:
            Checkpoint(checkpoint).clear()
        return made

    def _made(self, explainer: Explainer[Any], series: Series, checkpoint: Path | None = None) -> Run:
        """Fit an explainer that needs a fit and has none, and explain the series. A stopped fit goes on from its checkpoint."""
        started = time.perf_counter()
        if explainer.needs_fit and explainer.fitted_ is None:
            log.info("fitting %s on %d series", explainer.name, len(self.train))
            explainer.fit(self.train, progress=self.progress, checkpoint=checkpoint)
        fitted = time.perf_counter()
        with Peak(explainer.device) as peak:
            explanation = explainer.explain(series)
        return Run(explanation, (time.perf_counter() - fitted) / len(series), fitted - started, peak.megabytes)
