"""The interactive page: explanations, landmarks and scores in one HTML file that opens from disk, without a network.

`page.html`, `page.css` and `page.js` beside this file are the page; this module chooses what goes into it and packs it small.
Every array is quantised, deflated and written as base64 into a data block of its own, so that the page can draw its map before
it has unpacked the series.

Shapes: N explanations handed in, n of them embedded, T time steps, S columns to draw, D channels, C classes, Z the width of the
embedding, L landmarks. Packed arrays are channel by channel, (n, D, S): a lane to draw is one contiguous run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.report import style
from timex.report.geometry import principal_plane, unit
from timex.report.packing import FINE, LEVELS, Columns, bits, colour_scale, quantise
from timex.types import Explanation, atomic_path, check_labels

if TYPE_CHECKING:
    import pandas as pd

    from timex.method.landmarks import Landmarks

LIMIT = 20_000
"""Explanations embedded at most."""
BUDGET = 25_000_000
"""Bytes of the file at most; fewer explanations are embedded where they would need more."""
NEAREST = 8
"""Neighbours listed for every explanation and every landmark."""
FEATURES = 512
"""Width of the stand-in for an embedding, for methods that have none."""
STRETCH = 3.0
"""How much one axis of the map may be drawn larger than the other."""

Projection = Literal["auto", "pca", "umap"]
Arrays = dict[str, NDArray[Any]]


def write_report(
    path: str | Path,
    explanations: Mapping[str, Explanation] | Explanation,
    *,
    landmarks: Landmarks | None = None,
    truth: ArrayLike | None = None,
    y: ArrayLike | None = None,
    ids: Sequence[str] = (),
    scores: Mapping[str, Mapping[str, Any]] | None = None,
    occlusion: Mapping[str, Mapping[float, float]] | None = None,
    history: pd.DataFrame | Sequence[Mapping[str, Any]] | None = None,
    title: str = "Explanations",
    projection: Projection = "auto",
) -> Path:
    """Write explanations as one interactive HTML file.

    Args:
        path: The file to write, ending in .html.
        explanations: By the name of the method, all of the same samples; the first one gives map, names and predictions.
        landmarks: The landmarks of the explainer that gave the first.
        truth: Cells known to decide the class, (N, T, D).
        y: True classes, (N,).
        ids: Names of the samples; their numbers otherwise.
        scores: Metrics by method, as `timex evaluate` writes them.
        occlusion: By method, the score that is left when all but the most important cells are hidden, by the quantile kept.
        history: A row per epoch, as `TimeX.history` gives it.
        title: Heading of the page.
        projection: How the map is made: "umap", "pca", or "auto" for UMAP where umap-learn is installed.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> e = Explanation(np.zeros((3, 5, 2)), np.ones((3, 5, 2)), np.zeros(3, int), np.full((3, 2), 0.5))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(f"{folder}/report.html", e).stat().st_size < 200_000
        True
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"Expected a file name that ends in .html, got {target.name!r}.")
    named = {explanations.method or "explanation": explanations} if isinstance(explanations, Explanation) else explanations
    source = _Source.of(named, landmarks, truth, y, ids)
    shared = {
        "title": title,
        "scores": _plain(scores or {}),
        "occlusion": {name: [[float(q), float(v)] for q, v in sorted(c.items())] for name, c in (occlusion or {}).items()},
        "history": _history(history),
    }
    text = _within_budget(source, shared, projection)
    with atomic_path(target) as beside:
        beside.write_text(text, encoding="utf-8")
    return target


# ------------------------------------------------------------------------------------------------------ what came, checked


