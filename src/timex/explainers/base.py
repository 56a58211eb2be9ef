"""The contract of every explainer: `fit` and `explain` are final, subclasses write `_fit` and `_explain` beneath them.

Shapes: N samples, T time steps, D channels, C classes; inside a chunk B samples, R altered copies of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, Unpack, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.checks import checked_device
from timex.engine import Checkpoint, Tensors
from timex.explainers.batch import Batch, expect_finite
from timex.explainers.conventions import Conventions
from timex.explainers.running import MAX_VAL, RunsModel
from timex.explainers.splitting import drawn, labelled
from timex.explainers.streaming import Streaming
from timex.explainers.target import about, contrasted, wanted_classes
from timex.io.pieces import holds_more, pieces_of
from timex.records import Explanation, Series, as_series
from timex.reference.adapt import model_hash
from timex.reference.adaptation import Adaptation, How, Target
from timex.reference.beside import beside
from timex.reference.probes import warn_of_weak_embedding

if TYPE_CHECKING:
    from timex.trust.check import Check


class FittedRecord(Protocol):
    """What a fit learned: any frozen record that knows the (T, D) of the series."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(T, D)."""


F = TypeVar("F", bound=FittedRecord)


class Explainer(RunsModel, Streaming, Conventions, ABC, Generic[F]):
    """Explains the predictions of a frozen model.

    Subclasses write `_explain`, and `_fit` if they learn from data first. Class attributes state what they can do.

    Args:
        model: A reference model, a torch module, or a black box (see `timex.adapt`). It is copied and never changed.
        config: Settings of the method; its defaults when None.
        device: Where to run; by default the GPU if there is one.
        how: How to call and read the model, the keywords of `timex.adapt`: layout, forward, output, task, ...

    Attributes:
        name: The key in `registry.EXPLAINERS`.
        config_class: The class of `config`; NoneType for a method without settings.
        needs_fit: Whether `explain` needs a `fit` before it.
        signed: Whether a negative attribution means "speaks against the class".
        needs_gradients: Whether the method differentiates through the model.
        needs_embedding: Whether the method compares series by the model's embedding z; `fit` warns if the logits serve as one.
        numbers: How many numbers of a regression or forecast the method explains together: "all", "one", or "none".
        only_for: The layers that a model must have: "convolutions", "attention" (our transformers), or empty for any model.
        takes_target: Whether a class other than the predicted one can be explained.
        keeps_checkpoints: Whether a fit can be resumed.
        accepts_missing: Whether series with unobserved cells and irregular times are accepted.
        cost: How many series pass through the model to explain one sample, beside the one that gives the prediction: a formula
            of T, D and the settings by name, such as "n_steps" or "permutations * (T * D + 1)"; empty if it is not known.
        fitted_: What `fit` learned, a frozen record; None before.
    """

    name: ClassVar[str]
    config_class: ClassVar[type] = type(None)
    needs_fit: ClassVar[bool] = False
    signed: ClassVar[bool] = False
    needs_gradients: ClassVar[bool] = False
    needs_embedding: ClassVar[bool] = False
    numbers: ClassVar[Literal["all", "one", "none"]] = "one"
    only_for: ClassVar[Literal["", "convolutions", "attention"]] = ""
    keeps_checkpoints: ClassVar[bool] = False
    takes_target: ClassVar[bool] = True
    accepts_missing: ClassVar[bool] = True
    cost: ClassVar[str] = ""
    config: Any
    fitted_: F | None = None

    def __init__(self, model: Any, config: Any = None, *, device: torch.device | str | None = None, **how: Unpack[How]) -> None:
        self._given: dict[str, Any] = {"model": model, "config": config, "device": device, **how}
        self.how = Adaptation.of(how)
        self.config = self.config_class() if config is None else config
        if not isinstance(self.config, self.config_class):
            wanted = "no config" if self.config_class is type(None) else f"a {self.config_class.__name__}"
            raise ValueError(f"Expected {wanted} for {type(self).__name__}, got {type(config).__name__}.")
        self.device = checked_device(device)
        self.model = self._own_model(model)
        if self.numbers == "none" and (self.how.numbers or getattr(self.model, "numbers", False)):
            raise ValueError(f"{type(self).__name__} explains classes, not numbers: use timex, gradients, ig or occlusion.")

    # ------------------------------------------------------------------------------------------------------------- fit

    @final
    def fit(
        self,
        x: ArrayLike | Tensor | Series,
        y: ArrayLike | Tensor | None = None,
        x_val: ArrayLike | Tensor | Series | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        times_val: ArrayLike | Tensor | None = None,
        observed_val: ArrayLike | Tensor | None = None,
        progress: bool = True,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> Self:
        """Learn what the method needs before it can explain. A method that needs no fit does nothing.

        Args:
            x: Training series, (N, T, D), or a `Series`: best those the model was trained on. Or what holds more than memory
                does, as `explain_stream` takes it: the fit then reads the series that it uses, and no others.
            y: Labels, (N,), for methods that can use them; the model's own predictions serve otherwise.
            x_val: Series to select by; without it a tenth of x is held out.
            times: Times of the steps of x, (N, T), for irregular sampling, in any unit.
            observed: Measured cells of x, (N, T, D) or (N, T); the rest may hold any value.
            times_val: As times, for x_val.
            observed_val: As observed, for x_val.
            progress: Show a progress bar.
            checkpoint: A folder in which the fit keeps its state after every epoch. The same fit goes on from there after a
                stop; a fit with other data, model or settings is refused.

        Returns:
            self
        """
        if checkpoint is not None and not self.keeps_checkpoints:
            raise ValueError(f"{type(self).__name__} keeps no checkpoints: leave out checkpoint=.")
        if self.needs_fit:
            places = None
            if holds_more(x) and times is None and observed is None:
                x, x_val, y, places = drawn(x, x_val, y, getattr(self.config, "seed", 0), *self._limits())
            train = labelled(self._accepted(as_series(x, times, observed)), y)
            val = None if x_val is None else self._accepted(as_series(x_val, times_val, observed_val))
            self._try_model(train, scale_numbers=True)
            more: dict[str, Any] = {}
            if checkpoint is not None:
                more["checkpoint"] = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
            fitted = self._fit(train, val, progress, **more)
            self.fitted_ = fitted if places is None else self._placed(fitted, places)
            if self.needs_embedding:
                warn_of_weak_embedding(self._reference)
        return self

    def _limits(self) -> tuple[int | None, int]:
        """How many series a fit trains on at most, and how many it validates on."""
        return None, MAX_VAL

    def _placed(self, fitted: F, places: NDArray[np.int64]) -> F:
        """What a fit learned from series drawn at some places, with indices of all series in place of those of the drawn."""
        return fitted

    def _fit(self, train: Series, val: Series | None, progress: bool) -> F:
        """Learn from series; the frozen record that is returned becomes `fitted_`. `split` holds out data if val is None."""
        raise NotImplementedError(f"{type(self).__name__} needs a fit and must define _fit")

    # --------------------------------------------------------------------------------------------------------- explain

    @final
    def explain(
        self,
        x: ArrayLike | Tensor | Series,
        target: ArrayLike | Tensor | str | None = None,
        times: ArrayLike | Tensor | None = None,
        observed: ArrayLike | Tensor | None = None,
        *,
        contrast: ArrayLike | Tensor | str | None = None,
        chunk: int | None = None,
    ) -> Explanation:
        """Explain the predicted class, or `target`, of every sample; the same samples give the same scores.

        Args:
            x: Series, (N, T, D), or a `Series`; (T, D) counts as one sample. What `explain_stream` takes is read into memory.
            target: A class for all samples or one per sample, by index or name, or "runner-up" for each sample's second most
                probable class; by default the predicted class.
            times: Times of the steps, (N, T).
            observed: Measured cells, (N, T, D) or (N, T).
            contrast: A second class, given as `target` is: the scores of the target less those of this class. They are signed
                and answer "why the target and not this class?".
            chunk: Samples on the device at once; by default as many as fit comfortably. It does not change the scores.
        """
        if holds_more(x) and times is None and observed is None:
            x = Series.joined(list(pieces_of(x, None, *self._file_names())))
        return self.explain_part(as_series(x, times, observed), 0, target, contrast, chunk)

    @final
    def explain_part(
        self,
        series: Series,
        first: int = 0,
        target: ArrayLike | Tensor | str | None = None,
        contrast: ArrayLike | Tensor | str | None = None,
        chunk: int | None = None,
    ) -> Explanation:
        """Explain neighbouring samples of a larger set as `explain` would explain them within it.

        Args:
            series: The samples.
            first: The index of the first of them in the set.
            target: As in `explain`; one class for all, or one for each of these samples.
            contrast: As in `explain`.
            chunk: As in `explain`.
        """
        self.check_target(target, contrast)
        series = self._accepted(series)
        self._check_ready(series)
        self._try_model(series)
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            raise ValueError(f"Expected chunk as a whole number of at least 1 sample, got {chunk!r}.")
        explanation = self._explained(series, target, chunk, first)
        return explanation if contrast is None else contrasted(explanation, self._explained(series, contrast, chunk, first))

    @classmethod
    def check_target(cls, *targets: Any) -> None:
        """Raise a `ValueError` if a target is given and the method takes none: before a fit, which takes long."""
        if not cls.takes_target and any(target is not None for target in targets):
            raise ValueError(
                f"{cls.__name__} explains the class the model predicts and takes no target: leave target= and contrast= out, "
                "fit another for that class (target= of the fit), or use a method that takes one, such as ig or gradients."
            )

    def _explained(self, series: Series, target: Any, chunk: int | None, first: int) -> Explanation:
        """The explanation of one class of every sample; `first` is the index of the first in the user's data."""
        parts: list[dict[str, Tensor]] = []
        start = 0
        for part in series.chunks(chunk or self._chunk(series.shape)):
            tensors = part.tensors(self.device)
            with beside(tensors):
                parts.append(self._explain_chunk(part, tensors, target, start, len(series), first))
            start += len(part)
        self._finish_explain()
        joined: dict[str, Any] = {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}
        facts: dict[str, Any] = {"signed": self.signed, "method": self.name, "model_hash": model_hash(self._reference)}
        return Explanation(series=self.described(series), **facts, **joined, **self._remarks(series, first))

    def _remarks(self, series: Series, first: int) -> dict[str, Any]:
        """Fields of an `Explanation` that depend on the series alone, and not on the chunks; `first` is the first's index."""
        return {}

    def _explain_chunk(self, part: Series, tensors: Tensors, target: Any, start: int, n: int, first: int) -> dict[str, Tensor]:
        """The fields of an `Explanation` for some samples, moved off the device."""
        x, times, observed = tensors["x"], tensors.get("times"), tensors.get("observed")
        with torch.no_grad():
            logits = self.answers(x, times, observed)
        expect_finite(logits, "the model's answer", first + start, x)
        wanted = self._wanted(logits, target, start, n, part.classes)
        place = first + torch.arange(start, start + len(part), device=self.device)
        found = self._explain(Batch(x, wanted, times, observed, place, logits))
        if observed is not None:
            found["attribution"] = torch.where(observed, found["attribution"], 0.0)
        expect_finite(found["attribution"], "the attribution", first + start, x)
        if self._reference.numbers:
            of_numbers = {"prediction": torch.zeros_like(wanted), "probability": torch.ones(len(part), 1)}
            found = {**of_numbers, "numbers": self._reference.in_own_units(logits).float(), **found}
        else:
            found = {"prediction": wanted, "probability": logits.softmax(-1).float(), **found}
        return {name: value.detach().cpu() for name, value in found.items()}

    def _wanted(self, logits: Tensor, target: Any, start: int, n: int, classes: tuple[str, ...]) -> Tensor:
        """The class to explain for every sample of a chunk that starts at `start` of n, (B,); 0 for numbers."""
        if not self._reference.numbers:
            return wanted_classes(logits, target, start, n, classes)
        if target is not None:
            raise ValueError(f"Expected target= in {type(self).__name__}(model, target=...), where numbers are chosen.")
        if self.numbers == "one" and logits.shape[1] > 1:
            raise ValueError(
                f"{type(self).__name__} explains one number at a time and the model gives {logits.shape[1]}: choose one "
                f"with {type(self).__name__}(model, target=INDEX), or use timex or gradients, which explain all together."
            )
        return torch.zeros(len(logits), dtype=torch.int64, device=logits.device)

    def _finish_explain(self) -> None:
        """Called after the last chunk of an `explain`."""

    @abstractmethod
    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        """Fields of an `Explanation` for one chunk: at least "attribution", (B, T, D) float."""

    def __repr__(self) -> str:
        state = ""
        if self.fitted_ is not None:
            state = f", fitted for {self.fitted_.shape[0]} steps x {self.fitted_.shape[1]} channels"
        elif self.needs_fit:
            state = ", not fitted"
        return f"{type(self).__name__}({type(self.model).__name__}{state})"

    def check(self, x: ArrayLike | Tensor | Series, train: Series | None = None, **options: Any) -> Check:
        """Whether to trust explanations of these series, by the model's own answers: `timex.trust.check`."""
        from timex.trust import check  # against the order of the tree: a shortcut for users

        return check(self, x, train, **options)

    # ----------------------------------------------------------------------------------------------- for subclasses to use

    @property
    def fitted(self) -> F:
        """What `fit` learned, or a `RuntimeError` before it."""
        if self.fitted_ is None:
            raise RuntimeError(f"This {type(self).__name__} has not been fitted: call fit(x) with training series first.")
        return self.fitted_

    def described(self, series: Series) -> Series:
        """The explained series as the explanation keeps them: in the user's own units, with names."""
        return about(series, self._about).in_own_units()

    @property
    def _about(self) -> Target | None:
        """The class, or the two classes, that the model's answers are reduced to; None if they are not."""
        of_model: Adaptation = getattr(self._reference, "how", self.how)
        return self.how.about if of_model.about is None else of_model.about

    def _accepted(self, series: Series) -> Series:
        """The series, or a `ValueError` if they have missing cells or irregular times and the method takes none."""
        if not (self.accepts_missing or series.regular):
            raise ValueError(
                f"{type(self).__name__} takes complete series at times 1..T: fill missing cells, resample, leave out times=."
            )
        return series

    def _check_ready(self, series: Series) -> None:
        """Refuse to explain before a fit, and series of another shape than those of the fit."""
        if not self.needs_fit:
            return
        t, d = self.fitted.shape
        if series.shape[1:] != (t, d):
            raise ValueError(f"Expected x of shape (N, {t}, {d}) as in fit, got {series.shape}.")
