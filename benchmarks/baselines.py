"""The baselines: how fast they are beside loops of the same equations, and how good beside the paper's table.

    python benchmarks/baselines.py speed --device cuda --out speed.json
    python benchmarks/baselines.py quality --device cuda --references runs --out quality.json

`speed` needs no trained model. Everything is timed in one process, after a warm-up, with results compared: Dynamask against a
loop over samples, integrated gradients against one Captum call per sample, WinIT against a loop over windows. The loops, which
are those of the tests, run on a few samples or windows and are scaled up. For comparison, the published code of Dynamask takes
.31 to .37 s per sample on one H200.

`quality` scores every method on the test part of one fold. References are read from `<references>/<data>`, as `timex train
<data> --out <references>/<data>` writes them, or trained with their presets. Dynamask has two rows: settings chosen by `fit`,
which sees no truth, and settings chosen by AUPRC on the validation part, which is an upper bound for it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Rows, data_of, parser, timed, untrained, write

from timex.explainers import Dynamask, DynamaskConfig, IntegratedGradients, WinIT, WinITConfig
from timex.explainers.base import Explainer
from timex.metrics import ground_truth_scores
from timex.paper import published
from timex.records import Dataset, Series
from timex.reference import load_reference
from timex.reference.base import ReferenceModel
from timex.reference.train import preset, train_references
from timex.registry import EXPLAINERS, find

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "explainers"))
from loops import dynamask_by_loop, window_effect  # the tests own the loops, so that there is one copy

PUBLISHED_DYNAMASK_S = (0.31, 0.37)
METRICS = ("auprc", "aup", "aur", "iou", "aup_rank", "aur_rank")


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=["speed", "quality"])
    options.add_argument("--data", nargs="+", help="by default two sets for speed, four for quality")
    speed = options.add_argument_group("speed")
    speed.add_argument("--explained", type=int, default=1000, help="samples for Dynamask and integrated gradients")
    speed.add_argument("--winit-samples", type=int, default=50)
    speed.add_argument("--loop-samples", type=int, default=5, help="of the loops over samples")
    speed.add_argument("--loop-windows", type=int, default=200, help="of the loop over windows")
    quality = options.add_argument_group("quality")
    quality.add_argument("--methods", nargs="+", default=list(EXPLAINERS))
    quality.add_argument("--fold", type=int, default=0)
    quality.add_argument("--references", type=Path, help="folder of references, one per data set")
    quality.add_argument("--samples", type=int, help="test samples with known truth, from the first; all by default")
    quality.add_argument("--train-samples", type=int, help="training samples, from the first; all by default")
    quality.add_argument("--reference-epochs", type=int, help="instead of the preset's, where references are trained")
    arguments = options.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    if arguments.smoke:
        arguments.explained, arguments.winit_samples, arguments.loop_samples, arguments.loop_windows = 8, 2, 2, 8
        arguments.reference_epochs = 1
    {"speed": run_speed, "quality": run_quality}[arguments.what](arguments)


# --------------------------------------------------------------------------------------------------------------- speed


def run_speed(arguments: argparse.Namespace) -> None:
    rows: Rows = []
    for name in arguments.data or ["freqshapes", "seqcomb_mv"]:
        data = data_of(name, smoke=arguments.smoke)
        for measure in (dynamask, integrated_gradients, winit):
            rows.append({"data": name, **measure(data, arguments)})
            print(*(f"{v:.4g}" if isinstance(v, float) else v for v in rows[-1].values()), flush=True)
    write({"clock": "wall" if arguments.device.startswith("cuda") else "process", "rows": rows}, arguments)


def undecided(data: Dataset) -> ReferenceModel:
    """An untrained transformer, its logits scaled so that predictions differ between samples."""
    model = untrained(data)
    logits = model(torch.as_tensor(data.val.x))
    last: Any = list(model.head.children())[-1]  # type: ignore[union-attr]
    last.weight /= logits.std(0)[:, None]
    last.bias.sub_(logits.mean(0)).div_(logits.std(0))
    return model


def compared(method: str, ours: float, loop: float, difference: float | None, **facts: Any) -> dict[str, Any]:
    times = {"ours_s_per_sample": ours, "loop_s_per_sample": loop, "ratio": loop / ours}
    return {"method": method, **times, "largest_difference": difference, **facts}


def dynamask(data: Dataset, arguments: argparse.Namespace) -> dict[str, Any]:
    """All samples at once against one after another."""
    few = arguments.loop_samples
    x = data.test.x[: arguments.explained]
    config = DynamaskConfig(keep_ratio=(0.1,), size_growth=(1e3,), sigma_max=(2.0,))  # the published code's blur
    explainer = Dynamask(undecided(data), config, device=arguments.device)
    explainer.explain(x[:2])
    ours, e = timed(lambda: explainer.explain(x), arguments.device)
    series = torch.as_tensor(x[:few], device=arguments.device)
    target = torch.as_tensor(e.prediction[:few], device=arguments.device)

    def loop() -> list[torch.Tensor]:
        return [dynamask_by_loop(explainer.model, v, y, config) for v, y in zip(series, target, strict=True)]

    dynamask_by_loop(explainer.model, series[0], target[0], config)
    slow, masks = timed(loop, arguments.device)
    difference = float((torch.stack(masks).cpu() - torch.as_tensor(e.attribution[:few])).abs().max())
    per_sample = ours / len(x)
    against = {f"ratio_to_published_{s}_s": s / per_sample for s in PUBLISHED_DYNAMASK_S}
    return compared("dynamask", per_sample, slow / few, difference, samples=len(x), loop_samples=few, **against)


def integrated_gradients(data: Dataset, arguments: argparse.Namespace) -> dict[str, Any]:
    """Batched against one Captum call per sample."""
    from captum.attr import IntegratedGradients as Captum

    x, few = data.test.x[: arguments.explained], 4 * arguments.loop_samples
    explainer = IntegratedGradients(undecided(data), device=arguments.device)
    explainer.explain(x)
    ours, e = timed(lambda: explainer.explain(x), arguments.device)
    captum = Captum(explainer.model)
    series = torch.as_tensor(x[:few], device=arguments.device)

    def loop() -> list[torch.Tensor]:
        return [captum.attribute(v[None], target=int(y), n_steps=50)[0] for v, y in zip(series, e.prediction, strict=False)]

    captum.attribute(series[:1], target=0, n_steps=50)
    slow, scores = timed(loop, arguments.device)
    difference = float((torch.stack(scores).cpu() - torch.as_tensor(e.attribution[:few])).abs().max())
    return compared("ig", ours / len(x), slow / few, difference, samples=len(x), loop_samples=few)


def winit(data: Dataset, arguments: argparse.Namespace) -> dict[str, Any]:
    """All windows, channels and draws of many samples at once against a loop over windows, with random replacements."""
    x = data.test.x[: arguments.winit_samples]
    config = WinITConfig(epochs=1)
    explainer = WinIT(undecided(data), config, device=arguments.device).fit(data.train.take(slice(256)), progress=False)
    explainer.explain(x[:2])
    ours, _ = timed(lambda: explainer.explain(x), arguments.device)
    t, d = x.shape[1:]
    series = torch.as_tensor(x[:1], device=arguments.device)
    draws = torch.randn(config.draws, t, config.window, d, device=arguments.device)
    windows = [(k, s, e) for e in range(t) for s in range(max(0, e + 1 - config.window), e + 1) for k in range(d)]
    rng = np.random.default_rng(0)
    chosen = [windows[i] for i in rng.choice(len(windows), min(arguments.loop_windows, len(windows)), replace=False)]
    before = explainer.logits(series).softmax(-1)

    def loop() -> list[torch.Tensor]:
        return [window_effect(explainer.model, series[0, : e + 1], draws, k, s, e, before) for k, s, e in chosen]

    loop()
    slow, _ = timed(loop, arguments.device)
    loop_s = slow / len(chosen) * len(windows)
    return compared("winit", ours / len(x), loop_s, None, samples=len(x), loop_windows=len(chosen))


# ------------------------------------------------------------------------------------------------------------- quality


def run_quality(arguments: argparse.Namespace) -> None:
    rows: Rows = []
    for name in arguments.data or ["freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar"]:
        data = data_of(name, arguments.fold, smoke=arguments.smoke)
        model = reference(data, arguments)
        part = known(data.test, arguments.samples)
        for method in arguments.methods:
            rivals: dict[str, Explainer[Any]] = {method: find(EXPLAINERS, method, "explainer")(model, device=arguments.device)}
            if method == "dynamask":
                rivals["dynamask_by_truth"] = dynamask_by_truth(model, data, arguments)
            for label, explainer in rivals.items():
                paper = published(f"r1/{name}/transformer", method)
                row = {"data": name, "fold": arguments.fold, "method": label, "samples": len(part)}
                rows.append({**row, **assess(explainer, data, part, arguments), "paper": paper})
                print(name, label, *(rows[-1][m] for m in METRICS[:3]), "paper", *paper.values(), flush=True)
        write({"rows": rows}, arguments)


def known(part: Series, n: int | None) -> Series:
    """The first n samples with a cell that is known to decide the class."""
    return part.take(np.flatnonzero(np.asarray(part.truth).any((1, 2)))[:n])


def reference(data: Dataset, arguments: argparse.Namespace) -> ReferenceModel:
    folder = None if arguments.references is None else arguments.references / data.name
    if folder is not None and folder.exists():
        return load_reference(folder)
    config = preset(data.name, "transformer")
    if arguments.reference_epochs is not None:
        config = replace(config, epochs=arguments.reference_epochs, attempts=1)
    return train_references([data], "transformer", config, device=arguments.device, progress=False)[0].model


def dynamask_by_truth(model: ReferenceModel, data: Dataset, arguments: argparse.Namespace) -> Dynamask:
    """Dynamask with the settings of the best AUPRC on validation series, whose truth no other method sees."""
    val = known(data.val, arguments.samples)
    candidates = []
    for ratio, growth, sigma in itertools.product((0.01, 0.1), (1e3, 1e5), (2.0, 10.0)):
        config = DynamaskConfig(keep_ratio=(ratio,), size_growth=(growth,), sigma_max=(sigma,))
        explainer = Dynamask(model, config, device=arguments.device)
        candidates.append((means(explainer.explain(val).attribution, val)["auprc"], explainer))
    return max(candidates, key=lambda candidate: candidate[0])[1]


def assess(explainer: Explainer[Any], data: Dataset, part: Series, arguments: argparse.Namespace) -> dict[str, Any]:
    """Scores of one method, signed scores also by their size, and LowVar without its class 0, as the published code has it."""
    train = data.train.take(slice(arguments.train_samples))
    fit_s, _ = timed(lambda: explainer.fit(train, x_val=data.val, progress=False), arguments.device)
    explain_s, e = timed(lambda: explainer.explain(part), arguments.device)
    row: dict[str, Any] = means(e.attribution, part)
    if e.signed:
        row["absolute"] = means(np.abs(e.attribution), part)
    if data.name == "lowvar":
        others = part.labels != 0
        row["without_class_0"] = means(e.attribution[others], part.take(others))
    report = getattr(explainer.fitted_, "report", None)
    return {**row, "fit_s": fit_s, "explain_s": explain_s, "report": None if report is None else asdict(report)}


def means(attribution: np.ndarray, part: Series) -> dict[str, float]:
    scores = ground_truth_scores(attribution, np.asarray(part.truth), part.observed)
    return {name: round(float(np.nanmean(scores[name])), 4) for name in METRICS}


if __name__ == "__main__":
    main()