@dataclass(frozen=True)
class _Source:
    """Everything handed in about the samples, checked."""

    methods: dict[str, Explanation]
    landmarks: Landmarks | None
    truth: NDArray[np.bool_] | None
    y: NDArray[np.int64] | None
    ids: tuple[str, ...]

    @classmethod
    def of(
        cls,
        methods: Mapping[str, Explanation],
        landmarks: Landmarks | None,
        truth: ArrayLike | None,
        y: ArrayLike | None,
        ids: Sequence[str],
    ) -> _Source:
        first = check_same_samples(methods)
        n = len(first)
        if n == 0:
            raise ValueError("Expected at least one explained sample, got none.")
        cells = None if truth is None else np.asarray(truth, dtype=bool)
        if cells is not None and cells.shape != first.x.shape:
            raise ValueError(f"Expected truth of the shape of x, {first.x.shape}, got {cells.shape}.")
        labels = None if y is None else check_labels(y, n)
        if len(ids) not in (0, n):
            raise ValueError(f"Expected a name for each of the {n} samples, got {len(ids)}.")
        if landmarks is not None and (first.embedding is None or first.embedding.shape[1] != landmarks.vectors.shape[1]):
            raise ValueError(
                "Expected landmarks of the explainer that gave the first explanations, as wide as its embeddings: got "
                f"{landmarks.vectors.shape[1]} and {None if first.embedding is None else first.embedding.shape[1]}."
            )
        return cls(dict(methods), landmarks, cells, labels, tuple(str(name) for name in ids))

    @property
    def first(self) -> Explanation:
        return next(iter(self.methods.values()))


def check_same_samples(methods: Mapping[str, Explanation]) -> Explanation:
    """The first of several explanations, or a `ValueError` if they are not of the same samples."""
    if not methods:
        raise ValueError("Expected the explanations of at least one method, got none.")
    name, first = next(iter(methods.items()))
    for other, e in list(methods.items())[1:]:
        if e.x.shape != first.x.shape:
            raise ValueError(
                f"Expected explanations of the same samples, got x of {first.x.shape} in {name}, {e.x.shape} in {other}."
            )
        differs = ~np.isclose(e.x, first.x, equal_nan=True).all(axis=(1, 2))
        if differs.any():
            raise ValueError(
                f"Expected explanations of the same samples, got another series at {int(differs.argmax())} in {other} than "
                f"in {name}."
            )
    return first


# ---------------------------------------------------------------------------------------------------- how many, and which


def _within_budget(source: _Source, shared: dict[str, Any], projection: Projection) -> str:
    """The page with as many explanations as its size allows: a few are packed first to learn what one weighs."""
    n = min(len(source.first), LIMIT)
    probe = _choose(source, min(n, 50))
    arrays, _ = _samples(source, probe)
    weight = sum(len(_encoded(a)) for a in arrays.values()) / len(probe)
    n = min(n, max(1, int(0.95 * BUDGET / weight)))
    while True:
        text = _page(source, _choose(source, n), shared, projection)
        if len(text) <= BUDGET or n == 1:
            return text
        n = max(1, int(0.95 * n * BUDGET / len(text)))


