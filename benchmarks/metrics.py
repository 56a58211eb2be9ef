"""How much faster `ground_truth_scores` is than a loop over samples with scikit-learn.

python benchmarks/metrics.py --out metrics.json
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from timex.metrics import ground_truth_scores

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "metrics"))
from slow_reference import scores_by_loop  # the tests own the loop, so that there is one copy

SHAPE = (1000, 200, 4)
LOOP_SAMPLES = 200
ROUNDS = 5


def seconds(function, *arrays):
    start = time.perf_counter()
    function(*arrays)
    return time.perf_counter() - start


def measure():
    rng = np.random.default_rng(0)
    whole = rng.random(SHAPE, dtype=np.float32), rng.random(SHAPE) < 0.1
    part = tuple(array[:LOOP_SAMPLES] for array in whole)
    fast, slow = ground_truth_scores(*part), scores_by_loop(*part)  # also the warm-up
    # In turns, so that whatever else the machine does falls on both.
    rounds = [(seconds(ground_truth_scores, *whole), seconds(scores_by_loop, *part)) for _ in range(ROUNDS)]
    ours, loop = (float(value) for value in np.median(rounds, axis=0))
    loop *= SHAPE[0] / LOOP_SAMPLES
    return {
        "shape": SHAPE,
        "torch_threads": torch.get_num_threads(),
        "ours_s": ours,
        "loop_s": loop,
        "ratio": loop / ours,
        "note": f"medians of {ROUNDS}; the loop timed on {LOOP_SAMPLES} samples and scaled to {SHAPE[0]}",
        "largest_difference": max(float(np.abs(fast[name] - slow[name]).max()) for name in slow),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    out = parser.parse_args().out
    text = json.dumps(measure(), indent=2)
    print(text)
    if out:
        out.write_text(text + "\n")


if __name__ == "__main__":
    main()
