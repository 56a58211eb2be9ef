"""How much faster `ground_truth_scores` is than a loop over samples with scikit-learn.

python benchmarks/metrics.py --out metrics.json
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser, write

from timex.metrics import ground_truth_scores

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "metrics"))
from slow_reference import scores_by_loop  # the tests own the loop, so that there is one copy

SHAPE = (1000, 200, 4)
LOOP_SAMPLES = 200
ROUNDS = 5


def seconds(function: Callable[..., Any], *arrays: np.ndarray) -> float:
    start = time.perf_counter()
    function(*arrays)
    return time.perf_counter() - start


def measure(shape: tuple[int, int, int], loop_samples: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    whole = rng.random(shape, dtype=np.float32), rng.random(shape) < 0.1
    some = whole[0][:loop_samples], whole[1][:loop_samples]
    fast, slow = ground_truth_scores(*some), scores_by_loop(*some)  # also the warm-up
    # In turns, so that other load on the machine falls on both.
    times = [(seconds(ground_truth_scores, *whole), seconds(scores_by_loop, *some)) for _ in range(rounds)]
    ours, loop = (float(value) for value in np.median(times, axis=0))
    loop *= shape[0] / loop_samples
    return {
        "shape": shape,
        "ours_s": ours,
        "loop_s": loop,
        "ratio": loop / ours,
        "note": f"medians of {rounds}; the loop timed on {loop_samples} samples and scaled to {shape[0]}",
        "largest_difference": max(float(np.abs(fast[name] - slow[name]).max()) for name in slow),
    }


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__).parse_args(argv)
    torch.set_num_threads(arguments.threads)
    write(measure((20, 30, 2), 5, 1) if arguments.smoke else measure(SHAPE, LOOP_SAMPLES, ROUNDS), arguments)


if __name__ == "__main__":
    main()
