"""Faithfulness without truth: hide cells in the order of an attribution, and ask the model what is left of its answer.

Every function takes a `Probe`, which holds model, series and fill, and an attribution (N, T, D). Cells are ordered by
|attribution|; equal ones at random. No score depends on known deciding cells.

For a model of numbers, p_c stands for the share of the evidence that a view holds (`Probe.share`).

Shapes: N samples, T time steps, D channels, C classes or numbers, S shares, K steps of a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timex.metrics.hiding import Probe
from timex.records import Explanation

Floats = NDArray[np.float64]

SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Shares of the cells that curves and the evidence gap keep or hide."""
CELLS = 50
"""Cells that CPD and CPP replace one after another by default; `faithfulness_scores` takes a tenth of them if that is less."""
LOG_ODDS_SHARE = 0.2
"""Share of the cells that `log_odds` hides."""
HIDDEN = 0.1
"""Share of the cells that each draw of `infidelity` hides."""
QUANTILES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 1.0)
"""Shares of the cells with a >= 0 that InterpretTime replaces."""
LOWER_IS_BETTER = frozenset({"sufficiency", "log_odds", "cpp", "infidelity"})
"""Scores of `faithfulness_scores` of which less is better."""


def faithfulness_scores(explanation: Explanation, probe: Probe | None = None) -> dict[str, Floats]:
    """The scores of every sample that need no truth, (N,) each; none without a probe of the explained model.

    `gap`, the areas of `comprehensiveness` and `sufficiency`, `aopc` and `infidelity`; for classes also `log_odds`, `cpd` and
    `cpp`, and `cpd_signed` if the explanation is signed or has a direction. All are under the probe's fill.
    """
    if probe is None:
        return {}
    a = explanation.attribution
    cells = max(1, min(CELLS, a[0].size // 10))
    tops = list(top_cells(probe, a, SHARES))
    alone, without = [probe.answer(top) for top in tops], [probe.answer(~top) for top in tops]
    found = {
        "gap": _gap(probe, alone, without),
        "comprehensiveness": area(_falls(probe, without), SHARES),
        "sufficiency": area(_falls(probe, alone), SHARES),
        "aopc": aopc(probe, a),
        "infidelity": infidelity(probe, a),
    }
    if not probe.numbers:
        found["log_odds"] = _log_fall(probe, without[SHARES.index(LOG_ODDS_SHARE)])
        found |= {"cpd": cpd(probe, a, cells), "cpp": cpp(probe, a, cells)}
        if explanation.signed or explanation.direction is not None:
            found["cpd_signed"] = cpd(probe, explanation.directed().attribution, cells, signed=True)
    return found


# ---------------------------------------------------------------------------------------------------- top cells and the rest


def top_cells(probe: Probe, attribution: ArrayLike, shares: Sequence[float]) -> Iterator[NDArray[np.bool_]]:
    """For each share, the cells of highest |attribution|, (N, T, D): at least one of every sample."""
    place, n_seen = probe.places(attribution)
    for share in shares:
        if not 0 < share <= 1:
            raise ValueError(f"Expected shares above 0 and at most 1, got {share}.")
        yield place < np.maximum(np.round(share * n_seen), 1)[:, None, None]


def evidence_gap(probe: Probe, attribution: ArrayLike, shares: Sequence[float] = SHARES) -> Floats:
    """The share of the model's evidence in the top cells less the share in the others, mean over `shares`, (N,).

    Evidence e is the log-odds of the class; for numbers, minus the mean squared distance from the model's answer in units of
    the training spread. The share that a view v holds is (e_v - e_blank) / max(1, e_x - e_blank), clipped to [-1, 1].

    Above 0 the few top cells hold more of the evidence than all others together. A random order is below 0 where evidence is
    spread over many cells: compare a gap with that of `Random`.
    """
    tops = list(top_cells(probe, attribution, shares))
    return _gap(probe, [probe.answer(top) for top in tops], [probe.answer(~top) for top in tops])


def _gap(probe: Probe, alone: Sequence[Floats], without: Sequence[Floats]) -> Floats:
    """The evidence gap from the answers (N, C) to the top cells alone and to the others, one of each per share."""
    return np.asarray(np.mean([probe.share(a) - probe.share(b) for a, b in zip(alone, without, strict=True)], axis=0))


def comprehensiveness(probe: Probe, attribution: ArrayLike, shares: Sequence[float] = SHARES) -> Floats:
    """p_c(x) - p_c(x without its top cells), (N, S): how much the model misses them. Higher is better."""
    return _falls(probe, (probe.answer(~top) for top in top_cells(probe, attribution, shares)))


def sufficiency(probe: Probe, attribution: ArrayLike, shares: Sequence[float] = SHARES) -> Floats:
    """p_c(x) - p_c(the top cells alone), (N, S): how much the top cells lack. Lower is better."""
    return _falls(probe, (probe.answer(top) for top in top_cells(probe, attribution, shares)))


def _falls(probe: Probe, views: Iterable[Floats]) -> Floats:
    """How much lower the probability of the class is than for the whole series, (N, S)."""
    whole = probe.own(probe.whole)
    return np.stack([whole - probe.own(view) for view in views], axis=1)


def area(curve: ArrayLike, shares: Sequence[float]) -> Floats:
    """The mean height of curves (N, S) over the shares: the trapezoids' area divided by the width, (N,).

    >>> area([[0.0, 1.0, 1.0]], (0.1, 0.2, 0.4))
    array([0.83333333])
    """
    values = np.asarray(curve, dtype=np.float64)
    if len(shares) == 1:
        return values[:, 0]
    width = np.diff(shares)
    return (values[:, 1:] + values[:, :-1]) @ width / (2 * width.sum())


def log_odds(probe: Probe, attribution: ArrayLike, share: float = LOG_ODDS_SHARE) -> Floats:
    """The fall log p_c(x without its top cells) - log p_c(x), (N,). Lower is better."""
    (top,) = top_cells(probe, attribution, (share,))
    return _log_fall(probe, probe.answer(~top))


def _log_fall(probe: Probe, view: Floats) -> Floats:
    tiny = np.finfo(np.float64).tiny
    left, whole = (np.log(np.maximum(probe.own(p), tiny)) for p in (view, probe.whole))
    return left - whole


def infidelity(probe: Probe, attribution: ArrayLike, share: float = HIDDEN, draws: int = 10, normalise: bool = True) -> Floats:
    """How badly attributions add up to the fall of the class's probability, (N,) (Yeh et al., 2019). Lower is better.

    The mean over draws of (b sum_h a - (p_c(x) - p_c(x without h)))^2, where h are random cells. Cells keep their sign.

    Args:
        probe: Model, series and fill.
        attribution: (N, T, D).
        share: Probability of a cell to be hidden.
        draws: Random sets of cells.
        normalise: Take the b of every sample that fits best, as attributions have no common unit. Otherwise b is 1.
    """
    a, seen = np.asarray(attribution, dtype=np.float64), probe.series.observed
    probe.places(a)  # compares the shapes
    rng = np.random.default_rng(probe.seed)
    hidden = [(rng.random(a.shape) < share) & seen for _ in range(draws)]
    total = np.stack([np.where(h, a, 0).sum(axis=(1, 2)) for h in hidden])  # (draws, N)
    fall = _falls(probe, (probe.answer(~h) for h in hidden)).T  # (draws, N)
    b = np.ones(len(a))
    if normalise:
        square = (total**2).mean(axis=0)
        b = np.divide((total * fall).mean(axis=0), square, out=np.zeros_like(square), where=square > 0)
    return np.asarray(((b * total - fall) ** 2).mean(axis=0))


# -------------------------------------------------------------------------------------------------- paths of hidden cells


def path(
    probe: Probe, attribution: ArrayLike, cells: int | float, steps: int | None = None, smallest_first: bool = False
) -> Iterator[Floats]:
    """Probabilities (N, C) along a path that hides more and more cells; the first are those of the whole series.

    Args:
        probe: Model, series and fill.
        attribution: (N, T, D).
        cells: How many cells the path hides in the end: a number, or a share as a float. At most those measured.
        steps: Steps of equal size; by default one cell each.
        smallest_first: Hide the cells of lowest |attribution| first.
    """
    place, n_seen = probe.places(attribution)
    total = np.maximum(np.round(cells * n_seen), 1) if isinstance(cells, float) else np.minimum(cells, n_seen)
    if total.min() < 1 or (total > n_seen).any():
        raise ValueError(f"Expected cells as a number of at least 1 or a share of at most 1.0, got {cells!r}.")
    if smallest_first:
        place = n_seen[:, None, None] - 1 - place
    n_steps = int(total.max()) if steps is None else steps
    yield probe.whole
    for k in range(1, n_steps + 1):
        count = np.minimum(k, total) if steps is None else np.round(k / steps * total)
        yield probe.answer(~((place >= 0) & (place < count[:, None, None])))


def aopc(probe: Probe, attribution: ArrayLike, cells: int | float = 0.2, steps: int = 10) -> Floats:
    """Area over the perturbation curve: the mean over k = 0..L of p_c(x) - p_c(x_k), largest first, (N,). Higher is better."""
    whole = probe.own(probe.whole)
    return np.mean([whole - probe.own(p) for p in path(probe, attribution, cells, steps)], axis=0)


def cpd(probe: Probe, attribution: ArrayLike, cells: int | float = CELLS, mean: bool = False, signed: bool = False) -> Floats:
    """Cumulative prediction difference, (N,): the sum over steps of ||F(x_k) - F(x_(k+1))||_1, largest first. Higher is better.

    By |attribution|, cells for and against the class alternate, and every turn adds to the sum. `signed` takes those that speak
    for the class most first: the sum then grows with one change of the prediction, where the signs are right.

    Args:
        probe: Model, series and fill.
        attribution: (N, T, D).
        cells: How many cells are replaced one by one: a number, or a share as a float.
        mean: Average over the classes, as the authors' code does, and not sum, as their equation does.
        signed: Order cells by their signed attribution; `Explanation.directed()` gives that of TimeX.
    """
    a = np.asarray(attribution, dtype=np.float64)
    if signed:
        a = a - a.min(axis=(1, 2), keepdims=True)  # the order of |.| is now that of the signed values
    return _changes(path(probe, a, cells), mean)


def cpp(probe: Probe, attribution: ArrayLike, cells: int | float = CELLS, mean: bool = False) -> Floats:
    """Cumulative prediction preservation, (N,): `cpd` with the smallest first. Lower is better."""
    return _changes(path(probe, attribution, cells, smallest_first=True), mean)


def _changes(probabilities: Iterator[Floats], mean: bool) -> Floats:
    before = next(probabilities)
    total = np.zeros(len(before))
    for after in probabilities:
        total += np.abs(after - before).sum(axis=1)
        before = after
    return total / before.shape[1] if mean else total


class DirectionEffect(NamedTuple):
    """Whether the signs of an attribution are right, by the model's evidence. Both are above 0 where they are.

    Attributes:
        fall: How far the evidence falls without the top cells that speak for the class, (N,).
        rise: How far it rises without the top cells that speak against it, (N,); NaN for samples without such cells.
    """

    fall: Floats
    rise: Floats


def direction_effect(probe: Probe, attribution: ArrayLike, share: float = 0.1) -> DirectionEffect:
    """What hiding only the positive, and only the negative, of the top cells does to the log-odds of the class.

    Args:
        probe: Model, series and fill.
        attribution: Signed, (N, T, D); `Explanation.directed()` gives that of TimeX.
        share: Share of the cells that count as top, by |attribution|.
    """
    (top,) = top_cells(probe, attribution, (share,))
    a = np.asarray(attribution)
    whole = probe.evidence(probe.whole)
    fall, rise = (sign * (whole - probe.evidence(probe.answer(~(top & (sign * a > 0))))) for sign in (1, -1))
    return DirectionEffect(fall, np.where((top & (a < 0)).any((1, 2)), rise, np.nan))


class Degradation(NamedTuple):
    """Simic et al. (2025): whether hiding relevant cells first hurts more than hiding irrelevant cells first.

    Attributes:
        dds: Decaying degradation score of every sample, (N,).
        pes: Share of samples with dds > 0 less the share with dds < 0.
        cmi: Harmonic mean of |mean dds| and |pes|; 0 where their signs differ.
    """

    dds: Floats
    pes: float
    cmi: float


def degradation(probe: Probe, attribution: ArrayLike, steps: int = 20) -> Degradation:
    """DDS, PES and CMI over a path of `steps` equal steps through all cells. Higher is better.

    DDS = sum_i w_i (l_i - m_i) / sum_(i >= 1) w_i with w_i = ((n - i) / n)^3, where m_i and l_i are the probability of the
    class after i steps, the most and the least relevant cells first.
    """
    if steps < 2:
        raise ValueError(f"Expected at least 2 steps, got {steps}: the last step has no weight.")
    most, least = (
        np.stack([probe.own(p) for p in path(probe, attribution, 1.0, steps, reverse)]) for reverse in (False, True)
    )  # (n + 1, N)
    weight = ((steps - np.arange(steps + 1)) / steps) ** 3
    dds = weight @ (least - most) / weight[1:].sum()
    pes = float((dds > 0).mean() - (dds < 0).mean())
    mean = float(dds.mean())
    return Degradation(dds, pes, 2 / (1 / abs(mean) + 1 / abs(pes)) if mean * pes > 0 else 0.0)


class InterpretTime(NamedTuple):
    """Turbe et al. (2023): areas under the normalised fall of the class's probability, top cells and bottom cells replaced.

    Attributes:
        top: AUCS~_top; higher is better.
        bottom: AUCS~_bottom; lower is better.
        f1: F1S~ of both.
    """

    top: float
    bottom: float
    f1: float


def interpret_time(probe: Probe, attribution: ArrayLike, quantiles: Sequence[float] = QUANTILES) -> InterpretTime:
    """AUCS~ and F1S~. Only cells with a >= 0 are replaced; the authors' fill is N(0, 1), which is `noise` on standardised data.

    S~ = (S(x) - S(x_k)) / S(x), mean over the samples, integrated over the mean share of cells replaced by Simpson's rule, from
    (0, 0), with the last value held to 1.
    """
    a = np.asarray(attribution, dtype=np.float64)
    seen = probe.series.observed
    positive = np.where((a >= 0) & seen, a, np.nan).reshape(len(a), -1)
    if np.isnan(positive).all(axis=1).any():
        raise ValueError("Expected at least one cell with an attribution >= 0 in every sample, got none in some.")
    curves = []
    for top in (True, False):
        shares, falls = [0.0], [0.0]
        for k in quantiles:
            edge = np.nanquantile(positive, 1 - k if top else k, axis=1)[:, None, None]
            replaced = (a >= 0) & seen & ((a >= edge) if top else (a <= edge))
            whole, left = probe.own(probe.whole), probe.own(probe.answer(~replaced))
            shares.append(float((replaced.sum((1, 2)) / seen.sum((1, 2))).mean()))
            falls.append(float(((whole - left) / whole).mean()))
        curves.append(_held_area(shares, falls))
    t, b = curves
    return InterpretTime(t, b, t * (1 - b) / (t + 1 - b) if t + 1 - b else 0.0)


def _held_area(shares: Sequence[float], values: Sequence[float]) -> float:
    """Simpson's integral from 0 to 1; of equal shares the last counts, and the last value is held to 1."""
    from scipy.integrate import simpson

    points = dict(zip([*shares, 1.0], [*values, values[-1]], strict=True))
    return float(simpson(list(points.values()), x=list(points)))
