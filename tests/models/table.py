"""The table of docs/models.md: `python tests/models/table.py [NAME...]` measures and prints a row per model.

The fits are the short ones of the slow tests; `--full` takes twice the series and the default settings.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from packages import Case
from user_models import CASES, case

from timex import TimeX, TimeXConfig
from timex.metrics import truth_scores
from timex.records import Explanation
from timex.reference import student
from timex.registry import EXPLAINERS

SHORT = {"n": 400, "n_test": 60}
SHORT_CONFIG = TimeXConfig(epochs=15)
SHORT_STUDENT = 400
"""Training steps of a black box's student in a short fit."""


def auprc(explanation: Explanation) -> float:
    """Mean over the series that have an answer to explain."""
    return float(np.nanmean(truth_scores(explanation, None)["auprc"]))


def measured(one: Case, config: TimeXConfig | None) -> tuple[float, dict[str, float], float, float]:
    """AUPRC of TimeX and of the other methods, seconds of this process to fit and to explain a series."""
    started = time.process_time()
    explainer = TimeX(one.model, config=config, **one.how).fit(one.train, progress=False)
    fitted = time.process_time()
    explanation = explainer.explain(one.test)
    explained = time.process_time()
    others = {
        name: auprc(EXPLAINERS[name](one.model, **one.how).fit(one.train, progress=False).explain(one.test))
        for name in one.others
    }
    return auprc(explanation), others, fitted - started, (explained - fitted) / len(one.test)


def main(names: list[str], full: bool) -> None:
    """Print a row for each model."""
    if not full:
        student.STEPS = SHORT_STUDENT
    for name in names:
        one = case(name) if full else case(name, **SHORT)
        ours, others, fit, explain = measured(one, None if full else SHORT_CONFIG)
        beside = ", ".join(f"{value:.3f} ({other})" for other, value in others.items())
        print(f"| {name} | {one.lines} | {ours:.3f} | {beside} | {fit:.0f} s | {1000 * explain:.1f} ms |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main([name for name in sys.argv[1:] if name != "--full"] or list(CASES), "--full" in sys.argv)
