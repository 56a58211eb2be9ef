"""Several methods on your own model and series, compared by what the model itself answers. No truth is needed.

Shapes: N samples, T time steps, D channels, M methods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from timex.engine import Diverged
from timex.explainers import Random
from timex.explainers.base import Explainer
from timex.io.rounding import rounded
from timex.metrics import Probe, faithfulness_scores, rank_correlation
from timex.metrics.faithfulness import degradation, interpret_time
from timex.metrics.hiding import Fill
from timex.records import Explanation, Series, as_series
from timex.reference.adaptation import How
from timex.registry import EXPLAINERS, find
from timex.trust.interval import Interval, plain
from timex.trust.measure import Floats, model_probe, sampled, spread_of
from timex.trust.runs import Run, Runs

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

METHODS = ("gradients", "ig", "occlusion")
"""Methods of a comparison by default: quick ones."""
CONTROLS = ("amplitude", "random")
"""Methods that see no model; every comparison has them."""
ALIGNED = "centre"
"""The control that joins them where the windows of all series are cut around the same event."""
MOST = 200
"""Series of a comparison; more are sampled."""
FILLS: tuple[Fill, ...] = ("mean", "zero", "draw", "local")
"""Fills by default: rankings of methods differ from fill to fill."""


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`.

    Attributes:
        runs: Explanations and times by method.
        scores: Scores of every sample, (N,), by method, then fill, then name (`timex.metrics.faithfulness`).
        skipped: Why a method could not be run, by method.
        open: Whether hidden cells can change the answer, (N,), by fill: see `Probe.open`.
        summaries: Scores of all samples together, by method, then fill, then name; empty unless the comparison was thorough.
        model_hash: The SHA-256 of the weights of the explained model; empty for a black box.
    """

    runs: dict[str, Run]
    scores: dict[str, dict[str, dict[str, Floats]]]
    skipped: dict[str, str]
    open: dict[str, NDArray[np.bool_]]
    summaries: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    model_hash: str = ""

    def gap(self, method: str, fill: str | None = None) -> Floats:
        """The evidence gap of every sample under a fill, by default the mean over the fills, (N,).

        It is undefined (NaN) under fills whose blank series have the sample's class too, or nearly its numbers: hiding cells
        brings it back to its answer. If that holds for all samples, none is left out.
        """
        fills = list(self.open) if fill is None else [fill]
        kept = np.stack([self.open[f] for f in fills])  # (fills, N)
        kept = kept if kept.any() else ~kept
        gaps = np.where(kept, np.stack([self.scores[method][f]["gap"] for f in fills]), 0)
        count = kept.sum(axis=0)
        return np.where(count > 0, gaps.sum(axis=0) / np.maximum(count, 1), np.nan)

    @cached_property
    def ranking(self) -> list[str]:
        """Methods, the one with the largest mean evidence gap first."""
        return sorted(self.runs, key=lambda method: -float(np.nanmean(self.gap(method))))

    @property
    def best(self) -> str:
        """The first of the ranking that sees the model."""
        return next((method for method in self.ranking if method not in (*CONTROLS, ALIGNED)), self.ranking[0])

    def behind(self, method: str) -> Interval:
        """The evidence gap of the best method less that of another, paired by sample."""
        return Interval.of(self.gap(self.best) - self.gap(method))

    @cached_property
    def correlation(self) -> pd.DataFrame:
        """Mean rank correlation of |attribution| between methods, (M, M); NaN where an attribution is constant."""
        import pandas as pd

        maps = {name: (np.abs(r.explanation.attribution), r.explanation.observed) for name, r in self.runs.items()}
        table = {
            a: {b: Interval.of(rank_correlation(x, y, seen)).mean for b, (y, _) in maps.items()}
            for a, (x, seen) in maps.items()
        }
        return pd.DataFrame(table)

    def table(self) -> pd.DataFrame:
        """One row per method, best first: mean scores under every fill, distance from the best with its interval, times."""
        import pandas as pd

        rows = {}
        for method in self.ranking:
            found = {
                f"{name} ({fill})": float(np.nanmean(self.gap(method, fill) if name == "gap" else values))
                for fill, scores in self.scores[method].items()
                for name, values in scores.items()
            }
            for fill, summary in self.summaries.get(method, {}).items():
                found |= {f"{name} ({fill})": value for name, value in summary.items()}
            behind = self.behind(method)._asdict()
            run = self.runs[method]
            cost = {"seconds_per_sample": run.seconds, "fit_seconds": run.fit_seconds, "megabytes": run.megabytes}
            rows[method] = {**found, **{f"behind_{name}": value for name, value in behind.items()}, **cost}
        return pd.DataFrame.from_dict(rows, orient="index")

    def mean(self, method: str, name: str) -> float:
        """The mean of a score over samples and fills."""
        if name == "gap":
            return float(np.nanmean(self.gap(method)))
        return float(np.mean([scores[name].mean() for scores in self.scores[method].values()]))

    def plot(self, index: int | None = None) -> Figure:
        """A figure of the methods' rank correlations and of where they disagree: in one sample, or the mean over all."""
        from timex.report.plots import plot_disagreement

        seeing = [method for method in self.ranking if method not in (*CONTROLS, ALIGNED)]
        shown = seeing if len(seeing) > 1 else self.ranking
        explanations = {method: self.runs[method].explanation for method in shown}
        return plot_disagreement(explanations, self.correlation.loc[shown, shown].to_numpy(), index)

    @property
    def recommendation(self) -> str:
        """Which method to use, in words."""
        return " ".join(_recommendation(self))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the samples as plain values, for JSON: four digits of every number, None where it is undefined."""
        return {
            "model_hash": self.model_hash,
            "best": self.best,
            "recommendation": self.recommendation,
            "methods": rounded(plain(self.table().to_dict(orient="index"))),
            "rank_correlation": rounded(plain(self.correlation.to_dict())),
            "skipped": self.skipped,
        }


def compare(
    model: Any,
    x: ArrayLike | Tensor | Series,
    methods: Sequence[str | Explainer[Any]] = METHODS,
    train: ArrayLike | Tensor | Series | None = None,
    *,
    fills: Sequence[Fill] = FILLS,
    aligned: bool = False,
    thorough: bool = False,
    folder: str | Path | None = None,
    most: int = MOST,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool = True,
    **how: Unpack[How],
) -> Comparison:
    """Explain series by several methods, and ask the model which explanations point at its evidence.

    Args:
        model: The model to explain: anything that the explainers take.
        x: Held-out series, as the model takes them: (N, T, D), or a `Series`.
        methods: Names from `timex.registry.EXPLAINERS`, or explainers of the same model with settings of their own. An
            explainer without the fit that it needs is fitted. The second explainer of a name is called by the name and 2, as
            "timex 2", the third by the name and 3. The controls amplitude and random are added.
        train: Series to fit on, and the source of the values that replace hidden cells; by default x.
        fills: What takes the place of hidden cells (`timex.metrics.hiding.Fill`); methods rank by their mean over the fills.
        aligned: Whether all windows are cut around the same event, as heart beats are. The control centre then joins the
            others, since the place alone may tell which cells decide.
        thorough: Also compute InterpretTime's scores and DDS, PES and CMI, which need classes: about half as long again.
        folder: Keep explanations there, and checkpoints of fits of TimeX. The same comparison, started again, goes on from
            them; fits of other methods restart.
        most: Series to compare on; more are sampled.
        seed: Seed of the sample and of random orders.
        device: Where to run; by default the GPU if there is one.
        progress: Show the progress of fits.
        how: How to call and read the model, as for the explainers (`timex.adapt`).

    Example:
        >>> from torch import nn
        >>> x = np.random.default_rng(0).normal(size=(30, 12, 2)).astype("float32")
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 3))
        >>> found = compare(model, x, ["saliency"], fills=("mean",), device="cpu")
        >>> sorted(found.ranking)
        ['amplitude', 'random', 'saliency']
    """
    if isinstance(fills, str) or not fills:
        raise ValueError(f"Expected a list of fills, got {fills!r}: choose from timex.metrics.hiding.FILLS.")
    if isinstance(methods, str):
        raise ValueError(f"Expected a list of methods, got {methods!r}: pass [{methods!r}].")
    series = sampled(as_series(x), most, seed)
    known = as_series(x if train is None else train)
    reference = Random(model, device=device, **how)
    answers = reference.explain(series)
    of, on = reference.model, reference.device
    spread = spread_of(of, series, known, on) if of.numbers else None
    probes = [model_probe(of, series, known, fill, seed, on, spread) for fill in fills]
    runs = Runs(reference.model, answers, known, None if folder is None else Path(folder), progress)
    done: dict[str, Run] = {}
    scores, skipped, summaries = {}, {}, {}
    named = _named([*CONTROLS, *([ALIGNED] if aligned else []), *methods])
    for name, make in {name: _maker(method) for name, method in named.items()}.items():
        try:
            done[name] = runs.of(make(model, device, how), series)
        except (ValueError, Diverged) as error:  # the method cannot explain this model or these series
            log.warning("%s is left out: %s", name, error)
            skipped[name] = str(error)
            continue
        scores[name] = {str(p.fill): faithfulness_scores(done[name].explanation, p) for p in probes}
        if thorough and not of.numbers:
            summaries[name] = {str(p.fill): _summary(p, done[name].explanation) for p in probes}
    return Comparison(done, scores, skipped, {str(p.fill): p.open for p in probes}, summaries, answers.model_hash)


def _summary(probe: Probe, explanation: Explanation) -> dict[str, float]:
    """Scores that are defined for all samples together."""
    a = explanation.attribution
    dds, pes, cmi = degradation(probe, a, steps=10)
    top, bottom, f1 = interpret_time(probe, np.abs(a))
    return {"dds": float(dds.mean()), "pes": pes, "cmi": cmi, "aucs_top": top, "aucs_bottom": bottom, "f1s": f1}


def _named(methods: Sequence[str | Explainer[Any]]) -> dict[str, str | Explainer[Any]]:
    """The methods by name; " 2" and so on is added to a name that is taken. A method that is given twice counts once."""
    named: dict[str, str | Explainer[Any]] = {}
    for method in dict.fromkeys(methods):
        name = method.name if isinstance(method, Explainer) else method
        free = (n for n in chain([name], (f"{name} {i}" for i in count(2))) if n not in named)
        named[next(free)] = method
    return named


def _maker(method: str | Explainer[Any]) -> Callable[[Any, Any, How], Explainer[Any]]:
    """How to make the explainer of a method."""
    if isinstance(method, Explainer):
        return lambda model, device, how: method
    cls = find(EXPLAINERS, method, "method")
    return lambda model, device, how: cls(model, device=device, **how)


def _recommendation(found: Comparison) -> list[str]:
    best, runs = found.best, found.runs
    blind = (*CONTROLS, ALIGNED)
    if best in blind:
        return ["No method that sees the model could be run: see skipped."]
    over_random = Interval.of(found.gap(best) - found.gap("random"))
    if over_random.low <= 0:
        return [
            "Use none of these methods: the best of them is no better than a random order "
            f"(evidence gap of {best} over random {over_random})."
        ]
    said = [f"Use {best}: its evidence gap, {found.mean(best, 'gap'):+.2f}, is the largest of the methods that see the model."]
    equal = [m for m in found.ranking if m not in (best, *blind) and found.behind(m).low <= 0]
    if equal:
        said.append(f"Not clearly worse: {', '.join(equal)} (the interval of the difference includes 0).")
        quickest = min(equal, key=lambda m: runs[m].seconds)
        if runs[quickest].seconds < runs[best].seconds / 2:
            said.append(f"Of these, {quickest} is {runs[best].seconds / runs[quickest].seconds:.0f} times as fast.")
    if "amplitude" in runs and found.behind("amplitude").low <= 0:
        said.append("The size of the values alone does as well: on these series the largest values decide.")
    if ALIGNED in runs and found.behind(ALIGNED).low <= 0:
        said.append("The middle of the window alone does as well: on these series the place decides.")
    seen = [m for m in found.ranking if m not in blind]
    for fill in found.scores[best]:
        first = max(seen, key=lambda m: float(np.nanmean(found.gap(m, fill))))
        if first != best:
            said.append(f"Under the fill {fill} alone, {first} is first: the ranking depends on the fill.")
    return said
