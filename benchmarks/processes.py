"""Fits with several processes beside the same fits with one: how far the results are apart.

    python benchmarks/processes.py --processes 2 --out processes.json

`weights` is the largest difference of a weight of generator, encoder or predictor, and `where` that weight. `but_key_biases`
leaves out the biases of attention keys, which softmax ignores. `p` is the difference of the explanations of the training
series. Landmarks are left out: which of two samples that are equally central becomes one can hang on rounding. `seconds` are
those of the commands, start included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser, write
from safetensors.torch import load_file

from timex import Series, TimeX, load_reference
from timex.io.files import write_series
from timex.reference import save_reference
from timex.reference.base import initialised

OBJECTIVES = {
    "evidence": [],
    "paper": ["--set", "objective=paper", "--set", "loss.consistency=mbc", "--set", "loss.label=pairwise"],
}


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--epochs", type=int, default=3)
    arguments = options.parse_args(argv)
    objectives = ["evidence"] if arguments.smoke else list(OBJECTIVES)
    with tempfile.TemporaryDirectory() as name:
        rows = [compared(Path(name), objective, arguments) for objective in objectives]
    write({"processes": arguments.processes, "epochs": arguments.epochs, "rows": rows}, arguments)


def compared(folder: Path, objective: str, arguments: Any) -> dict[str, Any]:
    """The differences of a fit by several processes from that of one."""
    x = prepared(folder)
    data = ["--reference", "reference", "--data", "train.npz", "--device", "cpu", "--set", "batch_size=64"]
    fit = ["-m", "timex", "fit", *data, "--epochs", str(arguments.epochs), *OBJECTIVES[objective]]
    many = ["-m", "torch.distributed.run", "--nproc-per-node", str(arguments.processes), "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "PYTHONWARNINGS": "ignore"}
    found, seconds = [], []
    for out, command in ((f"{objective}-one", fit), (f"{objective}-many", [*many, *fit])):
        started = time.perf_counter()
        subprocess.run([sys.executable, *command, "--out", out], cwd=folder, env=environment, check=True, capture_output=True)
        seconds.append(round(time.perf_counter() - started, 1))
        (path,) = (folder / out).glob("*.safetensors")
        weights = {name: v for name, v in load_file(path).items() if name.startswith(("model.generator", "model.surrogate"))}
        explainer = TimeX.load(folder / out, load_reference(folder / "reference"), device="cpu")
        found.append((weights, explainer.explain(x).attribution))
    (one, p_one), (other, p_other) = found
    apart = {name: float((other[name] - v).abs().max()) for name, v in one.items()}
    where = max(apart, key=apart.__getitem__)
    rest = max(v for name, v in apart.items() if not name.endswith("k_proj.bias"))
    row = {"objective": objective, "weights": apart[where], "where": where, "but_key_biases": rest}
    return {**row, "p": float(np.abs(p_one - p_other).max()), "seconds": dict(zip(("one", "many"), seconds, strict=True))}


def prepared(folder: Path) -> Series:
    """A transformer with random weights, and 512 series for it."""
    rng = np.random.default_rng(0)
    x = Series(rng.normal(size=(512, 24, 2)).astype("float32"))
    model = initialised("transformer", {"n_channels": 2, "n_classes": 3, "n_steps": 24, "d_hidden": 32}, 0).eval()
    with torch.no_grad():
        dict(model.named_parameters())["head.2.weight"].mul_(20)  # predictions that differ
    save_reference(model, folder / "reference")
    write_series(folder / "train.npz", x)
    return x


if __name__ == "__main__":
    main()
