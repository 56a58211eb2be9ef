"""Every explainer on the same models and series: truth scores, evidence gap, CPD, seconds and model calls of each.

python benchmarks/neighbours.py --data heldout_levels freqshapes:500:100 --out neighbours.json
TIMEX_DATA=prepared python benchmarks/neighbours.py --model gru --data epilepsy boiler:200:40 --out cpd.json

A row is written as soon as it is measured. The same command goes on after a stop, and leaves out the rows of the same data
set, sizes, model and method that it finds in the file. Rows that lack one of these facts, from older versions of the script,
are dropped. Models are kept in the folder of --models.

Columns: `gap_mean` hides cells by the training mean. `cpd_zero` and `cpd_sample` replace cells by zero and by the mean of the
sample's channel. `..._classes` averages CPD over the classes, as its authors' code does. `..._signed` orders cells by their
signed attribution, for methods whose explanations have a direction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Rows, data_of, parser, timed, write
from safetensors.torch import load_file, save_file
from torch import nn

from timex.bench.recipes import few, reference_config
from timex.data.battery import BATTERY
from timex.explainers.base import Explainer
from timex.io.atomic import atomic_path
from timex.metrics import Probe, ground_truth_scores
from timex.metrics.faithfulness import cpd, evidence_gap
from timex.records import Dataset, Series
from timex.reference import load_reference, save_reference
from timex.reference.predict import model_predict
from timex.reference.train import macro_f1, train_references
from timex.registry import EXPLAINERS
from timex.trust.interval import Interval, plain

KEY = ("data", "fit", "test", "model", "trained_on", "method")
"""What tells rows apart."""
TRUTH = ("auprc", "aup", "aur")
"""Scores against the known cells."""
CPD_SHARE = 0.1
"""Share of the cells that CPD replaces, one after another, as TIMING's tables do."""
STEPS = 600
"""Steps of a fit of TimeX++, whose settings count epochs."""
HIDDEN, EPOCHS = 64, 10
"""Width of the GRU, and its epochs at most."""


