"""How good counterfactuals are: valid, near and plausible edits, by the order in which cells are edited.

python benchmarks/counterfactuals.py --out counterfactuals.json

Every row is one order on one data set: TimeX with and without `within="mask"`, gradients, and the controls. `pooled` has the
means over the series of all sets. All measures but `valid` are means over the valid edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from common import Rows, data_of, parser, write
from neighbours import model_of, settings

from timex import counterfactual
from timex.bench.recipes import few
from timex.registry import EXPLAINERS
from timex.trust.counterfactual import Counterfactuals
from timex.trust.interval import Interval, plain

Order = tuple[str, Literal["all", "mask"]]
Measures = dict[str, np.ndarray]
ORDERS: tuple[Order, ...] = (
    ("timex", "all"),
    ("timex", "mask"),
    ("gradients", "all"),
    ("amplitude", "all"),
    ("random", "all"),
)
"""Methods whose explanations the edits follow, and the cells that may be edited."""
OF_VALID = ("share", "within_mask", "distance", "plausibility")
"""Columns of `table()` that are averaged over the valid edits."""


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=["heldout_levels", "heldout_ramps", "heldout_spikes"])
    options.add_argument("--models", type=Path, default=Path("runs/neighbours"))
    options.add_argument("--fit", type=int, default=300, help="training series to fit on and to look for guides in, at most")
    options.add_argument("--test", type=int, default=40, help="test series to edit, at most")
    arguments = options.parse_args(argv)
    arguments.model, arguments.trained_on = "reference", None
    rows: Rows = []
    columns: dict[Order, list[Measures]] = {order: [] for order in ORDERS}
    for name in arguments.data:
        data = data_of(name, smoke=arguments.smoke)
        model, f1 = model_of(name, data, arguments)
        train, test = few(data.train, arguments.fit), few(data.test, arguments.test)
        facts = {"data": name, "fit": len(train), "test": len(test), "f1": f1}
        fitted = {}
        for method in dict(ORDERS):
            explainer = EXPLAINERS[method](model, config=settings(method, len(train), arguments.smoke), device=arguments.device)
            fitted[method] = explainer.fit(train, x_val=data.val, progress=False)
        for method, within in ORDERS:
            measures = measured(counterfactual(fitted[method], test, train, within=within))
            columns[method, within].append(measures)
            rows.append({**facts, "method": method, "within": within, **means([measures])})
            print(name, method, within, *(f"{k} {v['mean']:.3f}" for k, v in means([measures]).items()), flush=True)
    pooled = [{"method": method, "within": within, **means(columns[method, within])} for method, within in ORDERS]
    write({"rows": plain(rows), "pooled": plain(pooled)}, arguments)


def measured(found: Counterfactuals) -> Measures:
    """Whether each edit is valid, and the measures of the valid ones; NaN for the others."""
    table = found.table()
    return {
        "valid": table["valid"].to_numpy(dtype=float),
        **{name: table[name].where(table["valid"]).to_numpy(dtype=float) for name in OF_VALID},
    }


def means(parts: list[Measures]) -> dict[str, dict[str, float]]:
    """The mean of every measure over the series of all parts, with 95 % intervals; undefined values are ignored."""
    return {name: Interval.of(np.concatenate([part[name] for part in parts]))._asdict() for name in parts[0]}


if __name__ == "__main__":
    main()
