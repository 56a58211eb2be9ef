"""Does `timex check` notice what is wrong? Verdicts on a good explainer and on explainers that are broken on purpose.

    python benchmarks/planted.py runs/planted --data freqshapes epilepsy --out planted.json
    python benchmarks/planted.py runs/planted --show

The models are small CNNs. Models, fits and verdicts are kept in the folder; the same command goes on from there.
A verdict is right if it is among those that `RIGHT` lists for what was planted.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import data_of, parser, write

from timex import Series, TimeX, TimeXConfig, check
from timex.bench.recipes import QUICK, few, in_paper
from timex.explainers.batch import Batch
from timex.io.atomic import atomic_path
from timex.metrics import truth_scores
from timex.records import Dataset
from timex.reference import load_reference, save_reference
from timex.reference.base import ReferenceModel, weights_hash
from timex.reference.copies import copied
from timex.reference.predict import model_predict
from timex.reference.train import train_references
from timex.trust.check import Check
from timex.trust.randomise import shuffled

SYNTHETIC = ("freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar", "seqcomb_mv_irregular", "equalshapes")
REAL = ("ecg", "epilepsy", "boiler")
TRAIN, HELD_OUT = 2000, 100
"""Series that models and explainers are fitted on, and that are checked, at most."""

BAD, NOT_TRUSTED = ("do not use",), ("weak", "do not use")
RIGHT: dict[str, tuple[str, ...]] = {
    "a good fit": ("trust", "weak"),
    "one epoch": NOT_TRUSTED,
    "one epoch, the paper's objective": NOT_TRUSTED,
    "a generator with random weights": BAD,
    "a model with shuffled weights": BAD,
    "shuffled weights, hash not compared": NOT_TRUSTED,
    "a constant model": BAD,
    "no cell kept for one class": NOT_TRUSTED,
    "series three times as large": BAD,
    "series shifted by three deviations": BAD,
    "noise with the same mean and deviation": NOT_TRUSTED,
    "the same values in a random order": NOT_TRUSTED,
}
"""What was planted, and the verdicts that count as right. "weak" for a good fit names what holds it back."""


class EmptyFor(TimeX):
    """TimeX whose scores never reach .5 for one predicted class."""

    empty: int

    def _explain(self, batch: Batch) -> dict[str, torch.Tensor]:
        found = super()._explain(batch)
        of_class = (batch.target == self.empty)[:, None, None]
        found["attribution"] = torch.where(of_class, 0.49 * found["attribution"], found["attribution"])
        return {**found, "mask": found["mask"] & ~of_class}


@dataclass(frozen=True)
class Case:
    """One data set with its model and fits, which are made when they are first asked for, and kept in a folder."""

    name: str
    folder: Path
    smoke: bool

    @cached_property
    def data(self) -> Dataset:
        """At most `TRAIN` series to fit on and `HELD_OUT` others, the classes in turn."""
        whole = data_of(self.name, smoke=self.smoke)
        return replace(whole, train=few(whole.train, TRAIN), val=few(whole.val, HELD_OUT), test=few(whole.test, HELD_OUT))

    @cached_property
    def model(self) -> ReferenceModel:
        """A small CNN trained on the data."""
        path = self.folder / "model"
        if not path.is_dir():
            config = replace(QUICK["cnn"], attempts=1, epochs=2 if self.smoke else QUICK["cnn"].epochs)
            (trained,) = train_references([self.data], "cnn", config, progress=False)
            save_reference(trained.model, path, f1=trained.test["f1"])
        return load_reference(path)

    def fit(self, name: str, config: TimeXConfig) -> TimeX:
        """TimeX fitted to the model with these settings, kept under a name."""
        path = self.folder / name
        if not path.is_dir():
            explainer = TimeX(self.model, config=config, device="cpu", classes=self.data.classes)
            explainer.fit(self.data.train, x_val=self.data.val, progress=False).save(path)
        return TimeX.load(path, self.model, device="cpu")

    @property
    def good(self) -> TimeX:
        """A fit with the default settings."""
        return self.fit("good", TimeXConfig(epochs=2 if self.smoke else None))

    def test(self, x: np.ndarray) -> Series:
        """The held-out series with other values; missing cells stay missing."""
        return replace(self.data.test, x=np.where(self.data.test.observed, x, 0).astype(np.float32), truth=None, y=None)


# ------------------------------------------------------------------------------------------------------- what is planted


def with_model(explainer: TimeX, model: ReferenceModel, same_hash: bool) -> TimeX:
    """The explainer on another model, as after `TimeX.load(..., allow_other_model=True)`, or as if it had been fitted on it."""
    other = copy.copy(explainer)
    hashed = weights_hash(model) if same_hash else explainer.fitted.reference_hash
    other.fitted_ = replace(explainer.fitted, reference=model, reference_hash=hashed)
    other.model = model
    return other


def random_generator(explainer: TimeX) -> TimeX:
    model = copy.deepcopy(explainer.fitted.model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.generator.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
    other = copy.copy(explainer)
    other.fitted_ = replace(explainer.fitted, model=model)
    return other


def constant(model: ReferenceModel) -> ReferenceModel:
    """A copy whose last layer answers the second class, whatever it sees."""
    other = copied(model)
    weight, bias = list(other.parameters())[-2:]
    with torch.no_grad():
        weight.zero_()
        bias.zero_()
        bias[1] = 3.0
    return other  # type: ignore[return-value]


def empty_for_one(case: Case) -> TimeX:
    """No cell is kept for the commonest class that a blank series does not get."""
    explainer = case.good
    predict = model_predict(explainer.fitted.reference, attention=False)
    mean = explainer.fitted.baseline.mean[None]
    blank = int(predict(mean, np.ones(mean.shape, bool)).argmax())
    predicted = explainer.explain(case.data.test).prediction
    count = np.bincount(predicted[predicted != blank], minlength=len(case.data.classes))
    other = copy.copy(explainer)
    other.__class__ = EmptyFor
    other.empty = int(count.argmax())  # type: ignore[attr-defined]
    return other


def noise(case: Case) -> np.ndarray:
    mean, std = case.data.train.baseline()
    return mean + std * np.random.default_rng(0).standard_normal(case.data.test.shape)


def in_random_order(case: Case) -> np.ndarray:
    """Every series with its steps in an order of its own."""
    order = np.random.default_rng(0).random(case.data.test.shape[:2]).argsort(axis=1)
    return np.take_along_axis(case.data.test.x, order[:, :, None], axis=1)


Planted = Callable[[Case], tuple[TimeX, Series]]
PLANTED: dict[str, Planted] = {
    "a good fit": lambda c: (c.good, c.data.test),
    "one epoch": lambda c: (c.fit("one", TimeXConfig(epochs=1)), c.data.test),
    "one epoch, the paper's objective": lambda c: (c.fit("paper", replace(paper_settings(c), epochs=1)), c.data.test),
    "a generator with random weights": lambda c: (random_generator(c.good), c.data.test),
    "a model with shuffled weights": lambda c: (with_model(c.good, shuffled(c.model, 1), False), c.data.test),  # type: ignore[arg-type]
    "shuffled weights, hash not compared": lambda c: (with_model(c.good, shuffled(c.model, 1), True), c.data.test),  # type: ignore[arg-type]
    "a constant model": lambda c: (with_model(c.good, constant(c.model), True), c.data.test),
    "no cell kept for one class": lambda c: (empty_for_one(c), c.data.test),
    "series three times as large": lambda c: (c.good, c.test(3 * c.data.test.x)),
    "series shifted by three deviations": lambda c: (c.good, c.test(c.data.test.x + 3 * c.data.train.x.std((0, 1)))),
    "noise with the same mean and deviation": lambda c: (c.good, c.test(noise(c))),
    "the same values in a random order": lambda c: (c.good, c.test(in_random_order(c))),
}


def paper_settings(case: Case) -> TimeXConfig:
    """The paper's settings for the data set, or those of FreqShapes if it has none."""
    return TimeXConfig.paper(case.name if in_paper(case.name) else "freqshapes", "cnn")


