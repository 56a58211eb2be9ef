"""Time of one training step, everything included, for K models trained as one program: reference models and TimeX.

    python benchmarks/training.py --members 1 5 20 --device cuda --out training.json
    python benchmarks/training.py --members 1 --device cpu                   # an epoch on one thread
    python benchmarks/training.py sizes --device cuda                        # against T, D and the batch

Every row stands beside the plain loop of `naive.py`, measured in the same run, and the published code's figures on an H200
(30 ms on FreqShapes, 38 ms on SeqComb-MV for a TimeX step of one fold) or on one CPU thread (4.9 s and .93 s an epoch).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import naive
import numpy as np
import torch

from timex import TimeX, TimeXConfig, engine, fit_many, load_dataset
from timex.method.config import PAPER
from timex.method.explainer import _series
from timex.method.objective import Objective
from timex.metrics import ground_truth_scores
from timex.reference.base import initialised
from timex.reference.train import Classification, batch_tensors, preset, train_references

Setting = tuple[engine.Program, list[engine.Member]]
EPOCH = 79
"""Steps of an epoch of 5,000 samples, over which validation and shuffling are spread."""
PUBLISHED_MS = {"cuda": {"freqshapes": 30.0, "seqcomb_mv": 38.0}, "cpu": {"freqshapes": 4900 / EPOCH}}
"""A TimeX step of the published code, by device: on one H200, and on one CPU thread (4.9 s an epoch)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["steps", "sizes", "equal"], default="steps")
    parser.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    kinds = ["reference", "timex", "paper"]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, help="what is trained")
    parser.add_argument("--members", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--steps", type=int, default=EPOCH, help=f"steps timed; an epoch has {EPOCH}")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    parser.add_argument("--lengths", nargs="+", type=int, default=[50, 200, 800, 3200], help="T, of `sizes`")
    parser.add_argument("--channels", nargs="+", type=int, default=[1, 4, 16, 64], help="D, of `sizes`")
    parser.add_argument("--epochs", type=int, default=20, help="of `equal`: five folds together and each alone")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for row in {"steps": steps, "sizes": sizes, "equal": equal}[arguments.what](arguments):
        print(*row.values(), flush=True)
        rows.append(row)
        if arguments.out is not None:  # after every row: a run may be cut off
            facts = {"torch": torch.__version__, "device": arguments.device}
            arguments.out.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


def steps(arguments: argparse.Namespace) -> Iterator[dict]:
    """Milliseconds of a step of K members, of one member, and the ratios to the plain loop and to the published code."""
    device = torch.device(arguments.device)
    for name in arguments.data:
        configs = {"reference": None, "timex": TimeXConfig(), "paper": PAPER[name]}
        for kind, config in ((k, configs[k]) for k in arguments.kinds):
            plain = naive.reference_step(name, device) if config is None else naive.timex_step(name, config, device)
            for k in arguments.members:
                for compiled in (False, True) if arguments.compile else (False,):
                    setting = reference(name, k) if config is None else timex(name, k, config, device)
                    what = "timex, paper's objective" if kind == "paper" else kind
                    row = {"data": name, "what": what, "members": k, "compiled": compiled}
                    row |= time_steps(setting, device, compiled, arguments.steps)
                    row |= {"naive_ms": round(plain, 3), "times_naive": round(plain / row["ms_per_member"], 1)}
                    published = PUBLISHED_MS[device.type].get(name)
                    if config is not None and published is not None:
                        row["times_published"] = round(published / row["ms_per_member"], 2)
                    yield row


def sizes(arguments: argparse.Namespace) -> Iterator[dict]:
    """A TimeX step against T, D and the batch, with the memory it takes; what does not fit is said."""
    device = torch.device(arguments.device)
    for t, d, batch in product(arguments.lengths, arguments.channels, (64, 256, 1024)):
        row = {"T": t, "D": d, "batch": batch}
        try:
            row |= time_steps(series(t, d, batch, device), device, False, 5, batch)
        except torch.OutOfMemoryError:
            row |= {"ms_per_step": None, "note": "does not fit"}
        if device.type == "cuda":
            row["peak_GB"] = round(torch.cuda.max_memory_allocated(device) / 2**30, 2)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        yield row


def equal(arguments: argparse.Namespace) -> Iterator[dict]:
    """Explanation quality of five folds trained together and of each trained alone, same seeds."""
    data = [load_dataset("freqshapes", fold) for fold in range(5)]
    references = train_references(data, "transformer", preset("freqshapes", "transformer"), device=arguments.device)
    rows: list[dict] = [{"fold": d.fold} for d in data]
    for label, members in {"together": None, "alone": 1}.items():
        config = TimeXConfig(epochs=arguments.epochs)
        explainers = [TimeX(r.model, config=config, device=arguments.device) for r in references]
        fit_many(explainers, [(d.train.x, None, d.val.x) for d in data], progress=False, max_members=members)
        for row, d, explainer in zip(rows, data, explainers, strict=True):
            scores = ground_truth_scores(explainer.explain(d.test.x).attribution, d.test.truth)
            row[label] = round(float(np.mean(scores["auprc"])), 4)
    yield from rows


def reference(name: str, k: int) -> Setting:
    config = preset(name, "transformer")
    data = load_dataset(name)
    shape = {"n_channels": data.train.x.shape[2], "n_classes": len(data.classes), "n_steps": data.train.x.shape[1]}
    models = [initialised("transformer", {**shape, **config.model}, seed) for seed in range(k)]
    train, val = batch_tensors(data.train), batch_tensors(data.val)
    members = [
        engine.Member(params=dict(m.named_parameters()), frozen={}, train=train, val=val, lr=config.lr, seed=i)
        for i, m in enumerate(models)
    ]
    return Classification(models[0]), members


def timex(name: str, k: int, config: TimeXConfig, device: torch.device) -> Setting:
    """K folds of a data set: data of their own, as in a benchmark."""
    model = naive.untrained(name)
    folds = [load_dataset(name, fold) for fold in range(min(k, 5))]
    explainers = [TimeX(model, config=replace(config, seed=i), device=device) for i in range(k)]
    series_of = [(_series(d.train.x), _series(d.val.x)) for d in folds]
    shared: dict = {}
    members = [e._prepare(series_of[i % 5][0], None, series_of[i % 5][1], shared) for i, e in enumerate(explainers)]
    return program_of(explainers[0]), members


def series(t: int, d: int, batch: int, device: torch.device) -> Setting:
    """Noise of T steps and D channels with an untrained reference: enough to time a step."""
    model = initialised("transformer", {"n_channels": d, "n_classes": 4, "n_steps": t}, 0).eval()
    x = np.random.default_rng(0).normal(size=(2 * batch, t, d)).astype(np.float32)
    explainer = TimeX(model, config=TimeXConfig(batch_size=batch), device=device)
    member = explainer._prepare(_series(x), None, _series(x[:16]), {})
    return program_of(explainer), [member]


def program_of(explainer: TimeX) -> Objective:
    return Objective(explainer.model.to(explainer.device), explainer.reference.to(explainer.device), explainer.config)


def time_steps(setting: Setting, device: torch.device, compiled: bool, steps: int, batch: int = 64) -> dict[str, float]:
    """Milliseconds of a step with its share of an epoch's validation and shuffling, and the seconds before the first step."""
    started = time.perf_counter()
    schedule = engine.Schedule(epochs=1, batch_size=batch)
    with engine._matmul_precision("high" if device.type == "cuda" else None):
        run = engine._Run(*setting, schedule, device, capture=device.type == "cuda", compile=compiled)
        run._shuffle(0)
        step = run._captured()
        for _ in range(2):
            step()
        run._validate(0)
        naive.wait(device)
        ready = time.perf_counter()
        for _ in range(steps):
            step()
        naive.wait(device)
        stepped = time.perf_counter()
        run._validate(0)
        run._shuffle(1)
        naive.wait(device)
    per_step = (stepped - ready) / steps + (time.perf_counter() - stepped) / EPOCH
    return {
        "ms_per_step": round(1e3 * per_step, 3),
        "ms_per_member": round(1e3 * per_step / len(setting[1]), 3),
        "start_s": round(ready - started, 1),
    }


if __name__ == "__main__":
    main()
