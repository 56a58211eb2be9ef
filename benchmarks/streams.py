"""Explaining a file in parts: the memory by number of windows, and the time beside that of explaining it in memory.

    python benchmarks/streams.py memory --windows 10000 100000 1000000 --out memory.json
    python benchmarks/streams.py speed --windows 60000 --out speed.json
    python benchmarks/streams.py ray --windows 70000 --out ray.json
    python benchmarks/streams.py plot memory.json --out memory.png

`memory` runs `timex explain` as a command of its own and takes the largest resident memory that the system has seen of it.
`speed` compares processor seconds, of reading, explaining and writing a .parquet file, and of explaining an array alone.
`ray` compares seconds by the clock here and on a local Ray cluster, whose start is included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser, timed, write

from timex import Explanation, TimeX, TimeXConfig
from timex.cli.models import Source
from timex.io.explanations import write_explanation
from timex.io.files import open_series, read_series
from timex.io.parts import Parts
from timex.reference import load_reference, save_reference
from timex.reference.base import initialised
from timex.scale.job import Job
from timex.scale.ray import explain_on_ray

WRITTEN = 2**18
"""Windows that are written at once."""


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=["memory", "speed", "ray", "plot"])
    options.add_argument("file", nargs="?", type=Path, help="what `memory` wrote, to plot")
    options.add_argument("--windows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--steps", type=int, help="T; by default 50 for speed, else 8")
    options.add_argument("--repeats", type=int, default=3)
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    if arguments.what == "plot":
        plot(json.loads(arguments.file.read_text())["rows"], arguments.out)
        return
    windows = [300, 600] if arguments.smoke else arguments.windows
    measure, steps = {"memory": (memory, 8), "speed": (speed, 50), "ray": (on_ray, 8)}[arguments.what]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = 8 if arguments.smoke else arguments.steps or steps
        explainer = fitted(folder, steps)
        rows = []
        for n in windows:
            write_windows(folder / "windows.parquet", n, steps)
            rows.append({"windows": n, "steps": steps, **measure(folder, explainer, arguments)})
            print(*rows[-1].values(), flush=True)
    write({"what": arguments.what, "rows": rows}, arguments)


def fitted(folder: Path, steps: int) -> TimeX:
    """An explainer of a small CNN with random weights, saved as `timex fit` saves it."""
    model = initialised("cnn", {"n_channels": 1, "n_classes": 4, "n_steps": steps}, 0).eval()
    x = np.random.default_rng(0).normal(size=(400, steps, 1)).astype("float32")
    with warnings.catch_warnings(action="ignore"):  # a model with random weights may predict one class alone
        explainer = TimeX(model, config=TimeXConfig(epochs=1), device="cpu").fit(x, progress=False)
    explainer.save(folder / "explainer")
    save_reference(model, folder / "explainer" / "reference")
    Source().write(folder / "explainer")
    return explainer


def write_windows(path: Path, n: int, steps: int) -> None:
    """A long table of n windows of one channel, written some at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    times = np.arange(1, steps + 1, dtype=np.float32)
    writer = None
    for start in range(0, n, WRITTEN):
        k = min(WRITTEN, n - start)
        columns = {
            "sample": np.repeat(np.arange(start, start + k), steps),
            "time": np.tile(times, k),
            "channel": pa.DictionaryArray.from_arrays(np.zeros(k * steps, dtype=np.int32), ["sensor"]),
            "value": rng.normal(size=k * steps).astype("float32"),
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def memory(folder: Path, explainer: TimeX, arguments: Any) -> dict[str, Any]:
    """Peak memory in megabytes, size of the parts and seconds of `timex explain`, which must write every window once."""
    out = folder / "parts"
    command = ["-m", "timex", "--threads", str(arguments.threads), "explain", "--explainer", str(folder / "explainer")]
    data = ["--data", str(folder / "windows.parquet"), "--out", str(out), "--device", "cpu"]
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command, *data], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 tells the memory, and Popen does not know of it
    assert process.returncode == 0, "timex explain failed"
    seconds = time.perf_counter() - started
    parts = Parts(out)
    samples = sum(parts.facts(number)["samples"] for number in parts.done)
    written = sum(parts.path(number).stat().st_size for number in parts.done)
    found: dict[str, Any] = {"parts": len(parts.done), "samples": samples, "megabytes": round(usage.ru_maxrss / 2**10)}
    found |= {"bytes_per_cell": round(written / samples / explainer.fitted.shape[0], 1)}
    parts.clear()
    return {**found, "seconds": round(seconds, 1), "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1)}


def speed(folder: Path, explainer: TimeX, arguments: Any) -> dict[str, Any]:
    """Processor seconds in parts and in memory: of the whole way from file to file, and of explaining alone."""
    data = folder / "windows.parquet"
    x = read_series(data).x

    def in_parts() -> None:
        job = Job(open=lambda: explainer, source=open_series(data), n_steps=x.shape[1], parts=Parts(folder / "parts"))
        for _ in job.explain(explainer, job.source.chunks):
            pass
        Parts(folder / "parts").join(folder / "parts.parquet", len(job.source.chunks))
        Parts(folder / "parts").clear()

    def in_memory() -> None:
        write_explanation(folder / "whole.parquet", explainer.explain(read_series(data)))

    ways = {
        "file in parts": in_parts,
        "file in memory": in_memory,
        "array in parts": lambda: Explanation.joined(list(explainer.explain_stream(x))),
        "array in memory": lambda: explainer.explain(x),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(1 if arguments.smoke else arguments.repeats):
        for name, way in ways.items():
            seconds[name].append(timed(way, "cpu")[0])
    best = {name: round(min(values), 3) for name, values in seconds.items()}
    ratios = {kind: round(best[f"{kind} in memory"] / best[f"{kind} in parts"], 3) for kind in ("file", "array")}
    return {"cpu_seconds": best, "throughput": ratios}


def on_ray(folder: Path, explainer: TimeX, arguments: Any) -> dict[str, Any]:
    """Seconds by the clock of writing all parts here, and with one and two actors of a local Ray cluster."""
    saved = folder / "explainer"
    parts = Parts(folder / "parts")
    job = Job(
        open=lambda: TimeX.load(saved, load_reference(saved / "reference"), device="cpu"),
        source=open_series(folder / "windows.parquet"),
        n_steps=explainer.fitted.shape[0],
        parts=parts,
    )
    ways: dict[str, Callable[[], Any]] = {
        "here": lambda: deque(job.explain(job.open(), job.source.chunks), maxlen=0),
        "one actor": lambda: explain_on_ray(job, actors=1),
        "two actors": lambda: explain_on_ray(job, actors=2),
    }
    seconds = {}
    for name, way in ways.items():
        started = time.perf_counter()
        way()
        seconds[name] = round(time.perf_counter() - started, 1)
        assert parts.done == list(range(len(job.source.chunks)))
        parts.clear()
    return {"chunks": len(job.source.chunks), "seconds": seconds, "load": round(os.getloadavg()[0], 1)}


def plot(rows: list[dict[str, Any]], out: Path) -> None:
    """Memory by number of windows."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    axes.plot([row["windows"] for row in rows], [row["megabytes"] for row in rows], marker="o", color="#1f5fa8")
    axes.set(xscale="log", xlabel="windows in the file", ylabel="peak memory (MB)")
    axes.set_ylim(0, 1.15 * max(row["megabytes"] for row in rows))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