# ----------------------------------------------------------------------------------------------------------- the verdicts


def row(case: Case, planted: str, again: bool) -> dict[str, Any]:
    """The verdict on what was planted, with the findings behind it; read from the folder if it is there."""
    path = case.folder / f"{planted.replace(' ', '-')}.json"
    if path.is_file() and not again:
        return json.loads(path.read_text())
    explainer, series = PLANTED[planted](case)
    made = facts(check(explainer, series, case.data.train))
    if series.truth is not None:
        made["auprc"] = float(np.nanmean(truth_scores(explainer.explain(series), None)["auprc"]))
    made = {"data": case.name, "planted": planted, "right": made["verdict"] in RIGHT[planted], **made}
    with atomic_path(path) as beside:
        beside.write_text(json.dumps(made, indent=1) + "\n")
    return made


def facts(found: Check) -> dict[str, Any]:
    """Verdict, what it rests on, every value, and the verdict of every class."""
    named = {v: [f.name for f in found.overall.findings if f.verdict == v] for v in ("do not use", "weak")}
    classes = {group.name: group.verdict for group in found.classes}
    values = {f.name: round(f.value, 4) for f in found.overall.findings}
    return {"verdict": found.verdict, **named, "classes": classes, "default": found.default, "values": values}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The verdicts as a Markdown table, a column per data set; `!` marks a wrong one."""
    columns = list(dict.fromkeys(r["data"] for r in rows))
    cell = {(r["planted"], r["data"]): r["verdict"] + ("" if r["right"] else " !") for r in rows}
    lines = ["| planted | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join([*lines, *(f"| {p} | " + " | ".join(cell.get((p, c), "") for c in columns) + " |" for p in PLANTED)])


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path, help="keeps models, fits and verdicts")
    options.add_argument("--data", nargs="*", default=[*SYNTHETIC, *REAL])
    options.add_argument("--planted", nargs="*", choices=list(PLANTED), default=list(PLANTED))
    options.add_argument("--again", action="store_true", help="check again: models and fits are still read from the folder")
    options.add_argument("--show", action="store_true", help="print a table of the verdicts in the folder, and nothing else")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    if arguments.show:
        print(table([json.loads(p.read_text()) for name in arguments.data for p in (arguments.folder / name).glob("*.json")]))
        return
    rows = []
    for name in arguments.data:
        case = Case(name, arguments.folder / name, arguments.smoke)
        case.folder.mkdir(parents=True, exist_ok=True)
        for planted in arguments.planted:
            rows.append(row(case, planted, arguments.again))
            print(name, "|", planted, "|", rows[-1]["verdict"], "|", rows[-1]["do not use"], rows[-1]["weak"], flush=True)
    write({"rows": rows}, arguments)


if __name__ == "__main__":
    logging.getLogger("timex").setLevel(logging.ERROR)
    main()
