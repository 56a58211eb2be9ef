"""The `timex` command: every subcommand says where it wrote what."""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from timex.engine import Diverged
from timex.method.config import TimeXConfig

if TYPE_CHECKING:
    from torch import nn

    from timex.data.files import Series
    from timex.types import Explanation

HELP = """Explanations for any time-series model, learned once, given in one forward pass.

**New here?** `timex demo` trains a small model, explains it and writes a page to look at. It needs no data and no flags.

**Your own model and data**, one command after another, all in one folder:

    timex fit --model mypackage.models:load --embedding encoder --data train.npz --out DIR
    timex explain --explainer DIR --data windows.npz --out DIR/explanations.npz
    timex report DIR --data windows.npz

Files may be .npz, .parquet, .csv or .ts; `--data` also takes a name from `timex data list`. `--help` after any command has its
options.
"""
EXIT_CODES = "Exit codes: 0 done; 2 something was wrong with what was asked for, and one line says what; 1 anything else."

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", help=HELP, epilog=EXIT_CODES)
data_app = typer.Typer(no_args_is_help=True, help="List, describe and prepare data sets.")
app.add_typer(data_app, name="data", rich_help_panel="Data and models to try")


class TablesAreCommands(typer.core.TyperGroup):
    """`timex bench univariate` is `timex bench run univariate`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand that is named, else `run` with everything that was given."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


bench_app = typer.Typer(
    no_args_is_help=True, cls=TablesAreCommands, help="The paper's tables and figures: timex bench TABLE..."
)
app.add_typer(bench_app, name="bench", rich_help_panel="The paper's evaluation")

# A pipe has no width: without this, tables for a program or a file would be cut at 80 columns.
console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160)

log = logging.getLogger(__name__)

YOURS = "Explain your model"
TO_TRY = "Data and models to try"

Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default the GPU if there is one.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Fold = Annotated[int, typer.Option(help="Which draw or split of the data set.")]
Epochs = Annotated[int | None, typer.Option(help="Ceiling on the epochs; by default the preset's.")]


def main() -> None:
    """Run the command line; what a user did wrong is one line, not a traceback."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        app()
    except (ValueError, FileNotFoundError, Diverged) as error:
        # escaped: a message may hold brackets, which the console would take for markup
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        sys.exit(2)


