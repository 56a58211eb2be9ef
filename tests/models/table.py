"""The table of docs/models.md: `python tests/models/table.py [NAME...]` measures and prints a row per model."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from packages import ALIGNED, ANYWHERE, Case, case

from timex import TimeX
from timex.metrics import truth_scores
from timex.registry import EXPLAINERS


def auprc(explanation) -> float:
    """Mean over the series that have an answer to explain."""
    return float(np.nanmean(truth_scores(explanation, None)["auprc"]))


def measured(one: Case) -> tuple[float, float, float, float]:
    """AUPRC of TimeX and of the other method, seconds to fit and to explain a series."""
    started = time.perf_counter()
    explainer = TimeX(one.model, **one.how).fit(one.train.x, progress=False)
    fitted = time.perf_counter()
    explanation = explainer.explain(one.test)
    explained = time.perf_counter()
    other = EXPLAINERS[one.other](one.model, **one.how).fit(one.train.x, progress=False).explain(one.test)
    return auprc(explanation), auprc(other), fitted - started, (explained - fitted) / len(one.test)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or [*ANYWHERE, *ALIGNED]:
        one = case(name)
        ours, other, fit, explain = measured(one)
        print(f"| {name} | {ours:.3f} | {other:.3f} ({one.other}) | {fit:.0f} s | {1000 * explain:.1f} ms |", flush=True)
