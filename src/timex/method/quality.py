"""How good a fit is, measured without ground truth."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from torch import Tensor

log = logging.getLogger(__name__)

MOST = 2 / 3
"""Mean p above which an explanation singles out little."""
FLAT = 0.5
"""Share of the validation series above which a channel that is kept at every step counts as flat."""


@dataclass(frozen=True)
class Quality:
    """How good a fit is, without ground truth.

    Attributes:
        kept: Mean p on validation data.
        agreement: Share of training samples whose class the surrogate predicts from the explanation; None for forecasts.
        commonest: Share of the most common class, on which an empty explanation would agree too.
        flat: Channels that more than half of the validation series keep at every step.
    """

    kept: float
    agreement: float | None
    commonest: float
    flat: tuple[int, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether nearly everything is kept, as after a short training."""
        return self.kept > MOST

    @property
    def untrusted(self) -> bool:
        """Whether agreement is less than halfway from the most common class to 1."""
        return self.agreement is not None and self.agreement < (1 + self.commonest) / 2

    def warn(self) -> None:
        """Log a warning for each quality check that fails."""
        if self.undecided:
            log.warning(
                "explanations keep a cell with probability %.2f on average, and single out little: fit for more epochs, or on "
                "more series",
                self.kept,
            )
        if self.untrusted:
            log.warning(
                "seeing only the explanations, the surrogate predicts the model's class for %.0f %% of the training samples "
                "(the most common class is %.0f %%): fit longer, or on more series, before trusting p > .5",
                100 * (self.agreement or 0.0),
                100 * self.commonest,
            )
        if self.flat and not self.undecided:
            log.warning(
                "explanations keep every step of channel %s in most series: they show which channel matters, not when",
                " and ".join(map(str, self.flat)),
            )


def quality_of(p: Tensor, observed: Tensor, agreement: Tensor | None, predicted: Tensor) -> Quality:
    """The quality of a fit.

    Args:
        p: Of the validation series, (N, T, D).
        observed: Their measured cells, (N, T, D).
        agreement: Whether the surrogate predicts the model's class, for every training series; None for forecasts.
        predicted: The model's class of every training series.
    """
    flat = ((p > 0.5) | ~observed).all(dim=1) & observed.any(dim=1)  # (N, D)
    return Quality(
        kept=float(p[observed].mean()),
        agreement=None if agreement is None else float(agreement.float().mean()),
        commonest=predicted.bincount().max().item() / len(predicted),
        flat=tuple((flat.float().mean(0) > FLAT).nonzero().flatten().tolist()),
    )
