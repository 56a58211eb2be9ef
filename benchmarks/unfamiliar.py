"""How many series are flagged as unlike the training series: those of the test part, and altered ones.

python benchmarks/unfamiliar.py --data freqshapes seqcomb_mv
TIMEX_DATA=prepared python benchmarks/unfamiliar.py --data epilepsy boiler
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from common import data_of, parser, write

from timex.metrics.familiarity import MOST, traits, unfamiliar
from timex.records import Series

TEST = 1000
"""Test series at most."""


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar", "equalshapes"])
    arguments = options.parse_args(argv)
    rows = []
    for name in arguments.data:
        data = data_of(name, smoke=arguments.smoke)
        rng = np.random.default_rng(0)
        train, test = (part.take(rng.permutation(len(part))[:n]) for part, n in ((data.train, MOST), (data.test, TEST)))
        known = traits(train)
        shares = {kind: float(unfamiliar(known, part).flags.mean()) for kind, part in altered(test, rng).items()}
        rows.append({"data": name, "series": len(test), **shares})
        print(*rows[-1].values(), flush=True)
    write({"rows": rows}, arguments)


def altered(series: Series, rng: np.random.Generator) -> dict[str, Series]:
    """The series as they are, and in ways that no model was trained on."""
    x, n_steps = series.x, series.shape[1]
    measured = x[series.observed]
    std, mean = measured.std(), measured.mean()
    kinds = {
        "unaltered": x,
        "shifted by 5 deviations": x + 5 * std,
        "all zero": np.zeros_like(x),
        "white noise": rng.normal(mean, std, x.shape),
        "a ramp to 10,000": np.broadcast_to(np.linspace(0, 1e4, n_steps)[None, :, None], x.shape),
        "twice as large": 2 * x,
    }
    return {name: replace(series, x=np.where(series.observed, v, 0).astype(np.float32)) for name, v in kinds.items()}


if __name__ == "__main__":
    main()