@app.callback(help=HELP, epilog=EXIT_CODES)
def options(
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; 1 is often fastest for small models on a busy machine.")
    ] = None,
) -> None:
    """Settings that hold for every command."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


# ---------------------------------------------------------------------------------------------------------------- data


@data_app.command("list")
def data_list() -> None:
    """Every data set with its shape, and how to get those that are not at hand yet."""
    from timex.data import ORIGINS, REAL
    from timex.data.prepare import summary
    from timex.data.synthetic import SIZES, Recipe
    from timex.registry import DATASETS

    table = Table("name", "T", "D", "classes", "train / val / test", "truth")
    for name in DATASETS:
        if name in REAL:  # loading it takes seconds, and it may not be there
            real = REAL[name]
            state = f"not prepared: timex data prepare {real.origin.name}" if real.origin.facts() is None else real.note
            table.add_row(name, *map(str, (*real.shape, real.n_classes)), state, "yes" if real.truth else "no")
            continue
        loader = DATASETS[name]
        if isinstance(loader, Recipe):  # a few samples show its shape, and take no time
            d, counts = loader(sizes=(4, 4, 4)), SIZES
        else:
            d = loader(seed=0, fold=0)
            counts = (len(d.train), len(d.val), len(d.test))
        sizes = " / ".join(f"{n:,}" for n in counts)
        known = "yes" if d.test.truth is not None else "no"
        table.add_row(name, str(d.train.x.shape[1]), str(d.train.x.shape[2]), str(len(d.classes)), sizes, known)
    console.print(table)
    facts = ORIGINS["ett"].facts()
    console.print("ett (forecasting): " + ("not prepared: timex data prepare ett" if facts is None else summary(facts)))


@data_app.command("prepare")
def data_prepare(
    name: Annotated[str, typer.Argument(help="ecg, epilepsy, boiler, pam or ett.")],
    source: Annotated[
        Path | None, typer.Option(help="Folder (or file) downloaded; without it, what to download is said.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Prepare again although it was done from the same files.")] = False,
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
    console.print(f"Written to {origin.path}" if built else f"Already there, made from the same files: {origin.path}")


@data_app.command("describe")
def data_describe(name: str, fold: Fold = 0, seed: Seed = 0) -> None:
    """One data set: its parts, classes and channels, and how much of it is known to decide the class."""
    from timex.data import REAL, load_dataset
    from timex.data.prepare import summary

    d = load_dataset(name, fold=fold, seed=seed)
    if name in REAL:
        console.print(f"{REAL[name].origin.title}, {REAL[name].note}. {REAL[name].origin.page}", highlight=False)
        console.print(summary(REAL[name].origin.facts() or {}), highlight=False)
    console.print(f"[bold]{d.name}[/], fold {fold}, seed {seed}: T = {d.train.x.shape[1]}, D = {d.train.x.shape[2]}")
    console.print(f"channels: {', '.join(d.channels)}")
    console.print("classes: " + ", ".join(f"{c} {name}" for c, name in enumerate(d.classes)))
    table = Table("part", "samples", *(f"class {c}" for c in range(len(d.classes))), "observed", "truth")
    for part_name in ("train", "val", "test"):
        part = getattr(d, part_name)
        counts = [str(int((part.y == c).sum())) for c in range(len(d.classes))]
        truth = "-" if part.truth is None else f"{part.truth.mean():.1%}"
        table.add_row(part_name, f"{len(part):,}", *counts, f"{part.observed.mean():.1%}", truth)
    console.print(table)


# --------------------------------------------------------------------------------------------------------------- train


@app.command(rich_help_panel=TO_TRY)
def train(
    dataset: Annotated[str, typer.Argument(help="Name of a data set: see `timex data list`.")],
    out: Out,
    arch: Annotated[str, typer.Option(help="transformer, cnn or lstm.")] = "transformer",
    fold: Fold = 0,
    seed: Seed = 0,
    epochs: Epochs = None,
    device: Device = None,
) -> None:
    """Train a reference model with the paper's preset, keep its best validation F1, and save it."""
    from dataclasses import replace

    from timex.data import load_dataset
    from timex.paper import published
    from timex.reference import REFERENCES, save_reference
    from timex.reference.train import preset, train_references
    from timex.registry import find

    find(REFERENCES, arch, "architecture")
    data = load_dataset(dataset, fold=fold)
    config = replace(preset(dataset, arch), seed=seed)
    config = config if epochs is None else replace(config, epochs=epochs)
    started = time.perf_counter()
    trained = train_references([data], arch, config, device=_device(device))[0]
    facts = {"dataset": dataset, "fold": fold, "seed": trained.seed, "epoch": trained.epoch, "attempts": trained.attempts}
    scores = {"val": trained.val, "check": trained.check, "test": trained.test}
    save_reference(
        trained.model, out, **facts, passed=trained.passed, scores=scores, channels=data.channels, classes=data.classes
    )
    paper = published("classification", dataset) if arch == "transformer" else {}
    table = Table("", "F1", "AUPRC", "AUROC", title=f"{arch} on {dataset}, fold {fold}")
    for name, row in {**scores, "paper, test": paper}.items():
        table.add_row(name, *(f"{row[k]:.4f}" if k in row else "-" for k in ("f1", "auprc", "auroc")))
    console.print(table)
    _say_if_weak(trained.passed, trained.attempts)
    console.print(
        f"epoch {trained.epoch}, {trained.attempts} attempt(s), {time.perf_counter() - started:.0f} s. Written to {out}"
    )


# ----------------------------------------------------------------------------------------------------- fit and explain


