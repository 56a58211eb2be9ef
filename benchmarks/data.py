"""Seconds to make each synthetic data set, and how much the vectorised NARMA noise gains over a loop over samples.

python benchmarks/data.py [--repeats 3] [--out data.json]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import parser, write

from timex.data.synthetic import SIZES, SYNTHETIC, narma


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """The shortest of `repeats` runs: the one with the least other load on the machine."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def narma_loop(rng: np.random.Generator, n: int, n_steps: int) -> np.ndarray:
    """The NARMA equation for one sample and one step at a time, (N, T, 1)."""
    x = np.zeros((n, n_steps + 2, 1))
    for i in range(n):
        u = rng.uniform(0, 0.5, n_steps + 2)
        for k in range(2, n_steps + 2):
            last = x[i, k - 1, 0]
            s = last + x[i, k - 2, 0] if k < 4 else 0.0
            x[i, k, 0] = 0.3 * last + 0.05 * last * s + 1.5 * u[k - 2] * u[k] + 0.1
    return x[:, 2:]


def measure(repeats: int, n: int, names: Sequence[str]) -> dict[str, Any]:
    fast = best_seconds(lambda: narma(np.random.default_rng(0), n, 200, 1), repeats)
    slow = best_seconds(lambda: narma_loop(np.random.default_rng(0), n, 200), 1)
    return {
        "samples": n,
        "seconds": {name: round(best_seconds(SYNTHETIC[name], repeats), 4) for name in names},
        "narma": {"seconds": round(fast, 4), "loop_seconds": round(slow, 4), "speedup": round(slow / fast, 1)},
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    arguments = options.parse_args(argv)
    if arguments.smoke:
        write(measure(1, 20, ["freqshapes"]), arguments)
    else:
        write(measure(arguments.repeats, sum(SIZES), list(SYNTHETIC)), arguments)


if __name__ == "__main__":
    main()
