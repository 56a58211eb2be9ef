"""`timex compare`: several methods on your own model and series, by the model's own answers."""

from __future__ import annotations

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
SHOWN = ("gap", "comprehensiveness", "sufficiency")
"""Scores in the printed table; the JSON file has all."""
METHODS = "gradients,ig,occlusion"


def compare(
    explainer: SavedFolder,
    data: Annotated[str, typer.Option(help="Held-out series: a file, or the name of a data set (its test part).")],
    methods: Annotated[str, typer.Option(help="Methods beside timex, with commas; amplitude and random are added.")] = METHODS,
    train: Annotated[
        str | None, typer.Option(help="Series to fit methods on; by default those of --data, or its train part for a name.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file to write every score to.")] = None,
    model: Model = None,
    trust_model: TrustModel = False,
    fold: Fold = 0,
    seed: Seed = 0,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Compare methods on your own model: which explanations point at its evidence? No known deciding cells are needed.

    Cells are hidden in the order of every method's scores, and the model answers. Finished methods are kept in the explainer's
    folder: the same command goes on from there.
    """
    from timex.cli.inputs import explained_series, warn_of_missing
    from timex.cli.models import open_explainer

    if out is not None:
        check_file(out, ".json")
    fitted = open_explainer(explainer, model, trust_model, device)
    series = explained_series(data, fold, fitted.fitted.names, max_bytes)
    warn_of_missing(fitted.fitted.reference, series)
    known = series_to_fit(train, data, fold, max_bytes)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    run_comparison(fitted, series, known, names, explainer / RUNS, seed, out)


def series_to_fit(train: str | None, data: str, fold: int, max_bytes: int | None) -> Series | None:
    """Training series as given, or those of a data set that is explained by name; None for a file of series to explain."""
    from timex.cli.inputs import training_series
    from timex.data import LOADERS

    if train is None and data not in LOADERS:
        return None
    return training_series(train or data, None, fold, max_bytes)[0]


def run_comparison(
    fitted: TimeX, series: Series, train: Series | None, methods: list[str], folder: Path, seed: int, out: Path | None
) -> None:
    """Compare TimeX with other methods, print the table, and write the scores."""
    from timex.trust import compare as compared
    from timex.trust.measure import model_of

    found = compared(model_of(fitted), series, [fitted, *methods], train, folder=folder, seed=seed, device=fitted.device)
    print_comparison(found)
    if out is not None:
        write_json(found.to_dict(), out)
        console.print(f"Scores written to {out}")


def print_comparison(found: Comparison) -> None:
    """A row per method, best first; the agreement of the methods; the recommendation."""
    fills = list(found.scores[found.best])
    columns = [f"{name} ({fill})" for fill in fills for name in SHOWN]
    table = Table(
        "method", *columns, "behind the best", "ms a sample", "fit s", title="the model's own answers, mean per sample"
    )
    for method, row in found.table().iterrows():
        behind = "best" if method == found.best else str(found.behind(str(method)))
        times = (f"{1000 * row['seconds_per_sample']:.1f}", f"{row['fit_seconds']:.1f}" if row["fit_seconds"] else "-")
        table.add_row(str(method), *(f"{row[name]:+.3f}" for name in columns), behind, *times)
    console.print(table)
    alike = Table("rank correlation", *found.ranking)
    for method in found.ranking:
        alike.add_row(method, *(f"{found.correlation.loc[method, other]:.2f}" for other in found.ranking))
    console.print(alike)
    for method, reason in found.skipped.items():
        console.print(f"[yellow]left out[/] {method}: {escape(reason)}")
    console.print(escape(found.recommendation))
