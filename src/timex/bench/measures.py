"""Measures of an explainer: which samples it explains, and how its explanations are scored.

Every measure explains its own samples, whatever else is measured in the same run. A value then depends on its own settings
alone, even for explainers that draw random numbers along the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timex.bench.store import Score
from timex.bench.tables import QUANTILES
from timex.metrics.landmarks import landmark_clusters, landmark_dtw
from timex.records import Dataset, Explanation, Series
from timex.reference.base import ReferenceModel
from timex.reference.evidence import gap
from timex.reference.train import predict_proba
from timex.registry import score

PANEL_SAMPLES = 3
MAX_EXPLAINED = 1000
"""Test samples explained at most, unless speed is measured: as many as the synthetic data sets have."""
CHUNK = 256
"""Samples on the device at once."""
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
        facts: Scores of the model, whether it passed the gate, seconds of its training.
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
    """Some test samples and their explanations, which are made at the first access."""

    fitted: Fitted
    part: Series
    absolute: bool = False
    explain_seconds: float = float("nan")

    @cached_property
    def explanation(self) -> Explanation:
        """The explanations."""
        started = time.perf_counter()
        explanation = self.fitted.explainer.explain(self.part)
        self.explain_seconds = time.perf_counter() - started
        return explanation

    @property
    def attribution(self) -> NDArray[np.float32]:
        """The attributions, without their sign if `absolute`."""
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


def where(part: Series) -> dict[str, Any]:
    """The times and observed cells of irregular series; nothing for regular ones."""
    return {} if part.regular else {"times": part.times, "observed": part.observed}


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
    """Every registered metric of the explanations, on series whose deciding cells are known."""
    part = subject.part
    samples = score(replace(subject.explanation, attribution=subject.attribution))
    scores = {name: Score.of(values) for name, values in samples.items()}
    if subject.fitted.data.name == "lowvar":
        scores |= {WITHOUT_FIRST + name: Score.of(values[part.labels != 0]) for name, values in samples.items()}
    if subject.explanation.agreement is not None:
        scores["agreement"] = Score.of(subject.explanation.agreement)
    scores["gap"] = Score.of(evidence_gap(subject))
    return Measured(scores)


@torch.no_grad()
def evidence_gap(subject: Subject) -> NDArray[np.float64]:
    """The share of the model's evidence in the highest cells less the share in the rest, (N,); no truth is needed.

    Hidden cells hold the mean of the training series.
    """
    fitted = subject.fitted
    model, mean = fitted.reference.to(fitted.device).eval(), torch.as_tensor(fitted.data.baseline.mean, device=fitted.device)
    attribution, found = torch.as_tensor(subject.attribution, device=fitted.device), []
    for start, part in zip(range(0, len(subject.part), CHUNK), subject.part.chunks(CHUNK), strict=True):
        found.append(_gap(model, part.tensors(fitted.device), attribution[start : start + CHUNK], mean).cpu())
    return torch.cat(found).double().numpy()


def _gap(model: ReferenceModel, part: dict[str, Tensor], attribution: Tensor, mean: Tensor) -> Tensor:
    x, times, observed = part["x"], part.get("times"), part.get("observed")
    fill = mean.expand_as(x) if observed is None else mean * observed
    return gap(lambda view: model(view, times, observed), x, attribution, fill, observed=observed)


def classification(subject: Subject) -> Measured:
    """How well the model itself classifies the test part."""
    facts = subject.fitted.facts
    scores = {name: Score(value) for name, value in facts["scores"]["test"].items()}
    return Measured(scores, {"passed": facts["passed"], "attempts": facts["attempts"]})


def occlusion(subject: Subject) -> Measured:
    """AUROC of the model when only the cells above a quantile of the attribution are left."""
    from timex.metrics.occlusion import occlusion_curve
    from timex.reference.predict import model_predict

    part, fitted = subject.part, subject.fitted
    curve = occlusion_curve(
        model_predict(fitted.reference, fitted.device, **where(part)),
        part.x,
        part.labels,
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
    e, fitted = subject.explanation, subject.fitted
    landmarks = fitted.explainer.landmarks
    groups = landmark_dtw(subject.part.x, e.attribution, _embedding(e), landmarks, seed=fitted.seed)
    scores = {f"{name}/dtw": Score.of(values) for name, values in groups.items()}
    return Measured(scores, {name: values.tolist() for name, values in groups.items()})


def landmarks_clusters(subject: Subject) -> Measured:
    """NMI, ARI and purity of nearest landmarks, K-means centres and random explanations with the labels."""
    fitted = subject.fitted
    train, test = _embedding(fitted.explainer.explain(fitted.data.train)), _embedding(subject.explanation)
    landmarks = fitted.explainer.landmarks.vectors
    groups = landmark_clusters(train, test, subject.part.labels, landmarks, seed=fitted.seed)
    return Measured({f"{group}/{name}": Score(v) for group, row in groups.items() for name, v in row.items()})


def forecasts(subject: Subject) -> Measured:
    """The error of the forecaster, and whether its forecasts depend on the cells with high attribution."""
    from timex.bench import forecasting

    fitted, x = subject.fitted, subject.part.x
    scores, shown, detail = forecasting.examine(
        x, subject.explanation.attribution, fitted.reference, fitted.data.baseline, fitted.device, fitted.seed
    )
    scores |= {name: Score(value) for name, value in fitted.facts["scores"]["test"].items()}
    return Measured(scores, detail, _taken(subject.explanation, shown))


def panel(subject: Subject) -> Measured:
    """No scores: explanations for a figure."""
    return Measured(keep=subject.explanation)


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


def _embedding(e: Explanation) -> NDArray[np.float32]:
    if e.embedding is None:
        raise ValueError(f"{e.method or 'This method'} gives no embeddings: leave it out of the landmark tables.")
    return e.embedding


def _taken(e: Explanation, index: NDArray[np.int64]) -> Explanation:
    """The explanations of some samples."""
    arrays: dict[str, Any] = {name: v[index] for name, v in vars(e).items() if isinstance(v, np.ndarray)}
    return replace(e, series=e.series.take(index), **arrays)
