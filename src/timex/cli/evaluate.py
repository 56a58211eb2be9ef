"""`timex evaluate`: score explanations against the known deciding cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timex.cli.compare import METHODS, RUNS, run_comparison, series_to_fit
from timex.cli.console import console, print_if_weak
from timex.cli.files import check_file, write_json
from timex.cli.options import Device, Fold, MaxBytes, Model, Saved, TrustModel
from timex.io.rounding import rounded
from timex.progress import counting_bar


def evaluate(
    explainer: Saved,
    data: Annotated[str, typer.Option(help="Series to score on: a file, or the name of a data set (its test part).")],
    out: Annotated[Path | None, typer.Option(help="JSON file to write the scores to.")] = None,
    model: Model = None,
    trust_model: TrustModel = False,
    fold: Fold = 0,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Score explanations against the truth, beside gradients, two controls, and the paper for its data sets.

    For series without known deciding cells, methods are compared by the model's own answers, as `timex compare` does.
    """
    from timex.cli.inputs import explained_series, warn_of_missing
    from timex.cli.models import open_explainer, reference_facts
    from timex.cli.scores import print_scores, scores_of

    if out is not None:
        check_file(out, ".json")
    fitted = open_explainer(explainer, model, trust_model, device)
    series = explained_series(data, fold, fitted.fitted.names, max_bytes)
    train = series_to_fit(None, data, fold, max_bytes)
    warn_of_missing(fitted.fitted.reference, series)
    if series.truth is None:
        console.print("The deciding cells of these series are not known: methods are compared by the model's own answers.")
        run_comparison(fitted, series, train, METHODS.split(","), explainer / RUNS, 0, out)
        return
    with counting_bar(f"scoring {len(series):,} series"):
        scores = scores_of(fitted, series, train)
    print_scores(scores, data)
    facts = reference_facts(explainer)
    print_if_weak(facts.get("passed"), facts.get("attempts", 1))
    if out is not None:
        write_json(rounded(scores), out)
        console.print(f"Scores written to {out}")
