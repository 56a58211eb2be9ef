"""Integrated gradients of the log-odds from the training mean, smoothed over time.

Shapes: B samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from timex.explainers.base import Explainer
from timex.explainers.batch import Batch
from timex.explainers.splitting import split
from timex.records import Baseline, Series
from timex.reference.evidence import Part, evidence, gap, gaps_by_width, log_odds, path_gradients, smoothed
from timex.settings import Settings, setting

MAX_GAP = 256
"""Validation series on which the width is chosen, at most."""
SPREAD = 1.0
"""Unit of evidence for numbers, which are scaled by the training series."""


@dataclass(frozen=True, kw_only=True)
class GradientsConfig(Settings):
    """Settings of `Gradients`."""

    n_points: int = setting(32, "Points of the path integral.", least=1)
    width: int | None = setting(
        None,
        "Standard deviation in steps of the Gaussian over time; 0 for none. None takes the width with the largest gap of "
        "evidence on validation series.",
        least=0,
    )
    seed: int = setting(0, "Seed of the series that are held out to choose the width.")


@dataclass(frozen=True)
class ChosenWidth:
    """The fitted state of `Gradients`: the baseline of the path and the width of the smoothing.

    Attributes:
        baseline: Mean and standard deviation of every cell of the training series.
        width: Standard deviation of the Gaussian, in steps.
        gaps: The mean gap on validation series by width; empty if the width was given.
    """

    baseline: Baseline
    width: int
    gaps: dict[int, float] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """(T, D) of the series fitted on."""
        return self.baseline.mean.shape


class Gradients(Explainer[ChosenWidth]):
    """Integrated gradients of the log-odds (after Sundararajan et al., 2017), from the training mean, unsigned and smoothed.

    score = |(x - b) * mean over a of de / dx at b + a (x - b)|, smoothed by a Gaussian over time. e is the log-odds of the
    class, b the mean of the training series. The width of the Gaussian is the one with the largest gap: the share of the
    evidence in the highest cells less the share in the others, measured with the model.

    Fitting takes seconds: it averages the training series and explains at most 256 validation series.
    """

    name = "gradients"
    cost = "n_points"
    numbers = "all"
    config_class = GradientsConfig
    needs_fit = True
    needs_gradients = True
    config: GradientsConfig

    def _fit(self, train: Series, val: Series | None, progress: bool) -> ChosenWidth:
        kept, held, _ = split(train, val, self.config.seed, MAX_GAP)
        baseline = kept.baseline()
        if self.config.width is not None:
            return ChosenWidth(baseline, self.config.width)
        gaps = gaps_by_width(self._parts(held, baseline))
        return ChosenWidth(baseline, max(gaps, key=lambda width: gaps[width]), gaps)

    def _parts(self, held: Series, baseline: Baseline) -> Iterator[Part]:
        """The held-out series, chunk by chunk, with their attributions before smoothing."""
        for batch in self.batches(held.tensors()):
            yield partial(self._gap, batch, baseline), self._integrated(batch, baseline), batch.observed

    def _explain(self, batch: Batch) -> dict[str, Tensor]:
        found = self._integrated(batch, self.fitted.baseline)
        return {"attribution": smoothed(found, self.fitted.width, batch.observed)}

    def _integrated(self, batch: Batch, baseline: Baseline) -> Tensor:
        """|integrated gradients| of the target's log-odds, (B, T, D)."""

        def evidence_of(point: Tensor) -> Tensor:
            view = self.logits(point, batch.times, batch.observed)
            return evidence(view, batch.logits, SPREAD) if self._reference.numbers else log_odds(view, batch.target)

        return path_gradients(evidence_of, batch.x, self._mean(batch, baseline), self.config.n_points).abs()

    @torch.no_grad()
    def _gap(self, batch: Batch, baseline: Baseline, attribution: Tensor) -> Tensor:
        def answer(view: Tensor) -> Tensor:
            return self.logits(view, batch.times, batch.observed)

        spread = SPREAD if self._reference.numbers else None
        return gap(answer, batch.x, attribution, self._mean(batch, baseline), spread=spread, observed=batch.observed)

    def _mean(self, batch: Batch, baseline: Baseline) -> Tensor:
        """The training mean as series, (B, T, D); 0 where nothing was measured, as in x."""
        mean = torch.as_tensor(baseline.mean, device=batch.x.device).expand_as(batch.x)
        return mean if batch.observed is None else mean * batch.observed
