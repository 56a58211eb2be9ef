"""An exported explainer beside `explain`: the largest difference in p, and the series that each explains in a second.

python benchmarks/exporting.py --archs cnn transformer
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import data_of, parser, timed, untrained, write

from timex import TimeX, TimeXConfig

BATCHES = (1, 64, 512)
REPEATS = 5


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--archs", nargs="+", default=["cnn", "transformer"])
    options.add_argument("--data", default="freqshapes")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Any]] = []
    for arch in arguments.archs:
        rows += measured(arch, arguments.data, arguments.smoke)
    write({"rows": rows}, arguments)


def measured(arch: str, name: str, smoke: bool) -> list[dict[str, Any]]:
    """One row for each number of series in a call: series in a second, as `explain` and as the program."""
    import onnxruntime

    data = data_of(name, smoke=smoke)
    config = TimeXConfig(epochs=1).replaced({"generator.gradient_points": 1} if smoke else {})
    explainer = TimeX(untrained(data, arch), config=config, device="cpu").fit(data.train, x_val=data.val, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "explainer.onnx"
        seconds, difference = timed(lambda: explainer.export(path), "cpu")
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    rows = []
    for batch in BATCHES[: 1 if smoke else None]:
        x = data.test.x[:batch]
        each = {}
        runs = {"explain": lambda x=x: explainer.explain(x), "onnx": lambda x=x: session.run(["p"], {"x": x})}
        for how, run in runs.items():
            run()
            each[how] = min(timed(run, "cpu")[0] for _ in range(REPEATS))
        row = {"arch": arch, "data": name, "batch": len(x), "difference": difference, "export_seconds": seconds}
        row |= {f"{how}_per_second": len(x) / taken for how, taken in each.items()}
        rows.append({**row, "times_as_fast": each["explain"] / each["onnx"]})
        print(*rows[-1].values(), flush=True)
    return rows


if __name__ == "__main__":
    main()
