"""Seconds to make each synthetic data set, and how much the vectorised NARMA noise gains over a loop over samples.

python benchmarks/data.py [--repeats 3] [--out data.json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from timex.data.synthetic import SIZES, SYNTHETIC, narma
from timex.types import atomic_path


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    """The shortest of `repeats` runs: what the work takes when nothing else wants the machine."""
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


def measure(repeats: int) -> dict[str, object]:
    n, n_steps = sum(SIZES), 200
    fast = best_seconds(lambda: narma(np.random.default_rng(0), n, n_steps, 1), repeats)
    slow = best_seconds(lambda: narma_loop(np.random.default_rng(0), n, n_steps), 1)
    return {
        "samples": n,
        "seconds": {name: round(best_seconds(recipe, repeats), 4) for name, recipe in SYNTHETIC.items()},
        "narma": {"seconds": round(fast, 4), "loop_seconds": round(slow, 4), "speedup": round(slow / fast, 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    args = parser.parse_args()
    text = json.dumps(measure(args.repeats), indent=2)
    print(text)
    if args.out:
        with atomic_path(args.out) as beside:
            beside.write_text(text + "\n")


if __name__ == "__main__":
    main()
