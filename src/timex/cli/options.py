"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default the GPU if there is one.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Fold = Annotated[int, typer.Option(help="Number of the draw or split of the data set, from 0.")]
Epochs = Annotated[int | None, typer.Option(help="Largest number of epochs; by default the preset's.")]
MaxBytes = Annotated[
    int | None, typer.Option(help="Largest memory for the series of a file; by default 200 times its size, at least 256 MiB.")
]

Saved = Annotated[Path, typer.Option("--explainer", help="A folder written by `timex fit`.")]
SavedFolder = Annotated[Path, typer.Argument(help="A folder written by `timex fit`.")]
Model = Annotated[
    str | None,
    typer.Option(help="package.module:factory or file.py:factory that returns the model. Not needed after `fit --reference`."),
]
TrustModel = Annotated[
    bool, typer.Option("--trust-model", help="Import and call the factory that the explainer's folder names.")
]


def device_of(name: str | None) -> str:
    """The device to use, or a `ValueError` if this machine does not have it."""
    from timex.checks import checked_device  # here, since it imports torch

    return str(checked_device(name))
