"""Time, memory and AUPRC of a default fit with this package and with an earlier one, side by side on the same models.

    git worktree add ../before f225b0f
    python benchmarks/versions.py --before ../before/src --out versions.json
    python benchmarks/versions.py --before ../before/src --data freqshapes --archs cnn --fits 3

Each fit runs in a process of its own, the two versions in turn. Seconds are those of the process, so that other load on the
machine counts little. Both versions explain the same trained model, and see the same series.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Rows, data_of, parser, write
from safetensors.torch import save_file

import timex
from timex.metrics import ground_truth_scores
from timex.records import Dataset
from timex.reference.train import preset, train_references

OLD_NAMES = {"transformer_residual": "transformer"}
"""Architectures that an earlier package, whose transformer had residuals, knows under another name."""
NEW_SETTINGS = ("residual", "attention_dropout", "time_unit")
"""Settings of an architecture that the earlier package does not know."""
CHILD = """
import json, resource, sys, time
import numpy as np, torch
from safetensors.torch import load_file
from timex import TimeX, TimeXConfig
from timex.reference.base import build

given = json.loads(sys.argv[1])
torch.set_num_threads(given["threads"])
data = np.load(given["data"])
model = build(given["arch"], given["config"])
model.load_state_dict(load_file(given["weights"]))
config = TimeXConfig(**given["settings"])
explainer = TimeX(model.eval(), config=config, device="cpu")
started = time.process_time()
explainer.fit(data["train"], x_val=data["val"], progress=False)
fit = time.process_time() - started
started = time.process_time()
attribution = explainer.explain(data["test"]).attribution
explain = time.process_time() - started
np.save(given["out"], attribution)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
print(json.dumps({"fit_s": round(fit, 1), "explain_s": round(explain, 2), "peak_MB": round(peak)}))
"""


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--before", type=Path, required=True, help="the src folder of the earlier package")
    options.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    options.add_argument("--archs", nargs="+", default=["transformer_residual", "cnn"])
    options.add_argument("--fits", type=int, default=1, help="fits of each version, with seeds 0, 1, ...")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    rows: Rows = []
    for row in compared(arguments):
        print(*row.values(), flush=True)
        rows.append(row)
        write({"rows": rows}, arguments) if arguments.out else None  # after every row, since a run may be cut off


def compared(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for every data set, architecture, seed and version."""
    sources = {"before": arguments.before.resolve(), "now": Path(timex.__file__).parents[1]}
    for name, arch in product(arguments.data, arguments.archs):
        data = data_of(name, smoke=arguments.smoke)
        assert data.test.truth is not None
        with tempfile.TemporaryDirectory() as folder:
            model = prepared(data, arch, Path(folder), arguments.smoke)
            for seed, version in product(range(arguments.fits), sources):
                given = model | {"threads": arguments.threads, "settings": {"seed": seed}}
                if arguments.smoke:
                    given["settings"]["epochs"] = 1
                if version == "before":
                    known = {n: v for n, v in model["config"].items() if n not in NEW_SETTINGS}
                    given |= {"arch": OLD_NAMES.get(arch, arch), "config": known}
                figures = fitted(given, sources[version])
                scores = ground_truth_scores(np.load(given["out"]), data.test.truth)
                found = {"auprc": round(float(np.nanmean(scores["auprc"])), 3), "f1": round(model["f1"], 3)}
                yield {"data": name, "arch": arch, "version": version, "seed": seed, **figures, **found}


def prepared(data: Dataset, arch: str, folder: Path, smoke: bool) -> dict[str, Any]:
    """A trained model and the series as files, and what a child needs to read them."""
    recipe = preset(data.name, arch)
    recipe = replace(recipe, epochs=2, attempts=1) if smoke else recipe
    (trained,) = train_references([data], arch, recipe, device="cpu", progress=False)
    save_file({name: value.contiguous() for name, value in trained.model.state_dict().items()}, folder / "model.safetensors")
    np.savez(folder / "series.npz", train=data.train.x, val=data.val.x, test=data.test.x)
    paths = {"weights": "model.safetensors", "data": "series.npz", "out": "attribution.npy"}
    files = {name: str(folder / file) for name, file in paths.items()}
    return {"arch": arch, "config": trained.model.config, "f1": trained.test["f1"], **files}


def fitted(given: dict[str, Any], source: Path) -> dict[str, float]:
    """Seconds and memory of one fit with the package in `source`."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(given["threads"])}
    known = {name: value for name, value in given.items() if name != "f1"}
    command = [sys.executable, "-W", "ignore", "-c", CHILD, json.dumps(known)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
