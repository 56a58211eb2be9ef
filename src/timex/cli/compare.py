"""`timex compare`: several methods on your own model and series, by the model's own answers."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from timex.cli.console import console
from timex.cli.files import check_file, write_json
from timex.cli.options import Device, Fold, MaxBytes, Model, SavedFolder, Seed, TrustModel

if TYPE_CHECKING:
    from timex import Series, TimeX
    from timex.trust.compare import Comparison

RUNS = "compare"
"""Folder in the explainer's, where the runs of a comparison are kept."""
SHOWN = ("comprehensiveness", "sufficiency")
"""Scores in the printed table beside the gap, mean over the fills; the JSON file has all."""
METHODS = "gradients,ig,occlusion"
FIGURES = (".png", ".svg", ".pdf")


def compare(
    explainer: SavedFolder,
    data: Annotated[str, typer.Option(help="Held-out series: a file, or the name of a data set (its test part).")],
    methods: Annotated[str, typer.Option(help="Methods beside timex, with commas; amplitude and random are added.")] = METHODS,
    train: Annotated[
        str | None, typer.Option(help="Series to fit methods on; by default those of --data, or its train part for a name.")
    ] = None,
    aligned: Annotated[
        bool, typer.Option("--aligned", help="All windows are cut around the same event: the control centre joins the others.")
    ] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Also compute InterpretTime's scores and DDS, PES, CMI.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="JSON file to write every score to.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Figure of where the methods disagree, mean over the series: .png, .svg or .pdf.")
    ] = None,
    model: Model = None,
    trust_model: TrustModel = False,
    fold: Fold = 0,
    seed: Seed = 0,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Compare methods on your own model: which explanations point at its evidence? No known deciding cells are needed.

    Cells are hidden in the order of every method's scores, and the model answers, under four fills. Finished methods, and
    checkpoints of fits of TimeX, are kept in the explainer's folder: the same command goes on from there.
    """
    from timex.cli.inputs import explained_series, warn_of_missing
    from timex.cli.models import open_explainer

    if out is not None:
        check_file(out, ".json")
    if plot is not None:
        check_file(plot, *FIGURES, option="--plot")
    fitted = open_explainer(explainer, model, trust_model, device)
    series = explained_series(data, fold, fitted.fitted.names, max_bytes)
    warn_of_missing(fitted.fitted.reference, series)
    known = series_to_fit(train, data, fold, max_bytes)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    found = run_comparison(fitted, series, known, names, explainer / RUNS, seed, out, aligned, thorough)
    if plot is not None:
        from timex.report.plots import save

        save(found.plot(), plot)
        console.print(f"Figure written to {plot}")


def series_to_fit(train: str | None, data: str, fold: int, max_bytes: int | None) -> Series | None:
    """Training series as given, or those of a data set that is explained by name; None for a file of series to explain."""
    from timex.cli.inputs import training_series
    from timex.data import LOADERS

    if train is None and data not in LOADERS:
        return None
    return training_series(train or data, None, fold, max_bytes)[0]


def run_comparison(
    fitted: TimeX,
    series: Series,
    train: Series | None,
    methods: list[str],
    folder: Path,
    seed: int,
    out: Path | None,
    aligned: bool = False,
    thorough: bool = False,
) -> Comparison:
    """Compare TimeX with other methods, print the table, and write the scores."""
    from timex.reference.student import without_student
    from timex.trust import compare as compared

    asked: list[str | TimeX] = [fitted, *methods]
    found = compared(
        without_student(fitted.fitted.reference),
        series,
        asked,
        train,
        aligned=aligned,
        thorough=thorough,
        folder=folder,
        seed=seed,
        device=fitted.device,
    )
    print_comparison(found)
    if out is not None:
        write_json(found.to_dict(), out)
        console.print(f"Scores written to {out}")
    return found


def print_comparison(found: Comparison) -> None:
    """A row per method, best first; the agreement of the methods; the recommendation."""
    gaps = [f"gap ({fill})" for fill in found.scores[found.best]]
    cost = ("ms a sample", "fit s", "MB")
    table = Table("method", *gaps, "behind the best", *SHOWN, *cost, title="the model's own answers, mean per sample")
    for method, row in found.table().iterrows():
        behind = "best" if method == found.best else str(found.behind(str(method)))
        means = (found.mean(str(method), name) for name in SHOWN)
        fit = f"{row['fit_seconds']:.1f}" if row["fit_seconds"] else "-"
        memory = "-" if isnan(row["megabytes"]) else f"{row['megabytes']:.0f}"
        values = (*(f"{row[name]:+.3f}" for name in gaps), behind, *(f"{value:+.3f}" for value in means))
        table.add_row(str(method), *values, f"{1000 * row['seconds_per_sample']:.1f}", fit, memory)
    console.print(table)
    alike = Table("rank correlation", *found.ranking)
    for method in found.ranking:
        alike.add_row(method, *(f"{found.correlation.loc[method, other]:.2f}" for other in found.ranking))
    console.print(alike)
    for method, reason in found.skipped.items():
        console.print(f"[yellow]left out[/] {method}: {escape(reason)}")
    console.print(escape(found.recommendation))
