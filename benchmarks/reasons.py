"""Whether a model decides by the cells called true: its answer to them alone, and to the series without them.

Beside them stand the cells that TimeX keeps. Every value is the probability of the predicted class, averaged over the test
samples with known truth that the model classifies rightly. Hidden cells have the mean of their cell. The models and explainers
are those of a run of `timex bench`:

    timex bench ecg --folds 2 --out runs/bench
    python benchmarks/reasons.py runs/bench --data ecg --folds 0 1 --out reasons.json
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from common import data_of, parser, write

from timex import TimeX
from timex.bench import TABLES, Grid
from timex.bench.cells import cells_of
from timex.records import Dataset
from timex.reference import load_reference
from timex.reference.predict import model_predict


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="directory of `timex bench`; with --smoke, of a smoke run")
    options.add_argument("--data", default="ecg")
    options.add_argument("--arch", default="transformer")
    options.add_argument("--folds", nargs="+", type=int, default=[0])
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    grid = Grid(folds=max(arguments.folds) + 1, smoke=arguments.smoke)
    rows = []
    for cell in cells_of([TABLES["univariate"]], grid, [arguments.data], ["timex"], [arguments.arch]):
        if cell.fold in arguments.folds:
            model = load_reference(arguments.run / cell.reference_folder)
            explainer = TimeX.load(arguments.run / str(cell.explainer_folder), model, device=arguments.device)
            data = data_of(arguments.data, cell.fold, smoke=arguments.smoke)
            rows.append({"data": arguments.data, "fold": cell.fold, **answers(explainer, data)})
    write({"rows": rows}, arguments)


def answers(explainer: TimeX, data: Dataset) -> dict[str, float]:
    """The model's probability of the class it predicts for the whole series, when it sees only some of the cells."""
    test = data.test
    if test.truth is None:
        raise ValueError(f"Expected a data set with known truth, got {data.name}.")
    part = test.take(test.truth.any(axis=(1, 2)))
    predict = model_predict(explainer.fitted.reference, explainer.device, attention=False)
    predicted = predict(part.x, np.ones(part.x.shape, bool)).argmax(1)
    right = part.take(predicted == part.labels)  # the truth does not explain a wrong prediction
    explanation = explainer.explain(right)
    true, kept = (np.asarray(cells, dtype=bool) for cells in (right.truth, explanation.mask))

    def probability(shown: np.ndarray) -> float:
        x = np.where(shown, right.x, data.baseline.mean).astype(np.float32)
        return float(predict(x, shown)[np.arange(len(right)), right.labels].mean())

    views = {"whole": np.ones_like(true), "true": true, "without_true": ~true, "kept": kept, "without_kept": ~kept}
    shares = {"samples": len(right), "share_true": float(true.mean()), "share_kept": float(kept.mean())}
    return {k: round(v, 4) for k, v in {**shares, **{name: probability(shown) for name, shown in views.items()}}.items()}


if __name__ == "__main__":
    main()
