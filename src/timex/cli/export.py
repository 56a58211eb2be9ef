"""`timex export`: a fitted explainer as one program for ONNX Runtime or torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from timex.cli.console import console
from timex.cli.files import check_file
from timex.cli.options import Model, SavedFolder, TrustModel


def export(
    folder: SavedFolder,
    kind: Annotated[
        Literal["onnx", "torch"], typer.Option("--format", help="onnx for ONNX Runtime, torch for torch.export.load.")
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(help="File to write, .onnx or .pt2; by default explainer.onnx or .pt2 in the folder.")
    ] = None,
    model: Model = None,
    trust_model: TrustModel = False,
) -> None:
    """Write the explainer with its model as one program that runs without timex.

    The program takes x (B, T, D) with any number of complete series at times 1..T. It gives p (B, T, D), the model's logits
    (B, C), and whether the surrogate agrees, (B,). Its p is compared with that of `timex explain` before the file is kept.
    """
    from timex.cli.models import open_explainer
    from timex.method.exporting import SUFFIXES

    out = folder / f"explainer{SUFFIXES[kind]}" if out is None else out
    check_file(out, SUFFIXES[kind])
    explainer = open_explainer(folder, model, trust_model, "cpu")
    difference = explainer.export(out, kind)
    console.print(f"p differs by at most {difference:.1e} from timex explain. Written to {out}")
