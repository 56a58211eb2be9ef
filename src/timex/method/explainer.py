"""`TimeX`: fit to a trained model once, then explain any number of its predictions in one forward pass each.

Shapes: N samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from timex import engine
from timex.method.config import TimeXConfig
from timex.method.generator import resolution_of
from timex.method.landmarks import Landmarks, stratified_start, survey
from timex.method.losses import cosine_similarity, js
from timex.method.model import TimeXModel
from timex.method.objective import FROZEN, Objective, hyper_of, structure_of
from timex.progress import training_bar
from timex.reference.base import ReferenceModel, weights_hash
from timex.reference.wrap import Pick, Pool, Wrapped, check_module, copied
from timex.types import (
    Baseline,
    Explanation,
    atomic_path,
    baseline_of,
    check_labels,
    check_series,
    is_regular,
    regular_times,
    warn_caller,
)

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

CHUNK_CELLS = 2**25
"""Attention weights (chunk x T x T) held at once while explaining: about 128 MB each."""
MAX_VAL = 1024
"""Validation samples used at most: the consistency losses compare all pairs of them, every epoch."""
VAL_SHARE = 0.1
"""Share of the training data set apart for selection when no validation data is given."""


class TimeX:
    """Explains a frozen time-series classifier.

    Args:
        model: One of our reference models, or any `torch.nn.Module` that maps (B, T, D) to logits (B, C). It is copied: the
            object handed in is never changed.
        embedding: For a module that is not ours, the name of the layer whose output is the embedding z.
        config: Settings; the defaults need no tuning.
        pool: How to reduce that layer's output to (B, Z): an axis to average over, or a function.
        output: Which tensor of a layer that returns several.
        device: Where to fit and explain; by default the GPU if there is one.
        channels: Channel names for tables and plots.
        units: Channel units for plots.
        classes: Class names for tables and plots.
        scaling: (offset, scale) per channel if x was scaled as (value - offset) / scale: explanations then show values.

    Attributes:
        resolution: Steps over which explanations are averaged, as set or as found in the training series; None before a fit.
        judged: How the model was shown the kept cells while fitting, by a draw or at the strength p; None before a fit.

    Example:
        >>> x = np.random.default_rng(0).normal(scale=3, size=(40, 16, 2)).astype("float32")
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))
        >>> explainer = TimeX(model, embedding="2", config=TimeXConfig(epochs=1)).fit(x, progress=False)
        >>> explainer.explain(x[:5]).attribution.shape
        (5, 16, 2)
    """

    name = "timex"

    def __init__(
        self,
        model: nn.Module,
        embedding: str | None = None,
        config: TimeXConfig | None = None,
        *,
        pool: Pool | None = None,
        output: Pick | None = None,
        device: torch.device | str | None = None,
        channels: Sequence[str] = (),
        units: Sequence[str] = (),
        classes: Sequence[str] = (),
        scaling: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        check_module(model)
        if isinstance(model, ReferenceModel) and (embedding, pool, output) != (None, None, None):
            raise ValueError(f"{type(model).__name__} has its own embedding: leave out embedding=, pool= and output=.")
        if not isinstance(model, ReferenceModel) and embedding is None:
            layers = ", ".join(name for name, _ in model.named_children())
            raise ValueError(
                f"Say which layer of {type(model).__name__} gives the embedding, with embedding= (for example the last one "
                f"before the classification head). Its children: {layers}."
            )
        self.config = config or TimeXConfig()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.channels, self.units, self.classes = tuple(channels), tuple(units), tuple(classes)
        if self.units and not self.channels:
            raise ValueError("Expected channels= with units=: a unit is shown after the name of its channel.")
        self.scaling = None if scaling is None else tuple(np.asarray(v, dtype=np.float32).tolist() for v in scaling)
        self._module, self._embedding, self._pool, self._output = model, embedding, pool, output
        self.reference: ReferenceModel | None = None
        self.model: TimeXModel | None = None
        self.baseline: Baseline | None = None
        self.resolution: int | None = None
        self.judged: Literal["draw", "strength"] | None = None
        self._history: list[dict[str, Any]] = []
        self._landmarks: Landmarks | None = None

    # ------------------------------------------------------------------------------------------------------------- fit

    def fit(
        self,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor | None = None,
        x_val: ArrayLike | Tensor | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        times_val: ArrayLike | Tensor | None = None,
        observed_val: ArrayLike | Tensor | None = None,
        progress: bool = True,
    ) -> TimeX:
        """Learn to explain the model from unlabelled series.

        Args:
            x: Training series, (N, T, D): best those the model was trained on.
            y: Labels, (N,); only to start landmarks in every class, the model's predictions serve otherwise.
            x_val: Series to select the best epoch by; without it a tenth of x is set apart.
            times: Times of the steps of x, (N, T), for irregular sampling.
            observed: Measured cells of x, (N, T, D) or (N, T); others may hold anything.
            times_val: As times, for x_val.
            observed_val: As observed, for x_val.
            progress: Show a progress bar.

        Returns:
            self
        """
        data = _Series(*check_series(x, times, observed))
        val = None if x_val is None else _Series(*check_series(x_val, times_val, observed_val))
        return fit_many([self], [(data, y, val)], progress=progress)[0]

    def _begin(
        self, data: _Series, y: NDArray[np.int64] | None, val: _Series | None
    ) -> tuple[_Series, NDArray[np.int64] | None, _Series]:
        """What is done once, however often the fit is tried: check the labels, split, find the resolution."""
        y = None if y is None else check_labels(y, len(data))
        data, val, self._kept = self._split(data, val)
        self.resolution = self.config.resolution or resolution_of(data.x, data.times, data.observed)
        if self.resolution > 1:
            log.info("explanations are resolved to %d steps; resolution=1 asks for every step", self.resolution)
        return data, None if y is None else y[self._kept], val

    def _prepare(self, data: _Series, y: NDArray[np.int64] | None, val: _Series, shared: _Shared) -> engine.Member:
        """Everything before the first step: wrap the model, run it over the data, start the weights.

        What another explainer of the same model made of the same data is taken from `shared`, as one copy for all of them.
        """
        assert self.resolution is not None
        self._reference_hash = weights_hash(self._module)  # now: the user may train the model on after the fit
        self.reference = self._copy_of_model(_tensor(data.x[:2], "cpu"))
        _check_shape(data.x.shape, self.reference)
        self._check_names(self.reference)
        self.baseline = baseline_of(data.x, data.observed)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.config.seed)  # not torch.manual_seed, which reseeds GPUs too
            self.model = TimeXModel(self.reference, self.config, self.resolution)
            if self.config.encoder_init == "scratch":
                _reset(self.model.encoder)
        hiding = (id(data), self.model.masking)  # hidden cells become means of the training series
        train, held = (self._with_reference(series, hiding, shared) for series in (data, val))
        predicted = train["logits"].argmax(-1)
        if not self.config.forecasts and len(predicted.unique()) == 1:
            warn_caller(
                f"The model predicts class {int(predicted[0])} for all {len(predicted)} training samples: there is no "
                "difference between predictions to explain."
            )
        strata = predicted if y is None else torch.as_tensor(y)
        generator = torch.Generator().manual_seed(self.config.seed)
        with torch.no_grad():
            self.model.landmarks.copy_(stratified_start(train["z"], strata, self.config.n_landmarks, generator))
        frozen = {name: torch.as_tensor(value) for name, value in self.baseline._asdict().items()}
        if self.config.lam_model:
            frozen |= {FROZEN + name: p.detach() for name, p in self.reference.named_parameters()}
        return engine.Member(
            params={name: p.detach() for name, p in self.model.named_parameters()},
            frozen=frozen,
            train=train,
            val=held,
            hyper=hyper_of(self.config),
            lr=self.config.lr,
            weight_decay=self.config.weight_decay,
            seed=self.config.seed,
        )

    def _check_names(self, reference: ReferenceModel) -> None:
        n_channels, n_classes = reference.n_channels, reference.n_classes
        for name, values in {"channels": self.channels, "units": self.units}.items():
            if len(values) not in (0, n_channels):
                raise ValueError(f"Expected {name} for each of the {n_channels} channels of x, got {len(values)}.")
        if len(self.classes) not in (0, n_classes):
            raise ValueError(
                f"Expected a name for each of the {n_classes} classes the model tells apart, got {len(self.classes)} "
                f"({', '.join(self.classes)}): name all of them, or none."
            )
        for values in self.scaling or ():
            if np.size(values) not in (1, n_channels):
                raise ValueError(f"Expected scaling as one number or {n_channels}, one per channel, got {np.size(values)}.")

    def _copy_of_model(self, sample: Tensor) -> ReferenceModel:
        """The model as a frozen reference of our own, without the user's hooks."""
        module = copied(self._module).cpu()
        if isinstance(module, ReferenceModel):
            return module
        assert self._embedding is not None
        return Wrapped(module, self._embedding, sample, self._pool, self._output)

    def _split(self, data: _Series, val: _Series | None) -> tuple[_Series, _Series, NDArray[np.int64]]:
        """Series to train and to validate on, and which of `data` the former are."""
        if val is not None:
            if val.x.shape[1:] != data.x.shape[1:]:
                raise ValueError(f"Expected x_val with (T, D) = {data.x.shape[1:]}, got {val.x.shape[1:]}.")
            return data, self._at_most(val, MAX_VAL), np.arange(len(data))
        n_val = max(2, round(VAL_SHARE * len(data)))
        if len(data) - n_val < 2:
            raise ValueError(f"Expected at least 4 samples to fit and validate on, got {len(data)}: pass more, or x_val=.")
        order = np.random.default_rng(self.config.seed).permutation(len(data))
        held, kept = np.sort(order[:n_val]), np.sort(order[n_val:])
        log.info("no x_val given: %d of %d samples are set apart to select the best epoch", n_val, len(data))
        return data.take(kept), self._at_most(data.take(held), MAX_VAL), kept

    def _at_most(self, data: _Series, n: int) -> _Series:
        if len(data) <= n:
            return data
        log.info("%d of the %d validation samples are used: the losses compare all pairs", n, len(data))
        return data.take(np.sort(np.random.default_rng(self.config.seed).permutation(len(data))[:n]))

    @torch.no_grad()
    def _with_reference(self, data: _Series, hiding: tuple[Any, ...], shared: _Shared) -> engine.Tensors:
        """The tensors of a batch, with the frozen model's embeddings and logits, and its logits when every cell is hidden.

        Explainers that agree in `hiding` hide a cell in the same way.
        """
        assert self.reference is not None
        assert self.model is not None
        assert self.baseline is not None
        key = (id(self._module), self._embedding, id(self._pool), id(self._output), id(data), *hiding)
        if key in shared:
            return shared[key][1]
        reference = self.reference.to(self.device)
        outputs = []
        mean = torch.as_tensor(self.baseline.mean, device=self.device)
        for part in data.chunks(_chunk(data.x.shape[1])):
            x, times, observed = part.tensors(self.device)
            out = reference.output(x, times, observed)
            hidden, attended = self.model.masked(x, observed, torch.zeros_like(x), mean)
            blank = reference.output(hidden, times, observed, attended).logits
            if not (out.z.isfinite().all() and out.logits.isfinite().all()):
                raise ValueError("The model gives NaN or inf on some samples: explain a model with finite outputs.")
            outputs.append([v.float().cpu() for v in (out.z, out.logits, blank)])
        self.reference.cpu()
        z, logits, blank = (torch.cat(column) for column in zip(*outputs, strict=True))
        x, times, observed = data.tensors("cpu")
        extra = {} if times is None or observed is None else {"times": times, "observed": observed}
        shared[key] = data, {"x": x, "z": z, "logits": logits, "blank": blank, **extra}
        return shared[key][1]

    def _finish(self, run: engine.Trained, member: engine.Member) -> _Trust:
        """Take the best weights, then look where the training explanations lie among the landmarks, and how good they are."""
        assert self.model is not None
        self.model.load_state_dict(run.params, strict=False)
        self.model.eval().requires_grad_(False)
        self._history = [{**row, "selected": row["epoch"] == run.epoch} for row in run.history]
        observed, times = (member.train.get(n) for n in ("observed", "times"))
        n = len(member.train["x"])
        data = _Series(
            member.train["x"].numpy(),
            regular_times(n, self.model.encoder.n_steps) if times is None else times.numpy(),
            np.ones(member.train["x"].shape, dtype=bool) if observed is None else observed.numpy(),
        )
        outputs = list(self._forward(data, self.device))
        z_e = torch.cat([out["embedding"] for out in outputs])
        predicted = member.train["logits"].argmax(-1)
        agreement = None
        if not self.config.forecasts:
            agreement = torch.cat([out["agreement"] for out in outputs]).float().mean().item()
        commonest = predicted.bincount().max().item() / len(predicted)
        found = survey(self.model.landmarks.detach().cpu(), z_e, predicted, self.model.encoder.n_classes)
        self._landmarks = dataclasses.replace(found, nearest=self._kept[found.nearest])
        return _Trust(self.config, run.history[run.epoch]["val_kept"], agreement, commonest)

    # --------------------------------------------------------------------------------------------------------- explain

    def explain(
        self,
        x: ArrayLike | Tensor,
        target: ArrayLike | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        chunk: int | None = None,
    ) -> Explanation:
        """Explain the model's predictions; nothing is random.

        Args:
            x: Series, (N, T, D), with the T and D fitted on.
            target: Not supported: TimeX explains the prediction the model makes, not a class of choice.
            times: Times of the steps, (N, T).
            observed: Measured cells, (N, T, D) or (N, T).
            chunk: Samples held on the device at once; by default as many as fit comfortably.
        """
        if target is not None:
            raise ValueError("TimeX explains the class the model predicts and takes no target; gradient methods do.")
        data = _Series(*check_series(x, times, observed))
        parts = list(self._forward(data, self.device, chunk))
        joined: dict[str, Any] = {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}
        joined["mask"] = joined["attribution"] > 0.5
        values = data.x
        if self.scaling is not None:
            offset, scale = (np.asarray(v, dtype=np.float32) for v in self.scaling)
            values = np.where(data.observed, values * scale + offset, 0).astype(np.float32)
        return Explanation(
            x=values,
            method=self.name,
            observed=None if data.observed.all() else data.observed,
            times=None if times is None else data.times,
            channels=self._labels(),
            classes=self.classes,
            **joined,
        )

    def attribute(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Captum's calling convention: attributions of the shape, type and device of `inputs`.

        A target, baselines or other arguments of Captum's methods are accepted and not used: TimeX explains the prediction.
        """
        attribution = self.explain(inputs).attribution
        return torch.as_tensor(attribution, device=inputs.device, dtype=inputs.dtype)

    def _forward(self, data: _Series, device: torch.device, chunk: int | None = None) -> Any:
        """The outputs of the explainer, chunk by chunk, each moved off the device before the next is computed."""
        if self.model is None or self.reference is None or self.baseline is None:
            raise RuntimeError("This explainer has not been fitted: call fit(x) or load one that was saved.")
        _check_shape(data.x.shape, self.reference)
        model, reference = self.model.to(device).eval(), self.reference.to(device)
        mean, std = (torch.as_tensor(v, device=device) for v in self.baseline)
        size = chunk or _chunk(data.x.shape[1])
        with torch.inference_mode():
            for part in data.chunks(size):
                x, times, observed = part.tensors(device)
                logits = reference.output(x, times, observed).logits
                tau = torch.tensor(self.config.tau, device=device)
                out = model(x, times, observed, mean, std, tau, None, None)
                p = out.p if observed is None else torch.where(observed, out.p, 0.0)
                predicted = logits.argmax(-1)
                found = {
                    "attribution": p.float().cpu(),
                    "prediction": predicted.cpu(),
                    "probability": logits.softmax(-1).float().cpu(),
                    "embedding": out.z_e.float().cpu(),
                    "landmark": cosine_similarity(out.z_e, model.landmarks).argmax(-1).cpu(),
                }
                if not self.config.forecasts:  # whose hours are no classes to agree on
                    found["agreement"] = (out.logits_e.argmax(-1) == predicted).cpu()
                    found["divergence"] = js(logits, out.logits_e).float().cpu()
                yield found

    def _labels(self) -> tuple[str, ...]:
        if not self.units or not self.channels:
            return self.channels
        return tuple(f"{c} [{u}]" if u else c for c, u in zip(self.channels, self.units, strict=True))

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch: loss terms, validation values, learning rate, seconds, and whether the epoch was selected."""
        import pandas as pd

        return pd.DataFrame(self._history)

    @property
    def landmarks(self) -> Landmarks:
        """The learned landmarks and what lies around them."""
        if self._landmarks is None:
            raise RuntimeError("This explainer has not been fitted: call fit(x) first.")
        return self._landmarks

    # ---------------------------------------------------------------------------------------------------- save and load

    def save(self, folder: str | Path) -> Path:
        """Write the explainer into `folder`: safetensors weights and a JSON description. The model itself is not included."""
        if self.model is None or self.reference is None or self.baseline is None:
            raise RuntimeError("This explainer has not been fitted: there is nothing to save.")
        folder = Path(folder)
        state = self.model.state_dict()
        tensors = {f"model.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
        tensors["probe"] = _probe(self.reference, self.baseline)
        tensors |= {f"baseline.{n}": torch.as_tensor(v) for n, v in self.baseline._asdict().items()}
        tensors |= {
            f"landmarks.{f.name}": torch.as_tensor(getattr(self.landmarks, f.name)) for f in dataclasses.fields(Landmarks)
        }
        with atomic_path(folder / "explainer.safetensors") as beside:
            save_file({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}, beside)
        description = {
            "format": 1,
            "explainer": self.name,
            "config": dataclasses.asdict(self.config),
            "embedding": self._embedding,
            "resolution": self.resolution,
            "judged": self.judged,
            "shape": [self.model.encoder.n_steps, self.model.encoder.n_channels],
            "reference_hash": self._reference_hash,
            "channels": self.channels,
            "units": self.units,
            "classes": self.classes,
            "scaling": self.scaling,
            "history": self._history,
        }
        with atomic_path(folder / "explainer.json") as beside:
            beside.write_text(json.dumps(description, indent=2) + "\n")
        return folder

    @classmethod
    def load(
        cls,
        folder: str | Path,
        model: nn.Module,
        *,
        pool: Pool | None = None,
        output: Pick | None = None,
        device: torch.device | str | None = None,
        allow_other_model: bool = False,
    ) -> TimeX:
        """Read what `save` wrote, for the model it was fitted on.

        Args:
            folder: Where it was saved.
            model: The model that was explained; another one is refused.
            pool: As given when fitting, if it was.
            output: As given when fitting, if it was.
            device: As in the constructor.
            allow_other_model: Accept a model with other weights (the explanations then need not fit it).
        """
        description, tensors = _read_folder(Path(folder))
        if allow_other_model:
            tensors.pop("probe", None)  # of which another embedding is to be expected
        if description["reference_hash"] != weights_hash(model) and not allow_other_model:
            raise ValueError(
                f"The explainer in {folder} was fitted on another model (weights differ): pass the model it was fitted on, "
                "fit a new explainer, or say allow_other_model=True."
            )
        explainer = cls(
            model,
            description["embedding"],
            TimeXConfig(**description["config"]),
            pool=pool,
            output=output,
            device=device,
            channels=description["channels"],
            units=description["units"],
            classes=description["classes"],
            scaling=description["scaling"],
        )
        explainer._restore(description, tensors)
        return explainer

    def _restore(self, description: dict[str, Any], tensors: engine.Tensors) -> None:
        def group(prefix: str) -> engine.Tensors:
            return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}

        n_steps, n_channels = description["shape"]
        self._reference_hash = description["reference_hash"]
        self.resolution = description.get("resolution", 1)
        self.judged = description.get("judged", "draw")
        self.baseline = Baseline(**{name: v.numpy() for name, v in group("baseline.").items()})
        self.reference = self._copy_of_model(torch.zeros(2, n_steps, n_channels))
        if "probe" in tensors and not _alike(_probe(self.reference, self.baseline), tensors["probe"]):
            raise ValueError(
                f"Layer {self._embedding!r} does not give the embedding that the explainer was fitted on: pass the pool= and "
                "output= of the fit."
            )
        with torch.random.fork_rng(devices=[]):  # the fresh weights are replaced at once, and cost nobody a random number
            self.model = TimeXModel(self.reference, self.config, self.resolution)
        extra = {name: v for name, v in self.model.state_dict().items() if not isinstance(v, Tensor)}
        self.model.load_state_dict(extra | group("model."))
        self.model.eval().requires_grad_(False)
        self._landmarks = Landmarks(**{name: v.numpy() for name, v in group("landmarks.").items()})
        self._history = description["history"]


def fit_many(
    explainers: Sequence[TimeX],
    data: Sequence[tuple[Any, Any, Any]],
    *,
    progress: bool = True,
    **options: Any,
) -> list[TimeX]:
    """Fit several explainers as one program: folds, seeds, ablation arms.

    Explainers whose settings differ only in numbers (r, the lambdas, learning rate, seed), whose data and models have equal
    shapes and whose series have equal resolution train together; the rest in groups, one after another.

    Args:
        explainers: Unfitted explainers.
        data: For each (x, y or None, x_val or None); x as an array, or a `Part` with times and observed.
        progress: Show a progress bar.
        options: Passed to `engine.train`.

    Returns:
        The explainers, fitted.

    Raises:
        RuntimeError: If the training of some diverged; these are as they were, the others are fitted.
    """
    before = [dict(vars(explainer)) for explainer in explainers]

    def restore(indices: Iterable[int]) -> None:  # an explainer is fitted or as it was, never in between
        for i in indices:
            vars(explainers[i]).clear()
            vars(explainers[i]).update(before[i])

    try:
        diverged = _fit(explainers, data, progress, options)
    except BaseException:
        restore(range(len(explainers)))
        raise
    restore(diverged)
    if diverged:
        which = f" So it was for explainer {', '.join(map(str, diverged))} of {len(explainers)}; the others are fitted."
        raise engine.Diverged(which if len(explainers) > 1 else "")
    return list(explainers)


def _fit(
    explainers: Sequence[TimeX], data: Sequence[tuple[Any, Any, Any]], progress: bool, options: dict[str, Any]
) -> list[int]:
    """Fit them, and return the numbers of those whose training diverged.

    Those that failed, as they say themselves, are fitted once more with the model judging every cell at its strength; the
    better fit is kept.
    """
    if len(data) != len(explainers):
        raise ValueError(f"Expected data for each of {len(explainers)} explainers, got {len(data)}.")
    series = {id(value): _series(value) for row in data for value in (row[0], row[2]) if value is not None}
    shared: _Shared = {}

    begun = []
    for explainer, (x, y, val) in zip(explainers, data, strict=True):
        begun.append(explainer._begin(series[id(x)], y, None if val is None else series[id(val)]))
        explainer.judged = "strength" if explainer.config.judged == "strength" else "draw"

    def trained(numbers: Iterable[int]) -> dict[int, _Trust]:
        members = {i: explainers[i]._prepare(*begun[i], shared) for i in numbers}
        return _train(explainers, members, progress, options)

    trust = trained(range(len(explainers)))
    first = {i: dict(vars(explainers[i])) for i, own in trust.items() if own.worth_another}
    for i in first:
        log.info("the explanations fail: fitting again, with the model shown every cell at the strength p instead of a draw")
        explainers[i].judged = "strength"
    try:
        again = trained(first)
    except Exception:
        log.warning("the second fit ended with an error: the first is kept", exc_info=True)
        again = {}
    for i, state in first.items():
        if i in again and again[i].rank > trust[i].rank:
            trust[i] = again[i]
        else:
            vars(explainers[i]).update(state)
    for own in trust.values():
        own.warn()
    return [i for i in range(len(explainers)) if i not in trust]


def _train(
    explainers: Sequence[TimeX], members: dict[int, engine.Member], progress: bool, options: dict[str, Any]
) -> dict[int, _Trust]:
    """Train some of the explainers, by their numbers, in as few programs as possible; those that diverge are left out."""
    trust = {}
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i in members:
        explainer = explainers[i]
        assert explainer.model is not None
        foreign = None if explainer.model.encoder.stackable else i  # a foreign module is a program of its own
        encoder = explainer.model.encoder  # sizes, dropout and time encoding are part of the program
        architecture = (encoder.arch, json.dumps(encoder.config, sort_keys=True))
        program = (structure_of(explainer.config), explainer.resolution, explainer.judged, explainer.model.masking)
        key = (program, architecture, str(explainer.device), foreign)
        groups.setdefault(key, []).append(i)
    for indices in groups.values():
        first = explainers[indices[0]]
        assert first.model is not None
        assert first.judged is not None
        config = dataclasses.replace(first.config, judged=first.judged)
        schedule = engine.Schedule(
            epochs=config.epochs,
            batch_size=config.batch_size,
            patience=config.patience,
            warmup=config.warmup,
            decay=config.scheduler == "cosine",
            plateau_factor=0.1 if config.scheduler == "plateau" else 1.0,
        )
        assert first.reference is not None
        first.model.to(first.device)
        first.reference.to(first.device)
        with training_bar("TimeX", progress) as on_epoch:
            runs = engine.train(
                Objective(first.model, first.reference, config),
                [members[i] for i in indices],
                schedule,
                device=first.device,
                on_epoch=on_epoch,
                **options,
            )
        for i, run in zip(indices, runs, strict=True):
            if run.epoch >= 0:
                trust[i] = explainers[i]._finish(run, members[i])
    return trust


# ------------------------------------------------------------------------------------------------------------- helpers


@dataclasses.dataclass(frozen=True)
class _Trust:
    """What a fit says of itself.

    Attributes:
        config: Its settings.
        kept: Mean p on validation data.
        agreement: Share of training samples whose class the surrogate predicts from the explanation; None for forecasts.
        commonest: Share of the commonest class, on which an empty explanation would agree too.
    """

    config: TimeXConfig
    kept: float
    agreement: float | None
    commonest: float

    @property
    def undecided(self) -> bool:
        """Whether nearly everything is kept, as after a short training: the model is then easily right."""
        return self.kept > (1 + self.config.r) / 2

    @property
    def untrusted(self) -> bool:
        """Whether the surrogate is less than halfway from the commonest class to certainty."""
        return self.agreement is not None and self.agreement < (1 + self.commonest) / 2

    @property
    def worth_another(self) -> bool:
        """Whether it failed, and may do better where the model is shown the kept cells in another way."""
        c = self.config
        taught = c.label == "instance" and c.lam_lc > 0  # agreement, by which the better of two is told
        asked = c.judged == "auto" and c.lam_model > 0
        return (self.undecided or self.untrusted) and taught and asked and self.commonest < 1

    @property
    def rank(self) -> tuple[bool, float]:
        """By which the better of two fits is told."""
        return not self.undecided, self.agreement or 0.0

    def warn(self) -> None:
        """Say what is in doubt."""
        if self.undecided:
            log.warning(
                "explanations keep a cell with probability %.2f on average, and single out little: fit for more epochs, or on "
                "more series",
                self.kept,
            )
        if self.untrusted:
            log.warning(
                "seeing only the explanations, the surrogate predicts the model's class for %.0f %% of the training samples "
                "(the commonest class is %.0f %%): fit longer, or on more series, before trusting p > .5",
                100 * (self.agreement or 0.0),
                100 * self.commonest,
            )


_Shared = dict[tuple[Any, ...], tuple["_Series", engine.Tensors]]
"""What a model says of some data, by the identity of both; the data is kept too, so that its identity stays its own."""


@dataclasses.dataclass(frozen=True)
class _Series:
    """Checked series: x (N, T, D), times (N, T), observed (N, T, D)."""

    x: NDArray[np.float32]
    times: NDArray[np.float32]
    observed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: NDArray[np.int64] | slice) -> _Series:
        return _Series(self.x[index], self.times[index], self.observed[index])

    def chunks(self, size: int) -> Any:
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def tensors(self, device: torch.device | str) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """x, and times and observed only where they say something."""
        x = _tensor(self.x, device)
        if is_regular(self.times, self.observed):
            return x, None, None
        return x, _tensor(self.times, device), _tensor(self.observed, device)


