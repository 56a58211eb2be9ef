"""Kills jobs (fit, train, explain, bench) with SIGKILL at random moments, resumes them, compares the results bit for bit.

    python benchmarks/kills.py --kills 100 --out kills.json
    python benchmarks/kills.py --what fit --kills 20

Every attempt is a forked process, so that it starts at once. A job that ends is compared, and begins again with other settings
until there were enough kills. `before` counts the kills by what was kept then: nothing, states of trainings, parts of
explanations, or models and cells of a benchmark.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser, write

from timex import TimeX, TimeXConfig
from timex.bench import Grid, Store, run
from timex.bench.store import IDENTITY
from timex.data.synthetic import freqshapes
from timex.engine import Checkpoint
from timex.explainers import IntegratedGradients
from timex.io import parquet_source, sources
from timex.io.files import open_series, write_series
from timex.io.parts import Parts
from timex.reference import save_reference
from timex.reference.base import initialised
from timex.reference.train import TrainConfig, train_references
from timex.scale.job import Job

Work = Callable[[Path, Path, int], None]
"""Does the work with a seed: writes into a folder, with its checkpoints in another."""


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--what", nargs="*", choices=list(JOBS), default=list(JOBS))
    options.add_argument("--kills", type=int, default=100, help="of each kind")
    options.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = options.parse_args(argv)
    kills = min(3, arguments.kills) if arguments.smoke else arguments.kills
    rows = []
    for what in arguments.what:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:  # a fresh process can be forked
            rows.append(alone.submit(campaign, what, kills, arguments.seed).result())
        print(*rows[-1].values(), flush=True)
    write({"rows": rows}, arguments)


def campaign(what: str, kills: int, seed: int) -> dict[str, Any]:
    """Kill one kind of job so often; `equal` of the `finished` jobs ended as undisturbed ones."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    before: Counter[str] = Counter()
    finished = equal = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while sum(before.values()) < kills:
            out, kept, whole = (folder / part for part in ("out", "kept", "whole"))
            started = time.perf_counter()
            assert attempt(JOBS[what], whole, folder / "unused", finished, None), "the undisturbed job failed"
            span = 0.6 * (time.perf_counter() - started)
            while not attempt(JOBS[what], out, kept, finished, rng.uniform(0, span) if sum(before.values()) < kills else None):
                before[held(kept)] += 1
            finished, equal = finished + 1, equal + (contents(out) == contents(whole))
            for path in folder.iterdir():
                shutil.rmtree(path)
    return {"what": what, "kills": sum(before.values()), "finished": finished, "equal": equal, "before": dict(before)}


def attempt(job: Work, out: Path, kept: Path, seed: int, patience: float | None) -> bool:
    """Run a job in a forked process and kill it after `patience` seconds; whether it ended by itself."""
    process = os.fork()
    if process == 0:
        try:
            job(out, kept, seed)
            os._exit(0)
        except BaseException as error:
            print(error, flush=True)
            os._exit(1)
    if patience is not None:
        time.sleep(patience)
        os.kill(process, signal.SIGKILL)  # without effect on a process that has ended but was not waited for
    status = os.waitpid(process, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise RuntimeError("A job failed by itself.")
    return os.WIFEXITED(status)


def held(kept: Path) -> str:
    """What a folder holds for a resumed job: states of trainings, parts of explanations, models or cells of a benchmark."""
    if trainings := Checkpoint(kept).holds:
        return " and ".join(text.split(":")[0] for text in trainings)
    kinds = {"parts": "part-*.parquet", "cells": "cells/*.json", "models": "references/*/reference.json"}
    return next((kind for kind, pattern in kinds.items() if any(kept.glob(pattern))), "nothing")


def contents(folder: Path) -> dict[str, str]:
    """The hashes of the files with weights, which are named by them too, and of those with explanations or scores."""
    found = [*folder.glob("*.safetensors"), *folder.glob("*.parquet")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def fit(out: Path, kept: Path, seed: int) -> None:
    """Fit TimeX to a model with random weights and save the explainer."""
    data = freqshapes(0, 0, sizes=(160, 32, 32))
    model = initialised("cnn", {"n_channels": 1, "n_classes": 4, "n_steps": 50, "width": 8}, 0).eval()
    config = TimeXConfig(epochs=10, batch_size=32, seed=seed)
    TimeX(model, config=config, device="cpu").fit(data.train, x_val=data.val, progress=False, checkpoint=kept).save(out)


def train(out: Path, kept: Path, seed: int) -> None:
    """Train a reference model, twice if the first is weak, and save it."""
    data = freqshapes(0, 0, sizes=(160, 32, 32))
    config = TrainConfig(epochs=60, attempts=2, seed=seed, model={"width": 8})
    (trained,) = train_references([data], "cnn", config, progress=False, checkpoint=Checkpoint(kept))
    save_reference(trained.model, out)


def explain(out: Path, kept: Path, seed: int) -> None:
    """Explain a file of 1,000 series in 50 parts, and join these."""
    sources.CHUNK_CELLS = parquet_source.CHUNK_CELLS = 1000
    data = out.parent / "data" / "series.parquet"
    if not data.exists():
        write_series(data, freqshapes(0, 0, sizes=(1000, 8, 8)).train)
    model = initialised("cnn", {"n_channels": 1, "n_classes": 4, "n_steps": 50, "width": 8}, seed).eval()
    job = Job(open=lambda: IntegratedGradients(model, device="cpu"), source=open_series(data), n_steps=50, parts=Parts(kept))
    done = set(Parts(kept).done)
    for _ in job.explain(job.open(), [chunk for chunk in job.source.chunks if chunk.number not in done]):
        pass
    Parts(kept).join(out / "explanations.parquet", len(job.source.chunks))


def bench(out: Path, kept: Path, seed: int) -> None:
    """Train a model, fit TimeX to it and score three methods with few samples; write the scores and the models' hashes."""
    grid = Grid(folds=1, seed=seed, smoke=True)
    done = run(["univariate"], kept, grid, datasets=["freqshapes"], methods=["timex", "ig", "random"], device="cpu")
    assert not done.failed, done.failed
    out.mkdir(exist_ok=True)
    Store(kept).rows()[[*IDENTITY, "metric", "value", "n", "sum_squares", "weights"]].to_parquet(out / "scores.parquet")


JOBS: dict[str, Work] = {"fit": fit, "train": train, "explain": explain, "bench": bench}

if __name__ == "__main__":
    main()
