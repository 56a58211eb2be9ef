"""Run tables: plan what is left, do it here or on Ray, keep every cell as soon as it is finished.

Only the process that called `run` writes to the run directory, so workers need no shared disk: they send back their files.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from timex.bench.cells import Grid, cells_of
from timex.bench.plan import SECONDS, Task, plan
from timex.bench.store import Store
from timex.bench.tables import TABLES
from timex.bench.work import Outcome, failed, work
from timex.io.atomic import atomic_path
from timex.registry import find

Done = tuple[Task, Outcome]
LAST = ("reference.json", "explainer.json", SECONDS)
"""Files written last: their presence means that a folder is whole."""


@dataclass(frozen=True)
class Summary:
    """How a run went.

    Attributes:
        wanted: Cells of the tables.
        before: Cells that were there before.
        finished: Cells finished now.
        failed: The error of every cell that failed now, by its key.
        left: Cells not begun before the time limit.
    """

    wanted: int
    before: int
    finished: int
    failed: dict[str, str]
    left: int


def run(
    tables: Sequence[str],
    out: str | Path,
    grid: Grid | None = None,
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    archs: Sequence[str] = (),
    device: str | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    plugins: Sequence[str] = (),
    time_limit: float | None = None,
    say: Callable[[str], None] | None = None,
    progress: bool = False,
) -> Summary:
    """Measure every cell of some tables that is not measured yet.

    Args:
        tables: Keys of `TABLES`.
        out: The run directory: results, models and explainers. The same directory again continues the run.
        grid: Folds, seed, smoke.
        datasets: Data sets instead of the tables' own.
        methods: Methods instead of the tables' own, as `name` or `name:arm`.
        archs: Architectures of the models instead of the tables' own.
        device: cpu or cuda; by default the GPU if there is one.
        engine: local, or ray for tasks on Ray.
        address: Address of a Ray cluster; by default a local one is started.
        plugins: Modules to import first, which add to the registry.
        time_limit: Seconds after which no new task begins.
        say: Called with one line for every task.
        progress: Show bars for trainings.
    """
    started = time.monotonic()
    if engine not in ("local", "ray"):
        raise ValueError(f"Expected the engine local or ray, got {engine!r}.")
    if Store(out).exported:
        raise ValueError(f"{out} holds exported cells, which can be shown but not continued: give another folder (--out).")
    load_plugins(plugins)
    grid, root = grid or Grid(), Path(out)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    cells = cells_of([find(TABLES, name, "table") for name in tables], grid, datasets, methods, archs)
    store = Store(root)
    before = sum(store.done(cell.key) for cell in cells)
    tasks = plan(cells, root)
    deadline = None if time_limit is None else started + time_limit
    if engine == "ray":
        stream = _on_ray(tasks, root, device, deadline, address, plugins)
    else:
        stream = _here(tasks, root, device, deadline, progress)
    finished, failures = 0, {}
    for number, (task, outcome) in enumerate(stream, 1):
        for result in outcome.results:
            store.write(result)
            if result.error is None:
                finished += 1
            else:
                failures[result.key] = result.error
        if say is not None:
            say(f"[{number}/{len(tasks)}] {task.label}: {outcome.error or f'{outcome.seconds:.1f} s'}")
    return Summary(len(cells), before, finished, failures, len(cells) - before - finished - len(failures))


def load_plugins(names: Sequence[str], folder: str | None = None) -> None:
    """Import modules that add their own explainers, data sets or models to the registry; those in the current folder too."""
    if names and (folder or os.getcwd()) not in sys.path:
        sys.path.insert(0, folder or os.getcwd())
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ValueError(f"Cannot import the plugin {name}: {error}. Give the name of a module, without .py.") from None


# ---------------------------------------------------------------------------------------------------------------- here


def _here(tasks: Sequence[Task], root: Path, device: str, deadline: float | None, progress: bool) -> Iterator[Done]:
    broken: dict[str, str] = {}
    for task in tasks:
        if deadline is not None and time.monotonic() > deadline:
            return
        outcome = work(task, root, device, [broken[f] for f in task.inputs if f in broken], progress)
        if outcome.error is not None:
            broken.update(dict.fromkeys(task.outputs, outcome.error))
        yield task, outcome


# -------------------------------------------------------------------------------------------------------------- on Ray


@dataclass(frozen=True)
class Shipment:
    """What a worker sends back: the outcome, and its files by their path under the run directory."""

    outcome: Outcome
    files: dict[str, bytes]


def _on_ray(
    tasks: Sequence[Task], root: Path, device: str, deadline: float | None, address: str | None, plugins: Sequence[str]
) -> Iterator[Done]:
    try:
        import ray
    except ImportError:
        raise ValueError("--engine ray needs Ray, which is not installed: pip install 'timex-explain[ray]'.") from None
    ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
    resource = "GPU" if device.startswith("cuda") else "CPU"
    try:
        remote = ray.remote(_remote).options(num_cpus=1, num_gpus=int(resource == "GPU"), max_retries=0)
        left = list(tasks)
        running: dict[Any, Task] = {}
        broken: dict[str, str] = {}
        while left or running:
            # With a deadline nothing may queue: Ray does not tell a queued task from one that has begun.
            slots = len(tasks) if deadline is None else max(1, int(ray.cluster_resources().get(resource, 0)))
            if deadline is not None and time.monotonic() > deadline:
                left = []
            for task in _ready(left, running.values())[: max(0, slots - len(running))]:
                left.remove(task)
                given = _read_files(root, task.inputs)
                errors = [broken[f] for f in task.inputs if f in broken]
                running[remote.remote(task, given, device, os.getcwd(), tuple(plugins), errors)] = task
            if not running:
                return
            (done, *_), _ = ray.wait(list(running))
            task = running.pop(done)
            try:
                shipment = ray.get(done)
            except Exception as error:  # a worker that died, not one that reported a failure
                shipment = Shipment(failed(task, device, f"{type(error).__name__}: {error}"), {})
            if shipment.outcome.error is not None:
                broken.update(dict.fromkeys(task.outputs, shipment.outcome.error))
            _write_files(root, shipment.files)
            yield task, shipment.outcome
    finally:
        ray.shutdown()


def _ready(left: Sequence[Task], running: Iterable[Task]) -> list[Task]:
    """The tasks whose inputs are all there."""
    unmade = {folder for task in (*left, *running) for folder in task.outputs}
    return [task for task in left if unmade.isdisjoint(task.inputs)]


def _remote(
    task: Task, given: dict[str, bytes], device: str, folder: str, plugins: tuple[str, ...], upstream: Sequence[str]
) -> Shipment:
    """Do a task in a temporary folder."""
    torch.set_num_threads(1)  # one core a task
    load_plugins(plugins, folder)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        _write_files(root, given)
        outcome = work(task, root, device, upstream)
        return Shipment(outcome, _read_files(root, [*task.outputs, "panels"]))


def _read_files(root: Path, folders: Sequence[str]) -> dict[str, bytes]:
    paths = [path for folder in folders for path in sorted((root / folder).glob("*"))]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def _write_files(root: Path, files: dict[str, bytes]) -> None:
    for name in sorted(files, key=lambda name: name.endswith(LAST)):
        with atomic_path(root / name) as beside:
            beside.write_bytes(files[name])
