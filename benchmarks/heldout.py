"""Data sets that no setting but `judged` was chosen on: does the default explain a model there? A row of JSON per set and run.

Most of the first six have what synthetic benchmarks leave out and real signals have: a smooth background, in which a mask drawn
cell by cell makes spikes that the model has never seen; their models are small CNNs. The last four, on noise, are for
transformers, and were drawn up after all settings, `judged` too. Each is explained with the kept cells drawn, with every cell
at the strength p, and by the default, which goes from the one to the other where it has to.

    python benchmarks/heldout.py --sets ramps bumps bursts spikes levels triangles --out docs/results/heldout-cpu.json
    python benchmarks/heldout.py --sets orders variances trends relations --judged strength auto --epochs 12
    python benchmarks/heldout.py --sets ramps --judged auto --epochs 30
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from scipy.ndimage import gaussian_filter1d

from timex import TimeX, TimeXConfig
from timex.baselines import Amplitude, IntegratedGradients
from timex.data.synthetic import balanced_labels, marked, narma
from timex.metrics import ground_truth_scores
from timex.reference.train import TrainConfig, train_references
from timex.types import Dataset, Part, regular_part

MODELS = {
    "cnn": TrainConfig(model={"width": 32}, epochs=8, lr=2e-3),
    "transformer": TrainConfig(model={"n_layers": 1, "d_hidden": 32, "dropout": 0.1}, epochs=40, patience=10, lr=2e-3),
}
SIZES = (3000, 200, 400)
"""Series of train, validation and test."""


def smooth(rng: Generator, n: int, n_steps: int, n_sensors: int, width: int) -> np.ndarray:
    """Noise filtered by a Gaussian of `width` steps, with a variance of 1, (N, T, D)."""
    edge = 4 * width
    x = gaussian_filter1d(rng.normal(size=(n, n_steps + 2 * edge, n_sensors)), width, axis=1)[:, edge:-edge]
    return x / x.std()


def written(x: np.ndarray, start: np.ndarray, sensor: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Add `values` (N, L) to x from `start` (N,) on, on one sensor of every sample; the cells that were changed."""
    n, length = values.shape
    cells = (np.arange(n)[:, None], start[:, None] + np.arange(length), np.broadcast_to(sensor[:, None], (n, length)))
    x[cells] += values
    return marked(x.shape, cells)