def _choose(source: _Source, n: int) -> NDArray[np.int64]:
    """`n` samples in order, the strata (class, landmark, right or wrong) in proportion and none left out while n allows it."""
    e = source.first
    if n >= len(e):
        return np.arange(len(e))
    parts = [e.prediction, np.zeros_like(e.prediction) if e.landmark is None else e.landmark]
    if source.y is not None:
        parts.append(e.probability.argmax(axis=1) == source.y)
    _, stratum = np.unique(np.stack(parts), axis=1, return_inverse=True)
    order = np.random.default_rng(0).permutation(len(e))
    order = order[np.argsort(stratum[order], kind="stable")]
    sizes = np.bincount(stratum)
    rank = np.arange(len(e)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    share = rank / np.repeat(sizes, sizes)  # 0 for the first of every stratum
    return np.sort(order[np.argsort(share, kind="stable")[:n]])


# ---------------------------------------------------------------------------------------------------------------- packing


def _samples(source: _Source, chosen: NDArray[np.int64]) -> tuple[Arrays, dict[str, Any]]:
    """The series and attributions of the chosen samples, quantised, and what is needed to read them."""
    e = source.first
    columns = Columns.of(e, chosen)
    arrays: Arrays = {}
    low, high = columns.envelope(e.x[chosen])  # (n, D, S) each
    seen = columns.observed
    with np.errstate(invalid="ignore"):
        bottom = np.where(seen, low, np.inf).min(axis=2)
        top = np.where(seen, high, -np.inf).max(axis=2)
    empty = ~seen.any(axis=2)
    bottom, top = np.where(empty, 0.0, bottom), np.where(empty, 1.0, top)  # (n, D)
    arrays["range"] = np.stack([bottom, top], axis=2).astype(np.float32)
    arrays["low"] = quantise(low, bottom[..., None], top[..., None], FINE, np.uint16)
    if columns.width > 1:
        arrays["high"] = quantise(high, bottom[..., None], top[..., None], FINE, np.uint16)
    if not seen.all():
        arrays["observed"] = bits(seen)
    if columns.times.ndim == 2:
        arrays["times"] = columns.times.astype(np.float32)
        arrays["length"] = columns.length.astype(np.uint16)
    if source.truth is not None:
        arrays["truth"] = bits(columns.any(source.truth[chosen]))
    methods = []
    for j, (name, explained) in enumerate(source.methods.items()):
        attribution = columns.strongest(explained.attribution[chosen])
        floor, ceiling = colour_scale(explained, attribution)  # (n,) each
        arrays[f"attribution-{j}"] = quantise(attribution, floor[:, None, None], ceiling[:, None, None], LEVELS, np.uint8)
        arrays[f"scale-{j}"] = np.stack([floor, ceiling], axis=1).astype(np.float32)
        if explained.mask is not None:
            arrays[f"mask-{j}"] = bits(columns.any(explained.mask[chosen]))
        methods.append({"name": name, "signed": explained.signed, "mask": explained.mask is not None})
    facts = {
        "methods": methods,
        "steps": e.x.shape[1],
        "columns": columns.observed.shape[2],
        "width": columns.width,
        "times": None if columns.times.ndim == 2 else columns.times.tolist(),
        "timeName": columns.time_name,
    }
    return arrays, facts


# ------------------------------------------------------------------------------------------------------ the map and around


def _overview(
    source: _Source, chosen: NDArray[np.int64], series: Arrays, projection: Projection
) -> tuple[Arrays, dict[str, Any]]:
    """Where every explanation lies, what it says in brief, and its neighbours; landmarks likewise."""
    e = source.first
    arrays: Arrays = {
        "sample": chosen.astype(np.uint32),
        "prediction": e.prediction[chosen].astype(np.uint16),
        "probability": quantise(e.probability[chosen], np.zeros(1), np.ones(1), FINE, np.uint16),
    }
    if source.y is not None:
        arrays["label"] = source.y[chosen].astype(np.uint16)
        arrays["correct"] = (e.probability[chosen].argmax(axis=1) == source.y[chosen]).astype(np.uint8)
    if e.landmark is not None:
        arrays["landmark"] = e.landmark[chosen].astype(np.uint16)
    if e.agreement is not None:
        arrays["agreement"] = e.agreement[chosen].astype(np.uint8)
    if e.divergence is not None:
        arrays["divergence"] = e.divergence[chosen].astype(np.float32)
    points = _features(series["attribution-0"]) if e.embedding is None else unit(e.embedding[chosen])
    ranked = _ranked(source, chosen)
    vectors = unit(source.landmarks.vectors[ranked]) if source.landmarks is not None else np.zeros((0, points.shape[1]))
    place, kind, share = _project(points, vectors, projection)
    arrays["place"] = place[: len(points)].astype(np.float32)
    arrays["nearest"] = _nearest(points, points, NEAREST, itself=True).astype(np.uint16)
    facts = {
        "projection": {"kind": kind, "share": share, "of": "attributions" if e.embedding is None else "explanations"},
        "landmarks": _landmark_facts(source, ranked, _nearest(vectors, points, NEAREST), place[len(points) :]),
    }
    return arrays, facts


def _features(attribution: NDArray[np.uint8]) -> NDArray[np.float64]:
    """A stand-in for the embedding of methods without one: attributions (n, D, S), the largest of every span of columns."""
    n, d, s = attribution.shape
    starts = np.arange(0, s, math.ceil(s / max(1, FEATURES // d)))
    return np.maximum.reduceat(attribution, starts, axis=2).reshape(n, -1) / LEVELS


def _project(
    points: NDArray[np.float64], vectors: NDArray[np.float64], projection: Projection
) -> tuple[NDArray[np.float64], str, list[float]]:
    """Points (n, Z) and landmarks (L, Z) in one plane, scaled to fill the unit square, (n + L, 2)."""
    if projection not in ("auto", "pca", "umap"):
        raise ValueError(f"Expected projection 'auto', 'pca' or 'umap', got {projection!r}.")
    umap = _umap() if projection != "pca" else None
    if projection == "umap" and umap is None:
        raise ValueError(
            "Expected umap-learn for projection='umap', got none: pip install 'timex-explain[embed]', or use 'pca'."
        )
    share: list[float] = []
    if umap is not None and len(points) >= 20:
        both = np.concatenate([points, vectors])
        place = umap(n_neighbors=15, metric="cosine", random_state=0, n_jobs=1).fit_transform(both)
        kind = "UMAP"
    else:
        plane = principal_plane(points)
        place = np.concatenate([plane.place(points), plane.place(vectors)])
        kind, share = "PCA", plane.share.tolist()
    low, high = place.min(axis=0), place.max(axis=0)
    span = high - low
    # a second component that is far smaller than the first would make the map a line: it is stretched, up to STRETCH
    span = np.maximum(span, span.max() / STRETCH) if span.max() > 0 else np.ones(2)
    return (place - (low + high) / 2) / span + 0.5, kind, share


def _umap() -> Any:
    """UMAP's class, or None where umap-learn is not installed."""
    try:
        from umap import UMAP
    except ImportError:
        return None
    return UMAP


def _nearest(points: NDArray[np.float64], others: NDArray[np.float64], k: int, itself: bool = False) -> NDArray[np.int64]:
    """The k of `others` with the largest inner product with each point, best first, without the point itself if it is there."""
    k = min(k, len(others) - itself)
    if k < 1:
        return np.zeros((len(points), 0), dtype=np.int64)
    table = others.astype(np.float32).T
    found = np.empty((len(points), k), dtype=np.int64)
    for start in range(0, len(points), 1024):
        s = points[start : start + 1024].astype(np.float32) @ table
        if itself:
            s[np.arange(len(s)), np.arange(start, start + len(s))] = -np.inf
        top = np.argpartition(-s, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(s, top, axis=1), axis=1, kind="stable")
        found[start : start + 1024] = np.take_along_axis(top, order, axis=1)
    return found


def _ranked(source: _Source, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Landmarks in use, those of most training explanations first; of most explanations where nothing is known of training."""
    e = source.first
    if e.landmark is None:
        return np.zeros(0, dtype=np.int64)
    if source.landmarks is None:
        numbers, counts = np.unique(e.landmark, return_counts=True)
        return numbers[np.argsort(-counts, kind="stable")]
    used = np.union1d(e.landmark[chosen], np.flatnonzero(source.landmarks.counts))
    return np.array([m for m in source.landmarks.ranking() if m in used], dtype=np.int64)


def _landmark_facts(
    source: _Source, ranked: NDArray[np.int64], nearest: NDArray[np.int64], place: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """What the page says of every landmark; of those that only explanations name, their number and rank."""
    facts: list[dict[str, Any]] = [{"number": int(m), "rank": r} for r, m in enumerate(ranked, 1)]
    if source.landmarks is not None:
        for fact, m, near, where in zip(facts, ranked, nearest, place, strict=True):
            fact |= {
                "count": int(source.landmarks.counts[m]),
                "composition": source.landmarks.composition[m].tolist(),
                "place": where.tolist(),
                "nearest": near.tolist(),
            }
    return facts


# --------------------------------------------------------------------------------------------------------------- the file


def _page(source: _Source, chosen: NDArray[np.int64], shared: dict[str, Any], projection: Projection) -> str:
    series, series_facts = _samples(source, chosen)
    overview, overview_facts = _overview(source, chosen, series, projection)
    e = source.first
    n_classes = max(e.probability.shape[1], len(e.classes), 0 if source.y is None else int(source.y.max()) + 1)
    meta = {
        **shared,
        **series_facts,
        **overview_facts,
        "total": len(e),
        "count": len(chosen),
        "limit": LIMIT,
        "channels": list(e.channels) or [f"channel {k}" for k in range(e.x.shape[2])],
        "classes": [e.classes[c] if c < len(e.classes) else f"class {c}" for c in range(n_classes)],
        "modelClasses": e.probability.shape[1],
        "ids": [source.ids[i] for i in chosen] if source.ids else None,
        "neighbours": overview["nearest"].shape[1],
        "overview": list(overview),
        "arrays": {name: a.dtype.name for name, a in {**overview, **series}.items()},
        "levels": LEVELS,
        "fine": FINE,
        "style": {
            "classes": style.OKABE_ITO,
            "markers": style.MARKERS,
            "truth": style.TRUTH,
            "light": {"sequential": style.SEQUENTIAL, "diverging": style.DIVERGING},
            "dark": {"sequential": style.SEQUENTIAL_DARK, "diverging": style.DIVERGING_DARK},
        },
    }
    facts = f'<script type="application/json" id="meta">{_json(meta)}</script>\n'
    return _filled(meta["title"], facts + _blocks(overview), _blocks(series))


def _blocks(arrays: Arrays) -> str:
    return "\n".join(f'<script type="text/plain" id="array-{name}">{_encoded(a)}</script>' for name, a in arrays.items())


def _filled(title: str, overview: str, series: str) -> str:
    """The template with everything in its place, in one pass: what is put in is never searched for places again."""
    folder = Path(__file__).parent
    css, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    # Only our own script and style may run, and nothing may be fetched: markup that slipped in could do nothing.
    policy = f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(css)}; base-uri 'none'; form-action 'none'"
    places = {
        "title": html.escape(title),
        "css": css,
        "script": script,
        "overview": overview,
        "series": series,  # after the script: it draws the map while the browser still reads these
        "policy": policy,
    }
    template = (folder / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: places[match[1]], template)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _encoded(array: NDArray[Any]) -> str:
    """Little-endian, deflated, as base64; of two-byte numbers all low bytes first, which are noise, then all high ones."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    if little.itemsize == 2:
        little = np.ascontiguousarray(little.reshape(-1).view(np.uint8).reshape(-1, 2).T)
    return base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()


def _json(value: Any) -> str:
    """JSON that cannot end the script block it stands in, whatever a channel is called."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any) -> Any:
    """Mappings and numbers as JSON knows them; a number that is not finite becomes nothing."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value if value is None else str(value)


def _history(history: pd.DataFrame | Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """The curves of a training by panel, with their epochs and the one that was selected."""
    if history is None or len(history) == 0:
        return None
    rows = [dict(row) for row in (history if isinstance(history, Sequence) else history.to_dict("records"))]
    panels = []
    for name, columns in style.HISTORY.items():
        known = {label: _plain([row.get(c) for row in rows]) for c, label in columns.items() if any(c in row for row in rows)}
        if known:
            panels.append({"title": name, "curves": known})
    selected = [row.get("epoch", j) for j, row in enumerate(rows) if row.get("selected")]
    return {
        "epochs": _plain([row.get("epoch", j) for j, row in enumerate(rows)]),
        "selected": _plain(selected[0]) if selected else None,
        "panels": panels,
    }