@app.command(rich_help_panel=YOURS)
def fit(
    data: Annotated[str, typer.Option(help="Training series: a file (.npz .parquet .csv .ts) or the name of a data set.")],
    out: Out,
    model: Annotated[str | None, typer.Option(help="package.module:factory that returns the trained torch module.")] = None,
    reference: Annotated[Path | None, typer.Option(help="A folder written by `timex train`, instead of --model.")] = None,
    embedding: Annotated[str | None, typer.Option(help="Layer whose output is the embedding, with --model.")] = None,
    pool: Annotated[int | None, typer.Option(help="Axis of that layer's output to average over.")] = None,
    output: Annotated[int | None, typer.Option(help="Which of that layer's outputs, if it returns several.")] = None,
    r: Annotated[
        float, typer.Option(help="Prior probability that a cell is kept; lower for sparser explanations.")
    ] = TimeXConfig.r,
    resolution: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps over which explanations are averaged (standard deviation), 1 for none. By default taken from the "
            "series: 1 unless they are sampled finely.",
        ),
    ] = None,
    val: Annotated[str | None, typer.Option(help="File of validation series; without it a tenth is set apart.")] = None,
    fold: Fold = 0,
    epochs: Epochs = None,
    seed: Seed = 0,
    device: Device = None,
) -> None:
    """Fit TimeX to a trained model and save the explainer.

    The model is any torch module that maps series (B, T, D) to class logits, named as package.module:factory, or a folder that
    `timex train` wrote. The series need no labels: best are those the model was trained on.
    """
    from dataclasses import replace

    from timex import TimeX

    module, source = _load_model(model, reference)
    train_series, val_series = _training_series(data, val, fold)
    config = replace(TimeXConfig(), seed=seed, r=r, resolution=resolution)
    config = config if epochs is None else replace(config, epochs=epochs)
    explainer = TimeX(
        module,
        embedding,
        config,
        pool=pool,
        output=output,
        device=_device(device),
        channels=train_series.channels,
        classes=train_series.classes,
    )
    options: dict[str, Any] = {"times": train_series.times, "observed": train_series.observed}
    if val_series is not None:
        options |= {"x_val": val_series.x, "times_val": val_series.times, "observed_val": val_series.observed}
    _say_what_is_missing(module, train_series)
    explainer.fit(train_series.x, **options)
    explainer.save(out)
    if reference is not None:
        shutil.copytree(reference, out / "reference", dirs_exist_ok=True)
    _write_json({**source, "pool": pool, "output": output}, out / "model.json")
    best = explainer.history.query("selected").iloc[0]
    console.print(
        f"epoch {int(best['epoch'])} selected; the surrogate agrees with the model on {best['val_agreement']:.1%} of the "
        f"validation samples. Landmarks with at least 10 samples: {len(explainer.landmarks.filtered())}. Written to {out}"
    )


@app.command(rich_help_panel=YOURS)
def explain(
    explainer: Annotated[Path, typer.Option(help="A folder written by `timex fit`.")],
    data: Annotated[str, typer.Option(help="Series to explain: a file, or the name of a data set (its test part).")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write: .npz (everything), .parquet or .csv (a row per cell).")
    ] = None,
    method: Annotated[
        str, typer.Option(help="timex, or a method that needs no fitting to compare it with, such as ig.")
    ] = "timex",
    as_json: Annotated[bool, typer.Option("--json", help="Print every sample's summary as JSON, and nothing else.")] = False,
    fold: Fold = 0,
    device: Device = None,
) -> None:
    """Explain a model's predictions on every series of a file.

    Prints, for the first few, the class, how sure the model is, whether the surrogate agrees, and the spans of time that matter
    most; `--json` does so for all. `--out` writes the explanations themselves: give it a name in the explainer's folder, and
    `timex report` finds it there.
    """
    if out is not None and out.suffix not in (".npz", ".parquet", ".csv"):
        raise ValueError(f"Expected --out to end in .npz, .parquet or .csv, got {out.name!r}.")
    fitted, series = _open(explainer, data, fold, device)
    started = time.perf_counter()
    explanation = _explain(fitted, series, method)
    seconds = time.perf_counter() - started
    if out is not None:
        _write_explanation(explanation, out)
    if as_json:
        samples = [_summary(explanation, series.ids, i) for i in range(len(explanation))]
        print(
            json.dumps({"method": method, "seconds": seconds, "written": None if out is None else str(out), "samples": samples})
        )
        return
    _print_summaries(explanation, series.ids)
    agree = "" if explanation.agreement is None else f"; surrogate and model agree on {explanation.agreement.mean():.1%}"
    written = "Nothing was written: --out FILE does that." if out is None else f"Written to {out}"
    console.print(f"{len(explanation):,} explanations in {seconds:.2f} s{agree}. {written}")


