"""`timex bench`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from timex.cli.console import console
from timex.cli.options import Device, Seed, device_of


class TablesAreCommands(typer.core.TyperGroup):
    """`timex bench univariate` is `timex bench run univariate`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand of this name, else `run` with all arguments."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


app = typer.Typer(no_args_is_help=True, cls=TablesAreCommands, help="The paper's tables and figures: timex bench TABLE...")

Tables = Annotated[list[str], typer.Argument(help="Tables and figures: see `timex bench list`.")]
Methods = Annotated[str, typer.Option(help="Methods instead of the tables' own, with commas: ig,timex,timex:no_ste.")]
Datasets = Annotated[
    str,
    typer.Option(help="Data sets instead of the tables' own, with commas; guide and final are the halves of the battery."),
]
PerFold = Annotated[bool, typer.Option("--per-fold", help="Show every fold.")]


@app.command()
def run(
    tables: Tables,
    out: Annotated[Path | None, typer.Option(help="Run directory; by default runs/bench, with --smoke runs/smoke.")] = None,
    folds: Annotated[int, typer.Option(help="Draws or splits of every data set.")] = 5,
    methods: Methods = "",
    datasets: Datasets = "",
    archs: Annotated[str, typer.Option(help="Architectures of the models instead of the tables' own, with commas.")] = "",
    seed: Seed = 0,
    smoke: Annotated[bool, typer.Option("--smoke", help="Few samples and epochs, to see that everything runs.")] = False,
    device: Device = None,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="local, or ray for tasks on a cluster.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster; without it a local one is started.")] = None,
    plugin: Annotated[list[str] | None, typer.Option(help="Module that adds explainers or data sets; repeat for more.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which no new task is started.")] = None,
    per_fold: PerFold = False,
) -> None:
    """Run tables and show them; the same command again continues where the last one stopped."""
    from timex.bench import Grid
    from timex.bench import run as run_tables

    out = out or Path("runs/smoke" if smoke else "runs/bench")  # smoke results must not mix with real ones
    summary = run_tables(
        tables,
        out,
        Grid(folds=folds, seed=seed, smoke=smoke),
        datasets=_datasets(datasets),
        methods=_words(methods),
        archs=_words(archs),
        device=device_of(device),
        engine=engine,
        address=address,
        plugins=plugin or [],
        time_limit=time_limit,
        say=lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
        progress=console.is_terminal,
    )
    if summary.before or summary.finished or summary.failed:
        show(out, tables, methods=methods, datasets=datasets, per_fold=per_fold)
    console.print(
        f"{summary.wanted} cells: {summary.before} were there, {summary.finished} finished now, {len(summary.failed)} failed, "
        f"{summary.left} left. Kept in {out}"
    )
    if summary.left:
        console.print("Time limit reached. Run the same command to continue.")
    if summary.failed:
        raise typer.Exit(1)


@app.command("list")
def list_(folds: Annotated[int, typer.Option(help="Folds to count the work of.")] = 5) -> None:
    """Every table and figure, with what it needs and how much work it is."""
    from timex.bench import TABLES, Grid
    from timex.bench.cells import cells_of

    columns = (Column("table", no_wrap=True), Column("what", overflow="fold"), "needs", "models", "fits", "cells")
    shown = Table(*columns, title=f"{folds} folds", box=SIMPLE, pad_edge=False)
    for name, table in TABLES.items():
        cells = cells_of([table], Grid(folds=folds))
        fits = {c.explainer_folder for c in cells if c.explainer_folder}
        counts = (len({c.reference_folder for c in cells}), len(fits), len(cells))
        shown.add_row(name, table.title, table.needs or "-", *map(str, counts))
    console.print(shown)
    console.print("Fits are of TimeX. Models and fits are kept in the run directory and shared by all tables.")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A run directory, or an exported one.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Which tables; by default all that have results.")] = None,
    methods: Methods = "",
    datasets: Datasets = "",
    per_fold: PerFold = False,
    all_metrics: Annotated[bool, typer.Option("--all-metrics", help="Every metric that was measured.")] = False,
    style: Annotated[str, typer.Option("--format", help="terminal, markdown or latex.")] = "terminal",
    figures: Annotated[Path | None, typer.Option(help="Draw the figures into this folder.")] = None,
    export: Annotated[Path | None, typer.Option(help="Add the cells to this folder, one file per data set.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write everything to this Markdown page.")] = None,
) -> None:
    """Show tables of what was measured; nothing is computed."""
    from timex.bench import show as showing

    if not (folder / "cells").is_dir():
        raise FileNotFoundError(f"{folder} holds no results: `timex bench TABLE --out {folder}` writes them.")
    names, chosen = tables or (), _datasets(datasets)
    options: dict[str, Any] = {"methods": _words(methods), "per_fold": per_fold, "every": all_metrics}
    for shown in showing.tables(folder, names, style=style, datasets=chosen, **options):
        if isinstance(shown, str):
            print(shown)
        else:
            console.print(shown)
    for path in showing.files(folder, names, datasets=chosen, figures=figures, export=export, page=page):
        console.print(f"Written to {path}")


def _datasets(text: str) -> list[str]:
    from timex.data.battery import FINAL, GUIDE

    halves = {"guide": GUIDE, "final": FINAL}
    return [name for word in _words(text) for name in halves.get(word, [word])]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
