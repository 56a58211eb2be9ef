"""What is measured of an explainer: which samples it explains, and the scores of its explanations of them.

Every measure explains its own choice of samples, whatever else is measured in the same run, so that a value depends on its own
settings alone, even for explainers that draw random numbers along the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.bench.store import Score
from timex.bench.tables import QUANTILES
from timex.metrics import ground_truth_scores
from timex.metrics.landmarks import landmark_clusters, landmark_dtw
from timex.reference.base import ReferenceModel
from timex.reference.train import predict_proba
from timex.types import Dataset, Explanation, Part, is_regular

PANEL_SAMPLES = 3
MAX_EXPLAINED = 1000
"""Test samples explained at most, where speed is not what is measured: as many as the synthetic data sets have."""
MAP_SAMPLES = 300
"""Explanations kept for the latent map."""
WITHOUT_FIRST = "without_class_0/"
"""Prefix of scores on LowVar without its class 0, as the published code takes them."""


@dataclass
class Fitted:
    """A fitted explainer of one model on one fold.

    Attributes:
        data: The data set.
        reference: The model.
        facts: What is known of the model: scores, whether it passed the gate, seconds.
        explainer: The explainer, or None when the model itself is measured.
        fit_seconds: Seconds to fit it; its share where several were fitted as one program.
        device: Where it runs.
        seed: Seed of draws.
    """

    data: Dataset
    reference: ReferenceModel
    facts: dict[str, Any]
    explainer: Any
    fit_seconds: float
    device: str
    seed: int


@dataclass
class Subject:
    """Explanations to be scored: those a fitted explainer gives of some test samples, made when first asked for."""

    fitted: Fitted
    part: Part
    absolute: bool = False
    explain_seconds: float = float("nan")

    @cached_property
    def explanation(self) -> Explanation:
        """The explanations, without their sign if so asked."""
        started = time.perf_counter()
        explanation = self.fitted.explainer.explain(self.part.x, **where(self.part))
        self.explain_seconds = time.perf_counter() - started
        return explanation

    @property
    def attribution(self) -> NDArray[np.float32]:
        """The attributions, without their sign if so asked."""
        return np.abs(self.explanation.attribution) if self.absolute else self.explanation.attribution


@dataclass(frozen=True)
class Measured:
    """Scores, small details, and explanations to keep for a figure."""

    scores: dict[str, Score] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    keep: Explanation | None = None


class Measure(NamedTuple):
    """Which test samples are explained, as indices, and how their explanations are scored."""

    samples: Callable[[Fitted], NDArray[np.int64]]
    score: Callable[[Subject], Measured]


def where(part: Part) -> dict[str, Any]:
    """The times and observed cells of a part, for explainers, only where they say something."""
    return {} if is_regular(part.times, part.observed) else {"times": part.times, "observed": part.observed}


# ------------------------------------------------------------------------------------------------------ which samples


def everything(fitted: Fitted) -> NDArray[np.int64]:
    """The whole test part."""
    return np.arange(len(fitted.data.test))


def known(fitted: Fitted) -> NDArray[np.int64]:
    """Test samples with a cell known to decide their class: class 0 of SeqComb has none."""
    truth = fitted.data.test.truth
    if truth is None:
        raise ValueError(f"{fitted.data.name} has no truth to score explanations against: leave it out of this table.")
    return _at_most(np.flatnonzero(truth.any(axis=(1, 2))), MAX_EXPLAINED, fitted.seed)


def last_class(fitted: Fitted) -> NDArray[np.int64]:
    """A few samples of the last class, those the model predicts rightly first."""
    test = fitted.data.test
    wrong = predict_proba(fitted.reference, test, fitted.device).argmax(1) != test.y
    members = np.flatnonzero(test.y == len(fitted.data.classes) - 1)
    return members[np.argsort(wrong[members], kind="stable")][:PANEL_SAMPLES]


def some(fitted: Fitted) -> NDArray[np.int64]:
    """Some of the test part, for a map."""
    return _at_most(everything(fitted), MAP_SAMPLES, fitted.seed)


def many(fitted: Fitted) -> NDArray[np.int64]:
    """The test part, or a random choice of it where it is large."""
    return _at_most(everything(fitted), MAX_EXPLAINED, fitted.seed)


def _at_most(index: NDArray[np.int64], n: int, seed: int) -> NDArray[np.int64]:
    """A random choice of `n` of the indices, in order; all if there are no more."""
    return index if len(index) <= n else np.sort(np.random.default_rng(seed).permutation(index)[:n])


# ------------------------------------------------------------------------------------------------------------- scores


def ground_truth(subject: Subject) -> Measured:
    """AUPRC, AUP, AUR and their relatives against the cells known to decide the class."""
    part = subject.part
    assert part.truth is not None
    samples = ground_truth_scores(subject.attribution, part.truth, part.observed)
    scores = {name: Score.of(values) for name, values in samples.items()}
    if subject.fitted.data.name == "lowvar":
        scores |= {WITHOUT_FIRST + name: Score.of(values[part.y != 0]) for name, values in samples.items()}
    if subject.explanation.agreement is not None:
        scores["agreement"] = Score.of(subject.explanation.agreement)
    return Measured(scores)


def classification(subject: Subject) -> Measured:
    """How well the model itself classifies the test part."""
    facts = subject.fitted.facts
    scores = {name: Score(value) for name, value in facts["scores"]["test"].items()}
    return Measured(scores, {"passed": facts["passed"], "attempts": facts["attempts"]})


def occlusion(subject: Subject) -> Measured:
    """AUROC of the model when only the cells above a quantile of the attribution are left."""
    from timex.metrics.occlusion import model_predict, occlusion_curve

    part, fitted = subject.part, subject.fitted
    curve = occlusion_curve(
        model_predict(fitted.reference, fitted.device, **where(part)),
        part.x,
        part.y,
        subject.attribution,
        fitted.data.baseline,
        thresholds=QUANTILES,
        observed=where(part).get("observed"),
        seed=fitted.seed,
    )
    return Measured({f"{q:g}": Score(float(v)) for q, v in zip(QUANTILES, curve["auroc"], strict=True)})


def runtime(subject: Subject) -> Measured:
    """Seconds to fit, and to explain the test part."""
    n = len(subject.explanation)
    scores = {"fit_seconds": Score(subject.fitted.fit_seconds), "explain_seconds": Score(subject.explain_seconds)}
    return Measured(scores, {"explained": n})


def landmarks_dtw(subject: Subject) -> Measured:
    """DTW within groups of explanations around landmarks, and within random groups."""
    e = subject.explanation
    assert e.embedding is not None
    groups = landmark_dtw(e.x, e.attribution, e.embedding, subject.fitted.explainer.landmarks, seed=subject.fitted.seed)
    scores = {f"{name}/dtw": Score.of(values) for name, values in groups.items()}
    return Measured(scores, {name: values.tolist() for name, values in groups.items()})


def landmarks_clusters(subject: Subject) -> Measured:
    """NMI, ARI and purity of nearest landmarks, K-means centres and random explanations with the labels."""
    fitted, test = subject.fitted, subject.explanation
    train = fitted.explainer.explain(fitted.data.train.x, **where(fitted.data.train))
    assert train.embedding is not None
    assert test.embedding is not None
    landmarks = fitted.explainer.landmarks.vectors
    groups = landmark_clusters(train.embedding, test.embedding, subject.part.y, landmarks, seed=fitted.seed)
    return Measured({f"{group}/{name}": Score(v) for group, row in groups.items() for name, v in row.items()})


def forecasts(subject: Subject) -> Measured:
    """How well the forecaster forecasts, and whether the cells called important are those its forecasts rest on."""
    from timex.bench import forecasting

    fitted = subject.fitted
    scores, shown, detail = forecasting.examine(
        subject.explanation, fitted.reference, fitted.data.baseline, fitted.device, fitted.seed
    )
    scores |= {name: Score(value) for name, value in fitted.facts["scores"]["test"].items()}
    return Measured(scores, detail, _taken(subject.explanation, shown))


def panel(subject: Subject) -> Measured:
    """Nothing to score: explanations for a figure, with the cells known to decide the class."""
    truth = subject.part.truth
    cells = None if truth is None else [np.argwhere(sample).tolist() for sample in truth]
    return Measured({}, {"truth": cells}, subject.explanation)


def landmark_map(subject: Subject) -> Measured:
    """Explanations with their embeddings, for the latent map."""
    found = subject.fitted.explainer.landmarks.filtered()
    return Measured({"landmarks": Score(len(found))}, {}, subject.explanation)


MEASURES: dict[str, Measure] = {
    "ground_truth": Measure(known, ground_truth),
    "classification": Measure(everything, classification),
    "occlusion": Measure(many, occlusion),
    "runtime": Measure(everything, runtime),
    "landmarks_dtw": Measure(many, landmarks_dtw),
    "landmarks_clusters": Measure(everything, landmarks_clusters),
    "forecast": Measure(many, forecasts),
    "panel": Measure(last_class, panel),
    "landmark_map": Measure(some, landmark_map),
}
"""Every measure by the name tables use."""


def _taken(e: Explanation, index: NDArray[np.int64]) -> Explanation:
    """The explanations of some samples."""
    arrays: dict[str, Any] = {name: v[index] for name, v in vars(e).items() if isinstance(v, np.ndarray)}
    return replace(e, **arrays)
