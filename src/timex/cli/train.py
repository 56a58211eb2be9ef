"""`timex train`: a reference model to explain."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from timex.cli.console import console, print_if_weak
from timex.cli.files import check_folder, keep
from timex.cli.options import Device, Epochs, Fold, MaxBytes, Out, Seed, device_of
from timex.cli.resuming import KeepPartial, Resume, checkpoint_of

if TYPE_CHECKING:
    from timex.records import Dataset
    from timex.reference.train import TrainedReference


def train(
    dataset: Annotated[str, typer.Argument(help="Name of a data set (`timex data list`), or a file of labelled series.")],
    out: Out,
    arch: Annotated[str, typer.Option(help="transformer, transformer_residual, cnn or lstm.")] = "transformer",
    fold: Fold = 0,
    seed: Seed = 0,
    epochs: Epochs = None,
    resume: Resume = False,
    keep_partial: KeepPartial = False,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Train a reference model with the paper's preset, keep the epoch with the best validation F1, and save it.

    A file is split by class: 70 % to train on, 15 % to validate and 15 % to test.

    Checkpoints of every epoch stand beside --out until the training is done; after a stop, the same command with --resume goes
    on from them.
    """
    from timex.cli.inputs import is_file, labelled_dataset
    from timex.data import load_dataset
    from timex.paper import published
    from timex.reference import REFERENCES, save_reference
    from timex.reference.train import preset, train_references
    from timex.registry import find

    find(REFERENCES, arch, "architecture")
    check_folder(out)
    data = labelled_dataset(dataset, seed, max_bytes) if is_file(dataset) else load_dataset(dataset, fold=fold)
    config = replace(preset(dataset, arch), seed=seed)
    config = config if epochs is None else replace(config, epochs=epochs)
    started = time.perf_counter()
    with checkpoint_of(out, resume, keep_partial) as checkpoint:
        trained = train_references([data], arch, config, device=device_of(device), checkpoint=checkpoint)[0]
        written = keep(out, lambda folder: save_reference(trained.model, folder, **facts_of(dataset, trained, data)))
    scores = {"val": trained.val, "check": trained.check, "test": trained.test}
    paper = published("classification", dataset) if arch == "transformer" else {}
    table = Table("", "F1", "AUPRC", "AUROC", title=f"{arch} on {dataset}, fold {fold}")
    for name, row in ({**scores, "paper, test": paper} if paper else scores).items():
        table.add_row(name, *(f"{row[k]:.4f}" if k in row else "-" for k in ("f1", "auprc", "auroc")))
    console.print(table)
    print_if_weak(trained.passed, trained.attempts)
    seconds = time.perf_counter() - started
    console.print(f"epoch {trained.epoch}, {trained.attempts} attempt(s), {seconds:.0f} s. Written to {written}")


def facts_of(dataset: str, trained: TrainedReference, data: Dataset) -> dict[str, Any]:
    """What is kept of a trained reference beside its weights."""
    return {
        "dataset": dataset,
        "fold": data.fold,
        "seed": trained.seed,
        "epoch": trained.epoch,
        "attempts": trained.attempts,
        "passed": trained.passed,
        "scores": {"val": trained.val, "check": trained.check, "test": trained.test},
        "channels": data.channels,
        "classes": data.classes,
    }
