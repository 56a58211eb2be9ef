"""Which classes a model has a reason for, and in which of them explanations find the known cells.

A classifier may give one class whenever nothing speaks for another. Series of that class then need no cells to be recognised,
and no objective has a reason to keep them. For every class: the share of series that the model gives to it when the known cells
hold noise instead, its probability before and after that, and AUPRC of the explanations. The series are the check draw of 1,000
samples, which no test uses. The models and explainers are those of a run of `timex bench`:

    timex bench univariate --datasets freqshapes --methods timex:paper --folds 1 --out runs/bench
    python benchmarks/classes.py runs/bench --methods timex:paper --out classes.json
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import parser, write

from timex import TimeX
from timex.bench import TABLES, Grid
from timex.bench.cells import cells_of
from timex.bench.recipes import few
from timex.data.synthetic import check_part
from timex.metrics import ground_truth_scores
from timex.records import Series
from timex.reference import load_reference
from timex.reference.base import ReferenceModel
from timex.reference.train import predict_proba

SMOKE = 24
"""Series of a smoke run."""


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="directory of `timex bench`; with --smoke, of a smoke run")
    options.add_argument("--data", default="freqshapes")
    options.add_argument("--arch", default="transformer")
    options.add_argument("--folds", nargs="+", type=int, default=[0])
    options.add_argument("--methods", nargs="+", default=["timex", "timex:paper"], help="arms of TimeX")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    grid = Grid(folds=max(arguments.folds) + 1, smoke=arguments.smoke)
    rows = []
    for cell in cells_of([TABLES["univariate"]], grid, [arguments.data], arguments.methods, [arguments.arch]):
        if cell.fold in arguments.folds:
            model = load_reference(arguments.run / cell.reference_folder)
            explainer = TimeX.load(arguments.run / str(cell.explainer_folder), model, device=arguments.device)
            part = check_part(arguments.data, cell.fold, cell.seed)
            part = few(part, SMOKE) if arguments.smoke else part
            named = {"method": cell.experiment.label, "fold": cell.fold}
            rows += [{**named, **row} for row in by_class(model, explainer, part, cell.fold)]
    write({"rows": rows}, arguments)


def by_class(model: ReferenceModel, explainer: TimeX, part: Series, seed: int) -> list[dict[str, Any]]:
    """One row per class: what the model answers without the known cells, and how well explanations find them."""
    truth = np.asarray(part.truth, dtype=bool)
    noise = np.random.default_rng(seed).normal(part.x[~truth].mean(), part.x[~truth].std(), part.x.shape)
    whole = predict_proba(model, part)
    without = predict_proba(model, replace(part, x=np.where(truth, noise, part.x).astype(np.float32)))
    scores = ground_truth_scores(explainer.explain(part).attribution, truth)["auprc"]
    given = np.bincount(without.argmax(1), minlength=whole.shape[1]) / len(part)
    rows = []
    for c in range(whole.shape[1]):
        own = part.labels == c
        found = {
            "given_without": given[c],
            "probability": whole[own, c].mean(),
            "probability_without": without[own, c].mean(),
            "auprc": scores[own].mean(),  # NaN for a class without known cells
        }
        rows.append({"class": c, "samples": int(own.sum()), **{name: round(float(v), 4) for name, v in found.items()}})
    return rows


if __name__ == "__main__":
    main()
