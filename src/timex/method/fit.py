"""Fitting: prepare tasks (pure), train them as one program where shapes agree, keep what was learned in one record.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from timex import engine
from timex.explainers.splitting import labelled
from timex.method.evidence import EvidenceObjective, SurrogateObjective
from timex.method.finish import Fitted, History, Masks, finish, finished_masks
from timex.method.instance import InstanceObjective
from timex.method.objective import Objective
from timex.method.resume import expect_same_task
from timex.method.task import Shared, Task, prepare
from timex.progress import training_bar
from timex.records import Series, as_series
from timex.records.series import EXTRA

if TYPE_CHECKING:
    from timex.method.explainer import TimeX

log = logging.getLogger(__name__)

STEPS = 300
"""Steps of the generator that a fit takes by default, about."""
SURROGATE_EPOCHS = 2 / 3
"""Epochs of the surrogate after the evidence objective, in parts of the generator's."""
SURROGATE_LR = 1 / 3
"""Learning rate of the surrogate, which starts as a copy of the model, in parts of the generator's."""


def fit_many(
    explainers: Sequence[TimeX], data: Sequence[tuple[Any, Any, Any]], *, progress: bool = True, **options: Any
) -> list[TimeX]:
    """Fit several explainers as one program: folds, seeds, ablation arms.

    Explainers train together if their settings differ only in numbers (prices, lambdas, learning rate, seed) and their data and
    models have equal shapes. The others train in groups, one after another.

    Args:
        explainers: Unfitted explainers.
        data: For each (x, y or None, x_val or None), as arrays or `Series`.
        progress: Show a progress bar.
        options: Passed to `engine.train`; checkpoint= (a `timex.engine.Checkpoint`) keeps the states of a single fit.

    Returns:
        The explainers, fitted.

    Raises:
        RuntimeError: If some trainings diverged. Their explainers stay as they were; the others are fitted.
    """
    if len(data) != len(explainers):
        raise ValueError(f"Expected data for each of {len(explainers)} explainers, got {len(data)}.")
    series = [(labelled(as_series(x), y), None if val is None else as_series(val)) for x, y, val in data]
    fits = fit_all(explainers, series, progress, options)
    for explainer, fitted in zip(explainers, fits, strict=True):
        if fitted is not None:
            explainer.fitted_ = fitted
    diverged = [str(i) for i, fitted in enumerate(fits) if fitted is None]
    if diverged:
        many = f" Explainer {', '.join(diverged)} of {len(explainers)} diverged; the others are fitted."
        raise engine.Diverged(many if len(explainers) > 1 else "")
    return list(explainers)


def fit_all(
    explainers: Sequence[TimeX], data: Sequence[tuple[Series, Series | None]], progress: bool, options: dict[str, Any]
) -> list[Fitted | None]:
    """What each fit learned; None where the training diverged. The explainers stay as they are."""
    shared: Shared = {}
    rows = list(zip(explainers, data, strict=True))
    tasks = [prepare(explainer, *series, shared) for explainer, series in rows]
    if (checkpoint := options.get("checkpoint")) is not None:
        if len(tasks) > 1:
            raise ValueError(f"Expected one explainer with checkpoint=, got {len(tasks)}: fit them one after another.")
        expect_same_task(checkpoint, tasks[0])
    for task, (series, val) in zip(tasks, data, strict=True):
        if val is None:
            log.info("no x_val: %d of %d samples are held out for validation", len(series) - len(task.kept), len(series))
    fits = train(tasks, progress, options)
    for fitted in fits:
        if fitted is not None:
            fitted.quality.warn()
    return fits


def train(tasks: Sequence[Task], progress: bool = True, options: dict[str, Any] | None = None) -> list[Fitted | None]:
    """Train tasks in as few programs as possible; None for those that diverge."""
    fits: list[Fitted | None] = [None] * len(tasks)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, task in enumerate(tasks):
        groups.setdefault(task.program if task.model.encoder.stackable else (i,), []).append(i)
    if engine.own_part().size > 1 and any(task.config.objective == "instance" for task in tasks):
        raise ValueError("Expected the objective evidence or paper with several processes, got instance: fit in one process.")
    for indices in groups.values():
        train_group = train_together if tasks[indices[0]].config.objective == "paper" else train_masks_first
        for i, fitted in zip(indices, train_group([tasks[i] for i in indices], progress, options or {}), strict=True):
            fits[i] = fitted
    return fits


