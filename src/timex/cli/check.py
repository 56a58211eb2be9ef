"""`timex check`: whether to trust an explainer on your series, by the model's own answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from timex.cli.console import console
from timex.cli.files import check_file, write_json
from timex.cli.options import Device, Fold, MaxBytes, Model, SavedFolder, Seed, TrustModel
from timex.io.rounding import rounded
from timex.progress import counting_bar

if TYPE_CHECKING:
    from timex import Series, TimeX
    from timex.trust.check import Check

UNUSABLE = 3
"""Exit code of the verdict "do not use"."""
COLOURS = {"trust": "green", "weak": "yellow", "do not use": "red"}
PER_CLASS = ("share kept", "kept alone", "without kept", "evidence gap", "agreement")
"""Findings that have a column in the table of classes."""
OPTIONS = {"train": "--train", "refit": "--refit", "second_seed": "--second-seed"}
"""Arguments of `timex.check` as they are written here."""


def check(
    explainer: SavedFolder,
    data: Annotated[str, typer.Option(help="Held-out series: a file, or the name of a data set (its test part).")],
    train: Annotated[
        str | None,
        typer.Option(
            help="Training series, for --refit and --second-seed: a file, or the name of a data set (its train part)."
        ),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit again for models with shuffled weights, on --train: slow, and a fuller test.")
    ] = False,
    second_seed: Annotated[
        bool, typer.Option("--second-seed", help="Fit again with another seed, on --train, and compare: as slow as a fit.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file to write the findings to.")] = None,
    stability: Annotated[
        Path | None,
        typer.Option(
            help="JSON file to write the stability of every series to: stability.json for the page of `timex report`."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, and nothing else.")] = False,
    model: Model = None,
    trust_model: TrustModel = False,
    fold: Fold = 0,
    seed: Seed = 0,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Check whether explanations of these series can be trusted. No known deciding cells are needed.

    Cells are hidden, and the model answers: overall and for every class it predicts. The verdict is trust, weak or do not use;
    the exit code of the last is 3.
    """
    from timex.cli.inputs import explained_series, training_series, warn_of_missing
    from timex.cli.models import open_explainer
    from timex.trust import check as checked

    if out is not None:
        check_file(out, ".json")
    if stability is not None:
        check_file(stability, ".json", option="--stability")
    fitted = open_explainer(explainer, model, trust_model, device)
    series = explained_series(data, fold, fitted.fitted.names, max_bytes)
    known = None if train is None else training_series(train, None, fold, max_bytes)[0]
    warn_of_missing(fitted.fitted.reference, series)
    with counting_bar(f"checking {len(series):,} series"):
        found = checked(fitted, series, known, refit=refit, second_seed=second_seed, seed=seed)
    if out is not None:
        write_json(found.to_dict(), out)
    if stability is not None:
        with counting_bar(f"explaining {len(series):,} series again"):
            write_stability(fitted, series, stability)
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        print_check(found)
        if out is not None:
            console.print(f"Findings written to {out}")
        if stability is not None:
            console.print(f"Stability written to {stability}")
    if found.verdict == "do not use":
        raise typer.Exit(UNUSABLE)


def write_stability(explainer: TimeX, series: Series, path: Path) -> None:
    """Write the rank correlation of every explanation before and after small noise; a constant explanation is stable."""
    import numpy as np

    from timex.metrics import stability
    from timex.reference.adapt import model_hash
    from timex.trust.measure import NOISE, model_of

    found = stability(lambda s: explainer.explain(s).attribution, series, NOISE, draws=1)
    values = rounded(np.where(np.isnan(found), 1.0, found).tolist())
    write_json({"noise": NOISE, "model_hash": model_hash(model_of(explainer)), "values": values}, path)


def print_check(found: Check) -> None:
    """The verdict, a table of findings about all series, and one of the classes."""
    colour = COLOURS[found.verdict]
    console.print(
        f"[bold {colour}]{found.verdict}[/]: {found.method} on {found.overall.n:,} series; hidden cells: {found.fill}"
    )
    table = Table("question", "verdict", "answer", "what to do")
    for f in found.overall.findings:
        table.add_row(f.name, f"[{COLOURS[f.verdict]}]{f.verdict}[/]", escape(f.meaning), escape(f.advice))
    console.print(table)
    if found.classes:
        console.print(_classes(found))
    for note in found.notes(OPTIONS.__getitem__):
        console.print(escape(note))


def _classes(found: Check) -> Table:
    table = Table("predicted class", "series", "verdict", *PER_CLASS, "what to do")
    for group in found.classes:
        values = {f.name: f"{f.value:+.2f}" if f.name == "evidence gap" else f"{f.value:.1%}" for f in group.findings}
        name = f"{group.name} (default)" if group.name == found.default else group.name
        advice = next((f"{f.meaning}: {f.advice}" for f in group.findings if f.verdict == group.verdict and f.advice), "")
        verdict = f"[{COLOURS[group.verdict]}]{group.verdict}[/]"
        table.add_row(escape(name), f"{group.n:,}", verdict, *(values.get(n, "-") for n in PER_CLASS), escape(advice))
    return table
