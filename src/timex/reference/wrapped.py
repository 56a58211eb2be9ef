"""A foreign torch module as a reference model.

Shapes: B samples, T time steps, D channels, C classes, H numbers, Z the width of the embedding.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from timex.engine import Noise
from timex.reference import probes
from timex.reference.adaptation import Adaptation
from timex.reference.answers import about, answer_tensor, are_probabilities, log_probabilities, logits_of_answer
from timex.reference.base import Output, ReferenceModel, weights_hash
from timex.reference.beside import given, parameters_of
from timex.reference.copies import copied, set_mode, without_history
from timex.reference.embedding import LayerRow, Tap, caught, find_layer, last_linear, layers, one_tensor, pooled
from timex.reference.lstm import backward_in_eval

log = logging.getLogger(__name__)

READS_NAN = "forward=lambda model, x, observed: model(x.masked_fill(~observed, float('nan')))"
"""How to hand over a module that shall see NaN in missing cells."""


@dataclass(frozen=True)
class Decided:
    """What the trial of a model on a few series found; it is saved with an explainer.

    Attributes:
        tap: Where the embedding is taken.
        log: Whether the outputs are probabilities, of which the logarithm is taken.
        offset: For numbers, the mean of the answers to training series, (H,).
        scale: Their standard deviation.
    """

    tap: Tap
    log: bool = False
    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Decided:
        """The record from its values as JSON holds them."""
        return cls(Tap(**saved["tap"]), saved["log"], tuple(saved["offset"]), tuple(saved["scale"]))


class Wrapped(ReferenceModel):
    """A frozen copy of a foreign module, which is called and read as an `Adaptation` says.

    `tried` has to run before `output`: it finds the embedding, the sizes, and whether outputs are probabilities.

    Args:
        module: The user's model.
        how: How to call and read it.
    """

    arch = "wrapped"
    offset: Tensor
    scale: Tensor
    stackable = False  # vmap may not be able to run it

    def __init__(self, module: nn.Module, how: Adaptation) -> None:
        super().__init__()
        if how.embedding is not None:
            find_layer(module, how.embedding)
        self.how = how
        self.decided: Decided | None = None
        self.config = {"embedding": how.embedding}
        self.numbers = how.numbers
        self.fingerprint = weights_hash(module)
        self.module = copied(module)
        self.extras = parameters_of(how.forward, 2) if callable(how.forward) else parameters_of(module.forward)
        self.register_buffer("offset", torch.zeros(1), persistent=False)
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        memo |= without_history(self.module)  # what the module kept of its last pass
        new.__dict__ = copy.deepcopy(self.__dict__, memo)
        return new

    # ------------------------------------------------------------------------------------------------------------- trial

    @torch.no_grad()
    def tried(
        self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None, *, scale_numbers: bool = False
    ) -> Self:
        """Run the model once on a few series (B, T, D): find what the keywords leave open, and refuse what cannot be explained.

        Args:
            x: Series.
            times: Their times.
            observed: Their measured cells.
            scale_numbers: Whether to scale numbers by the mean and deviation of these answers.
        """
        self.n_steps, self.n_channels = x.shape[1:]
        set_mode(self.module, training=False)
        raw = self._first_answer(x, times, observed)
        if self.decided is None:
            probes.warn_of_chance(raw, self._first_answer(x, times, observed))
            self.decide(self._decided_by(raw, x, times, observed, scale_numbers))
            probes.warn_of_axes(self, x, times, observed)
            if "observed" not in self.extras:
                probes.warn_of_nan(self, x, times, observed, READS_NAN)
            probes.warn_of_unread(self.extras, len(x))
        out = self.output(x, times, observed)
        probes.warn_of_logits_as_embedding(out, self.tap)
        self.embedding_size, self.n_classes = out.z.shape[1], out.logits.shape[1]
        return self

    def _first_answer(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        """The answer as the task reads it, and what may be wrong where the model fails."""
        try:
            value = self.called(x, times, observed)
        except Exception as error:
            raise probes.failure(self, error, x, times, observed) from error
        return logits_of_answer(answer_tensor(value, self.how, len(x)), self.how, x)

    def decide(self, decided: Decided) -> None:
        """Set what this trial or an earlier one found."""
        self.decided = decided
        device = self.offset.device
        self.offset = torch.tensor(decided.offset or (0.0,), device=device)
        self.scale = torch.tensor(decided.scale or (1.0,), device=device)

    def _decided_by(
        self, raw: Tensor, x: Tensor, times: Tensor | None, observed: Tensor | None, scale_numbers: bool
    ) -> Decided:
        """What the keywords leave open, from a first answer."""
        if self.how.embedding is not None:
            tap = Tap(self.how.embedding, "output")
        else:
            tap = last_linear(self.module, lambda: self.called(x, times, observed), x)
            log.info("the embedding is %s; embedding= names another layer", tap)
        if self.numbers and scale_numbers:
            scale = raw.std(0, correction=0).clamp_min(1e-6 * (1 + raw.abs().amax(0)))
            return Decided(tap, offset=tuple(raw.mean(0).tolist()), scale=tuple(scale.tolist()))
        takes_log = self.how.task == "classify" and are_probabilities(raw)
        if takes_log:
            log.info("the model returns probabilities; their logarithm serves as logits")
        else:
            probes.warn_of_shares(raw, self.how)
        return Decided(tap, takes_log)

    # ------------------------------------------------------------------------------------------------------------ passes

    def output(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Output:
        """Embedding and logits of one pass. The model gets the values, and what else its forward has parameters for."""
        if mask is not None:
            raise ValueError("A wrapped model takes no attention mask: mask the values instead.")
        tap = self.tap
        with caught(self.module, tap) as values:
            logits = self._logits(x, times, observed, noise)
        if tap.place == "logits":
            return Output(logits, logits)
        if not values:
            raise ValueError(f"Layer {tap.layer!r} did not run in the model's forward pass: name one that does.")
        layer = self.module.get_submodule(tap.layer)
        found = one_tensor(values[-1], self.how.embedding_output, layer, tap)  # a layer used twice counts where it is used last
        return Output(pooled(found, x, self.how.pool, tap), logits)

    def forward(
        self,
        x: Tensor,
        times: Tensor | None = None,
        observed: Tensor | None = None,
        mask: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """Logits (B, C), without the embedding."""
        if mask is not None:
            raise ValueError("A wrapped model takes no attention mask: mask the values instead.")
        return self._logits(x, times, observed, noise)

    def in_own_units(self, logits: Tensor) -> Tensor:
        """Numbers as the model gives them, (B, H)."""
        return logits * self.scale + self.offset

    def layers(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> list[LayerRow]:
        """The model's layers with what they give for a few series."""
        return layers(self.module, lambda: self.called(x, times, observed), x)

    @property
    def tap(self) -> Tap:
        """Where the embedding is taken."""
        return self._known.tap

    @property
    def _known(self) -> Decided:
        if self.decided is None:
            raise RuntimeError("A wrapped model must see a few series first: call tried(x).")
        return self.decided

    def _logits(self, x: Tensor, times: Tensor | None, observed: Tensor | None, noise: Noise | None) -> Tensor:
        set_mode(self.module, training=noise is not None)  # at every call: train() on a parent module changes the mode
        with backward_in_eval(x):
            logits = logits_of_answer(self._answer(x, times, observed), self.how, x)
        if self.numbers:
            return (logits - self.offset) / self.scale
        return about(log_probabilities(logits) if self._known.log else logits, self.how.about)

    def _answer(self, x: Tensor, times: Tensor | None, observed: Tensor | None) -> Tensor:
        """The tensor with the model's answer to series (B, T, D), as the model gives it."""
        return answer_tensor(self.called(x, times, observed), self.how, x.shape[0])

    def called(self, x: Tensor, times: Tensor | None = None, observed: Tensor | None = None) -> Any:
        """What the model returns for series (B, T, D), with all its parts."""
        first = x.clone() if self.how.layout == "BTD" else x.transpose(1, 2).clone()  # the model may write to its input
        extra = given(self.extras, x, times, observed)
        if "observed" in extra and self.how.layout == "BDT":
            extra["observed"] = extra["observed"].transpose(1, 2)
        forward = self.how.forward
        if callable(forward):
            return forward(self.module, first, **extra)
        if forward is not None:
            return self.module(**{forward: first}, **extra)
        return self.module(first, **extra)