def train_together(tasks: Sequence[Task], progress: bool, options: dict[str, Any]) -> list[Fitted | None]:
    """The paper's training, of generator, surrogate and landmarks at once; None for tasks that diverge."""
    first = tasks[0]
    runs = _run("TimeX", objective_of(first), first.device, [t.member for t in tasks], schedule_of(first), progress, options)
    fits: list[Fitted | None] = []
    for task, run in zip(tasks, runs, strict=True):
        if run.epoch < 0:
            fits.append(None)
            continue
        task.model.load_state_dict(run.params, strict=False)
        fits.append(finish(task, finished_masks(task), history_of(all=run)))
    return fits


def train_masks_first(tasks: Sequence[Task], progress: bool, options: dict[str, Any]) -> list[Fitted | None]:
    """The generator by the answers of the frozen model, then the surrogate on its masks; None for tasks that diverge."""
    first = tasks[0]
    fits: list[Fitted | None] = [None] * len(tasks)
    members = [task.member for task in tasks]
    runs = _run("generator", objective_of(first), first.device, members, schedule_of(first), progress, options)
    masks: dict[int, Masks] = {}
    for i, run in enumerate(runs):
        if run.epoch >= 0:
            tasks[i].model.load_masking(run.params)
            masks[i] = finished_masks(tasks[i])
    if not masks:
        return fits
    objective = SurrogateObjective(first.model.to(first.device), first.config, first.fill)
    members = [_surrogate_member(tasks[i], masks[i]) for i in masks]
    schedule = schedule_of(first, surrogate=True)
    given = engine.digest_of(runs[0].params)  # checkpoints of a surrogate belong to one generator
    surrogates = _run("surrogate", objective, first.device, members, schedule, progress, options, given)
    for i, run in zip(masks, surrogates, strict=True):
        if run.epoch >= 0:
            tasks[i].model.surrogate.load_state_dict(run.params, strict=False)
            fits[i] = finish(tasks[i], masks[i], history_of(generator=runs[i], surrogate=run))
    return fits


def objective_of(task: Task) -> engine.Program:
    """The program that trains a task, on its device."""
    model, reference = task.model.to(task.device), task.reference.to(task.device)
    if task.config.objective == "evidence":
        return EvidenceObjective(model, reference, task.config, task.fill)
    if task.config.objective == "instance":
        return InstanceObjective(model, reference, task.config, task.fill)
    return Objective(model, reference, task.config)


def schedule_of(task: Task, surrogate: bool = False) -> engine.Schedule:
    """Epochs, batch size and learning-rate schedule for the engine."""
    config = task.config
    steps = -(-len(task.train) // config.batch_size)
    epochs = config.epochs or max(1, round(STEPS / steps))
    return engine.Schedule(
        epochs=max(1, round(SURROGATE_EPOCHS * epochs)) if surrogate else epochs,
        batch_size=config.batch_size,
        patience=config.training.patience,
        warmup=0 if config.objective == "paper" else min(50, steps),
        decay=config.training.scheduler == "cosine",
        clip=math.inf if config.training.clip is None else config.training.clip,
        plateau_factor=0.1 if config.training.scheduler == "plateau" else 1.0,
    )


def _surrogate_member(task: Task, masks: Masks) -> engine.Member:
    """The training of the surrogate, as the engine takes it."""
    names = ("x", "times", "observed", "z", "logits")
    parts = task.member.train, task.member.val
    data = ({n: v for n, v in part.items() if n in names or n.startswith(EXTRA)} for part in parts)
    train, val = ({**part, "p": p} for part, p in zip(data, (masks.train, masks.val), strict=True))
    return dataclasses.replace(
        task.member,
        params={name: v.detach() for name, v in task.model.surrogate.named_parameters()},
        frozen={name: torch.as_tensor(v) for name, v in task.baseline._asdict().items()},
        train=train,
        val=val,
        lr=SURROGATE_LR * task.member.lr,
    )


def _run(
    label: str,
    objective: engine.Program,
    device: torch.device,
    members: list[engine.Member],
    schedule: engine.Schedule,
    progress: bool,
    options: dict[str, Any],
    given: str = "",
) -> list[engine.Trained]:
    others = {name: value for name, value in options.items() if name != "checkpoint"}
    checkpoint: engine.Checkpoint | None = options.get("checkpoint")
    keeper = None if checkpoint is None else checkpoint.stage(label, given)
    with training_bar(label, progress) as on_epoch:
        return engine.train(objective, members, schedule, device=device, on_epoch=on_epoch, keeper=keeper, **others)


def history_of(**runs: engine.Trained) -> History:
    """One row per epoch, numbered through the parts: the part, the figures, and whether the epoch was selected in its part."""
    rows: list[dict[str, Any]] = []
    for part, run in runs.items():
        first = len(rows)
        rows += [
            {"part": part, **row, "epoch": first + row["epoch"], "selected": row["epoch"] == run.epoch} for row in run.history
        ]
    return tuple(rows)
