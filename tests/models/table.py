"""The table of docs/models.md: `python tests/models/table.py [NAME...]` measures and prints a row per model."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from packages import Case
from user_models import CASES, case

from timex import TimeX
from timex.metrics import truth_scores
from timex.registry import EXPLAINERS


def auprc(explanation) -> float:
    """Mean over the series that have an answer to explain."""
    return float(np.nanmean(truth_scores(explanation, None)["auprc"]))


def measured(one: Case) -> tuple[float, dict[str, float], float, float]:
    """AUPRC of TimeX and of the other methods, seconds to fit and to explain a series."""
    started = time.perf_counter()
    explainer = TimeX(one.model, **one.how).fit(one.train, progress=False)
    fitted = time.perf_counter()
    explanation = explainer.explain(one.test)
    explained = time.perf_counter()
    others = {
        name: auprc(EXPLAINERS[name](one.model, **one.how).fit(one.train, progress=False).explain(one.test))
        for name in one.others
    }
    return auprc(explanation), others, fitted - started, (explained - fitted) / len(one.test)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or CASES:
        one = case(name)
        ours, others, fit, explain = measured(one)
        beside = ", ".join(f"{value:.3f} ({other})" for other, value in others.items())
        print(f"| {name} | {one.lines} | {ours:.3f} | {beside} | {fit:.0f} s | {1000 * explain:.1f} ms |", flush=True)