@app.command(rich_help_panel=YOURS)
def evaluate(
    explainer: Annotated[Path, typer.Option(help="A folder written by `timex fit`.")],
    data: Annotated[str, typer.Option(help="Series with known truth: a file, or the name of a data set (its test part).")],
    out: Annotated[Path | None, typer.Option(help="Also write the scores to this JSON file.")] = None,
    fold: Fold = 0,
    device: Device = None,
) -> None:
    """Score explanations against the truth, beside integrated gradients, controls, and the paper where it has the data set."""
    from timex.progress import counting_bar

    fitted, series = _open(explainer, data, fold, device)
    if series.truth is None:
        raise ValueError(f"{data} has no truth to score against: a file needs a truth array or column (docs/files.md).")
    with counting_bar(f"scoring {len(series):,} series"):
        scores = _scores(fitted, series)
    _print_scores(scores, data)
    source = _source(explainer)
    if "reference" in source:
        facts = json.loads((explainer / source["reference"] / "reference.json").read_text())
        _say_if_weak(facts.get("passed"), facts.get("attempts", 1))
    if out is not None:
        _write_json(scores, out)
        console.print(f"Scores written to {out}")


# -------------------------------------------------------------------------------------------------------------- report


@app.command(rich_help_panel=YOURS)
def report(
    folder: Annotated[Path, typer.Argument(help="What `timex demo`, or `timex fit` and `timex explain`, wrote.")],
    data: Annotated[
        str | None, typer.Option(help="The series that were explained, for their labels, truth and names: a file or data set.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page to write; by default report.html in the folder.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page; by default the folder's name.")] = None,
    fold: Fold = 0,
) -> None:
    """Write explanations, landmarks and scores as one interactive page that opens from disk, without a network.

    The folder holds explanations.npz, and as far as they exist: explanations-METHOD.npz to compare with, the explainer (its
    files, or a folder explainer/) for landmarks and training, scores.json, occlusion.json, and data.npz in place of --data.
    """
    from timex.progress import counting_bar

    page = out or folder / "report.html"
    with counting_bar("writing the page"):
        _write_page(folder, page, data, fold, title or folder.resolve().name)
    console.print(f"Written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser.")


# ---------------------------------------------------------------------------------------------------------------- demo


@app.command(rich_help_panel=TO_TRY)
def demo(
    out: Out = Path("demo"),
    seed: Seed = 0,
    reference_epochs: Annotated[int, typer.Option(help="Epochs of the reference model.")] = 20,
    epochs: Annotated[int, typer.Option(help="Epochs of TimeX.")] = 15,
    device: Device = None,
) -> None:
    """FreqShapes from nothing: train a model, fit TimeX to it, score the explanations, and write a page to look at.

    It needs no data and no GPU. Everything goes to the folder --out: open report.html there in a browser.
    """
    from dataclasses import replace

    import torch

    from timex import TimeX, load_dataset
    from timex.baselines import IntegratedGradients
    from timex.data.files import Series, write_series
    from timex.progress import counting_bar
    from timex.reference import save_reference
    from timex.reference.train import preset, train_references
    from timex.report import plots

    torch.set_num_threads(1)  # models this small lose more by waiting for a second core than they gain
    started = time.perf_counter()
    data = load_dataset("freqshapes")
    console.print(f"FreqShapes: {len(data.train):,} series of {data.train.x.shape[1]} steps; spikes decide among 4 classes.")
    config = replace(preset("freqshapes", "transformer"), seed=seed, epochs=reference_epochs)
    trained = train_references([data], "transformer", config, device=_device(device))[0]
    console.print(f"reference model: F1 {trained.test['f1']:.3f} on test data (paper .972)")
    explainer = TimeX(
        trained.model,
        config=TimeXConfig(epochs=epochs, seed=seed),
        device=_device(device),
        channels=data.channels,
        classes=data.classes,
    )
    explainer.fit(data.train.x, x_val=data.val.x)
    series = Series.of_part(data.test, data.channels, data.classes)
    with counting_bar("scoring"):
        scores = _scores(explainer, series)
        ig = IntegratedGradients(trained.model, device=explainer.device).explain(data.test.x)
    scores["reference"] = {"f1": trained.test["f1"]}
    _print_scores(scores, "freqshapes")

    save_reference(trained.model, out / "reference", dataset="freqshapes", fold=0)
    explainer.save(out / "explainer")
    _write_json({"reference": "../reference"}, out / "explainer" / "model.json")
    explanation = explainer.explain(data.test.x)
    explanation.save(out / "explanations.npz")
    ig.save(out / "explanations-ig.npz")
    write_series(out / "data.npz", series)
    _write_json(scores, out / "scores.json")
    _, chosen = np.unique(explanation.prediction, return_index=True)  # one of every class that is predicted
    figures = {
        "explanation.png": explanation.plot(int(chosen[0]), truth=data.test.truth),
        "comparison.png": plots.plot_comparison({"TimeX": explanation, "IG": ig}, chosen.tolist(), truth=data.test.truth),
        "landmarks.png": plots.plot_landmarks(explanation, explainer.landmarks),
        "history.png": plots.plot_history(explainer.history),
    }
    for name, figure in figures.items():
        plots.save(figure, out / name)
    _write_page(out, out / "report.html", None, 0, "timex demo: FreqShapes")
    console.print(
        f"{time.perf_counter() - started:.0f} s. Scores, figures, explanations and the explainer are in {out}/: "
        f"open {out / 'report.html'} in a browser."
    )


