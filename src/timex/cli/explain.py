"""`timex explain`: explanations of every series of a file, by TimeX or another method."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from timex.cli.console import console
from timex.cli.files import check_file
from timex.cli.options import Device, Fold, MaxBytes, Model, Saved, TrustModel
from timex.progress import counting_bar

if TYPE_CHECKING:
    from timex import Explanation, Series, TimeX

SHOWN = 5
"""Samples in the printed table."""


def explain(
    explainer: Saved,
    data: Annotated[str, typer.Option(help="Series to explain: a file, or the name of a data set (its test part).")],
    out: Annotated[
        Path | None, typer.Option(help="File to write: .npz (everything), .parquet or .csv (a row per cell).")
    ] = None,
    method: Annotated[str, typer.Option(help="timex, or another method to compare with, such as ig or winit.")] = "timex",
    train: Annotated[
        str | None, typer.Option(help="Series to fit --method on, if it needs a fit; by default those of --data.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Class to explain by another --method: a name, an index, or runner-up; by default the predicted one."
        ),
    ] = None,
    contrast: Annotated[
        str | None, typer.Option(help="Second class, given as --target: the scores then say why the target and not this one.")
    ] = None,
    model: Model = None,
    trust_model: TrustModel = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every sample's summary as JSON, and nothing else.")] = False,
    fold: Fold = 0,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Explain a model's predictions on every series of a file.

    Prints, for the first samples, the class, the model's confidence, whether the surrogate agrees, and the most important
    spans of time. `--json` prints all samples. `--out` writes the explanations; in the explainer's folder, `timex report` finds
    them.
    """
    from timex.cli.inputs import explained_series, training_series, warn_of_missing
    from timex.cli.models import open_explainer
    from timex.io.explanations import write_explanation
    from timex.registry import EXPLAINERS, find

    if out is not None:
        check_file(out, ".npz", ".parquet", ".csv")
    find(EXPLAINERS, method, "method").check_target(target, contrast)
    fitted = open_explainer(explainer, model, trust_model, device)
    series = explained_series(data, fold, fitted.fitted.names, max_bytes)
    warn_of_missing(fitted.fitted.reference, series)
    started = time.perf_counter()
    with counting_bar(f"explaining {len(series):,} series"):
        if method == fitted.name:
            explanation = fitted.explain(series)
        else:
            known = series if train is None else training_series(train, None, fold, max_bytes)[0]
            explanation = _explained_by(method, fitted, series, known, target, contrast)
    seconds = time.perf_counter() - started
    if out is not None:
        write_explanation(out, explanation)
    if as_json:
        samples = [summary(explanation, i) for i in range(len(explanation))]
        written = None if out is None else str(out)
        print(
            json.dumps(
                {"method": method, "model": explanation.model_hash, "seconds": seconds, "written": written, "samples": samples}
            )
        )
        return
    print_summaries(explanation)
    agree = "" if explanation.agreement is None else f"; surrogate and model agree on {explanation.agreement.mean():.1%}"
    written = "Nothing was written: give --out FILE to keep them." if out is None else f"Written to {out}"
    console.print(f"{len(explanation):,} explanations in {seconds:.2f} s{agree}. {written}")


def _explained_by(
    method: str, fitted: TimeX, series: Series, train: Series, target: str | None, contrast: str | None
) -> Explanation:
    """Explanations of the same model by another method, which is fitted to `train` if it needs a fit."""
    from timex.registry import EXPLAINERS

    names = fitted.fitted.names
    series = series.named(names.channels, names.units, names.classes, names.scaling)
    asked, against = (_class_of(given, series.classes) for given in (target, contrast))  # a wrong name ends before the fit
    other = EXPLAINERS[method](fitted.fitted.reference, device=fitted.device)
    return other.fit(train).explain(series, asked, contrast=against)


def _class_of(given: str | None, classes: tuple[str, ...]) -> str | int | None:
    """A class as an option names it: by its name, by its index, or as the runner-up."""
    from timex.explainers.target import RUNNER_UP, target_indices

    if given is None or given == RUNNER_UP:
        return given
    return int(given) if given.isdecimal() and given not in classes else int(target_indices(given, 1, classes)[0])


def summary(explanation: Explanation, i: int) -> dict[str, Any]:
    """The class, the trust and the most important spans of sample `i`."""
    from timex.report.spans import important_spans

    def named(c: int) -> str | int:
        return explanation.classes[c] if explanation.classes else c

    series, c = explanation.series, int(explanation.prediction[i])
    facts: dict[str, Any] = {"sample": series.ids[i] if series.ids else i}
    if explanation.numbers is None:
        facts |= {"class": named(c), "confidence": float(explanation.probability[i, c])}
        if explanation.contrast is not None:
            facts["contrast"] = named(int(explanation.contrast[i]))
    else:
        facts["numbers"] = explanation.numbers[i].tolist()
    if series.y is not None:
        facts["label"] = named(int(series.y[i]))
    if explanation.agreement is not None and explanation.divergence is not None and explanation.landmark is not None:
        facts |= {
            "agreement": bool(explanation.agreement[i]),
            "divergence": float(explanation.divergence[i]),
            "landmark": int(explanation.landmark[i]),
        }
    if explanation.unfamiliar is not None:
        facts["unfamiliar"] = bool(explanation.unfamiliar[i])
    if explanation.mask is not None:
        facts["kept"] = float(explanation.mask[i].mean())
    return facts | {"spans": [span._asdict() for span in important_spans(explanation, i)]}


def print_summaries(explanation: Explanation) -> None:
    """A table of the first samples."""
    labelled, trusted = explanation.series.y is not None, explanation.agreement is not None
    against = ["contrast"] if explanation.contrast is not None else []
    answer = ["class", *against, "confidence"] if explanation.numbers is None else ["numbers"]
    columns = ["sample", *(["label"] if labelled else []), *answer, *(["surrogate"] if trusted else [])]
    table = Table(*columns, "most important spans")
    for i in range(min(SHOWN, len(explanation))):
        table.add_row(*_row(summary(explanation, i)))
    console.print(table)
    if len(explanation) > SHOWN:
        console.print(f"... and {len(explanation) - SHOWN:,} more: --json prints all, `timex report` shows them.")


def _row(facts: dict[str, Any]) -> list[str]:
    """The cells of one sample's row."""
    from timex.report.spans import Span

    row = [escape(str(facts[name])) for name in ("sample", "label", "class", "contrast") if name in facts]
    if "numbers" in facts:
        row.append(", ".join(f"{v:.4g}" for v in facts["numbers"]))
    else:
        row.append(f"{facts['confidence']:.2f}")
    if "agreement" in facts:
        row.append("agrees" if facts["agreement"] else "[yellow]disagrees[/]")
    spans = "\n".join(str(Span(**span)) for span in facts["spans"]) or "none: all cells have the same score"
    if facts.get("kept") == 0:
        spans = f"no cell kept (p > .5); highest:\n{spans}"
    return [*row, escape(spans)]
