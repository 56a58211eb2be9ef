"""What one process does for a task: train models, fit TimeX, or explain and score. It writes under the run directory alone."""

from __future__ import annotations

import json
import platform
import subprocess
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

import timex
from timex.bench import forecasting
from timex.bench.cells import Cell, data_digest
from timex.bench.measures import MEASURES, Fitted, Subject
from timex.bench.plan import SECONDS, Task
from timex.bench.recipes import MAX_FIT, REFERENCE, few, shrunk
from timex.bench.store import Result
from timex.data import load_dataset
from timex.data.prepare import digest_of
from timex.io.atomic import atomic_path
from timex.method.explainer import TimeX
from timex.method.fit import fit_many
from timex.records import Dataset
from timex.reference import load_reference, save_reference
from timex.reference.forecaster import Forecaster, train_forecaster
from timex.reference.train import train_references
from timex.registry import EXPLAINERS, find


@dataclass(frozen=True)
class Outcome:
    """The result of a task: finished or failed cells, and the error of a training that other tasks wait for."""

    results: Sequence[Result] = ()
    error: str | None = None
    seconds: float = 0.0


def work(task: Task, root: Path, device: str, upstream: Sequence[str] = (), progress: bool = False) -> Outcome:
    """Do a task; an error is part of the outcome, and other tasks go on.

    Args:
        task: What to do.
        root: The run directory, with the task's inputs in it.
        device: Where to compute.
        upstream: Errors of the tasks it depends on; with one of them the task fails at once.
        progress: Show a bar for trainings.
    """
    started = time.perf_counter()
    try:
        if upstream:
            raise RuntimeError(upstream[0])
        results = {"reference": _train, "fit": _fit, "measure": _measure}[task.kind](task, root, device, progress)
    except Exception as failure:  # any failure of any explainer, model or data set
        return failed(task, device, upstream[0] if upstream else _words(failure), traceback.format_exc())
    return Outcome(results, None, time.perf_counter() - started)


def failed(task: Task, device: str, error: str, trace: str = "") -> Outcome:
    """The outcome of a task that failed as a whole; cells that wait for a training fail when they are measured."""
    cells = task.cells if task.kind == "measure" else ()
    return Outcome([_result(cell, device, error=error, facts={"trace": trace}) for cell in cells], error)