class Recurrent(nn.Module):
    """A GRU and a linear layer on its last state: the model of TIMING's tables, narrower."""

    def __init__(self, n_channels: int, n_classes: int) -> None:
        super().__init__()
        self.gru = nn.GRU(n_channels, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, D) -> (B, C)."""
        return self.head(self.gru(x)[0][:, -1])


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--data", nargs="+", default=["heldout_levels", "heldout_ramps", "freqshapes"], help="NAME[:FIT:TEST]")
    options.add_argument("--methods", nargs="+", default=list(EXPLAINERS))
    options.add_argument("--model", choices=("reference", "cnn", "lstm", "gru"), default="reference")
    options.add_argument("--trained-on", type=int, help="training series of the model, at most; by default all")
    options.add_argument("--models", type=Path, default=Path("runs/neighbours"))
    options.add_argument("--fit", type=int, default=500, help="training series that a method is fitted on, at most")
    options.add_argument("--test", type=int, default=100, help="test series that it explains, at most")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    rows = measured_before(arguments.out)
    done = {tuple(row[k] for k in KEY) for row in rows}
    for entry in arguments.data:
        name, *sizes = entry.split(":")
        n_fit, n_test = map(int, sizes or (arguments.fit, arguments.test))
        whole = data_of(name, smoke=arguments.smoke)
        whole = standardised(whole) if arguments.model == "gru" else whole
        data = replace(whole, train=drawn(whole.train, n_fit), val=drawn(whole.val, 256), test=drawn(whole.test, n_test))
        facts = {"data": name, "fit": len(data.train), "test": len(data.test), "model": arguments.model}
        facts["trained_on"] = arguments.trained_on or len(whole.train)
        left = [method for method in arguments.methods if (*facts.values(), method) not in done]
        if not left:
            continue
        model, f1 = model_of(name, whole, arguments)
        for method in left:
            rows.append({**facts, "method": method, "f1": f1, **measured(method, model, data, arguments)})
            print(name, method, *(f"{k} {v['mean']:.3f}" for k, v in rows[-1].items() if isinstance(v, dict)), flush=True)
            write({"rows": plain(rows)}, arguments)


def drawn(part: Series, n: int) -> Series:
    """At most `n` random samples of a part, the classes in turn: parts of real data are sorted by patient or machine."""
    return few(part.take(np.random.default_rng(0).permutation(len(part))), n)


def standardised(data: Dataset) -> Dataset:
    """The data with every channel scaled by the mean and deviation of its training series."""
    mean, std = (value((0, 1)) for value in (data.train.x.mean, data.train.x.std))
    scale = np.where(std < 1e-6, 1, std)
    parts = {name: getattr(data, name) for name in ("train", "val", "test")}
    return replace(data, **{name: replace(part, x=(part.x - mean) / scale) for name, part in parts.items()})


def measured_before(file: Path | None) -> Rows:
    """The rows of a results file that hold every fact of `KEY`; none without a file."""
    if file is None or not file.exists():
        return []
    return [row for row in json.loads(file.read_text())["rows"] if set(KEY) <= set(row)]


def measured(method: str, model: nn.Module, data: Dataset, arguments: Any) -> dict[str, Any]:
    """Scores of one method with 95 % intervals over the test series, and what it costs."""
    train, test = data.train, data.test
    config = settings(method, len(train), arguments.smoke)
    try:
        explainer = EXPLAINERS[method](model, config=config, device=arguments.device)
        fit_seconds, _ = timed(lambda: explainer.fit(train, x_val=data.val, progress=False), arguments.device)
        seconds, e = timed(lambda: explainer.explain(test), arguments.device)
    except (ValueError, RuntimeError) as error:
        return {"error": str(error)}
    scores: dict[str, np.ndarray] = {}
    if test.truth is not None:
        scores = {k: v for k, v in ground_truth_scores(e.attribution, test.truth, test.observed).items() if k in TRUTH}
    probe = Probe(model_predict(model, arguments.device, attention=False), test, train)
    scores["gap_mean"] = evidence_gap(probe, e.attribution)
    for fill in ("zero", "sample"):
        filled = replace(probe, fill=fill)
        scores[f"cpd_{fill}"] = cpd(filled, e.attribution, CPD_SHARE)
        scores[f"cpd_{fill}_classes"] = scores[f"cpd_{fill}"] / probe.whole.shape[1]  # cpd(mean=True), without its calls
        if e.signed or e.direction is not None:
            scores[f"cpd_{fill}_signed"] = cpd(filled, e.directed().attribution, CPD_SHARE, signed=True)
    found = {name: Interval.of(values[np.isfinite(values)])._asdict() for name, values in scores.items()}
    return {"seconds": seconds / len(test), "fit_seconds": fit_seconds, "calls": calls(explainer, test.shape), **found}


def settings(method: str, n: int, smoke: bool) -> Any:
    """The method's own defaults; for TimeX++ as many epochs as give `STEPS` steps, and few of everything for a smoke run."""
    kind = EXPLAINERS[method].config_class
    if kind is type(None):
        return None
    config = kind()
    if method == "timex_plus":
        config = replace(config, epochs=max(1, round(STEPS / -(-n // config.batch_size))))
    small = {"epochs": 1, "pretrain_epochs": 1, "steps": 2, "fit_steps": 2, "permutations": 1, "draws": 1, "n_landmarks": 3}
    return replace(config, **{f.name: small[f.name] for f in fields(kind) if smoke and f.name in small})


def calls(explainer: Explainer[Any], shape: tuple[int, ...]) -> int:
    """Series that pass through the model to explain one sample, by the formula that the method states."""
    config = explainer.config
    known = {} if config is None else {f.name: getattr(config, f.name) for f in fields(config)}
    return int(eval(explainer.cost, {"T": shape[1], "D": shape[2], **known}))


def model_of(name: str, data: Dataset, arguments: Any) -> tuple[nn.Module, float]:
    """The model of a data set, trained once and kept, and its macro-F1 on the whole test part."""
    models = arguments.models / "smoke" if arguments.smoke else arguments.models
    if arguments.trained_on is not None:
        data = replace(data, train=drawn(data.train, arguments.trained_on))
        models = models / f"{arguments.trained_on}-series"
    if arguments.model == "gru":
        model: nn.Module = gru(models / f"{name}-gru.safetensors", data, 1 if arguments.smoke else EPOCHS)
    else:
        usual = BATTERY[name].arch if name in BATTERY else "transformer"
        arch = usual if arguments.model == "reference" else arguments.model
        folder = models / f"{name}-{arch}"
        if not (folder / "reference.json").exists():
            (trained,) = train_references(
                [data], arch, reference_config(name, arch, smoke=arguments.smoke), device=arguments.device, progress=False
            )
            save_reference(trained.model, folder)
        model = load_reference(folder)
    predict = model_predict(model, arguments.device, attention=False)
    answers = torch.as_tensor(predict(data.test.x, data.test.observed))
    return model, float(macro_f1(answers, torch.as_tensor(data.test.labels)))


def gru(file: Path, data: Dataset, epochs: int) -> nn.Module:
    """The GRU of a data set with the best validation macro-F1 of its epochs."""
    torch.manual_seed(0)
    model = Recurrent(data.train.shape[2], len(data.classes))
    if file.exists():
        model.load_state_dict(load_file(file))
        return model.eval()
    x, y, held = torch.as_tensor(data.train.x), torch.as_tensor(data.train.labels), torch.as_tensor(data.val.x)
    optimiser, best, state = torch.optim.Adam(model.parameters(), lr=3e-3), -1.0, model.state_dict()
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        with torch.no_grad():
            f1 = macro_f1(model(held), torch.as_tensor(data.val.labels))
        if f1 > best:
            best, state = float(f1), {name: v.clone() for name, v in model.state_dict().items()}
    model.load_state_dict(state)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as beside:  # after the last epoch alone: a training that was stopped begins again
        save_file(state, beside)
    return model.eval()


if __name__ == "__main__":
    main()