def _series(value: Any) -> _Series:
    if isinstance(value, _Series):
        return value
    if hasattr(value, "x"):  # a Part or a Series
        return _Series(*check_series(value.x, value.times, value.observed))
    return _Series(*check_series(value))


def _tensor(array: NDArray[Any], device: torch.device | str) -> Tensor:
    """The array on `device`; torch warns of arrays it may not write to and refuses negative strides, so views are copied."""
    return torch.as_tensor(np.require(array, requirements=["C", "W"]), device=device)


def _chunk(n_steps: int) -> int:
    return max(1, min(4096, CHUNK_CELLS // (n_steps * n_steps)))


@torch.no_grad()
def _probe(reference: ReferenceModel, baseline: Baseline) -> Tensor:
    """The embedding of one series that everybody can make, (1, Z): it differs from step to step, as poolings must see it."""
    mean, std = baseline
    wave = np.cos(np.arange(mean.size, dtype=np.float32)).reshape(mean.shape)
    return reference.cpu().output(torch.as_tensor(mean + std * wave)[None]).z


def _alike(a: Tensor, b: Tensor) -> bool:
    """Whether two embeddings are equal but for the rounding of another machine."""
    return a.shape == b.shape and bool((a - b).abs().max() <= 1e-3 * (a.abs().max() + 1e-6))


def _check_shape(shape: tuple[int, ...], reference: ReferenceModel) -> None:
    expected = (reference.n_steps, reference.n_channels)
    if tuple(shape[1:]) != expected:
        raise ValueError(f"Expected x of shape (N, {expected[0]}, {expected[1]}), got {tuple(shape)}: the model's own T and D.")


def _reset(module: nn.Module) -> None:
    """Fresh weights for every layer that knows how to make them."""
    for layer in module.modules():
        # nn.MultiheadAttention has only the private one
        reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
        if callable(reset):
            reset()


def _read_folder(folder: Path) -> tuple[dict[str, Any], engine.Tensors]:
    for name in ("explainer.json", "explainer.safetensors"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} holds no explainer: {name} is missing. TimeX.save and `timex fit` write one.")
    try:
        description = json.loads((folder / "explainer.json").read_text())
        tensors = load_file(folder / "explainer.safetensors")
    except Exception as error:
        raise ValueError(f"{folder} holds no readable explainer: {error}") from None
    if not isinstance(description, dict) or description.get("explainer") != TimeX.name or description.get("format") != 1:
        raise ValueError(f"{folder}/explainer.json was not written by this version of timex.")
    return description, tensors