# --------------------------------------------------------------------------------------------------------------- bench

Tables = Annotated[list[str], typer.Argument(help="Tables and figures: see `timex bench list`.")]
Methods = Annotated[str, typer.Option(help="Methods instead of the tables' own, with commas: ig,timex,timex:no_ste.")]
Datasets = Annotated[str, typer.Option(help="Data sets instead of the tables' own, with commas.")]
PerFold = Annotated[bool, typer.Option("--per-fold", help="Show every fold.")]


@bench_app.command("run")
def bench_run(
    tables: Tables,
    out: Annotated[Path | None, typer.Option(help="Run directory; by default runs/bench, with --smoke runs/smoke.")] = None,
    folds: Annotated[int, typer.Option(help="Draws or splits of every data set.")] = 5,
    methods: Methods = "",
    datasets: Datasets = "",
    preset: Annotated[str, typer.Option(help="Settings of TimeX: default, or paper for the paper's tables.")] = "default",
    seed: Seed = 0,
    smoke: Annotated[bool, typer.Option("--smoke", help="Few samples and epochs, to see that everything runs.")] = False,
    device: Device = None,
    engine: Annotated[str, typer.Option(help="local, or ray for tasks on a cluster.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; without it a local one is started.")] = None,
    plugin: Annotated[list[str] | None, typer.Option(help="Module that adds explainers or data sets; repeat for more.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which no new piece of work is begun.")] = None,
    per_fold: PerFold = False,
) -> None:
    """Run tables and show them; the same command again goes on where the last one stopped."""
    from timex.bench import Settings, run

    out = out or Path("runs/smoke" if smoke else "runs/bench")  # figures that mean nothing stay apart
    summary = run(
        tables,
        out,
        Settings(folds=folds, seed=seed, smoke=smoke, preset=preset),  # type: ignore[arg-type]
        datasets=_words(datasets),
        methods=_words(methods),
        device=_device(device),
        engine=engine,  # type: ignore[arg-type]
        address=address,
        plugins=plugin or [],
        time_limit=time_limit,
        say=lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True),
        progress=console.is_terminal,
    )
    if summary.before or summary.finished or summary.failed:
        bench_show(out, tables, methods=methods, datasets=datasets, per_fold=per_fold)
    console.print(
        f"{summary.wanted} cells: {summary.before} were there, {summary.finished} finished now, {len(summary.failed)} failed, "
        f"{summary.left} left. Kept in {out}"
    )
    if summary.left:
        console.print("Time is up: the same command goes on from here.")
    if summary.failed:
        raise typer.Exit(1)


@bench_app.command("list")
def bench_list(folds: Annotated[int, typer.Option(help="Folds to count the work of.")] = 5) -> None:
    """Every table and figure, with what it needs and how much work it is."""
    from timex.bench import TABLES, Settings
    from timex.bench.grid import cells_of

    columns = (Column("table", no_wrap=True), Column("what", overflow="fold"), "needs", "models", "fits", "cells")
    shown = Table(*columns, title=f"{folds} folds", box=SIMPLE, pad_edge=False)
    for name, table in TABLES.items():
        cells = cells_of([table], Settings(folds=folds))
        fits = {c.explainer_folder for c in cells if c.explainer_folder}
        counts = (len({c.reference_folder for c in cells}), len(fits), len(cells))
        shown.add_row(name, table.title, table.needs or "-", *map(str, counts))
    console.print(shown)
    console.print("Fits are of TimeX. Models and fits are kept in the run directory and shared by all tables.")


