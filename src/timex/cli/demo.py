"""`timex demo`: the whole chain on LowVar."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timex.cli.console import console
from timex.cli.files import check_folder, write_json
from timex.cli.options import Device, Out, Seed, device_of
from timex.cli.report import write_page
from timex.method.config import TimeXConfig
from timex.progress import counting_bar

if TYPE_CHECKING:
    from timex import Explanation, TimeX


DATASET = "lowvar"
"""On this set amplitude, a dummy that knows no model, finds nothing."""


def demo(
    out: Out = Path("demo"),
    seed: Seed = 0,
    reference_epochs: Annotated[int, typer.Option(help="Epochs of the reference model.")] = 4,
    epochs: Annotated[int | None, typer.Option(help="Epochs of TimeX; by default about 300 steps.")] = None,
    device: Device = None,
) -> None:
    """Train a CNN on LowVar, fit TimeX to it, score the explanations, and write a page to look at.

    It needs no data and no GPU. Everything goes to the folder --out: open report.html there in a browser.
    """
    import torch

    from timex import TimeX, load_dataset
    from timex.cli.models import REFERENCE, Source
    from timex.cli.scores import print_scores, scores_of
    from timex.explainers import IntegratedGradients
    from timex.reference import save_reference
    from timex.reference.train import TrainConfig, train_references

    check_folder(out)
    where = device_of(device)
    torch.set_num_threads(1)  # on models this small, threads wait for each other longer than they compute
    started = time.perf_counter()
    data = load_dataset(DATASET)
    console.print(
        f"LowVar: {len(data.train):,} series of {data.train.shape[1]} steps on two sensors. A quiet segment decides the class; "
        "large values say nothing."
    )
    config = TrainConfig(seed=seed, epochs=reference_epochs, lr=3e-3, model={"width": 32})
    trained = train_references([data], "cnn", config, device=where)[0]
    console.print(f"reference model: F1 {trained.test['f1']:.3f} on test data")
    explainer = TimeX(trained.model, config=TimeXConfig(epochs=epochs, seed=seed), device=where)
    explainer.fit(data.train, x_val=data.val)
    with counting_bar("scoring"):
        scores = scores_of(explainer, data.test, data.train)
        explanations = {
            "timex": explainer.explain(data.test),
            "ig": IntegratedGradients(trained.model, device=where).explain(data.test),
        }
    scores["reference"] = {"f1": trained.test["f1"]}
    print_scores(scores)

    explainer.save(out / "explainer")
    save_reference(trained.model, out / "explainer" / REFERENCE, dataset=DATASET, fold=0)
    Source().write(out / "explainer")
    explanations["timex"].save(out / "explanations.npz")
    explanations["ig"].save(out / "explanations-ig.npz")
    write_json(scores, out / "scores.json")
    _draw(out, explainer, explanations)
    write_page(out, out / "report.html", "timex demo: LowVar")
    console.print(
        f"{time.perf_counter() - started:.0f} s. Scores, figures, explanations and the explainer are in {out}/: "
        f"open {out / 'report.html'} in a browser."
    )


def _draw(out: Path, explainer: TimeX, explanations: dict[str, Explanation]) -> None:
    """Figures of one sample of every predicted class, of the landmarks, and of the training."""
    import numpy as np

    from timex.report import plots

    ours = explanations["timex"]
    _, chosen = np.unique(ours.prediction, return_index=True)
    figures = {
        "explanation": ours.plot(int(chosen[0])),
        "comparison": plots.plot_comparison({"TimeX": ours, "IG": explanations["ig"]}, chosen.tolist()),
        "landmarks": plots.plot_landmarks(ours, explainer.landmarks),
        "history": plots.plot_history(explainer.history),
    }
    for name, figure in figures.items():
        plots.save(figure, out / f"{name}.png")
