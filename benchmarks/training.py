"""Time of one training step, everything included, for K models trained as one program: reference models and TimeX.

    python benchmarks/training.py --data freqshapes seqcomb_mv --members 1 5 20 --device cuda --out training.json

For comparison, the published code takes 30 ms (FreqShapes) and 36 to 38 ms (SeqComb-MV) for one TimeX step of one fold at batch
64 on one H200.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from timex import TimeX, TimeXConfig, engine, load_dataset
from timex.method.explainer import _series
from timex.method.objective import Objective
from timex.reference.base import initialised
from timex.reference.train import Classification, batch_tensors, preset

Setting = tuple[engine.Program, list[engine.Member]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    parser.add_argument("--members", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    rows = []
    for name in arguments.data:
        for k in arguments.members:
            for kind, setting in {"reference": reference(name, k), "timex": timex(name, k, arguments.device)}.items():
                for compiled in (False, True) if arguments.compile else (False,):
                    row = {"data": name, "what": kind, "members": k, "compiled": compiled}
                    row |= time_steps(setting, device, compiled, arguments.steps)
                    rows.append(row)
                    print(*row.values(), flush=True)
    text = json.dumps(
        {"torch": torch.__version__, "device": arguments.device, "threads": arguments.threads, "rows": rows}, indent=1
    )
    print(text) if arguments.out is None else arguments.out.write_text(text + "\n")


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


def timex(name: str, k: int, device: str) -> Setting:
    program, _ = reference(name, 1)
    data = load_dataset(name)
    explainers = [TimeX(program.model, config=TimeXConfig(seed=i), device=device) for i in range(k)]
    members = [e._prepare(_series(data.train.x), None, _series(data.val.x)) for e in explainers]
    return Objective(explainers[0].model.to(device), explainers[0].config), members


def time_steps(setting: Setting, device: torch.device, compiled: bool, steps: int) -> dict[str, float]:
    """Milliseconds of a step and of its share of an epoch's validation, and the seconds before the first step."""
    started = time.perf_counter()
    run = engine._Run(*setting, engine.Schedule(epochs=1), device, capture=device.type == "cuda", compile=compiled)
    run._shuffle(0)
    step = run._captured()
    step()
    wait(device)
    ready = time.perf_counter()
    for _ in range(steps):
        step()
    wait(device)
    stepped = time.perf_counter()
    run._validate(0)
    run._shuffle(1)
    wait(device)
    validated = time.perf_counter()
    per_step = (stepped - ready) / steps + (validated - stepped) / run.steps
    return {
        "ms_per_step": round(1e3 * per_step, 3),
        "ms_per_member": round(1e3 * per_step / len(setting[1]), 3),
        "start_s": round(ready - started, 1),
    }


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
