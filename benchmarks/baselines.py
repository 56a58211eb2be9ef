"""The baselines: how fast they are beside loops of the same equations, and how good beside the paper's table.

    python benchmarks/baselines.py speed --device cuda --out speed.json
    python benchmarks/baselines.py quality --device cuda --references runs --out quality.json

`speed` needs no trained model. Everything is timed in one process, after a warm-up, with results compared: Dynamask against a
loop over samples, integrated gradients against one Captum call per sample, WinIT against a loop over windows. The loops, which
are those of the tests, run on a few samples or windows and are scaled up. For comparison, the published code of Dynamask takes
.31 to .37 s per sample on one H200.

`quality` scores every method on the test part of one fold. References are read from `<references>/<data>`, as `timex train
<data> --out <references>/<data>` writes them, or trained with their presets. Dynamask has two rows: settings chosen by `fit`,
which sees no truth, and settings chosen by AUPRC on the validation part, which flatters it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from timex import load_dataset
from timex.baselines import Dynamask, DynamaskConfig, IntegratedGradients, WinIT, WinITConfig
from timex.baselines.base import Batch
from timex.metrics import ground_truth_scores
from timex.paper import published
from timex.reference import load_reference
from timex.reference.base import initialised
from timex.reference.train import preset, train_references
from timex.registry import EXPLAINERS, find

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "baselines"))
from loops import dynamask_by_loop, window_effect  # the tests own the loops, so that there is one copy

PUBLISHED_DYNAMASK_S = (0.31, 0.37)
METRICS = ("auprc", "aup", "aur", "iou", "aup_rank", "aur_rank")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    speed = commands.add_parser("speed")
    speed.set_defaults(run=run_speed)
    speed.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_mv"])
    speed.add_argument("--samples", type=int, default=1000, help="explained by Dynamask and integrated gradients")
    speed.add_argument("--winit-samples", type=int, default=50)
    speed.add_argument("--loop-samples", type=int, default=5, help="of the loops over samples")
    speed.add_argument("--loop-windows", type=int, default=200, help="of the loop over windows")
    speed.add_argument("--smoke", action="store_true", help="small numbers, to see that it runs")
    quality = commands.add_parser("quality")
    quality.set_defaults(run=run_quality)
    quality.add_argument("--data", nargs="+", default=["freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar"])
    quality.add_argument("--methods", nargs="+", default=list(EXPLAINERS))
    quality.add_argument("--fold", type=int, default=0)
    quality.add_argument("--references", type=Path, help="folder of references, one per data set")
    quality.add_argument("--samples", type=int, help="test samples with known truth, from the first; all by default")
    quality.add_argument("--train-samples", type=int, help="training samples, from the first; all by default")
    quality.add_argument("--reference-epochs", type=int, help="instead of the preset's, where references are trained")
    for command in (speed, quality):
        command.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
        command.add_argument("--threads", type=int, default=1)
        command.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.run(arguments)


def write(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    name = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "cpu"
    clock = "wall" if arguments.device.startswith("cuda") else "process"
    facts = {"torch": torch.__version__, "device": name, "threads": arguments.threads, "clock": clock}
    text = json.dumps({**facts, "rows": rows}, indent=1)
    print(text) if arguments.out is None else arguments.out.write_text(text + "\n")


# --------------------------------------------------------------------------------------------------------------- speed


def run_speed(arguments: argparse.Namespace) -> None:
    if arguments.smoke:
        arguments.samples, arguments.winit_samples, arguments.loop_samples, arguments.loop_windows = 24, 2, 2, 40
    rows = []
    for name in arguments.data:
        for measure in (dynamask, integrated_gradients, winit):
            row = {"data": name, **measure(name, arguments)}
            rows.append(row)
            print(*(f"{v:.4g}" if isinstance(v, float) else v for v in row.values()), flush=True)
    write(rows, arguments)


def untrained(name: str) -> tuple[torch.nn.Module, np.ndarray, np.ndarray]:
    """The paper's transformer for a data set, logits scaled so that no prediction is indifferent, and its series."""
    data, config = load_dataset(name), preset(name, "transformer")
    shape = {"n_channels": data.train.x.shape[2], "n_classes": len(data.classes), "n_steps": data.train.x.shape[1]}
    model = initialised("transformer", {**shape, **config.model}, seed=0).eval()
    with torch.no_grad():
        logits = model(torch.as_tensor(data.val.x))
        model.head[-1].weight /= logits.std(0)[:, None]
        model.head[-1].bias.sub_(logits.mean(0)).div_(logits.std(0))
    return model, data.train.x, data.test.x


