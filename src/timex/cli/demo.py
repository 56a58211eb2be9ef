"""`timex demo`: the whole chain on LowVar."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from timex.cli.check import COLOURS, write_stability
from timex.cli.console import console
from timex.cli.files import check_folder, write_json
from timex.cli.options import Device, Out, Seed, device_of
from timex.cli.report import write_page
from timex.method.config import TimeXConfig
from timex.progress import counting_bar

if TYPE_CHECKING:
    from timex import Explanation
    from timex.trust.check import Check


DATASET = "lowvar"
"""On this set amplitude, a dummy that knows no model, finds nothing."""
FITTED, SHOWN, CHECKED = 2_000, 400, 200
"""Series that TimeX is fitted to, that are explained and scored, and that are checked: few, so that the demo is quick."""


def demo(
    out: Out = Path("demo"),
    seed: Seed = 0,
    reference_epochs: Annotated[int, typer.Option(help="Epochs of the reference model.")] = 4,
    epochs: Annotated[int, typer.Option(help="Epochs of TimeX.")] = 6,
    device: Device = None,
) -> None:
    """Train a CNN on LowVar, fit TimeX to it, score and check the explanations, and write a page to look at.

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
    explainer.fit(data.train.take(slice(0, FITTED)), x_val=data.val)
    shown = data.test.take(slice(0, SHOWN))
    with counting_bar("scoring"):
        scores = scores_of(explainer, shown, data.train.take(slice(0, SHOWN)))
        explanations = {
            "timex": explainer.explain(shown),
            "ig": IntegratedGradients(trained.model, device=where).explain(shown),
        }
    scores["reference"] = {"f1": trained.test["f1"]}
    print_scores(scores)
    with counting_bar("asking the model"):
        found = explainer.check(shown.take(slice(0, CHECKED)))
        write_stability(explainer, shown, out / "stability.json")
    _print_verdict(found)

    explainer.save(out / "explainer")
    save_reference(trained.model, out / "explainer" / REFERENCE, dataset=DATASET, fold=0)
    Source().write(out / "explainer")
    explanations["timex"].save(out / "explanations.npz")
    explanations["ig"].save(out / "explanations-ig.npz")
    write_json(scores, out / "scores.json")
    write_json(found.to_dict(), out / "check.json")
    _draw(out, explanations["timex"])
    write_page(out, out / "report.html", "timex demo: LowVar")
    console.print(f"{time.perf_counter() - started:.0f} s. Everything is in {out}/.")
    _print_next(out)


def _print_verdict(found: Check) -> None:
    """The verdict of the check in two lines: what hiding cells showed, and what to do."""
    console.print(f"check on {found.overall.n:,} series: [bold {COLOURS[found.verdict]}]{found.verdict}[/]")
    names = {f.name for f in found.overall.findings}
    hiding = [found.overall[name] for name in ("kept alone", "without kept") if name in names]
    doubts = [f for f in found.overall.findings if f.verdict != "trust" and f not in hiding]
    for finding in (*hiding, *doubts):
        console.print(
            f"  {escape(finding.meaning)}" + (f" [dim](to do: {escape(finding.advice)})[/]" if finding.advice else "")
        )


def _print_next(out: Path) -> None:
    """Where to look, and three commands to go on with."""
    explainer = out / "explainer"
    console.print(f"\nOpen [bold]{out / 'report.html'}[/] in a browser. Then try:")
    for command, why in (
        (f"timex check {explainer} --data {DATASET}", "every question that was put to the model"),
        (f"timex explain --explainer {explainer} --data {DATASET} --json", "classes, trust and spans of all series"),
        ("timex inspect my_model.py:load --data my_series.npz", "your own model: its layers, and which to explain"),
    ):
        console.print(f"  [bold]{command}[/]\n    {why}")


def _draw(out: Path, explanation: Explanation) -> None:
    """The figure of the most typical sample of the first class."""
    from timex.report import plots

    typical = int(explanation.summary()["typical"].iloc[0])
    plots.save(explanation.plot(typical), out / "explanation.png")