@bench_app.command("show")
def bench_show(
    folder: Annotated[Path, typer.Argument(help="A run directory, or an exported one.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Which tables; all that were run by default.")] = None,
    methods: Methods = "",
    datasets: Datasets = "",
    per_fold: PerFold = False,
    all_metrics: Annotated[bool, typer.Option("--all-metrics", help="Every metric that was measured.")] = False,
    style: Annotated[str, typer.Option("--format", help="terminal, markdown or latex.")] = "terminal",
    figures: Annotated[Path | None, typer.Option(help="Draw the figures into this folder.")] = None,
    export: Annotated[Path | None, typer.Option(help="Pack the cells into this folder, one file per data set.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write everything to this Markdown page.")] = None,
) -> None:
    """Show tables from what was measured; nothing is computed."""
    from timex.bench import show

    if not (folder / "cells").is_dir():
        raise FileNotFoundError(f"{folder} holds no results: `timex bench TABLE --out {folder}` writes them.")
    options: dict[str, Any] = {
        "datasets": _words(datasets),
        "methods": _words(methods),
        "per_fold": per_fold,
        "every": all_metrics,
    }
    for shown in show.tables(folder, tables or (), style=style, **options):
        if isinstance(shown, str):
            print(shown)
        else:
            console.print(shown)
    for path in show.files(folder, tables or (), datasets=_words(datasets), figures=figures, export=export, page=page):
        console.print(f"Written to {path}")


# ------------------------------------------------------------------------------------------------------------- helpers


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _device(name: str | None) -> str:
    import torch

    return name or ("cuda" if torch.cuda.is_available() else "cpu")


