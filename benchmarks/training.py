"""Time of whole fits, and of a training step for K models trained as one program: reference models and TimeX.

    python benchmarks/training.py fits --settings default --data freqshapes seqcomb_mv    # a whole fit, and an epoch of it
    python benchmarks/training.py --members 1 5 20 --device cuda --out training.json
    python benchmarks/training.py --members 1 --device cpu                   # an epoch on one thread
    python benchmarks/training.py sizes --device cuda                        # against T, D and the batch
    python benchmarks/training.py equal                                      # together as alone

A step has its share of an epoch's validation and shuffling. By our objective it is a step of the generator.

Every row of `steps` stands beside the plain loop of `naive.py`, measured in the same run, and beside the published code: 30 ms
on FreqShapes and 38 ms on SeqComb-MV for a TimeX step of one fold on an H200, 4.9 s an epoch of FreqShapes on a CPU thread.
The models of `fits`, `steps` and `sizes` are not trained: a step takes as long as with trained ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import naive
import numpy as np
import torch
from common import Rows, data_of, parser, peak_megabytes, timed, untrained, write

from timex import TimeX, TimeXConfig, engine, fit_many
from timex.method.fit import objective_of
from timex.method.task import Shared, prepare
from timex.metrics import ground_truth_scores
from timex.records import Series
from timex.reference.base import initialised
from timex.reference.train import Classification, preset, train_references

Setting = tuple[engine.Program, list[engine.Member]]
EPOCH = 79
"""Steps of an epoch of 5,000 samples."""
PUBLISHED_MS = {"cuda": {"freqshapes": 30.0, "seqcomb_mv": 38.0}, "cpu": {"freqshapes": 4900 / EPOCH}}
"""A TimeX step of the published code, by device: on one H200, and on one CPU thread."""
SETTINGS = ("default", "paper")
KINDS = {"reference": "reference", "timex": "timex", "paper": "timex, paper's objective"}


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("what", nargs="?", choices=["fits", "steps", "sizes", "equal"], default="steps")
    options.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    options.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="of TimeX, for `fits`")
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what is trained, for `steps`")
    options.add_argument("--members", nargs="+", type=int, default=[1, 5])
    options.add_argument("--compile", action="store_true", help="also with torch.compile")
    options.add_argument("--lengths", nargs="+", type=int, default=[50, 200, 800, 3200], help="T, of `sizes`")
    options.add_argument("--channels", nargs="+", type=int, default=[1, 4, 16, 64], help="D, of `sizes`")
    options.add_argument("--epochs", type=int, default=20, help="of `equal`: five folds together and each alone")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    rows: Rows = []
    for row in {"fits": fits, "steps": steps, "sizes": sizes, "equal": equal}[arguments.what](arguments):
        print(*row.values(), flush=True)
        rows.append(row)
        write({"rows": rows}, arguments) if arguments.out else None  # after every row, since a run may be cut off


def fits(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Seconds of a whole fit and of an epoch of it; peak memory of this process, so measure one fit a run for it."""
    for name, settings in product(arguments.data, arguments.settings):
        data = data_of(name, smoke=arguments.smoke)
        config = TimeXConfig() if settings == "default" else TimeXConfig.paper(name)
        config = replace(config, epochs=1) if arguments.smoke else config
        explainer = TimeX(untrained(data), config=config, device=arguments.device)
        fit = partial(explainer.fit, replace(data.train, y=None), x_val=data.val, progress=False)
        seconds, _ = timed(fit, arguments.device)
        epochs = [row["seconds"] for row in explainer.fitted.history if row["part"] != "surrogate"]
        row = {"data": name, "settings": settings, "fit_s": round(seconds, 2), "epochs": len(epochs)}
        yield {**row, "epoch_s": round(float(np.mean(epochs)), 3), "peak_MB": peak_megabytes(arguments.device)}


