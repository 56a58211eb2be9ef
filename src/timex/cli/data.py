"""`timex data`: list, describe and prepare data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from timex.cli.console import console
from timex.cli.options import Fold, MaxBytes, Seed

if TYPE_CHECKING:
    from timex.records import Series

app = typer.Typer(no_args_is_help=True, help="List, describe and prepare data sets.")


@app.command("list")
def list_() -> None:
    """Every data set with its shape, and how to get those that are not prepared yet."""
    from timex.data import ORIGINS
    from timex.data.prepare import summary
    from timex.registry import DATASETS

    table = Table("name", "T", "D", "classes", "train / val / test", "truth")
    for name in DATASETS:
        table.add_row(name, *_row(name))
    console.print(table)
    facts = ORIGINS["ett"].facts()
    console.print("ett (forecasting): " + ("not prepared: timex data prepare ett" if facts is None else summary(facts)))


def _row(name: str) -> tuple[str, ...]:
    """T, D, number of classes, sizes or state, and whether the deciding cells are known. Nothing large is loaded."""
    from timex.data import REAL
    from timex.data.synthetic import Recipe
    from timex.registry import DATASETS

    if name in REAL:  # loading it takes seconds, and it may not be prepared
        real = REAL[name]
        state = f"not prepared: timex data prepare {real.origin.name}" if real.origin.facts() is None else real.note
        return (*map(str, (*real.shape, real.n_classes)), state, "yes" if real.truth else "no")
    loader = DATASETS[name]
    if isinstance(loader, Recipe):  # a few samples show the shape
        d, counts = loader(sizes=(4, 4, 4)), loader.sizes
    else:
        d = loader(seed=0, fold=0)
        counts = (len(d.train), len(d.val), len(d.test))
    sizes = " / ".join(f"{n:,}" for n in counts)
    return (*map(str, (*d.train.shape[1:], len(d.classes))), sizes, "no" if d.test.truth is None else "yes")


@app.command()
def prepare(
    name: Annotated[str, typer.Argument(help="ecg, epilepsy, boiler, pam or ett.")],
    source: Annotated[
        Path | None, typer.Option(help="Downloaded folder or file. Without it the command prints what to download.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Prepare again, even from the same files.")] = False,
) -> None:
    """Check downloaded real data, cut it into windows, and keep it in the cache folder (TIMEX_DATA)."""
    from timex.data import ORIGINS
    from timex.data.prepare import prepare, summary
    from timex.registry import find

    origin = find(ORIGINS, name, "real data set")
    if source is None:
        console.print(f"{origin.title}: {origin.download}.", highlight=False, soft_wrap=True)
        return
    facts, built = prepare(origin, source, force)
    console.print(summary(facts), highlight=False, soft_wrap=True)
    console.print(f"Written to {origin.path}" if built else f"Already prepared from the same files: {origin.path}")


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="Name of a data set (`timex data list`), or a file of series.")],
    fold: Fold = 0,
    seed: Seed = 0,
    max_bytes: MaxBytes = None,
) -> None:
    """One data set or file: its parts, classes and channels, and the share of cells that decide the class."""
    from timex.cli.inputs import is_file
    from timex.data import REAL, load_dataset
    from timex.data.prepare import summary

    if is_file(name):
        return _describe_file(name, max_bytes)
    d = load_dataset(name, fold=fold, seed=seed)
    if name in REAL:
        console.print(f"{REAL[name].origin.title}, {REAL[name].note}. {REAL[name].origin.page}", highlight=False)
        console.print(summary(REAL[name].origin.facts() or {}), highlight=False)
    _, steps, channels = d.train.shape
    console.print(f"[bold]{d.name}[/], fold {fold}, seed {seed}: T = {steps}, D = {channels}")
    console.print(f"channels: {', '.join(d.channels)}")
    console.print("classes: " + ", ".join(f"{c} {name}" for c, name in enumerate(d.classes)))
    console.print(_parts({"train": d.train, "val": d.val, "test": d.test}, len(d.classes)))


def _parts(parts: dict[str, Series], n_classes: int) -> Table:
    """A row per part: samples, those of every class, and the shares of cells measured and known to decide."""
    table = Table("part", "samples", *(f"class {c}" for c in range(n_classes)), "observed", "truth")
    for name, part in parts.items():
        counts = [str(int((part.labels == c).sum())) for c in range(n_classes)] if part.y is not None else ["-"] * n_classes
        truth = "-" if part.truth is None else f"{part.truth.mean():.1%}"
        table.add_row(name, f"{len(part):,}", *counts, f"{part.observed.mean():.1%}", truth)
    return table


def _describe_file(path: str, max_bytes: int | None) -> None:
    """A file of series: its shape, names, times, and one row of the table that data sets have."""
    from timex.io.files import read_series

    series = read_series(path, max_bytes=max_bytes)
    _, steps, channels = series.shape
    n_classes = 0 if series.y is None else max(len(series.classes), int(series.y.max()) + 1)
    names = series.classes or tuple(f"class {c}" for c in range(n_classes))
    rate = "" if series.sampling_rate is None else f", {series.sampling_rate:g} steps per second"
    times = "regular" if series.regular else "irregular"
    console.print(f"[bold]{escape(path)}[/]: T = {steps}, D = {channels}, {times}{rate}", highlight=False)
    console.print(f"channels: {escape(', '.join(series.channel_labels) or 'unnamed')}")
    console.print("classes: " + (escape(", ".join(f"{c} {name}" for c, name in enumerate(names))) or "no labels"))
    console.print(_parts({"file": series}, n_classes))
