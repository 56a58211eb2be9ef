"""Seconds and peak memory of a default fit against the length T, the number of channels D and the number of series N.

    python benchmarks/scaling.py --out scaling.json --plot scaling.png
    python benchmarks/scaling.py --lengths 100 1000 --channels --series      # one axis alone

One axis varies, the others stay at T = 100, D = 2 and N = 1,000. Series are noise; the model is a CNN that was not trained, so
that its cost is linear as well. Every fit runs in a process of its own, since a process cannot forget its peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from common import Rows, parser, peak_megabytes, timed, write

from timex import Series, TimeX, TimeXConfig
from timex.reference.base import initialised

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = {"T": 100, "D": 2, "N": 1000}
N_VAL = 200


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--lengths", nargs="*", type=int, default=[100, 1000, 10_000], help="T")
    options.add_argument("--channels", nargs="*", type=int, default=[2, 16, 128], help="D")
    options.add_argument("--series", nargs="*", type=int, default=[1000, 4000, 16_000], help="N")
    options.add_argument("--epochs", type=int, help="of the generator; by default about 300 steps")
    options.add_argument("--plot", type=Path, help="draw into this file")
    arguments = options.parse_args(argv)
    rows: Rows = []
    for row in sweeps(arguments):
        print(*row.values(), flush=True)
        rows.append(row)
        write({"base": BASE, "rows": rows}, arguments) if arguments.out else None  # after every row: a run may be cut off
    if arguments.plot is not None:
        from timex.report.plots import save

        save(drawn(rows), arguments.plot)


def sweeps(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for each value of each axis."""
    base = {"T": 16, "D": 1, "N": 32} if arguments.smoke else BASE
    options = {"epochs": 1 if arguments.smoke else arguments.epochs, "device": arguments.device, "threads": arguments.threads}
    for axis, values in {"T": arguments.lengths, "D": arguments.channels, "N": arguments.series}.items():
        for value in values:
            size = {**base, axis: value}
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                yield {"axis": axis, **size, **alone.submit(fit, size, **options).result()}


def fit(size: dict[str, int], epochs: int | None, device: str, threads: int) -> dict[str, Any]:
    """Seconds and peak memory of one fit."""
    warnings.simplefilter("ignore")  # a model that was not trained may predict one class alone
    torch.set_num_threads(threads)
    t, d, n = size["T"], size["D"], size["N"]
    rng = np.random.default_rng(0)
    train, val = (Series(rng.normal(size=(count, t, d)).astype(np.float32)) for count in (n, N_VAL))
    model = initialised("cnn", {"n_channels": d, "n_classes": 4, "n_steps": t, "width": 32}, 0).eval()
    explainer = TimeX(model, config=TimeXConfig(epochs=epochs), device=device)
    before = peak_megabytes(device)
    seconds, _ = timed(lambda: explainer.fit(train, x_val=val, progress=False), device)
    return {"fit_s": round(seconds, 2), "peak_MB": peak_megabytes(device), "before_MB": before}


def drawn(rows: Rows) -> Figure:
    """Seconds and memory over each axis, both logarithmic; dashed: linear."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    axes = list(dict.fromkeys(row["axis"] for row in rows))
    figure = Figure(figsize=(3.6 * len(axes), 5.6), layout="constrained")
    grid = figure.subplots(2, len(axes), squeeze=False)
    for (upper, lower), axis in zip(grid.T, axes, strict=True):
        own = along(rows, axis)
        x = [row[axis] for row in own]
        for ax, name, label in ((upper, "fit_s", "fit, s"), (lower, "peak_MB", "peak memory, MB")):
            y = [row[name] for row in own]
            ax.loglog(x, y, "o-")
            ax.loglog(x, [y[0] * v / x[0] for v in x], "--", color="grey", lw=1)
            ax.set(xlabel=axis, ylabel=label)
            ax.set_xticks(x, [f"{v:,}" for v in x])
            ax.xaxis.set_minor_formatter(NullFormatter())
    return figure


def along(rows: Rows, axis: str) -> Rows:
    """The fits that differ from the axis's first one in this axis alone, in its order: those of other axes too."""
    first = next(row for row in rows if row["axis"] == axis)
    others = [name for name in BASE if name != axis]
    own = {row[axis]: row for row in rows if all(row[name] == first[name] for name in others)}
    return [own[value] for value in sorted(own)]


if __name__ == "__main__":
    main()
