"""The facts of the page's first tab: how far to trust the explanations, and what matters for each class.

Shapes: N explanations, n of them embedded in the page, D channels, Z the width of the embedding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.records import Explanation

EMPTY, WEAK, TRUSTED, UNCHECKED = range(4)
"""Trust in one explanation: no cell kept, surrogate disagrees, surrogate agrees, or no surrogate to ask."""


def trust_of(e: Explanation) -> NDArray[np.uint8] | None:
    """How far to trust every explanation, (N,): EMPTY, WEAK, TRUSTED or UNCHECKED. None if nothing is known of any.

    An empty explanation is never trusted: a surrogate that sees nothing can still predict the most common class.
    """
    trust = np.full(len(e), UNCHECKED, dtype=np.uint8)
    if e.agreement is not None:
        trust = np.where(e.agreement, TRUSTED, WEAK).astype(np.uint8)
    if e.mask is not None:
        trust[~(e.mask & e.observed).any(axis=(1, 2))] = EMPTY
    return None if (trust == UNCHECKED).all() else trust


def summary(e: Explanation, prior: float = 0.0) -> dict[str, Any]:
    """The trust banner: accuracy, agreement and what empty explanations would reach, share of cells kept, and a verdict.

    The verdict is None without a surrogate, or the first of these that holds:

    - "one class": all samples have the same class, so that empty explanations agree too.
    - "disagrees": agreement is less than halfway from the share of the most common class to 1.
    - "keeps most": the share of cells kept is more than halfway from the prior to 1, so agreement is no achievement.
    - "passed".
    """
    answer = e.probability.argmax(axis=1)
    commonest = float(np.bincount(e.prediction).max() / len(e))
    facts: dict[str, Any] = {"accuracy": None, "agreement": None, "commonest": commonest, "kept": None, "verdict": None}
    if e.series.y is not None:
        facts["accuracy"] = float((answer == e.series.y).mean())
    if e.mask is not None:
        facts["kept"] = float(kept_share(e).mean())
    if e.agreement is not None:
        facts["agreement"] = float(e.agreement.mean())
        facts["verdict"] = _verdict(facts["agreement"], commonest, facts["kept"] or 0.0, prior)
    return facts


def checked(check: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the page shows of `Check.to_dict()`: the verdict, the findings, and what hiding cells gives for every class."""
    if check is None:
        return None

    def values(group: Mapping[str, Any]) -> dict[str, Any]:
        found = {f["name"]: f["value"] for f in group["findings"]}
        return {"verdict": group["verdict"], "alone": found.get("kept alone"), "without": found.get("without kept")}

    overall = check["overall"]
    parts = ("name", "verdict", "meaning", "advice")
    return {
        "verdict": check["verdict"],
        "series": overall["n"],
        "default": check["default_class"],
        "all": values(overall),
        "findings": [{part: f[part] for part in parts} for f in overall["findings"]],
        "classes": {group["name"]: values(group) for group in check["classes"]},
    }


def _verdict(agreement: float, commonest: float, kept: float, prior: float) -> str:
    if commonest == 1:
        return "one class"
    if agreement < (1 + commonest) / 2:
        return "disagrees"
    return "keeps most" if kept > (1 + prior) / 2 else "passed"


def kept_share(e: Explanation) -> NDArray[np.float64]:
    """The share of every sample's measured cells that its mask keeps, (N,)."""
    assert e.mask is not None  # callers check
    return (e.mask & e.observed).sum(axis=(1, 2)) / np.maximum(e.observed.sum(axis=(1, 2)), 1)


def class_rows(e: Explanation, chosen: NDArray[np.int64], points: NDArray[np.float64]) -> list[dict[str, Any]]:
    """One row per explained class: samples, accuracy, agreement, kept share, importance of every channel, an exemplar.

    Args:
        e: Explanations of N samples.
        chosen: The samples embedded in the page, (n,).
        points: Their places in the latent space, (n, Z).

    Returns:
        Rows in the order of the classes. Undefined values are None.
    """
    right = None if e.series.y is None else e.probability.argmax(axis=1) == e.series.y
    kept = None if e.mask is None else kept_share(e)
    trust = trust_of(e)
    trusted = None if trust is None else trust == TRUSTED
    rows = []
    for c in np.unique(e.prediction):
        members = np.flatnonzero(e.prediction == c)
        rows.append(
            {
                "class": int(c),
                "samples": len(members),
                "accuracy": None if right is None else float(right[members].mean()),
                "agreement": None if e.agreement is None else float(e.agreement[members].mean()),
                "kept": None if kept is None else float(kept[members].mean()),
                "channels": channel_importance(e, members).tolist(),
                "exemplar": _exemplar(e, int(c), chosen, points, [trusted, right]),
            }
        )
    return rows


def channel_importance(e: Explanation, members: NDArray[np.int64]) -> NDArray[np.float64]:
    """Every channel's share of the total |attribution| of some samples, (D,): of the kept cells where the mask keeps any."""
    size = np.where(e.observed[members], np.abs(e.attribution[members]), 0.0)
    if e.mask is not None and (e.mask[members] & e.observed[members]).any():
        size = np.where(e.mask[members], size, 0.0)
    total = size.sum(axis=(0, 1), dtype=np.float64)
    return total / (total.sum() or 1.0)


def _exemplar(
    e: Explanation,
    c: int,
    chosen: NDArray[np.int64],
    points: NDArray[np.float64],
    wanted: Iterable[NDArray[np.bool_] | None],
) -> int | None:
    """The place in `chosen` of the explanation nearest to the mean of its class, among those `wanted` (N,) if there are any."""
    members = np.flatnonzero(e.prediction[chosen] == c)
    for asked in wanted:
        better = members if asked is None else members[asked[chosen[members]]]
        members = better if len(better) else members
    if len(members) == 0:
        return None
    here = points[members]
    return int(members[(here @ here.mean(axis=0)).argmax()])
