"""`timex explain`: explanations of every series of a file, by TimeX or another method."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from timex.cli.console import console
from timex.cli.files import check_file, check_folder
from timex.cli.options import Device, Fold, MaxBytes, Model, Saved, TrustModel
from timex.cli.summaries import SHOWN, print_summaries, summary
from timex.progress import counting_bar

if TYPE_CHECKING:
    from timex import Explanation, Series
    from timex.explainers.base import Explainer
    from timex.io.sources import Source
    from timex.method.task import Names
    from timex.scale.job import Job

Engine = Literal["local", "ray"]
Data = Annotated[
    str, typer.Option(help="Series to explain: a file, a folder of files, or the name of a data set (its test part).")
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Where to write: .parquet, .csv (a row per cell) or a folder of .parquet parts, in constant memory; .npz "
        "(everything, held in memory)."
    ),
]
Method = Annotated[str, typer.Option(help="timex, or another method to compare with, such as ig or winit.")]
Train = Annotated[str | None, typer.Option(help="Series to fit --method on, if it needs a fit; by default those of --data.")]
Target = Annotated[
    str | None,
    typer.Option(help="Class to explain by another --method: a name, an index, or runner-up; by default the predicted one."),
]
Contrast = Annotated[
    str | None, typer.Option(help="Second class, given as --target: the scores then say why the target and not this one.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Explain only the first so many series.")]
Samples = Annotated[
    str | None, typer.Option(help="Explain only these series: ids or numbers from 0, with commas between them.")
]
Json = Annotated[bool, typer.Option("--json", help="Print every sample's summary as one line of JSON, and nothing else.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the parts that a stopped run left.")]
OnEngine = Annotated[
    Engine, typer.Option(help="local, or ray: the chunks are spread over a Ray cluster, whose nodes share a disk.")
]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster; by default a local one is started.")]


def explain(
    explainer: Saved,
    data: Data,
    out: Out = None,
    method: Method = "timex",
    train: Train = None,
    target: Target = None,
    contrast: Contrast = None,
    limit: Limit = None,
    samples: Samples = None,
    model: Model = None,
    trust_model: TrustModel = False,
    as_json: Json = False,
    resume: Resume = False,
    engine: OnEngine = "local",
    address: Address = None,
    fold: Fold = 0,
    max_bytes: MaxBytes = None,
    device: Device = None,
) -> None:
    """Explain a model's predictions on every series of a file.

    Prints, for the first samples, the class, the model's confidence, whether the surrogate agrees, and the most important
    spans of time. `--json` prints all samples. `--out` writes the explanations; in the explainer's folder, `timex report` finds
    explanations.npz.

    A .parquet or .npz file, or a folder of them, is read and written in parts: memory does not grow with its length, and
    after a stop the same command with --resume goes on.
    """
    from timex.cli.inputs import warn_of_missing_cells
    from timex.cli.models import open_explainer
    from timex.cli.streaming import begun, explainer_hash, opened, parts_of, spread
    from timex.registry import EXPLAINERS, find
    from timex.scale.job import Job

    _check_out(out)
    find(EXPLAINERS, method, "method").check_target(target, contrast)
    fitted = open_explainer(explainer, model, trust_model, device)
    known = fitted.fitted.names
    source, facts = _source(data, fold, known, max_bytes, limit, samples)
    target_class, contrast_class = _classes_of(target, contrast, source, known)
    open_fitted = partial(open_explainer, explainer.absolute(), model, trust_model, device)
    known_series = partial(_known_series, train, data, fold, known, max_bytes)
    job = Job(
        open=partial(opened, open_fitted, method, known_series),
        source=source,
        n_steps=fitted.fitted.shape[0],
        names=vars(known),
        target=target_class,
        contrast=contrast_class,
        parts=parts_of(out),
    )
    settings = {
        "method": method,
        "target": target_class,
        "contrast": contrast_class,
        "chunks": len(source.chunks),
        "train": train,
    }
    started = time.perf_counter()
    with begun(out, job.parts, {"data": facts, "explainer": explainer_hash(explainer), "settings": settings}, resume):
        by = opened(lambda: fitted, method, known_series)
        if engine == "ray":
            spread(job, by, address)
        first, totals = _written(job, by, out, as_json)
    warn_of_missing_cells(fitted.fitted.reference, totals["missing"], totals["cells"])
    if not as_json:
        _print(first, totals, out, time.perf_counter() - started)


# ----------------------------------------------------------------------------------------------------------- arguments


def _check_out(out: Path | None) -> None:
    """Refuse an --out that cannot be written, before any work."""
    if out is not None and out.suffix:
        check_file(out, ".npz", ".parquet", ".csv")
    elif out is not None:
        check_folder(out)


def _source(
    data: str, fold: int, names: Names, max_bytes: int | None, limit: int | None, samples: str | None
) -> tuple[Source, dict[str, Any]]:
    """The series to explain, all or some, and what tells them from others."""
    from timex.cli.inputs import chosen_series, explained_series, opened_series
    from timex.io.sources import SeriesSource

    if limit is None and samples is None:
        return opened_series(data, fold, names, max_bytes)
    chosen = chosen_series(explained_series(data, fold, names, max_bytes), limit, samples)
    return SeriesSource(chosen), {"data": data, "sha256": chosen.digest}


def _known_series(train: str | None, data: str, fold: int, names: Names, max_bytes: int | None) -> Series:
    """The series that a method is fitted to: those of --train, else those to explain."""
    from timex.cli.inputs import explained_series, training_series

    if train is not None:
        return training_series(train, None, fold, max_bytes)[0]
    return explained_series(data, fold, names, max_bytes).named(**vars(names))


def _classes_of(target: str | None, contrast: str | None, source: Source, names: Names) -> list[str | int | None]:
    """The classes that --target and --contrast name; a wrong name ends the command before a fit."""
    if target is None and contrast is None:
        return [None, None]
    _, series = next(source.read(source.chunks[:1]))
    classes = series.named(**vars(names)).classes
    return [_class_of(given, classes) for given in (target, contrast)]


def _class_of(given: str | None, classes: tuple[str, ...]) -> str | int | None:
    """A class as an option names it: by its name, by its index, or as the runner-up."""
    from timex.explainers.target import RUNNER_UP, target_indices

    if given is None or given == RUNNER_UP:
        return given
    return int(given) if given.isdecimal() and given not in classes else int(target_indices(given, 1, classes)[0])


# ------------------------------------------------------------------------------------------------ explained and written


def _written(job: Job, explainer: Explainer[Any], out: Path | None, as_json: bool) -> tuple[Explanation, Counter[str]]:
    """Explain and write what is not written yet; the explanations of the first chunk and the totals of the facts."""
    from timex.cli.streaming import check_longest
    from timex.io.explanations import write_explanation
    from timex.records import Explanation

    first, kept, totals = _explained(job, explainer, as_json, keep=job.parts is None and out is not None)
    if len(job.source.chunks) > 1:
        check_longest(job, totals)
    if out is not None and job.parts is None:
        write_explanation(out, Explanation.joined(kept))
    elif out is not None and job.parts is not None and out.suffix:
        job.parts.join(out, len(job.source.chunks))
        job.parts.clear()
    return first, totals


def _explained(
    job: Job, explainer: Explainer[Any], as_json: bool, keep: bool
) -> tuple[Explanation, list[Explanation], Counter[str]]:
    """The explanations of the first chunk, those of all chunks if they are kept in memory, and the totals of the facts."""
    from timex.cli.streaming import interruptible, results

    kept: list[Explanation] = []
    totals: Counter[str] = Counter()
    n = job.source.chunks[-1].first + job.source.chunks[-1].samples
    with counting_bar(f"explaining {n:,} series", total=n) as update, interruptible(job):
        for chunk, explanation, facts in results(job, explainer, lambda chunk: as_json or chunk.number == 0):
            longest = max(totals["longest"], facts["longest"])
            totals.update(facts)
            totals["longest"] = longest
            update(totals["samples"])
            if explanation is None:
                continue
            if keep or not kept:
                kept.append(explanation if keep else explanation[:SHOWN])  # what is not printed need not stay in memory
            if as_json:
                print("\n".join(json.dumps(summary(explanation, i, chunk.first)) for i in range(len(explanation))), flush=True)
    return kept[0], kept, totals


def _print(first: Explanation, totals: Counter[str], out: Path | None, seconds: float) -> None:
    """The summaries of the first samples, and where the explanations are."""
    print_summaries(first, totals["samples"])
    agree = f"; surrogate and model agree on {totals['agreeing'] / totals['samples']:.1%}" if "agreeing" in totals else ""
    written = "Nothing was written: give --out FILE to keep them." if out is None else f"Written to {out}"
    console.print(f"{totals['samples']:,} explanations in {seconds:.2f} s{agree}. {written}")