def draw_ramps(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A ramp of 16 steps in the place of a smooth signal, rising or falling by class; the third class has none."""
    y, x = balanced_labels(rng, n, 3), smooth(rng, n, 200, 1, 10)
    start, direction = rng.integers(5, 175, n), np.array([1, -1, 0])[y]
    cells = (np.arange(n)[:, None], start[:, None] + np.arange(16), 0)
    ramp = np.where(direction[:, None] == 0, 0, direction[:, None] * np.linspace(-2, 2, 16) - x[cells])
    truth = written(x, start, np.zeros(n, dtype=int), ramp)
    return x, y, truth & (direction != 0)[:, None, None]


def draw_bumps(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A bump of some 11 steps on one of two smooth signals; its sensor and sign are the class."""
    y, x = balanced_labels(rng, n, 4), smooth(rng, n, 150, 2, 8)
    bump = 2 * np.exp(-0.5 * (np.arange(-5, 6) / 3) ** 2)
    return x, y, written(x, rng.integers(10, 130, n), y // 2, np.array([-1, 1])[y % 2][:, None] * bump)


def draw_bursts(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A burst of 32 steps on a slow sine; its period, 6, 10 or 16 steps, is the class."""
    y, t = balanced_labels(rng, n, 3), np.arange(200)
    phase, period = rng.uniform(0, 2 * np.pi, (2, n, 1)), rng.uniform(40, 80, (n, 1))
    x = np.sin(2 * np.pi * t / period + phase[0])[:, :, None]
    burst = np.hanning(32) * np.sin(2 * np.pi * np.arange(32) / np.array([6, 10, 16])[y][:, None] + phase[1])
    return x, y, written(x, rng.integers(10, 155, n), np.zeros(n, dtype=int), burst)


def draw_spikes(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """Three spikes of 3 steps on a smooth signal; which of them point up is the class."""
    y, x = balanced_labels(rng, n, 3), smooth(rng, n, 200, 1, 10)
    places = np.sort(rng.permuted(np.tile(np.arange(4, 196, 8), (n, 1)), axis=1)[:, :3], axis=1)
    signs = np.array([[1, 1, 1], [-1, -1, -1], [1, -1, 1]])[y]
    sensor, spike = np.zeros(n, dtype=int), np.array([1.75, 2.0, 1.75])
    truth = [written(x, places[:, k] - 1, sensor, signs[:, k, None] * spike) for k in range(3)]
    return x, y, np.any(truth, axis=0)


def draw_levels(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A step up of 12 steps on one of three autoregressive signals; its sensor is the class."""
    y, x = balanced_labels(rng, n, 3), rng.normal(0, 0.3, (n, 100, 3))
    for t in range(1, 100):
        x[:, t] += 0.8 * x[:, t - 1]
    return x, y, written(x, rng.integers(5, 80, n), y, np.full((n, 12), 1.5))


def draw_triangles(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A triangle of 7 steps on one of two noises, up or down by class."""
    y, x = balanced_labels(rng, n, 2), rng.normal(0, 0.5, (n, 60, 2))
    triangle = np.array([0.5, 1, 1.5, 2, 1.5, 1, 0.5])
    return x, y, written(x, rng.integers(2, 50, n), rng.integers(0, 2, n), np.array([1, -1])[y][:, None] * triangle)


def draw_orders(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A peak and a trough of 5 steps in NARMA noise; which comes first is the class, though either alone tells it."""
    y, x = balanced_labels(rng, n, 2), narma(rng, n, 100, 1) + rng.normal(0, 0.3, (n, 100, 1))
    first, second, sensor = rng.integers(4, 40, n), rng.integers(50, 92, n), np.zeros(n, dtype=int)
    peak = np.array([1, -1])[y][:, None] * np.array([1.2, 2, 2.4, 2, 1.2])
    return x, y, written(x, first, sensor, peak) | written(x, second, sensor, -peak)


def draw_variances(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """A stretch of 12 steps in which one of three NARMA signals varies more; its sensor is the class."""
    y, x = balanced_labels(rng, n, 3), narma(rng, n, 120, 3) + rng.normal(0, 0.5, (n, 120, 3))
    return x, y, written(x, rng.integers(10, 100, n), y, rng.normal(0, 2, (n, 12)))


def draw_trends(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """One of four NARMA signals goes up by 2 and back, or down and back, within 25 steps; the direction is the class."""
    y, x = balanced_labels(rng, n, 2), narma(rng, n, 150, 4) + rng.normal(0, 0.3, (n, 150, 4))
    trend = 2 * np.concatenate([np.linspace(0.1, 1, 12), np.linspace(1, 0.1, 13)])
    return x, y, written(x, rng.integers(5, 120, n), rng.integers(0, 4, n), np.array([1, -1])[y][:, None] * trend)


def draw_relations(rng: Generator, n: int) -> tuple[np.ndarray, ...]:
    """For 16 steps the second of two noises is the first, or the first turned upside down: no cell says anything alone."""
    y, x = balanced_labels(rng, n, 2), rng.normal(0, 1, (n, 80, 2))
    steps = rng.integers(4, 60, n)[:, None] + np.arange(16)
    sample = np.arange(n)[:, None]
    x[sample, steps, 1] = np.array([1, -1])[y][:, None] * x[sample, steps, 0]
    truth = np.zeros(x.shape, dtype=bool)
    truth[sample, steps] = True
    return x, y, truth


SETS: dict[str, tuple[str, Callable[[Generator, int], tuple[np.ndarray, ...]]]] = {
    "ramps": ("cnn", draw_ramps),
    "bumps": ("cnn", draw_bumps),
    "bursts": ("cnn", draw_bursts),
    "spikes": ("cnn", draw_spikes),
    "levels": ("cnn", draw_levels),
    "triangles": ("cnn", draw_triangles),
    "orders": ("transformer", draw_orders),
    "variances": ("transformer", draw_variances),
    "trends": ("transformer", draw_trends),
    "relations": ("transformer", draw_relations),
}
"""The architecture of the model and the data; the place in this list is part of a set's random stream."""


def dataset(name: str) -> Dataset:
    def part(number: int, n: int) -> Part:
        x, y, truth = SETS[name][1](np.random.default_rng([list(SETS).index(name), number]), n)
        return regular_part(x.astype(np.float32), y, truth)

    train, val, test = (part(number, n) for number, n in enumerate(SIZES))
    sensors, classes = (tuple(map(str, range(n))) for n in (train.x.shape[2], train.y.max() + 1))
    return Dataset(name, train, val, test, sensors, classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--judged", nargs="+", choices=["draw", "strength", "auto"], default=["draw", "strength", "auto"])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows: list[dict] = []
    for name in arguments.sets:
        data = dataset(name)
        arch = SETS[name][0]
        model = train_references([data], arch, MODELS[arch], device=arguments.device, progress=False)[0]
        about = {"data": name, "arch": arch, "model_f1": round(model.test["f1"], 4)}
        found = {"|IG|": np.abs(IntegratedGradients(model.model).explain(data.test.x).attribution)}
        found["amplitude"] = Amplitude(model.model).explain(data.test.x).attribution
        rows += [{**about, "method": method, **scores(a, data.test)} for method, a in found.items()]
        for way in arguments.judged:
            started = time.perf_counter()
            settings = TimeXConfig(epochs=arguments.epochs, judged=way)
            explainer = TimeX(model.model, config=settings, device=arguments.device)
            e = explainer.fit(data.train.x, x_val=data.val.x, progress=False).explain(data.test.x)
            rows.append({**about, "method": f"timex, {way}", **scores(e.attribution, data.test)})
            facts = {"agreement": e.agreement.mean(), "kept": e.attribution.mean(), "seconds": time.perf_counter() - started}
            rows[-1] |= {"resolution": explainer.resolution, "judged": explainer.judged}
            rows[-1] |= {key: round(float(value), 4) for key, value in facts.items()}
        for row in rows[-len(arguments.judged) - 2 :]:
            print(*row.values(), flush=True)
        text = json.dumps(
            {"torch": torch.__version__, "device": arguments.device, "epochs": arguments.epochs, "rows": rows}, indent=1
        )
        if arguments.out is not None:
            arguments.out.write_text(text + "\n")


def scores(attribution: np.ndarray, part: Part) -> dict[str, float]:
    found = ground_truth_scores(attribution, part.truth)
    return {metric: round(float(np.nanmean(found[metric])), 4) for metric in ("auprc", "aup", "aur")}


if __name__ == "__main__":
    main()
