"""`TimeX`: fit to a trained model once, then explain any number of its predictions in one forward pass each.

Shapes: N samples, T time steps, D channels, C classes, Z the width of the embedding.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from timex.checks import check_scaling
from timex.engine import Checkpoint, Diverged, Tensors
from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.explainers.target import about, about_names
from timex.io.folder import readable
from timex.method import storage
from timex.method.config import TimeXConfig
from timex.method.explain import chunk_size, explain_batch
from timex.method.fit import Fitted, fit_all
from timex.method.landmarks import Landmarks
from timex.method.resume import expect_same_fit
from timex.method.task import MAX_VAL, Names
from timex.metrics.familiarity import LEAST, unfamiliar
from timex.records import Series
from timex.reference.adapt import adapt, model_of, readapted, tried
from timex.reference.adaptation import Adaptation, Calling, How
from timex.reference.base import ReferenceModel, weights_hash
from timex.reference.blackbox import BlackBox
from timex.reference.probes import require_gradient
from timex.reference.student import distil

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger(__name__)

LARGEST = 6
"""Landmarks that a notebook shows of an explainer."""


class TimeX(Explainer[Fitted]):
    """The probability that the model needs a cell: learned once, given in one forward pass (after Queen et al., 2023).

    Args:
        model: A reference model of ours, a torch module, a skorch net, or a black box: an estimator, a function or an ONNX
            session (see `timex.adapt`). It is copied: the object handed in is never changed.
        embedding: For a module that is not ours, the name of the layer whose output is the embedding z; by default the input of
            the last linear layer is taken.
        config: Settings; the defaults need no tuning.
        device: Where to fit and explain; by default the GPU if there is one.
        channels: Channel names for tables and plots; by default those of the series fitted on.
        units: Channel units for plots.
        classes: Class names for tables and plots.
        scaling: (offset, scale) per channel if x was scaled as (value - offset) / scale: explanations then show values.
        how: How to call and read the model, the other keywords of `timex.adapt`: pool, layout, forward, output, task, ...

    Attributes:
        fitted_: What `fit` learned, a frozen record (`timex.method.fit.Fitted`); None before a fit.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(scale=3, size=(40, 16, 2)).astype("float32")
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))
        >>> explainer = TimeX(model, embedding="2", config=TimeXConfig(epochs=1)).fit(x, progress=False)
        >>> explainer.explain(x[:5]).attribution.shape
        (5, 16, 2)
    """

    name = "timex"
    cost = "generator.gradient_points + 3"
    config_class: ClassVar[type[TimeXConfig]] = TimeXConfig
    needs_fit = True
    needs_gradients = True
    needs_embedding = True
    keeps_checkpoints = True
    takes_target = False
    numbers = "all"
    config: TimeXConfig

    def __init__(
        self,
        model: Any,
        embedding: str | None = None,
        config: TimeXConfig | None = None,
        *,
        device: torch.device | str | None = None,
        channels: Sequence[str] = (),
        units: Sequence[str] = (),
        classes: Sequence[str] = (),
        scaling: tuple[ArrayLike, ArrayLike] | None = None,
        **how: Unpack[Calling],
    ) -> None:
        super().__init__(model, config, device=device, embedding=embedding, **how)
        self._given |= {"channels": channels, "units": units, "classes": classes, "scaling": scaling}
        if self.how.numbers:
            self.config = dataclasses.replace(self.config, task="forecast")
        if units and not channels:
            raise ValueError("Expected channels= with units=: a unit is shown after the name of its channel.")
        self.names = Names(
            tuple(channels),
            tuple(units),
            tuple(classes),
            None if scaling is None else check_scaling(scaling),
        )  # `fit` compares their number with the channels of x

    def adapted(self, series: Series, progress: bool = False) -> ReferenceModel:
        """A frozen copy of the model, tried on some of the series; for a black box, a student fitted to its answers."""
        reference = tried(adapt(self.model, **self.how.given).cpu(), series, scale_numbers=True)
        if isinstance(reference, BlackBox):
            return distil(reference, series, seed=self.config.seed, device=self.device, progress=progress)
        require_gradient(reference, series, type(self).__name__)
        return reference

    def readapted(self, values: dict[str, Any], tensors: Tensors, series: Series) -> ReferenceModel:
        """The model as a fit adapted it, from what the fit saved."""
        return readapted(self.model, self.how, values, tensors, series)

    def _own_model(self, model: Any) -> Any:
        """The user's own module, which is copied when fitted: it may be trained further until then. Or the black box."""
        module = model_of(model)
        adapted = adapt(module, **self.how.given)  # raises for wrong keywords now
        return module if isinstance(module, nn.Module) else adapted

    def _try_model(self, series: Series, scale_numbers: bool = False) -> None:
        """The model is tried when it is adapted."""

    @property
    def _reference(self) -> ReferenceModel:
        return self.fitted.reference.to(self.device)

    def _fit(self, train: Series, val: Series | None, progress: bool, checkpoint: Checkpoint | None = None) -> Fitted:
        if checkpoint is not None:
            expect_same_fit(checkpoint, self, train, val)
        (fitted,) = fit_all([self], [(train, val)], progress, {"checkpoint": checkpoint})
        if fitted is None:
            raise Diverged
        return fitted

    # --------------------------------------------------------------------------------------------------------- explain

    def logits(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Tensor:
        """The frozen model's logits, (B, C); those of the student for a black box."""
        return self._reference(x, times, observed)

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        fitted = self.fitted
        fitted.model.to(self.device)
        fitted.reference.to(self.device)
        return explain_batch(fitted, fitted.smoothing, batch.x, batch.times, batch.observed, batch.logits)

    def _chunk(self, shape: tuple[int, ...]) -> int:
        return chunk_size(shape[-2])

    def _limits(self) -> tuple[int | None, int]:
        return self.config.training.max_series, MAX_VAL

    def _placed(self, fitted: Fitted, places: NDArray[np.int64]) -> Fitted:
        landmarks = fitted.landmarks
        return dataclasses.replace(fitted, landmarks=dataclasses.replace(landmarks, nearest=places[landmarks.nearest]))

    def _file_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.fitted.names.classes, self.fitted.names.channels

    def described(self, series: Series) -> Series:
        """The explained series in the user's own units, with the names of the fit where they have none."""
        names = self.fitted.names
        named = series.named(names.channels, names.units, names.classes, names.scaling)
        return about(named, self.how.about).in_own_units()

    def _remarks(self, series: Series, first: int) -> dict[str, Any]:
        """Which series lie outside the range of the training series; a warning counts them and names the first."""
        known = self.fitted.traits
        if known is None or len(known) < LEAST:
            return {}
        found = unfamiliar(known, series)
        if found.flags.any():
            log.warning(
                "%d of %d series lie outside the range of the training series (sample %d first, by the %s): neither the model "
                "nor its explanations can be trusted there. `unfamiliar` marks them",
                found.flags.sum(),
                len(series),
                first + found.flags.argmax(),
                found.reason,
            )
        return {"unfamiliar": found.flags}

    # ------------------------------------------------------------------------------------------------------ fitted state

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch: loss terms, validation values, learning rate, seconds, and whether the epoch was selected."""
        import pandas as pd

        return pd.DataFrame(list(self.fitted.history))

    @property
    def landmarks(self) -> Landmarks:
        """The learned landmarks and the training explanations around them."""
        return self.fitted.landmarks

    def _repr_html_(self) -> str:
        from timex.report.notebook import explainer_html

        facts = {"model": type(self.model).__name__, "fitted": "no: call fit(x) with training series"}
        if self.fitted_ is None:
            return explainer_html(type(self).__name__, facts)
        quality, (steps, channels) = self.fitted_.quality, self.fitted_.shape
        names = about_names(self.fitted_.names.classes, self.how.about)
        facts |= {"fitted": f"for {steps} steps x {channels} channels", "mean p on validation series": f"{quality.kept:.2f}"}
        if quality.agreement is not None:
            facts["surrogate agrees"] = f"{quality.agreement:.1%} of the training series (empty: {quality.commonest:.1%})"
        top = self.landmarks.filtered().head(LARGEST)
        words = [
            f"landmark {m}, {names[c] if names else f'class {c}'}" for m, c in zip(top["landmark"], top["class"], strict=True)
        ]
        return explainer_html(type(self).__name__, facts, list(zip(words, top["samples"], strict=True)))

    # ---------------------------------------------------------------------------------------------------- save and load

    def save(self, folder: str | Path) -> Path:
        """Write the explainer into `folder`: safetensors weights and a JSON description. The model itself is not included."""
        return storage.save(self, Path(folder))

    def export(self, path: str | Path, format: Literal["onnx", "torch"] = "onnx") -> float:
        """Write the explainer with its model as one program that runs without this package.

        It takes x (B, T, D), complete series at times 1..T, and gives p, the model's logits and the agreement.

        Args:
            path: The file, ending in .onnx or .pt2.
            format: "onnx" for ONNX Runtime, "torch" for `torch.export.load`.

        Returns:
            The largest difference between p of the program and p of `explain`; more than 1e-5 is an error.
        """
        from timex.method.exporting import export

        return export(self, Path(path), format)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        model: Any,
        *,
        device: torch.device | str | None = None,
        allow_other_model: bool = False,
        **how: Unpack[How],
    ) -> TimeX:
        """Read what `save` wrote, for the model it was fitted on.

        Args:
            folder: Where it was saved.
            model: The model that was explained; another one is refused.
            device: As in the constructor.
            allow_other_model: Accept a model with other weights (the explanations then need not fit it).
            how: Functions that the fit was given, as pool= or forward=; everything else is saved.
        """
        folder = Path(folder)
        with readable(folder, "explainer"):
            description, tensors = storage.read(folder, cls.name, cls.config_class)
            adaptation = Adaptation.restored(description["adaptation"], how)
            explainer = cls(model, config=description["config"], device=device, **adaptation.given)
            if allow_other_model:
                tensors.pop("probe", None)  # another model gives another embedding
            elif description["reference_hash"] != weights_hash(explainer.model):
                raise ValueError(
                    f"The explainer in {folder} was fitted on another model (weights differ): pass the model it was fitted on, "
                    "fit a new explainer, or pass allow_other_model=True."
                )
            explainer.names = storage.names_of(description)
            explainer.fitted_ = storage.restored(explainer, description, tensors)
        return explainer
