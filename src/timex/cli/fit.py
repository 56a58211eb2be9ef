"""`timex fit`: fit TimeX to a trained model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from timex.cli.adaptation import (
    Embedding,
    EmbeddingOutput,
    Forward,
    Layout,
    OutputPart,
    PoolAxis,
    TargetIndex,
    TaskName,
    keywords,
)
from timex.cli.console import console
from timex.cli.files import check_folder, keep
from timex.cli.options import Device, Fold, MaxBytes, Out, device_of
from timex.cli.resuming import KeepPartial, Resume, shared_checkpoint_of
from timex.method.config import TimeXConfig

if TYPE_CHECKING:
    from timex import Series, TimeX

Preset = Literal["default", "paper"]


Data = Annotated[str, typer.Option(help="Training series: a file (.npz .parquet .csv .ts) or the name of a data set.")]
Model = Annotated[str | None, typer.Option(help="package.module:factory or file.py:factory that returns the trained model.")]
Reference = Annotated[Path | None, typer.Option(help="A folder written by `timex train`, instead of --model.")]
Classes = Annotated[
    str | None, typer.Option(help="Names of the model's classes in the order of its logits, with commas between them.")
]
PresetName = Annotated[Preset, typer.Option(help="default, or paper for the paper's own settings for its data sets.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, as loss.lam_e=2; repeat for more. See docs/method.md."),
]
Smoothing = Annotated[
    int | None,
    typer.Option(help="Standard deviation, in steps, of the smoothing over time; 0 for none. Short for --set smoothing=VALUE."),
]
Validation = Annotated[str | None, typer.Option(help="File of validation series; without it a tenth is held out.")]
Epochs = Annotated[int | None, typer.Option(help="Largest number of epochs; short for --set epochs=VALUE.")]
AnySeed = Annotated[int | None, typer.Option(help="Seed of all random numbers; short for --set seed=VALUE.")]

ASKED = 1_000
"""Training series at most that the model's accuracy is measured on."""


def fit(
    data: Data,
    out: Out,
    model: Model = None,
    reference: Reference = None,
    embedding: Embedding = None,
    embedding_output: EmbeddingOutput = None,
    pool: PoolAxis = None,
    layout: Layout = "BTD",
    forward: Forward = None,
    output: OutputPart = None,
    task: TaskName = "classify",
    target: TargetIndex = None,
    classes: Classes = None,
    preset: PresetName = "default",
    assignments: Assignments = None,
    smoothing: Smoothing = None,
    val: Validation = None,
    fold: Fold = 0,
    epochs: Epochs = None,
    seed: AnySeed = None,
    resume: Resume = False,
    keep_partial: KeepPartial = False,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Fit TimeX to a trained model and save the explainer.

    The factory may return a torch module, an estimator with predict_proba or predict, or a function. The series need no labels.
    The best series are those that the model was trained on. Checkpoints of every epoch stand beside --out until the fit is
    done; after a stop, the same command with --resume goes on from them.

    `torchrun --nproc-per-node N -m timex fit ...` fits with N processes: each takes its rows of every batch.
    """
    from timex import TimeX
    from timex.cli.inputs import training_series, warn_of_missing
    from timex.cli.models import load_model
    from timex.engine import processes

    check_folder(out)
    how = keywords(
        embedding_output=embedding_output,
        pool=pool,
        layout=None if layout == "BTD" else layout,
        forward=forward,
        output=output,
        task=None if task == "classify" else task,
        target=target,
    )
    module = load_model(model, reference)
    writer = _writer(model, reference)
    given = {"smoothing": smoothing, "epochs": epochs, "seed": seed}
    config = settings(preset, data, _arch(module), given, assignments or ())
    train, validation = training_series(data, val, fold, max_bytes)
    warn_of_missing(module, train)
    with processes(device_of(device)) as own_device:
        explainer = TimeX(module, embedding, config, device=own_device, classes=_names(classes), **how)
        with shared_checkpoint_of(out, resume, keep_partial) as (checkpoint, first):
            explainer.fit(train, x_val=validation, progress=first, checkpoint=checkpoint)
            written = keep(out, lambda folder: writer(explainer, folder)) if first else out
    if first:
        print_accuracy(explainer, train)
        print_fitted(explainer, written)


def _arch(module: Any) -> str:
    """The architecture of one of our models; empty for any other model."""
    from timex.reference.base import ReferenceModel

    return module.arch if isinstance(module, ReferenceModel) else ""


def _names(classes: str | None) -> tuple[str, ...]:
    """Names with commas between them, as a tuple."""
    return () if classes is None else tuple(name.strip() for name in classes.split(","))


def _writer(model: str | None, reference: Path | None) -> Callable[[TimeX, Path], None]:
    """A function that writes a fitted explainer into a folder, with the name of its model's factory or the model itself.

    The model's folder is read now and written later: a copy of the whole folder could contain itself.
    """
    from timex.cli.models import REFERENCE, Source
    from timex.io.folder import read_folder, write_folder

    copied = None if reference is None else read_folder(reference, REFERENCE)

    def write(explainer: TimeX, folder: Path) -> None:
        explainer.save(folder)
        if copied is not None:
            write_folder(folder / REFERENCE, REFERENCE, *copied)
        Source(model).write(folder)

    return write


def print_fitted(explainer: TimeX, written: Path) -> None:
    """Print what the fit found, and where it was written."""
    fitted = explainer.fitted
    agree = fitted.quality.agreement
    surrogate = "" if agree is None else f"the surrogate agrees with the model on {agree:.1%} of the training samples. "
    landmarks = f"Landmarks with at least 10 samples: {len(explainer.landmarks.filtered())}. "
    console.print(f"{fitted.reference.n_steps} steps, smoothing {fitted.smoothing}; {surrogate}{landmarks}Written to {written}")


def print_accuracy(explainer: TimeX, series: Series) -> None:
    """Print how often the model predicts the given labels, if there are any: another order of classes shows here."""
    if series.y is None or explainer.how.given.get("task") is not None or explainer.how.given.get("target") is not None:
        return
    few = series.take(slice(0, ASKED))
    right = float((explainer.explain(few).probability.argmax(axis=1) == few.labels).mean())
    guess = float((few.labels[:, None] == few.labels).mean(axis=1).max())
    doubt = "" if right > guess else ". [yellow]Are the labels in the order of the model's classes?[/]"
    console.print(f"The model predicts the label of {right:.1%} of {len(few):,} training series (guessing: {guess:.1%}){doubt}")


def settings(preset: Preset, data: str, arch: str, given: dict[str, Any], assignments: Sequence[str] = ()) -> TimeXConfig:
    """The preset, changed by options that were given, then by `--set`.

    Args:
        preset: "default" or "paper".
        data: The data set; the paper has settings for each of its own.
        arch: The architecture of the model; the settings depend on it too.
        given: Values of options by the name of the setting; None for options that were not given.
        assignments: Settings as name=value.
    """
    if preset == "paper" and Path(data).suffix:
        raise ValueError(f"Expected one of the paper's data sets as --data with --preset paper, got the file {data}.")
    config = TimeXConfig.paper(data, arch) if preset == "paper" else TimeXConfig()
    return config.replaced({name: v for name, v in given.items() if v is not None}).updated(assignments)
