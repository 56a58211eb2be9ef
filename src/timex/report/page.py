"""The interactive page: explanations, landmarks and scores in one HTML file that opens from disk, without a network.

This module chooses what goes into the file, `embed` packs it, and `template` joins it with the scripts in the folder `page`.

Shapes: N explanations, n of them embedded, T time steps, D channels, C classes, Z the width of the embedding, L landmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from timex.io.atomic import atomic_path
from timex.metrics.landmarks import unit
from timex.records import Explanation
from timex.report import overview, style
from timex.report.embed import FINE, LEVELS, SPANS, Arrays, Columns, encode, pack_method, pack_series, quantise
from timex.report.places import Projection, features, nearest, project
from timex.report.samples import channel_names, check_same_samples, class_name
from timex.report.scores import CONTROLS, METRIC_TITLES
from timex.report.template import filled, plain

if TYPE_CHECKING:
    import pandas as pd

    from timex.method.landmarks import Landmarks

LIMIT = 20_000
"""Explanations embedded at most."""
BUDGET = 25_000_000
"""Bytes of the file at most. Fewer explanations are embedded if they would need more."""
NEAREST = 8
"""Neighbours listed for every explanation and every landmark."""


def write_report(
    path: str | Path,
    explanations: Mapping[str, Explanation] | Explanation,
    *,
    landmarks: Landmarks | None = None,
    prior: float | None = None,
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    occlusion: Mapping[str, Mapping[float, float]] | None = None,
    history: pd.DataFrame | Sequence[Mapping[str, Any]] | None = None,
    check: Mapping[str, Any] | None = None,
    stability: Sequence[float] | None = None,
    title: str = "Explanations",
    projection: Projection = "auto",
) -> Path:
    """Write explanations as one interactive HTML file.

    Labels, known cells, times and names of the samples come from the explanations' own series.

    Args:
        path: The file to write, ending in .html.
        explanations: By the name of the method, all of the same samples. The first gives map, names and predictions.
        landmarks: The landmarks of the explainer that gave the first.
        prior: The prior probability that a cell is kept (`loss.r` of the paper's objective); values up to it have no colour.
        scores: Metrics by method, as `timex evaluate` writes them.
        occlusion: By method, the model's score on the cells left, by the share of cells hidden.
        history: A row per epoch, as `TimeX.history` gives it.
        check: What `explainer.check(...).to_dict()` gives: the verdict, and what hiding cells showed.
        stability: For every sample, the rank correlation of its explanation before and after small noise, from
            `timex.metrics.stability`.
        title: Heading of the page.
        projection: How the map is made: "umap", "pca", or "auto" for UMAP if umap-learn is installed.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> from timex import Series
        >>> given = {"prediction": np.zeros(3, int), "probability": np.full((3, 2), 0.5)}
        >>> e = Explanation(series=Series(np.zeros((3, 5, 2))), attribution=np.ones((3, 5, 2)), **given)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(f"{folder}/report.html", e).stat().st_size < 200_000
        True
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"Expected a file name that ends in .html, got {target.name!r}.")
    named = {explanations.method or "explanation": explanations} if isinstance(explanations, Explanation) else explanations
    source = _Source.of(named, landmarks, stability)
    shared = {
        "title": title,
        "prior": prior or 0.0,
        **_score_facts(scores or {}),
        "occlusion": {name: [[float(q), float(v)] for q, v in sorted(c.items())] for name, c in (occlusion or {}).items()},
        "history": _history(history),
        "check": plain(overview.checked(check)),
    }
    text = _within_budget(source, shared, projection)
    with atomic_path(target) as beside:
        beside.write_text(text, encoding="utf-8")
    return target


@dataclass(frozen=True)
class _Source:
    """The explanations by method, and the landmarks of the first, checked."""

    methods: dict[str, Explanation]
    landmarks: Landmarks | None
    stability: NDArray[np.float32] | None

    @classmethod
    def of(
        cls, methods: Mapping[str, Explanation], landmarks: Landmarks | None, stability: Sequence[float] | None = None
    ) -> _Source:
        first = check_same_samples(methods)
        if landmarks is not None and (first.embedding is None or first.embedding.shape[1] != landmarks.vectors.shape[1]):
            raise ValueError(
                "Expected landmarks of the explainer that gave the first explanations, as wide as its embeddings, got "
                f"{landmarks.vectors.shape[1]} and {None if first.embedding is None else first.embedding.shape[1]}."
            )
        steady = None if stability is None else np.asarray(stability, dtype=np.float32)
        if steady is not None and steady.shape != (len(first),):
            raise ValueError(f"Expected the stability of each of {len(first)} samples, got values of shape {steady.shape}.")
        return cls(dict(methods), landmarks, steady)

    @property
    def first(self) -> Explanation:
        return next(iter(self.methods.values()))


