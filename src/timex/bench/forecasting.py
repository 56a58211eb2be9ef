"""The forecasting experiment: ETTh1 as a data set for TimeX, and scores of its explanations.

TimeX needs no labels: the windows come as a `Dataset` whose classes are the hours ahead and whose labels are all 0.

Shapes: N windows, T hours of the past, H hours ahead.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timex.bench.store import Score
from timex.records import Baseline, Dataset, Series
from timex.reference.base import ReferenceModel
from timex.reference.forecaster import forecast

STRIDE = 2
"""Hours from one window to the next: neighbours are nearly the same."""
SMOKE_STRIDE = 200
KEPT = 0.1
"""Share of the cells kept, and of the steps called late."""


@lru_cache(maxsize=2)
def windows(smoke: bool) -> dict[str, Any]:
    """Train, validation and test windows of ETTh1's oil temperature, 720 hours and the 24 after them."""
    from timex.data.ett import load_ett

    return load_ett(stride=SMOKE_STRIDE if smoke else STRIDE)


def dataset(smoke: bool) -> Dataset:
    """The windows without the hours after them."""
    series = (windows(smoke)[name].x for name in ("train", "val", "test"))
    train, val, test = (Series(x, y=np.zeros(len(x), dtype=np.int64)) for x in series)
    ahead = windows(smoke)["train"].y.shape[1]
    return Dataset.named("ett", train, val, test, ("oil temperature",), tuple(f"+{h} h" for h in range(1, ahead + 1)))


def examine(
    x: NDArray[np.float32],
    attribution: NDArray[np.float32],
    model: ReferenceModel,
    baseline: Baseline,
    device: str,
    seed: int,
) -> tuple[dict[str, Score], NDArray[np.int64], dict[str, Any]]:
    """Whether a tenth of the cells, by attribution, keeps the forecast, beside a random tenth; and where attribution lies.

    Args:
        x: The test windows, (N, T, D).
        attribution: Of their cells, (N, T, D).
        model: The forecaster.
        baseline: Its mean replaces a cell.
        device: Where to run the model.
        seed: Seed of the random choice.

    Returns:
        Scores (`change_kept` and `change_random`, mean squared change of the forecast; `late_share`, the share of the
        attribution in the last tenth of the steps), the two windows of the figure, and their forecasts.
    """
    plain = forecast(model, x, device)
    noise = np.random.default_rng(seed).random(x.shape)
    scores = {}
    choices: dict[str, NDArray[Any]] = {"change_kept": attribution, "change_random": noise}
    for name, score in choices.items():
        occluded = np.where(_top(score), x, baseline.mean).astype(np.float32)
        scores[name] = Score.of(np.square(forecast(model, occluded, device) - plain).mean(axis=1))
    mass = attribution.sum(axis=2)  # (N, T)
    late = mass[:, -round(KEPT * x.shape[1]) :].sum(axis=1) / np.maximum(mass.sum(axis=1), 1e-9)
    scores["late_share"] = Score.of(late)
    # as in the paper's figure: a forecast that rises, and one with a jump at its start
    shown = np.array([np.argmax(plain[:, -1] - plain[:, 0]), np.argmax(np.abs(plain[:, 0] - x[:, -1, 0]))])
    return scores, shown, {"forecast": plain[shown].tolist(), "windows": shown.tolist()}


def _top(score: NDArray[Any]) -> NDArray[np.bool_]:
    """The `KEPT` share of the cells of every sample, by rank, so that ties cannot empty or fill it."""
    flat = score.reshape(len(score), -1)
    place = np.argsort(np.argsort(-flat, axis=1, kind="stable"), axis=1)
    return (place < round(KEPT * flat.shape[1])).reshape(score.shape)
