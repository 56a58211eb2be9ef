"""Preparing a fit: adapt the model, split the data, run the model over it, start the weights. The explainer stays unchanged.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from timex import engine
from timex.checks import warn_caller
from timex.engine import Tensors
from timex.explainers.splitting import some_of, split
from timex.method.config import TimeXConfig
from timex.method.landmarks import stratified_start
from timex.method.model import TimeXModel
from timex.method.objective import FROZEN, structure_of
from timex.method.outputs import FrozenModel, neutral_fill, outputs_of, spread_of
from timex.records import Baseline, Series
from timex.reference.base import ReferenceModel, weights_hash

if TYPE_CHECKING:
    from timex.method.explainer import TimeX

MAX_VAL = 1024
"""Validation samples used at most: the consistency losses compare all pairs of them, every epoch."""

Shared = dict[tuple[Any, ...], Tensors]
"""The outputs of frozen models by model, embedding, masking and series: tasks that agree in these share them."""


@dataclass(frozen=True)
class Names:
    """Names and scaling of the channels and classes, kept for tables and plots."""

    channels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    scaling: tuple[tuple[float, ...], tuple[float, ...]] | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """One fit before its first step: the adapted model, the data with the model's outputs, the starting weights."""

    config: TimeXConfig
    device: torch.device
    reference: ReferenceModel
    reference_hash: str
    model: TimeXModel
    baseline: Baseline
    fill: str
    spread: float | None
    time_unit: float
    names: Names
    train: Series
    val: Series
    kept: NDArray[np.int64]
    member: engine.Member

    @property
    def program(self) -> tuple[Any, ...]:
        """Tasks with equal programs train together, if their model can be stacked."""
        encoder = self.model.encoder
        architecture = (encoder.arch, json.dumps(encoder.config, sort_keys=True))
        resolved = (self.time_unit, self.fill, self.model.masking)
        return (structure_of(self.config), resolved, architecture, str(self.device))


def prepare(explainer: TimeX, train: Series, val: Series | None, shared: Shared | None = None) -> Task:
    """Everything before the first step: adapt the model, split the data, run the model over it, start the weights.

    Args:
        explainer: Gives settings, model and device; it stays unchanged.
        train: Training series.
        val: Validation series; None holds out a tenth of `train`.
        shared: Outputs of frozen models that other tasks of the same run have computed.
    """
    config, device = explainer.config, explainer.device
    train, val, kept = split(train, val, config.seed, MAX_VAL)
    train, kept = _at_most(train, kept, config)
    reference_hash = weights_hash(explainer.model)  # taken now, since the user may train the model further after the fit
    _check_shape(train.shape, explainer.model)
    reference = explainer.adapted(train)
    names = _names(explainer.names, train, reference if explainer.how.about is None else None)
    baseline = train.baseline()
    model = _fresh_model(reference, config, train.time_unit)
    frozen = FrozenModel(
        reference=reference,
        masked=model.masked,
        mean=torch.as_tensor(baseline.mean, device=device),
        spread=spread_of(reference, train, baseline, device) if config.forecasts else None,
    )
    outputs = _outputs(explainer, frozen, model, train, val, {} if shared is None else shared)
    _warn_of_one_class(outputs[0], config)
    if config.objective == "paper":
        _start_landmarks(model, outputs[0], train.y, config)
    return Task(
        config=config,
        device=device,
        reference=reference,
        reference_hash=reference_hash,
        model=model,
        baseline=baseline,
        fill=_fill(config, frozen, val, outputs[1]),
        spread=frozen.spread,
        time_unit=train.time_unit,
        names=names,
        train=train,
        val=val,
        kept=kept,
        member=_member(config, model, reference, baseline, outputs, frozen.spread, kept),
    )