# ---------------------------------------------------------------------------------------------------- how many, and which


def _within_budget(source: _Source, shared: dict[str, Any], projection: Projection) -> str:
    """The page with as many explanations as its size allows. Packing a few first estimates the size of one."""
    n = min(len(source.first), LIMIT)
    probe = _choose(source.first, min(n, 50))
    arrays, _ = _pack(source, probe)
    weight = sum(len(encode(a)) for a in arrays.values()) / len(probe)
    n = min(n, max(1, int(0.95 * BUDGET / weight)))
    while True:
        text = _page(source, _choose(source.first, n), shared, projection)
        if len(text) <= BUDGET or n == 1:
            return text
        n = max(1, int(0.95 * n * BUDGET / len(text)))


def _choose(e: Explanation, n: int) -> NDArray[np.int64]:
    """`n` samples in order: every stratum (class, landmark, right or wrong) in proportion, at least one of each if n allows."""
    if n >= len(e):
        return np.arange(len(e))
    parts = [e.prediction, np.zeros_like(e.prediction) if e.landmark is None else e.landmark]
    if e.series.y is not None:
        parts.append(e.probability.argmax(axis=1) == e.series.y)
    _, stratum = np.unique(np.stack(parts), axis=1, return_inverse=True)
    order = np.random.default_rng(0).permutation(len(e))
    order = order[np.argsort(stratum[order], kind="stable")]
    sizes = np.bincount(stratum)
    rank = np.arange(len(e)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    share = rank / np.repeat(sizes, sizes)  # 0 for the first of every stratum
    return np.sort(order[np.argsort(share, kind="stable")[:n]])


# ------------------------------------------------------------------------------------------------------ what is in the file


def _page(source: _Source, chosen: NDArray[np.int64], shared: dict[str, Any], projection: Projection) -> str:
    """The whole file."""
    series, series_facts = _pack(source, chosen)
    early, early_facts = _early(source, chosen, series, projection)
    e = source.first
    n_classes = max(e.probability.shape[1], len(e.classes), 0 if e.series.y is None else int(e.series.y.max()) + 1)
    meta = {
        **shared,
        **series_facts,
        **early_facts,
        "summary": overview.summary(e, shared["prior"]),
        "total": len(e),
        "count": len(chosen),
        "channels": list(channel_names(e)),
        "classes": [class_name(e, c) for c in range(n_classes)],
        "modelClasses": e.probability.shape[1],
        "ids": [e.series.ids[i] for i in chosen] if e.series.ids else None,
        "early": list(early),
        "arrays": {name: a.dtype.name for name, a in {**early, **series}.items()},
        "levels": LEVELS,
        "fine": FINE,
        "spans": SPANS,
        "neighbours": early["nearest"].shape[1],
        "style": {
            "classes": style.OKABE_ITO,
            "markers": style.MARKERS,
            "truth": style.TRUTH,
            "light": {"sequential": style.SEQUENTIAL, "diverging": style.DIVERGING},
            "dark": {"sequential": style.SEQUENTIAL_DARK, "diverging": style.DIVERGING_DARK},
        },
    }
    return filled(meta, early, series)


def _pack(source: _Source, chosen: NDArray[np.int64]) -> tuple[Arrays, dict[str, Any]]:
    """The series and attributions of the chosen samples, quantised, and the facts needed to read them."""
    e = source.first
    columns = Columns.of(e, chosen)
    arrays = pack_series(e, columns, chosen)
    methods = []
    for j, (name, explained) in enumerate(source.methods.items()):
        packed, facts = pack_method(explained, columns, chosen, name, j)
        arrays |= packed
        methods.append(facts)
    return arrays, {
        "methods": methods,
        "steps": e.x.shape[1],
        "columns": columns.observed.shape[2],
        "width": columns.width,
        "times": None if columns.times.ndim == 2 else columns.times.tolist(),
        "clock": columns.clock._asdict(),
    }


def _early(source: _Source, chosen: NDArray[np.int64], series: Arrays, projection: Projection) -> tuple[Arrays, dict[str, Any]]:
    """What the page needs first: the place of every explanation, its classes and trust, its neighbours; landmarks likewise."""
    e = source.first
    arrays: Arrays = {
        "sample": chosen.astype(np.uint32),
        "prediction": e.prediction[chosen].astype(np.uint16),
        "probability": quantise(e.probability[chosen], np.zeros(1), np.ones(1), FINE, np.uint16),
    }
    if e.series.y is not None:
        arrays["label"] = e.series.y[chosen].astype(np.uint16)
        arrays["correct"] = (e.probability[chosen].argmax(axis=1) == e.series.y[chosen]).astype(np.uint8)
    if e.landmark is not None:
        arrays["landmark"] = e.landmark[chosen].astype(np.uint16)
    if (trust := overview.trust_of(e)) is not None:
        arrays["trust"] = trust[chosen]
    if e.agreement is not None:
        arrays["agreement"] = e.agreement[chosen].astype(np.uint8)
    if e.unfamiliar is not None:
        arrays["unfamiliar"] = e.unfamiliar[chosen].astype(np.uint8)
    if e.divergence is not None:
        arrays["divergence"] = e.divergence[chosen].astype(np.float32)
    if source.stability is not None:
        arrays["stability"] = source.stability[chosen]
    if e.mask is not None:
        arrays["kept"] = overview.kept_share(e)[chosen].astype(np.float32)
    points = features(series["attribution-0"]) if e.embedding is None else unit(e.embedding[chosen])
    ranked = _ranked(source, chosen)
    vectors = unit(source.landmarks.vectors[ranked]) if source.landmarks is not None else np.zeros((0, points.shape[1]))
    drawn = project(points, vectors, projection)
    arrays["place"] = drawn.place[: len(points)].astype(np.float32)
    arrays["nearest"] = nearest(points, points, NEAREST, exclude_self=True).astype(np.uint16)
    of = "attributions" if e.embedding is None else "explanations"
    return arrays, {
        "projection": {"kind": drawn.kind, "share": drawn.share, "of": of},
        "landmarks": _landmark_facts(
            source, ranked, _exemplars(source, chosen, ranked, vectors, points), drawn.place[len(points) :]
        ),
        "perClass": overview.class_rows(e, chosen, points),
        "targets": bool((e.probability.argmax(axis=1) != e.prediction).any()),
    }


def _ranked(source: _Source, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the landmarks in use, by falling number of training explanations, or of explanations if those are unknown."""
    e = source.first
    if e.landmark is None:
        return np.zeros(0, dtype=np.int64)
    if source.landmarks is None:
        numbers, counts = np.unique(e.landmark, return_counts=True)
        return numbers[np.argsort(-counts, kind="stable")]
    used = np.union1d(e.landmark[chosen], np.flatnonzero(source.landmarks.counts))
    return np.array([m for m in source.landmarks.ranking() if m in used], dtype=np.int64)


def _exemplars(
    source: _Source,
    chosen: NDArray[np.int64],
    ranked: NDArray[np.int64],
    vectors: NDArray[np.float64],
    points: NDArray[np.float64],
) -> list[NDArray[np.int64]]:
    """For every landmark its most similar members: explanations in the page whose nearest landmark it is."""
    if source.landmarks is None or source.first.landmark is None:
        return []
    here = source.first.landmark[chosen]
    members = [np.flatnonzero(here == m) for m in ranked]
    return [m[np.argsort(-(points[m] @ v), kind="stable")[:NEAREST]] for m, v in zip(members, vectors, strict=True)]


def _landmark_facts(
    source: _Source, ranked: NDArray[np.int64], near: Sequence[NDArray[np.int64]], place: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Number and rank of every landmark, and its training explanations, place and neighbours if the landmarks are given."""
    facts: list[dict[str, Any]] = [{"number": int(m), "rank": r} for r, m in enumerate(ranked, 1)]
    if source.landmarks is not None:
        for fact, m, neighbours, where in zip(facts, ranked, near, place, strict=True):
            fact |= {
                "count": int(source.landmarks.counts[m]),
                "composition": source.landmarks.composition[m].tolist(),
                "place": where.tolist(),
                "nearest": neighbours.tolist(),
            }
    return facts


def _score_facts(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The scores, and how to read their columns."""
    used = {metric for row in scores.values() for metric in row}
    return {
        "scores": plain(scores),
        "metrics": {name: metric._asdict() for name, metric in METRIC_TITLES.items() if name in used},
        "controls": CONTROLS,
    }


def _history(history: pd.DataFrame | Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """The curves of a training by panel, with their epochs and the selected one."""
    if history is None or len(history) == 0:
        return None
    rows = [dict(row) for row in (history if isinstance(history, Sequence) else history.to_dict("records"))]
    panels = []
    for name, columns in style.HISTORY.items():
        known = {label: plain([row.get(c) for row in rows]) for c, label in columns.items() if any(c in row for row in rows)}
        if known:
            panels.append({"title": name, "curves": known})
    selected = [row.get("epoch", j) for j, row in enumerate(rows) if row.get("selected")]
    return {
        "epochs": plain([row.get("epoch", j) for j, row in enumerate(rows)]),
        "selected": plain(selected[0]) if selected else None,
        "panels": panels,
    }
