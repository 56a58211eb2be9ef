"""`timex data`: list, describe and prepare data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from timex.cli.console import console
from timex.cli.options import Fold, Seed

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
    name: Annotated[str, typer.Argument(help="Name of a data set: see `timex data list`.")], fold: Fold = 0, seed: Seed = 0
) -> None:
    """One data set: its parts, classes and channels, and the share of cells that decide the class."""
    from timex.data import REAL, load_dataset
    from timex.data.prepare import summary

    d = load_dataset(name, fold=fold, seed=seed)
    if name in REAL:
        console.print(f"{REAL[name].origin.title}, {REAL[name].note}. {REAL[name].origin.page}", highlight=False)
        console.print(summary(REAL[name].origin.facts() or {}), highlight=False)
    _, steps, channels = d.train.shape
    console.print(f"[bold]{d.name}[/], fold {fold}, seed {seed}: T = {steps}, D = {channels}")
    console.print(f"channels: {', '.join(d.channels)}")
    console.print("classes: " + ", ".join(f"{c} {name}" for c, name in enumerate(d.classes)))
    table = Table("part", "samples", *(f"class {c}" for c in range(len(d.classes))), "observed", "truth")
    for part_name, part in (("train", d.train), ("val", d.val), ("test", d.test)):
        counts = [str(int((part.labels == c).sum())) for c in range(len(d.classes))]
        truth = "-" if part.truth is None else f"{part.truth.mean():.1%}"
        table.add_row(part_name, f"{len(part):,}", *counts, f"{part.observed.mean():.1%}", truth)
    console.print(table)