def _fresh_model(reference: ReferenceModel, config: TimeXConfig, time_unit: float) -> TimeXModel:
    """The trainable parts with weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.seed)  # torch.manual_seed would reseed GPUs too
        return TimeXModel(reference, config, time_unit)


def _outputs(
    explainer: TimeX, frozen: FrozenModel, model: TimeXModel, train: Series, val: Series, shared: Shared
) -> list[Tensors]:
    """The frozen model's outputs for both parts, computed once for all tasks with equal models, data and masking.

    The context of the generator is standardised by the training series; `model` keeps its mean and deviation.
    """
    config = explainer.config
    points = config.generator.gradient_points if config.objective == "evidence" else 0
    key = (explainer.model, explainer.how, model.masking, points, config.forecasts, train.digest)
    scale = (*key, "scale of the context")
    for series in (train, val):
        if (*key, series.digest) not in shared:
            outputs = outputs_of(frozen, series, points)
            context = outputs["context"]
            if series is train:
                shared[scale] = {"mean": context.mean(0), "std": context.std(0).clamp_min(1e-6)}
            context.sub_(shared[scale]["mean"]).div_(shared[scale]["std"])  # in place: it may be on disk
            shared[*key, series.digest] = outputs
    model.context_mean.copy_(shared[scale]["mean"])
    model.context_std.copy_(shared[scale]["std"])
    return [shared[*key, series.digest] for series in (train, val)]


def _fill(config: TimeXConfig, frozen: FrozenModel, val: Series, outputs: Tensors) -> str:
    """The fill of the settings. For "auto" the neutral one; the paper's objective draws from the baseline distribution."""
    if config.mask.fill != "auto":
        return config.mask.fill
    return "draw" if config.objective == "paper" else neutral_fill(frozen, val, outputs, config.seed)


def _at_most(train: Series, kept: NDArray[np.int64], config: TimeXConfig) -> tuple[Series, NDArray[np.int64]]:
    """At most `training.max_series` random training series, in their order, and their indices."""
    if config.training.max_series is None or len(train) <= config.training.max_series:
        return train, kept
    chosen = some_of(len(train), config.training.max_series, config.seed)
    return train.take(chosen), kept[chosen]


def _warn_of_one_class(outputs: Tensors, config: TimeXConfig) -> None:
    predicted = outputs["logits"].argmax(-1)
    if not config.forecasts and len(predicted.unique()) == 1:
        warn_caller(
            f"The model predicts class {int(predicted[0])} for all {len(predicted)} training samples: there is no "
            "difference between predictions to explain."
        )


def _start_landmarks(model: TimeXModel, outputs: Tensors, y: NDArray[np.int64] | None, config: TimeXConfig) -> None:
    """Start the landmarks at embeddings of training series, as many of every class."""
    strata = outputs["logits"].argmax(-1) if y is None else torch.as_tensor(y)
    generator = torch.Generator().manual_seed(config.seed)
    with torch.no_grad():
        model.landmarks.copy_(stratified_start(outputs["z"], strata, config.n_landmarks, generator))


def _member(
    config: TimeXConfig,
    model: TimeXModel,
    reference: ReferenceModel,
    baseline: Baseline,
    outputs: Sequence[Tensors],
    spread: float | None,
    kept: NDArray[np.int64],
) -> engine.Member:
    """The training as the engine takes it: of the generator alone, or (the paper) of all parts together."""
    masks_first = config.objective != "paper"
    frozen = {name: torch.as_tensor(value) for name, value in baseline._asdict().items()}
    if masks_first or config.loss.reference_dropout:
        frozen |= {FROZEN + name: p.detach() for name, p in reference.named_parameters()}
    params = model.masking_params() if masks_first else {name: p.detach() for name, p in model.named_parameters()}
    return engine.Member(
        params=params,
        frozen=frozen,
        train=outputs[0],
        val=outputs[1],
        hyper=config.scalars() | {"spread": spread or 0.0},
        lr=config.lr,
        weight_decay=config.training.weight_decay,
        seed=config.seed,
        places=kept.tolist(),
    )


def _check_shape(shape: tuple[int, ...], model: Any) -> None:
    """Refuse series of another shape than a model of ours takes. Foreign models take the shape they are tried on."""
    expected = (getattr(model, "n_steps", None), getattr(model, "n_channels", None))
    if isinstance(model, ReferenceModel) and None not in expected and tuple(shape[1:]) != expected:
        raise ValueError(
            f"Expected x of shape (N, {expected[0]}, {expected[1]}), got {tuple(shape)}: the T and D of the model."
        )


def _names(given: Names, train: Series, reference: ReferenceModel | None) -> Names:
    """Names as given to the explainer, else those of the training series.

    Their number is compared with the model's classes, unless its answers are reduced to no and yes (`reference` is None).
    """
    found = Names(train.channels, train.units, train.classes, train.scaling)
    chosen = Names(**{f.name: getattr(given, f.name) or getattr(found, f.name) for f in dataclasses.fields(Names)})
    Series(train.x[:1]).named(**dataclasses.asdict(chosen))  # raises if the number of names or scales is wrong
    if reference is not None and len(chosen.classes) not in (0, reference.n_classes):
        raise ValueError(
            f"Expected a name for each of the model's {reference.n_classes} classes, got {len(chosen.classes)} "
            f"({', '.join(chosen.classes)}): name all of them, or none."
        )
    return chosen
