"""A fitted TimeX to and from a folder. The model that is explained is not saved, only a hash of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timex.engine import Tensors
from timex.io.folder import grouped, read_folder, readable, write_folder
from timex.method.config import TimeXConfig
from timex.method.finish import Fitted
from timex.method.landmarks import Landmarks
from timex.method.model import TimeXModel
from timex.method.quality import Quality
from timex.method.task import Names
from timex.records import Baseline, Series
from timex.records.series import EXTRA
from timex.reference.adapt import found
from timex.reference.base import ReferenceModel, expect_sizes
from timex.reference.beside import beside

if TYPE_CHECKING:
    from timex.method.explainer import TimeX

MOST_SMOOTHING = 100_000
"""Steps, as in the settings."""
LARGEST = 1e30
"""Numbers below it can be multiplied in 32 bits."""


def save(explainer: TimeX, folder: Path) -> Path:
    """Write what was fitted into `folder`."""
    fitted = explainer.fitted
    state = fitted.model.state_dict()
    tensors = {f"model.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
    tensors["probe"] = probe(fitted.reference, fitted.baseline, fitted.extras)
    tensors |= {EXTRA + name: torch.as_tensor(value) for name, value in fitted.extras.items()}
    values, learned = found(fitted.reference)
    tensors |= {f"reference.{name}": value for name, value in learned.items()}
    tensors |= {f"baseline.{n}": torch.as_tensor(v) for n, v in fitted.baseline._asdict().items()}
    tensors |= {
        f"landmarks.{f.name}": torch.as_tensor(getattr(fitted.landmarks, f.name)) for f in dataclasses.fields(Landmarks)
    }
    if fitted.traits is not None:
        tensors["traits"] = torch.as_tensor(fitted.traits)
    description = {
        "explainer": explainer.name,
        "config": dataclasses.asdict(explainer.config),
        "adaptation": explainer.how.saved(),
        "reference": values,
        "shape": list(fitted.shape),
        "reference_hash": fitted.reference_hash,
        "fill": fitted.fill,
        "spread": fitted.spread,
        "smoothing": fitted.smoothing,
        "time_unit": fitted.time_unit,
        "names": dataclasses.asdict(fitted.names),
        "quality": dataclasses.asdict(fitted.quality),
        "history": fitted.history,
        "distance": fitted.distance,
    }
    return write_folder(folder, "explainer", description, tensors)


def read(folder: Path, name: str, config_class: type[TimeXConfig]) -> tuple[dict[str, Any], Tensors]:
    """The description and the tensors of a saved explainer, its settings checked."""
    description, tensors = read_folder(folder, "explainer")
    if description.get("explainer") != name:
        raise ValueError(f"{folder} holds an explainer of the kind {description.get('explainer')!r}. Expected {name!r}.")
    with readable(folder, "explainer"):
        description["config"] = config_class.from_dict(description["config"])
        _check(description)
    return description, tensors


def _check(description: dict[str, Any]) -> None:
    """Refuse values that no fit gives: they would fail later, without a word about the folder."""
    d = description
    whole, texts = d["smoothing"], [d["reference_hash"], d["fill"]]
    numbers = [d["time_unit"], *([] if d["spread"] is None else [d["spread"]])]
    rows = d["history"]
    expected = {
        "smoothing": type(whole) is int and 0 <= whole <= MOST_SMOOTHING,
        "texts": all(isinstance(v, str) for v in texts) and d["fill"] in ("mean", "draw", "shift"),
        "time_unit and spread": all(type(v) in (int, float) and 0 < v < LARGEST for v in numbers),
        "history": isinstance(rows, list) and all(isinstance(row, dict) for row in rows),
    }
    wrong = [name for name, right in expected.items() if not right]
    if wrong:
        raise ValueError(f"Expected the {wrong[0]} of a fit, got other values: save the explainer again.")
    d["time_unit"], d["spread"] = float(d["time_unit"]), None if d["spread"] is None else float(d["spread"])


def restored(explainer: TimeX, description: dict[str, Any], tensors: Tensors) -> Fitted:
    """What `save` wrote, around the model that the explainer was made with."""
    baseline = Baseline(**{name: v.numpy() for name, v in grouped(tensors, "baseline.").items()})
    learned = grouped(tensors, "reference.")
    extras = {name: v.numpy() for name, v in grouped(tensors, EXTRA).items()}
    twice = {name: np.concatenate([v, v]) for name, v in extras.items()}
    series = Series(np.tile(wave(baseline), (2, 1, 1)), extras=twice)
    reference = explainer.readapted(description["reference"], learned, series)
    if "probe" in tensors and not _alike(probe(reference, baseline, extras), tensors["probe"]):
        raise ValueError(
            "The model does not give the embedding that the explainer was fitted on: pass the functions of the fit, such as "
            "pool=."
        )
    with torch.random.fork_rng(devices=[]):  # the global random state stays unchanged; the fresh weights are replaced below
        saved = grouped(tensors, "model.")
        with torch.device("meta"):  # no memory is taken before the sizes are known to be those of the weights
            expect_sizes(TimeXModel(reference, explainer.config, description["time_unit"]), saved)
        model = TimeXModel(reference, explainer.config, description["time_unit"])
    extra = {name: v for name, v in model.state_dict().items() if not isinstance(v, Tensor)}
    model.load_state_dict(extra | saved)
    model.eval().requires_grad_(False)
    return Fitted(
        config=explainer.config,
        reference=reference,
        reference_hash=description["reference_hash"],
        model=model,
        baseline=baseline,
        landmarks=Landmarks(**{name: v.numpy() for name, v in grouped(tensors, "landmarks.").items()}),
        fill=description["fill"],
        spread=description["spread"],
        smoothing=description["smoothing"],
        time_unit=description["time_unit"],
        names=names_of(description),
        extras=extras,
        history=tuple(description["history"]),
        distance=description.get("distance"),
        traits=tensors["traits"].numpy() if "traits" in tensors else None,
        quality=Quality(**{**description["quality"], "flat": tuple(description["quality"]["flat"])}),
    )


def names_of(description: dict[str, Any]) -> Names:
    """Names and scaling as saved; JSON made lists of their tuples."""
    names = description["names"]
    scaling = names["scaling"] and tuple(tuple(v) for v in names["scaling"])
    return Names(tuple(names["channels"]), tuple(names["units"]), tuple(names["classes"]), scaling)


@torch.no_grad()
def probe(reference: ReferenceModel, baseline: Baseline, extras: Mapping[str, NDArray[Any]]) -> Tensor:
    """The embedding of one fixed series, (1, Z), by which a loader checks layer and pooling.

    The series differs from step to step, so that poolings over time differ on it.
    """
    with beside({EXTRA + name: torch.as_tensor(value) for name, value in extras.items()}):
        return reference.cpu().output(torch.as_tensor(wave(baseline))[None]).z


def wave(baseline: Baseline) -> NDArray[np.float32]:
    """The training mean with a wave of one deviation, (T, D)."""
    mean, std = baseline
    return mean + std * np.cos(np.arange(mean.size, dtype=np.float32)).reshape(mean.shape)


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether two embeddings are equal but for the rounding of another machine."""
    return a.shape == b.shape and bool((a - b).abs().max() <= 1e-3 * (a.abs().max() + 1e-6))