def steps(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Milliseconds of a step of K members and of one member, and the ratios to the plain loop and the published code."""
    device = torch.device(arguments.device)
    for name, kind in product(arguments.data, arguments.kinds):
        config = {"reference": None, "timex": TimeXConfig(), "paper": TimeXConfig.paper(name)}[kind]
        data = data_of(name, smoke=arguments.smoke)
        plain = naive.reference_step(data, device) if config is None else naive.timex_step(data, config, device)
        for k, compiled in product(arguments.members, (False, True) if arguments.compile else (False,)):
            setting = reference(name, k, arguments.smoke) if config is None else timex(name, k, config, arguments)
            row = {"data": name, "what": KINDS[kind], "members": k, "compiled": compiled}
            row |= time_steps(setting, device, compiled)
            row |= {"naive_ms": round(plain, 3), "times_naive": round(plain / row["ms_per_member"], 1)}
            published = PUBLISHED_MS[device.type].get(name)
            if config is not None and published is not None:
                row["times_published"] = round(published / row["ms_per_member"], 2)
            yield row


def sizes(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A TimeX step against T, D and the batch, with the memory it takes, or a note where it does not fit."""
    device = torch.device(arguments.device)
    batches = (8, 16) if arguments.smoke else (64, 256, 1024)
    for t, d, batch in product(arguments.lengths, arguments.channels, batches):
        row: dict[str, Any] = {"T": t, "D": d, "batch": batch}
        try:
            row |= time_steps(noise(t, d, batch, device), device, False, batch)
        except torch.OutOfMemoryError:
            row |= {"ms_per_step": None, "note": "does not fit"}
        if device.type == "cuda":
            row["peak_GB"] = round(torch.cuda.max_memory_allocated(device) / 2**30, 2)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        yield row


def equal(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """AUPRC of folds trained together and of each trained alone, same seeds."""
    data = [data_of("freqshapes", fold, smoke=arguments.smoke) for fold in range(2 if arguments.smoke else 5)]
    recipe = preset("freqshapes", "transformer")
    recipe = replace(recipe, epochs=2, attempts=1) if arguments.smoke else recipe
    references = train_references(data, "transformer", recipe, device=arguments.device, progress=False)
    rows: Rows = [{"fold": d.fold} for d in data]
    config = TimeXConfig(epochs=1 if arguments.smoke else arguments.epochs)
    for label, members in {"together": None, "alone": 1}.items():
        explainers = [TimeX(r.model, config=config, device=arguments.device) for r in references]
        fit_many(explainers, [(replace(d.train, y=None), None, d.val) for d in data], progress=False, max_members=members)
        for row, d, explainer in zip(rows, data, explainers, strict=True):
            assert d.test.truth is not None
            scores = ground_truth_scores(explainer.explain(d.test).attribution, d.test.truth)
            row[label] = round(float(np.mean(scores["auprc"])), 4)
    yield from rows


def reference(name: str, k: int, smoke: bool) -> Setting:
    """K reference models of a data set."""
    data, recipe = data_of(name, smoke=smoke), preset(name, "transformer")
    models = [untrained(data, seed=i) for i in range(k)]
    train, val = data.train.tensors(), data.val.tensors()
    members = [
        engine.Member(params={**dict(m.named_parameters())}, frozen={}, train=train, val=val, lr=recipe.lr, seed=i)
        for i, m in enumerate(models)
    ]
    return Classification(models[0]), members


def timex(name: str, k: int, config: TimeXConfig, arguments: argparse.Namespace) -> Setting:
    """TimeX on K folds of a data set, each with data of its own."""
    folds = [data_of(name, fold, smoke=arguments.smoke) for fold in range(min(k, 5))]
    model, shared = untrained(folds[0]), Shared()
    explainers = [TimeX(model, config=replace(config, seed=i), device=arguments.device) for i in range(k)]
    tasks = [prepare(e, folds[i % 5].train, folds[i % 5].val, shared) for i, e in enumerate(explainers)]
    return objective_of(tasks[0]), [task.member for task in tasks]


def noise(t: int, d: int, batch: int, device: torch.device) -> Setting:
    """TimeX on noise of T steps and D channels, with an untrained reference."""
    model = initialised("transformer", {"n_channels": d, "n_classes": 4, "n_steps": t}, 0).eval()
    series = Series(np.random.default_rng(0).normal(size=(2 * batch, t, d)).astype(np.float32))
    explainer = TimeX(model, config=TimeXConfig(batch_size=batch), device=device)
    task = prepare(explainer, series, series.take(slice(16)))
    return objective_of(task), [task.member]


def time_steps(setting: Setting, device: torch.device, compiled: bool, batch: int = naive.BATCH) -> dict[str, float]:
    """Milliseconds of a step, and the seconds before the first one.

    The first epoch warms up; the second is timed.
    """
    program, members = setting
    started = time.perf_counter()
    schedule = engine.Schedule(epochs=2, batch_size=batch)
    runs = engine.train(program, members, schedule, device=device, compile=compiled, max_members=len(members))
    whole = time.perf_counter() - started
    n_steps = -(-len(members[0].train["x"]) // batch)
    epochs = [row["seconds"] for row in runs[0].history]
    per_step = 1e3 * epochs[1] / n_steps
    return {
        "ms_per_step": round(per_step, 3),
        "ms_per_member": round(per_step / len(members), 3),
        "start_s": round(whole - sum(epochs), 1),
    }


if __name__ == "__main__":
    main()