def _load_model(spec: str | None, reference: Path | None) -> tuple[nn.Module, dict[str, str]]:
    """The model to explain, and how to find it again."""
    if (spec is None) == (reference is None):
        raise ValueError("Expected either --model package.module:factory or --reference FOLDER.")
    if reference is not None:
        from timex.reference import load_reference

        return load_reference(reference), {"reference": "reference"}
    assert spec is not None
    module_name, _, factory = spec.partition(":")
    if not factory:
        raise ValueError(f"Expected --model as package.module:factory, got {spec!r}.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"--model {spec}: {error}") from None
    if not hasattr(found, factory):
        raise ValueError(f"--model {spec}: module {module_name!r} has no {factory!r}.")
    return getattr(found, factory)(), {"model": spec}  # what goes wrong in there is the user's to see in full


def _source(folder: Path) -> dict[str, Any]:
    """Where the model of the explainer in a folder comes from."""
    where = folder / "model.json"
    if not where.is_file():
        raise FileNotFoundError(f"{folder} holds no explainer: model.json is missing. `timex fit` writes one.")
    return json.loads(where.read_text())


def _load_explainer(folder: Path, device: str | None) -> Any:
    from timex import TimeX

    source = _source(folder)
    reference = folder / source["reference"] if "reference" in source else None
    model, _ = _load_model(source.get("model"), reference)
    return TimeX.load(folder, model, pool=source.get("pool"), output=source.get("output"), device=_device(device))


def _open(explainer: Path, data: str, fold: int, device: str | None) -> tuple[Any, Series]:
    """A saved explainer, and the series to put to it."""
    fitted = _load_explainer(explainer, device)
    series = _test_series(data, fold, fitted)
    _say_what_is_missing(fitted.reference, series)
    return fitted, series


def _say_what_is_missing(model: nn.Module, series: Series) -> None:
    """A word on cells that were not measured, of which only our own models know."""
    from timex.reference.base import ReferenceModel
    from timex.reference.wrap import Wrapped

    missing = int((~series.observed).sum())
    if missing and (isinstance(model, Wrapped) or not isinstance(model, ReferenceModel)):
        log.warning("%s of %s cells are missing; your model sees 0 there", f"{missing:,}", f"{series.observed.size:,}")


def _say_if_weak(passed: bool | None, attempts: int) -> None:
    if passed is False:
        console.print(
            f"[yellow]under the gate[/]: check F1 is more than .02 below the paper's after {attempts} seeds; "
            "explanations of a weak model mean little."
        )


def _explain(fitted: Any, series: Series, method: str) -> Explanation:
    """The explanations of all series by TimeX, or by a method that needs no fitting; a bar counts them."""
    from dataclasses import replace

    from timex.baselines.base import FittedExplainer
    from timex.progress import counting_bar
    from timex.registry import EXPLAINERS, find

    cls = find(EXPLAINERS, method, "method")
    if issubclass(cls, FittedExplainer):
        raise ValueError(f"{method} has to be fitted to the model first, which only Python does (docs/add-your-own.md).")
    with counting_bar(f"explaining {len(series):,} series"):
        own = fitted.explain(series.x, times=series.times, observed=series.observed)
        if cls is type(fitted):
            return own
        other = cls(fitted.reference, device=fitted.device).explain(series.x, times=series.times, observed=series.observed)
    nothing = {"mask": None, "embedding": None, "landmark": None, "agreement": None, "divergence": None}
    return replace(own, attribution=other.attribution, signed=other.signed, method=method, **nothing)


def _summary(explanation: Explanation, ids: tuple[str, ...], i: int) -> dict[str, Any]:
    """What there is to say about sample `i` in a few words."""
    from timex.report.spans import important_spans

    c = int(explanation.prediction[i])
    facts: dict[str, Any] = {
        "sample": ids[i] if ids else i,
        "class": explanation.classes[c] if explanation.classes else c,
        "confidence": float(explanation.probability[i, c]),
    }
    if explanation.agreement is not None and explanation.divergence is not None and explanation.landmark is not None:
        facts |= {
            "agreement": bool(explanation.agreement[i]),
            "divergence": float(explanation.divergence[i]),
            "landmark": int(explanation.landmark[i]),
        }
    if explanation.mask is not None:
        facts["kept"] = float(explanation.mask[i].mean())
    return facts | {"spans": [span._asdict() for span in important_spans(explanation, i)]}


def _print_summaries(explanation: Explanation, ids: tuple[str, ...], n: int = 5) -> None:
    from timex.report.spans import Span

    trusted = explanation.agreement is not None
    table = Table("sample", "class", "confidence", *(["surrogate"] if trusted else []), "most important spans")
    for i in range(min(n, len(explanation))):
        facts = _summary(explanation, ids, i)
        surrogate = ["agrees" if facts["agreement"] else "[yellow]disagrees[/]"] if trusted else []
        spans = "\n".join(str(Span(**span)) for span in facts["spans"]) or "none: all cells alike"
        if facts.get("kept") == 0:
            spans = f"nothing kept (p > .5), strongest:\n{spans}"
        table.add_row(
            escape(str(facts["sample"])), escape(str(facts["class"])), f"{facts['confidence']:.2f}", *surrogate, escape(spans)
        )
    console.print(table)
    if len(explanation) > n:
        console.print(f"... and {len(explanation) - n:,} more: --json prints all, `timex report` shows them.")


def _write_page(folder: Path, page: Path, data: str | None, fold: int, title: str) -> None:
    """The interactive page of what lies in `folder`."""
    from timex.report.page import write_report
    from timex.types import Explanation

    if not (folder / "explanations.npz").is_file():
        raise FileNotFoundError(
            f"{folder} holds no explanations.npz: `timex explain --explainer {folder} --data FILE --out "
            f"{folder / 'explanations.npz'}` writes one."
        )
    first = Explanation.load(folder / "explanations.npz")
    others = {p.stem.removeprefix("explanations-"): Explanation.load(p) for p in sorted(folder.glob("explanations-*.npz"))}
    landmarks, description = _landmarks(folder)
    series = _explained_series(folder, data, fold, first, description)
    tables = {name: json.loads(p.read_text()) for name in ("scores", "occlusion") if (p := folder / f"{name}.json").is_file()}
    write_report(
        page,
        {first.method or "explanation": first, **others},
        landmarks=landmarks if first.embedding is not None else None,
        truth=None if series is None else series.truth,
        y=None if series is None else series.y,
        ids=() if series is None else series.ids,
        scores=tables.get("scores"),
        occlusion={m: {float(q): v for q, v in curve.items()} for m, curve in tables.get("occlusion", {}).items()},
        history=description.get("history"),
        title=title,
    )


def _landmarks(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Landmarks and description of the explainer in a folder or in its `explainer/`, without the model it was fitted on."""
    from dataclasses import fields

    from safetensors.numpy import load_file

    from timex.method.landmarks import Landmarks

    where = next((f for f in (folder, folder / "explainer") if (f / "explainer.json").is_file()), None)
    if where is None:
        return None, {}
    tensors = load_file(where / "explainer.safetensors")
    landmarks = Landmarks(**{f.name: tensors[f"landmarks.{f.name}"] for f in fields(Landmarks)})
    return landmarks, json.loads((where / "explainer.json").read_text())


def _explained_series(
    folder: Path, data: str | None, fold: int, explanation: Explanation, description: dict[str, Any]
) -> Series | None:
    """The series behind the explanations, or None if nobody says where they are."""
    from types import SimpleNamespace

    if data is None and not (folder / "data.npz").is_file():
        return None
    # with its units, a channel's name in an explanation is not the one in the file
    names = {name: description.get(name) or getattr(explanation, name) for name in ("channels", "classes")}
    source = data or str(folder / "data.npz")
    series = _test_series(source, fold, SimpleNamespace(**{k: tuple(v) for k, v in names.items()}))
    offset, scale = (np.asarray(v, dtype=np.float32) for v in description.get("scaling") or (0, 1))
    values = np.where(series.observed, series.x * scale + offset, 0)
    if values.shape != explanation.x.shape or not np.allclose(
        values, explanation.x, rtol=1e-3, atol=1e-4 * np.abs(values).max()
    ):
        raise ValueError(f"{source} does not hold the series that were explained: give the --data of `timex explain`.")
    return series


def _training_series(data: str, val: str | None, fold: int) -> tuple[Series, Series | None]:
    from timex.data import LOADERS, load_dataset
    from timex.data.files import Series, read_series

    if data in LOADERS:
        d = load_dataset(data, fold=fold)
        return Series.of_part(d.train, d.channels, d.classes), Series.of_part(d.val, d.channels, d.classes)
    train_series = read_series(data)
    if val is None:
        return train_series, None
    return train_series, read_series(val, classes=train_series.classes or None, channels=train_series.channels)


def _test_series(data: str, fold: int, fitted: Any) -> Series:
    """Series to explain; a file's channels come in the order the explainer was fitted on, whatever their order in the file."""
    from timex.data import LOADERS, load_dataset
    from timex.data.files import Series, read_series

    if data in LOADERS:
        d = load_dataset(data, fold=fold)
        return Series.of_part(d.test, d.channels, d.classes)
    return read_series(data, classes=fitted.classes or None, channels=fitted.channels or None)


def _scores(explainer: Any, series: Series) -> dict[str, dict[str, float]]:
    """Mean scores of TimeX, of IG and of the controls on the samples whose truth is known."""
    from timex.baselines import Amplitude, IntegratedGradients, Random
    from timex.metrics import ground_truth_scores
    from timex.types import is_regular

    known = np.flatnonzero(series.truth.any(axis=(1, 2)))  # type: ignore[union-attr]
    x, times, observed = series.x[known], series.times[known], series.observed[known]
    where = {} if is_regular(times, observed) else {"times": times, "observed": observed}
    model = explainer.reference
    others = (IntegratedGradients, Amplitude, Random)
    results = {}
    for name, method in {"timex": explainer, **{cls.name: cls(model, device=explainer.device) for cls in others}}.items():
        attribution = method.explain(x, **where).attribution
        scores = ground_truth_scores(attribution, series.truth[known], observed)  # type: ignore[index]
        results[name] = {metric: float(np.nanmean(values)) for metric, values in scores.items()}
    return results


def _print_scores(scores: dict[str, dict[str, float]], dataset: str) -> None:
    from timex.paper import published

    metrics = ("auprc", "aup", "aur", "iou")
    table = Table("method", *(m.upper() for m in metrics), *(f"paper {m.upper()}" for m in metrics[:3]))
    for name, row in scores.items():
        if "auprc" not in row:
            continue
        paper = published(f"r1/{dataset}/transformer", name)
        ours = [f"{row[m]:.3f}" for m in metrics]
        table.add_row(name, *ours, *(f"{paper[m]:.3f}" if m in paper else "-" for m in metrics[:3]))
    console.print(table)


def _write_explanation(explanation: Explanation, out: Path) -> None:
    from timex.types import atomic_path

    if out.suffix == ".npz":
        explanation.save(out)
        return
    frame = explanation.to_frame()
    with atomic_path(out) as beside:
        if out.suffix == ".parquet":
            frame.to_parquet(beside, index=False)
        else:
            frame.to_csv(beside, index=False)


def _write_json(value: Any, path: Path) -> None:
    from timex.types import atomic_path

    with atomic_path(path) as beside:
        beside.write_text(json.dumps(value, indent=2) + "\n")