def timed(function: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds and result; on a CPU those of this process alone, so that what else the machine does falls out."""
    on_gpu = device.startswith("cuda")
    synchronise, clock = (torch.cuda.synchronize, time.perf_counter) if on_gpu else (lambda: None, time.process_time)
    synchronise()
    started = clock()
    out = function()
    synchronise()
    return clock() - started, out


def compared(method: str, ours: float, loop: float, difference: float | None, **facts: Any) -> dict[str, Any]:
    times = {"ours_s_per_sample": ours, "loop_s_per_sample": loop, "ratio": loop / ours}
    return {"method": method, **times, "largest_difference": difference, **facts}


def dynamask(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All samples at once against one after another."""
    model, _, x = untrained(name)
    x, few = x[: arguments.samples], arguments.loop_samples
    config = DynamaskConfig(keep_ratio=(0.1,), size_growth=(1e3,), sigma_max=(2.0,))  # the published code's blur
    explainer = Dynamask(model, config, arguments.device)
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


def integrated_gradients(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Batched against one Captum call per sample."""
    from captum.attr import IntegratedGradients as Captum

    model, _, x = untrained(name)
    x, few = x[: arguments.samples], 4 * arguments.loop_samples
    explainer = IntegratedGradients(model, device=arguments.device)
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


def winit(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All windows, channels and draws of many samples at once against a loop over windows, whose draws are given for free."""
    model, train, x = untrained(name)
    x = x[: arguments.winit_samples]
    config = WinITConfig(epochs=1)
    explainer = WinIT(model, config, arguments.device).fit(train[:256], progress=False)
    explainer.explain(x[:2])
    ours, _ = timed(lambda: explainer.explain(x), arguments.device)
    t, d = x.shape[1:]
    series = torch.as_tensor(x[:1], device=arguments.device)
    place = torch.zeros(1, dtype=torch.int64, device=arguments.device)
    draws = explainer._draws(Batch(series, place, None, None, place))[0]
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
    rows = []
    for name in arguments.data:
        data = load_dataset(name, arguments.fold)
        model = reference(name, data, arguments)
        known = np.flatnonzero(data.test.truth.any((1, 2)))[: arguments.samples]
        part = data.test.take(known)
        for method in arguments.methods:
            rivals = {method: find(EXPLAINERS, method, "explainer")(model, device=arguments.device)}
            if method == "dynamask":
                rivals["dynamask_by_truth"] = dynamask_by_truth(model, data, arguments)
            for label, explainer in rivals.items():
                row = {"data": name, "fold": arguments.fold, "method": label, "samples": len(part)}
                row |= {**assess(explainer, data, part, arguments), "paper": published(f"r1/{name}/transformer", method)}
                rows.append(row)
                ours = " / ".join(f"{row[m]:.3f}" for m in METRICS[:3])
                paper = " / ".join(f"{v:.3f}" for v in row["paper"].values()) or "-"
                print(
                    f"{name:12} {label:18} {ours}   paper {paper}   {row['fit_s']:.1f} + {row['explain_s']:.1f} s", flush=True
                )
        write(rows, arguments)


def reference(name: str, data: Any, arguments: argparse.Namespace) -> torch.nn.Module:
    folder = None if arguments.references is None else arguments.references / name
    if folder is not None and folder.exists():
        return load_reference(folder)
    config = preset(name, "transformer")
    if arguments.reference_epochs is not None:
        config = replace(config, epochs=arguments.reference_epochs, attempts=1)
    return train_references([data], "transformer", config, device=arguments.device)[0].model


def dynamask_by_truth(model: torch.nn.Module, data: Any, arguments: argparse.Namespace) -> Dynamask:
    """Dynamask with the settings of the best AUPRC on validation series, whose truth no other method gets to see."""
    val = data.val.take(np.flatnonzero(data.val.truth.any((1, 2)))[: arguments.samples])
    where = {} if val.observed.all() else {"times": val.times, "observed": val.observed}
    best: tuple[float, Dynamask] | None = None
    for ratio, growth, sigma in itertools.product((0.01, 0.1), (1e3, 1e5), (2.0, 10.0)):
        config = DynamaskConfig(keep_ratio=(ratio,), size_growth=(growth,), sigma_max=(sigma,))
        explainer = Dynamask(model, config, arguments.device)
        score = means(explainer.explain(val.x, **where).attribution, val)["auprc"]
        best = (score, explainer) if best is None or score > best[0] else best
    assert best is not None
    return best[1]


def assess(explainer: Any, data: Any, part: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Scores of one method, signed scores also by their size, and LowVar without its class 0, which others leave out."""
    n = arguments.train_samples
    irregular = not part.observed.all()
    where = {"times": part.times, "observed": part.observed} if irregular else {}
    fitting = {"times": data.train.times[:n], "observed": data.train.observed[:n]} if irregular else {}
    fitting |= {"times_val": data.val.times, "observed_val": data.val.observed} if irregular else {}
    fit_s, _ = timed(
        lambda: explainer.fit(data.train.x[:n], data.train.y[:n], data.val.x, progress=False, **fitting), arguments.device
    )
    explain_s, e = timed(lambda: explainer.explain(part.x, **where), arguments.device)
    row = means(e.attribution, part)
    if e.signed:
        row["absolute"] = means(np.abs(e.attribution), part)
    if data.name == "lowvar":
        others = part.y != 0
        row["without_class_0"] = means(e.attribution[others], part.take(others))
    report = getattr(explainer, "report", None)
    return {**row, "fit_s": fit_s, "explain_s": explain_s, "report": asdict(report) if is_dataclass(report) else None}


def means(attribution: np.ndarray, part: Any) -> dict[str, float]:
    scores = ground_truth_scores(attribution, part.truth, part.observed)
    return {name: round(float(np.nanmean(scores[name])), 4) for name in METRICS}


if __name__ == "__main__":
    main()
