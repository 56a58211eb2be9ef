"""Whether the cells called true are those a model decides by: its answer to them alone, and to what is left without them.

Beside them stand the cells that TimeX keeps. Probability of the predicted class, mean over test samples with known truth; cells
that are not shown have the mean of their cell. A run of `timex bench ecg --folds 2 --out runs/bench` leaves what this reads.

    python benchmarks/reasons.py runs/bench --data ecg --folds 0 1 --out reasons.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from timex import TimeX, load_dataset
from timex.bench.grid import Settings, cells_of
from timex.bench.tables import TABLES
from timex.metrics.occlusion import model_predict
from timex.reference import load_reference
from timex.types import Dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of `timex bench`")
    parser.add_argument("--data", default="ecg")
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for cell in cells_of([TABLES["ecg"]], Settings(folds=max(arguments.folds) + 1), [arguments.data], ["timex"]):
        if cell.fold in arguments.folds:
            model = load_reference(arguments.run / cell.reference_folder)
            explainer = TimeX.load(arguments.run / str(cell.explainer_folder), model, device=arguments.device)
            rows.append(
                {"data": arguments.data, "fold": cell.fold, **answers(explainer, load_dataset(arguments.data, cell.fold))}
            )
            print(*rows[-1].values(), flush=True)
    text = json.dumps({"torch": torch.__version__, "device": arguments.device, "rows": rows}, indent=1)
    print(text) if arguments.out is None else arguments.out.write_text(text + "\n")


def answers(explainer: TimeX, data: Dataset) -> dict[str, float]:
    """The model's probability of the class it predicts for the whole series, when it sees only some of the cells."""
    part = data.test.take(np.flatnonzero(data.test.truth.any(axis=(1, 2))))
    predict = model_predict(explainer.reference, explainer.device, attention=False)
    predicted = predict(part.x, np.ones(part.x.shape, bool)).argmax(1)
    right = part.take(np.flatnonzero(predicted == part.y))  # of a wrong prediction the truth says nothing
    kept, true = explainer.explain(right.x).mask > 0, right.truth > 0
    share = {"samples": len(right), "share_true": float(true.mean()), "share_kept": float(kept.mean())}

    def probability(shown: np.ndarray) -> float:
        x = np.where(shown, right.x, data.baseline.mean).astype(np.float32)
        return float(predict(x, shown)[np.arange(len(right)), right.y].mean())

    views = {"whole": np.ones_like(true), "true": true, "without_true": ~true, "kept": kept, "without_kept": ~kept}
    return {k: round(v, 4) for k, v in {**share, **{name: probability(shown) for name, shown in views.items()}}.items()}


if __name__ == "__main__":
    main()
