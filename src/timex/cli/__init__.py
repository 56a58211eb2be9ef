"""The `timex` command: one file for each command or group. A command imports torch only when it runs."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

import timex
from timex.cli import bench, check, compare, data, demo, evaluate, explain, export, fit, inspect, report, train
from timex.cli.console import MessageFormatter, print_error

HELP = """Explanations for any time-series model, learned once, given in one forward pass.

**New here?** `timex demo` trains a small model, explains it and writes a page to look at. It needs no data and no flags.

**Your own model and data**, all in one folder:

    timex inspect mypackage.models:load --data train.npz
    timex fit --model mypackage.models:load --data train.npz --out DIR
    timex explain --explainer DIR --model mypackage.models:load --data windows.npz --out DIR/explanations.npz
    timex report DIR

Files may be .npz, .parquet, .csv or .ts; `--data` also takes a name from `timex data list`. `--help` after any command lists
its options.
"""
EXIT_CODES = (
    "Exit codes: 0 done; 2 an input was wrong, and one line explains what to change; 3 `timex check` says: do not use; "
    "1 any other failure."
)

YOURS = "Explain your model"
TO_TRY = "Data and models to try"

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
app.add_typer(data.app, name="data", rich_help_panel=TO_TRY)
app.add_typer(bench.app, name="bench", rich_help_panel="The paper's evaluation")
app.command(rich_help_panel=YOURS)(inspect.inspect)
app.command(rich_help_panel=YOURS)(fit.fit)
app.command(rich_help_panel=YOURS)(explain.explain)
app.command(rich_help_panel=YOURS)(check.check)
app.command(rich_help_panel=YOURS)(compare.compare)
app.command(rich_help_panel=YOURS)(evaluate.evaluate)
app.command(rich_help_panel=YOURS)(report.report)
app.command(rich_help_panel=YOURS)(export.export)
app.command(rich_help_panel=TO_TRY)(demo.demo)
app.command(rich_help_panel=TO_TRY)(train.train)


def main() -> None:
    """Run the command line; a wrong input gives one line on standard error, without a traceback."""
    handler = logging.StreamHandler()
    handler.setFormatter(MessageFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        app()
    except Exception as error:
        from timex.engine import Diverged  # here, since it imports torch

        if not isinstance(error, (ValueError, OSError, MemoryError, Diverged)):
            raise
        print_error(error)
        sys.exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(timex.__version__)
        raise typer.Exit


@app.callback(help=HELP, epilog=EXIT_CODES)
def options(
    threads: Annotated[
        int | None, typer.Option(help="CPU threads; 1 is often fastest for small models on a busy machine.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of every command."""
    if threads is None:
        return
    cores = os.cpu_count() or 1
    if not 1 <= threads <= cores:
        raise ValueError(f"Expected --threads from 1 to {cores}, the number of CPU cores, got {threads}.")
    import torch

    torch.set_num_threads(threads)
