"""Scores of TimeX, other methods and two controls against the known deciding cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from timex.cli.console import console
from timex.method.explainer import TimeX
from timex.paper import published
from timex.records import Series
from timex.reference.student import without_student
from timex.registry import EXPLAINERS, score

Scores = dict[str, dict[str, float]]

CONTROLS = ("amplitude", "random")
COMPARED = ("gradients", "ig", *CONTROLS)
COMPARED_ON_BLACK_BOX = ("occlusion", *CONTROLS)
SHOWN = ("auprc", "aup", "aur", "iou")


def scores_of(explainer: TimeX, series: Series, train: Series | None = None) -> Scores:
    """Mean scores by method, over the samples with known deciding cells.

    Args:
        explainer: A fitted TimeX.
        series: What is explained, with its truth.
        train: Series to fit the other methods on; by default `series`. Their truth is not used.
    """
    known = None if series.truth is None else series.take(series.truth.any(axis=(1, 2)))
    if known is None or len(known) == 0:
        raise ValueError("Expected series with known deciding cells: a file needs a truth array or column (docs/files.md).")
    model = without_student(explainer.fitted.reference)
    compared = COMPARED if model.gradients else COMPARED_ON_BLACK_BOX
    methods: dict[str, Any] = {
        "timex": explainer,
        **{name: EXPLAINERS[name](model, device=explainer.device) for name in compared},
    }
    seen = series if train is None else train
    results = {}
    for name, method in methods.items():
        if method is not explainer:
            method.fit(seen, x_val=seen, progress=False)
        results[name] = {metric: float(np.nanmean(values)) for metric, values in score(method.explain(known)).items()}
    return results


def print_scores(scores: Scores, dataset: str | None = None) -> None:
    """A table of scores, beside the paper's for one of its data sets."""
    papers = {name: published(f"r1/{dataset}/transformer", name) for name in scores} if dataset else {}
    beside = SHOWN[:3] if any(papers.values()) else ()
    table = Table("method", *(m.upper() for m in SHOWN), *(f"paper {m.upper()}" for m in beside))
    for name, row in scores.items():
        if "auprc" not in row:
            continue
        paper = papers.get(name, {})
        cells = (f"{paper[m]:.3f}" if m in paper else "-" for m in beside)
        table.add_row(name, *(f"{row[m]:.3f}" for m in SHOWN), *cells, style="dim" if name in CONTROLS else None)
    console.print(table)