def _words(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"


def _train(task: Task, root: Path, device: str, progress: bool) -> list[Result]:
    """Train the models of all folds as one program."""
    if task.cells[0].experiment.arch == Forecaster.arch:
        return _train_forecasters(task, root, device, progress)
    first = {cell.reference_folder: cell for cell in task.cells}
    data = [_data(cell) for cell in first.values()]
    cell = task.cells[0]
    seeds = [c.seed + c.fold for c in first.values()]
    started = time.perf_counter()
    trained = train_references(data, cell.experiment.arch, cell.reference, device=device, seeds=seeds, progress=progress)
    seconds = (time.perf_counter() - started) / len(trained)
    for folder, d, t in zip(first, data, trained, strict=True):
        facts = {"dataset": d.name, "fold": d.fold, "seed": t.seed, "epoch": t.epoch, "attempts": t.attempts}
        scores = {"val": t.val, "check": t.check, "test": t.test}
        save_reference(t.model, root / folder, **facts, passed=t.passed, scores=scores, seconds=seconds)
    return []


def _train_forecasters(task: Task, root: Path, device: str, progress: bool) -> list[Result]:
    """Forecasters of one data set, which differ in their seeds."""
    for folder, cell in {cell.reference_folder: cell for cell in task.cells}.items():
        started = time.perf_counter()
        options: dict[str, Any] = {"seed": cell.seed + cell.fold, "device": device, "progress": progress}
        model, scores = train_forecaster(forecasting.windows(cell.smoke), cell.reference, **options)
        facts = {"fold": cell.fold, "seed": options["seed"], "passed": None, "scores": {"test": scores}}
        save_reference(model, root / folder, **facts, seconds=time.perf_counter() - started)
    return []


def _fit(task: Task, root: Path, device: str, progress: bool) -> list[Result]:
    """Fit TimeX on all folds, in all arms that differ only in numbers, as one program. TimeX gets no labels."""
    first = {cell.explainer_folder: cell for cell in task.cells if cell.explainer_folder}
    explainers, data = [], []
    for cell in first.values():
        d = _data(cell)
        explainers.append(TimeX(load_reference(root / cell.reference_folder), config=cell.config, device=device))
        data.append((replace(d.train, y=None), None, d.val))
    started = time.perf_counter()
    try:
        fit_many(explainers, data, progress=progress)
    finally:  # if some diverged, the others are kept for the next run
        seconds = (time.perf_counter() - started) / len(explainers)
        for folder, explainer in zip(first, explainers, strict=True):
            if explainer.fitted_ is None:
                continue
            explainer.save(root / folder)
            with atomic_path(root / folder / SECONDS) as beside:
                beside.write_text(json.dumps({"fit_seconds": seconds, "together": len(explainers)}) + "\n")
    return []


def _measure(task: Task, root: Path, device: str, progress: bool) -> list[Result]:
    """Score one explainer on one fold by every measure; a failing measure leaves the others alone."""
    fitted = _fitted(task.cells[0], root, device, progress)
    subjects: dict[Any, Subject] = {}
    results = []
    for cell in task.cells:
        started = time.perf_counter()
        try:
            measure = find(MEASURES, cell.experiment.measure, "measure")
            if measure.samples not in subjects:
                subjects[measure.samples] = Subject(fitted, fitted.data.test.take(measure.samples(fitted)))
            subject = subjects[measure.samples]
            subject.absolute = cell.experiment.arm == "absolute"
            measured = measure.score(subject)
            if measured.keep is not None:
                measured.keep.save(root / cell.panel)
        except Exception as failure:
            results.append(_result(cell, device, error=_words(failure), facts={"trace": traceback.format_exc()}))
            continue
        seconds = {
            "train_seconds": fitted.facts.get("seconds"),
            "fit_seconds": fitted.fit_seconds,
            "explain_seconds": subject.explain_seconds,
            "measure_seconds": time.perf_counter() - started,
            "explained": len(subject.part),
            "reference_f1": fitted.facts["scores"]["test"].get("f1"),
            "reference_passed": fitted.facts["passed"],
            "weights": fitted.facts["hash"][:10],
            **_chosen(fitted.explainer),
        }
        scores = {"scores": measured.scores, "detail": measured.detail}
        results.append(_result(cell, device, **scores, facts=seconds))
    return results


def _chosen(explainer: Any) -> dict[str, Any]:
    """What a fit chose by itself, where its settings leave the choice."""
    learned = getattr(explainer, "fitted_", None)
    return {name: getattr(learned, name) for name in ("fill", "smoothing", "width") if hasattr(learned, name)}


def _fitted(cell: Cell, root: Path, device: str, progress: bool) -> Fitted:
    data, reference = _data(cell), load_reference(root / cell.reference_folder)
    facts = json.loads((root / cell.reference_folder / "reference.json").read_text())
    explainer: Any = None
    seconds = 0.0
    if cell.explainer_folder is not None:
        explainer = TimeX.load(root / cell.explainer_folder, reference, device=device)
        seconds = json.loads((root / cell.explainer_folder / SECONDS).read_text())["fit_seconds"]
    elif cell.experiment.method != REFERENCE:
        explainer = find(EXPLAINERS, cell.experiment.method, "explainer")(reference, config=cell.config, device=device)
        started = time.perf_counter()
        explainer.fit(few(data.train, MAX_FIT), x_val=few(data.val, MAX_FIT), progress=progress)
        seconds = time.perf_counter() - started
    return Fitted(data, reference, facts, explainer, seconds, device, cell.seed + cell.fold)


def _data(cell: Cell) -> Dataset:
    name = cell.experiment.dataset
    if data_digest(name) != cell.data:
        raise ValueError(
            f"Expected {name} prepared from the files that this run was planned with (digest {cell.data}), got other files "
            f"({data_digest(name)}): prepare the same download on every machine."
        )
    if cell.experiment.arch == Forecaster.arch:
        return forecasting.dataset(cell.smoke)
    return _load(name, cell.fold, cell.seed, cell.smoke, cell.data)


@lru_cache(maxsize=8)
def _load(name: str, fold: int, seed: int, smoke: bool, digest: str | None) -> Dataset:  # data of another digest is read again
    data = load_dataset(name, fold=fold, seed=seed)
    return shrunk(data) if smoke else data


@cache
def _code() -> dict[str, str | None]:
    """The code that measures: a digest of its files, and in a checkout the last commit that touched them."""
    folder = Path(timex.__file__).parent
    try:
        log = ["git", "-C", str(folder), "log", "-1", "--format=%h", "--", "."]
        commit = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git here
        commit = ""
    return {"code": digest_of(sorted(folder.rglob("*.py")))[:10], "commit": commit or None}


def _result(cell: Cell, device: str, facts: dict[str, Any] | None = None, **more: Any) -> Result:
    config = {"reference": asdict(cell.reference), "explainer": None if cell.config is None else asdict(cell.config)}
    about = {
        "data": cell.data,
        "reference": cell.reference_folder,
        "explainer": cell.explainer_folder,
        "panel": cell.panel,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "timex": timex.__version__,
        **_code(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Result(
        cell=cell.identity,
        key=cell.key,
        config_hash=cell.config_hash,
        facts={**(facts or {}), **about, "config": config},
        **more,
    )
