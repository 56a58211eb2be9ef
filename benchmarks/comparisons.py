"""The tables of `timex compare` on small CNNs and on models of other packages: which methods point at the model's evidence?

    python benchmarks/comparisons.py runs/planted --data freqshapes epilepsy PatchTSTForClassification --out comparisons.json
    python benchmarks/comparisons.py runs/planted --show

The CNNs and TimeX fits are those of `planted.py`, in the same folder. Models of other packages come from `tests/models`.
Explanations are kept: the same command goes on from there.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import parser, write
from planted import Case

from timex import TimeX, TimeXConfig, compare
from timex.io.atomic import atomic_path
from timex.io.rounding import rounded
from timex.reference.blackbox import BlackBox
from timex.trust.compare import Comparison

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
from user_models import CASES, case  # the tests own these models, so that there is one copy

METHODS = ("gradients", "ig", "timing", "occlusion")
BLACK_BOX = ("occlusion", "lime")
"""Methods beside TimeX where the model has no gradient."""
MOST = 50
"""Series that are compared."""
COLUMNS = {"gap": "+.2f", "comprehensiveness": ".2f", "sufficiency": ".2f", "cpd": ".2f"}
"""Scores in the table, and how they are written: means over the fills."""


def compared(name: str, folder: Path, smoke: bool) -> Comparison:
    """TimeX and the other methods on a data set with its CNN, or on a model of another package."""
    most, keep = 20 if smoke else MOST, folder / name / "compare"
    if name in CASES:
        one = case(name)
        explainer = TimeX(one.model, config=TimeXConfig(epochs=2 if smoke else None), device="cpu", **one.how)
        explainer.fit(one.train, progress=False)
        model, held_out, train, how = one.model, one.test, one.train, one.how
        methods = BLACK_BOX if isinstance(explainer.model, BlackBox) else METHODS
    else:
        ours = Case(name, folder / name, smoke)
        explainer, model, held_out, train, how = ours.good, ours.model, ours.data.test, ours.data.train, {}
        methods = METHODS
    aligned = name.startswith("ecg")
    others = methods[:2] if smoke else methods
    return compare(
        model,
        held_out,
        [explainer, *others],
        train,
        aligned=aligned,
        folder=keep,
        most=most,
        device="cpu",
        progress=False,
        **how,
    )


def row(name: str, folder: Path, smoke: bool) -> dict[str, Any]:
    """The comparison as plain values; read from the folder if it is there."""
    path = folder / name / "comparison.json"
    if not path.is_file():
        found = compared(name, folder, smoke)
        means = {m: {score: found.mean(m, score) for score in COLUMNS} for m in found.ranking}
        behind = {m: list(found.behind(m)) for m in found.ranking}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as beside:
            facts = {"data": name, **rounded({"means": means, "behind": behind}), **found.to_dict()}
            beside.write_text(json.dumps(facts, indent=1) + "\n")
    return json.loads(path.read_text())


def table(found: dict[str, Any]) -> str:
    """A row per method, best first, as Markdown."""
    fills = [name.removeprefix("gap (")[:-1] for name in next(iter(found["methods"].values())) if name.startswith("gap (")]
    head = ["method", *COLUMNS, *(f"gap ({fill})" for fill in fills), "behind the best", "ms a sample", "MB"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for method, means in found["means"].items():
        values = found["methods"][method]
        mean, low, high = found["behind"][method]
        behind = "best" if method == found["best"] else f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
        cells = [f"{means[score]:{form}}" for score, form in COLUMNS.items()] + [f"{values[f'gap ({f})']:+.2f}" for f in fills]
        memory = "-" if values["megabytes"] is None else f"{values['megabytes']:.0f}"
        lines.append("| " + " | ".join([method, *cells, behind, f"{1000 * values['seconds_per_sample']:.1f}", memory]) + " |")
    return "\n".join([f"### {found['data']}", "", *lines, "", found["recommendation"], ""])


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path, help="that of planted.py")
    options.add_argument("--data", nargs="*", default=["ecg", "epilepsy", "boiler", "freqshapes", "PatchTSTForClassification"])
    options.add_argument(
        "--show", action="store_true", help="print the tables of the comparisons in the folder, and nothing else"
    )
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.data:
        path = arguments.folder / name / "comparison.json"
        if arguments.show and not path.is_file():
            continue
        rows.append(row(name, arguments.folder, arguments.smoke))
        print(table(rows[-1]), flush=True)
    if not arguments.show:
        write({"rows": rows}, arguments)


if __name__ == "__main__":
    logging.getLogger("timex").setLevel(logging.ERROR)
    main()
