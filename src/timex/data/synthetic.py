"""The synthetic data sets: five with the paper's recipe (its Appendix, made exact in docs/data.md), and EqualShapes.

Every recipe is a function `(rng, n) -> Series` that draws `n` samples, vectorised over the samples. A `Recipe` turns it into a
data set. Each part has a separate random stream, keyed by (data set, seed, fold, part), so that no part depends on the
size of another and folds are independent draws. Values are computed in float64 and rounded to float32 once, at the end.

Shapes: N samples, T time steps, D sensors, S segments written into the series, L their length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from timex.records import Dataset, Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SIZES = (5000, 100, 1000)  # train, validation, test, as in the paper
PARTS = ("train", "val", "test", "check")  # the place in this tuple is part of the stream's key: append, never reorder


@dataclass(frozen=True)
class Recipe:
    """A synthetic data set: call it for the data set, or take one part from `part`.

    Attributes:
        name: The registry key.
        stream: The number of this data set in the key of its random streams; never reused, never changed.
        draw: Draws n samples from a generator.
        classes: Class names, in the order of the labels.
        n_sensors: D.
        sizes: Samples of train, validation and test.

    >>> freqshapes(seed=0, fold=1, sizes=(8, 4, 4)).train.x.shape
    (8, 50, 1)
    """

    name: str
    stream: int
    draw: Callable[[Generator, int], Series]
    classes: tuple[str, ...]
    n_sensors: int
    sizes: tuple[int, int, int] = SIZES

    def __call__(self, seed: int = 0, fold: int = 0, sizes: tuple[int, int, int] | None = None) -> Dataset:
        """Draw fold `fold` of the data set; folds and seeds are independent draws.

        Args:
            seed: Seed of the whole data set.
            fold: Number of the draw.
            sizes: Samples in train, validation and test, by default those of the recipe; no part depends on the size of
                another.
        """
        train, val, test = (self.part(part, seed, fold, n) for part, n in zip(PARTS[:3], sizes or self.sizes, strict=True))
        sensors = tuple(f"sensor {k}" for k in range(self.n_sensors))
        return Dataset.named(self.name, train, val, test, sensors, self.classes, fold=fold, seed=seed)

    def part(self, part: str, seed: int, fold: int, n: int) -> Series:
        """Draw `n` samples of one part, one of `PARTS`."""
        return self.draw(self.generator(part, seed, fold), n)

    def generator(self, part: str, seed: int, fold: int) -> Generator:
        """The random stream of one part."""
        for name, value in {"seed": seed, "fold": fold}.items():
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
                raise ValueError(f"Expected {name} as a whole number 0, 1, 2, ..., got {value!r}.")
        return Generator(PCG64(SeedSequence([self.stream, int(seed), int(fold), PARTS.index(part)])))


def check_part(name: str, fold: int = 0, seed: int = 0, n: int = 1000) -> Series:
    """Samples that are in no part of the data set, to decide whether a reference model is good enough to be explained.

    Args:
        name: A key of `SYNTHETIC`.
        fold: The fold the model was trained on.
        seed: The seed of that fold.
        n: Samples to draw.
    """
    if name not in SYNTHETIC:
        raise ValueError(f"Expected one of the synthetic data sets {', '.join(SYNTHETIC)}, got {name!r}.")
    return SYNTHETIC[name].part("check", seed, fold, n)


# -------------------------------------------------------------------------------------------------------- the recipes


def draw_freqshapes(rng: Generator, n: int) -> Series:
    """FreqShapes: spikes of width 3, downward or upward by class, every 10 or 17 steps by class, in N(0, .25) noise."""
    n_steps = 50
    y = balanced_labels(rng, n, 4)
    sign = np.array([-1.0, 1.0, -1.0, 1.0])[y]
    period = np.array([10, 10, 17, 17])[y]
    first = rng.integers(0, n_steps - period)  # (N,) the first centre
    truth, spikes = spike_train(n_steps, first, period)  # (N, T)
    x = sign[:, None] * spikes + rng.normal(0, 0.25, (n, n_steps))  # the noise lies over the spikes too
    return Series(x[:, :, None], y=y, truth=truth[:, :, None])


def draw_seqcomb_uv(rng: Generator, n: int) -> Series:
    """SeqComb-UV: two ramps of 10 to 19 steps in one sensor of NARMA noise; their directions decide the class."""
    x, y, truth = seqcomb(rng, n, n_sensors=1, lengths=(10, 19), sine_rate=10)
    return Series(x, y=y, truth=truth)


def draw_seqcomb_mv(rng: Generator, n: int) -> Series:
    """SeqComb-MV: two ramps of 15 to 29 steps in two of four sensors; their directions decide the class."""
    x, y, truth = seqcomb(rng, n, n_sensors=4, lengths=(15, 29), sine_rate=5)
    return Series(x, y=y, truth=truth)


def draw_seqcomb_mv_irregular(rng: Generator, n: int) -> Series:
    """Irregular SeqComb-MV: every step is dropped with probability .15; the remaining steps are moved together and padded."""
    whole = draw_seqcomb_mv(rng, n)
    return drop_steps(whole, keep=rng.random(whole.times.shape) >= 0.15)


def draw_lowvar(rng: Generator, n: int) -> Series:
    """LowVar: one segment of 10 to 19 steps has little variance; its sensor and the sign of its mean decide the class."""
    n_steps, n_sensors = 200, 2
    y = balanced_labels(rng, n, 4)
    x = narma(rng, n, n_steps, n_sensors) + rng.normal(0, 1, (n, n_steps, n_sensors))
    start, length = rng.integers(20, n_steps - 40, n), rng.integers(10, 20, n)
    sample, offset = segment_cells(length)
    cells = (sample, start[sample] + offset, (y // 2)[sample])
    x[cells] = np.array([-1.5, 1.5])[y % 2][sample] + rng.normal(0, 0.1, len(sample))
    return Series(x, y=y, truth=marked(x.shape, cells))


def draw_equalshapes(rng: Generator, n: int) -> Series:
    """EqualShapes: a motif of rising teeth, whose number decides the class, among nine of falling teeth; all of equal values.

    The cells between the motifs are drawn from the same values. So the amplitude of a cell does not reveal the deciding
    motif, and among the motifs no statistic does that ignores the direction of time.
    """
    n_steps, n_sensors, n_motifs, gap = 100, 2, 5, 2
    shapes = sawteeth()  # (4, L)
    library = np.concatenate([shapes, shapes[:, ::-1]])  # (8, L) the last four are the distractors
    y = balanced_labels(rng, n, len(shapes))

    kind = rng.integers(len(shapes), len(library), (n, n_sensors * n_motifs))  # (N, S) distractors everywhere ...
    decider = rng.integers(0, kind.shape[1], n)
    kind[np.arange(n), decider] = y  # ... but in one place
    start = spread(rng, n * n_sensors, n_steps, n_motifs, shapes.shape[1], gap).reshape(n, -1)  # (N, S)

    sample, segment, offset = np.indices((*kind.shape, shapes.shape[1]))  # each (N, S, L)
    cells = (sample, start[:, :, None] + offset, segment // n_motifs)
    x = rng.choice(shapes[0], (n, n_steps, n_sensors))
    x[cells] = library[kind]
    x += rng.normal(0, 0.1, x.shape)
    truth = marked(x.shape, tuple(index[np.arange(n), decider] for index in cells))
    return Series(x, y=y, truth=truth)


# ---------------------------------------------------------------------------------------------- what they are made of


def balanced_labels(rng: Generator, n: int, n_classes: int) -> Ints:
    """Labels of n samples, every class equally often (up to one sample), in random order, (N,)."""
    return rng.permutation(np.arange(n) % n_classes)


def narma(rng: Generator, n: int, n_steps: int, n_sensors: int) -> Floats:
    """NARMA noise of order 2 as the paper's generator made it, (N, T, D).

    y_k = .3 y_(k-1) + .05 y_(k-1) * S + 1.5 u_(k-2) u_k + .1 with u ~ U(0, .5) and y = 0 before the start. S, the sum of the
    last two values, is lost after the first two steps: at step 0 it is 0, at step 1 it is y_0, and from then on 0 again.
    """
    u = rng.uniform(0, 0.5, (n, n_steps + 2, n_sensors))  # u_(k-2) at k: two values are drawn before the start
    x = 1.5 * u[:, :-2] * u[:, 2:] + 0.1  # (N, T, D)
    x[:, 1] += 0.05 * x[:, 0] * x[:, 0]
    for k in range(1, n_steps):
        x[:, k] += 0.3 * x[:, k - 1]
    return x


def spike_train(n_steps: int, first: Ints, period: Ints) -> tuple[Bools, Floats]:
    """Cells and values of upward spikes (1.75, 2, 1.75) centred at first, first + period, ..., both (N, T).

    A spike that would reach over either end is left out.
    """
    since = np.arange(n_steps) - first[:, None] + 1  # (N, T) steps since the first cell of the first spike
    count, offset = np.divmod(since, period[:, None])
    centre = first[:, None] + count * period[:, None]
    cells = (count >= 0) & (offset < 3) & (centre >= 1) & (centre <= n_steps - 2)
    return cells, np.where(cells, np.array([1.75, 2.0, 1.75])[np.minimum(offset, 2)], 0.0)


SEQCOMB_DIRECTIONS = np.array([[0, 0], [-1, -1], [1, 1], [1, -1]])  # of the first and the second ramp, by class


def seqcomb(rng: Generator, n: int, n_sensors: int, lengths: tuple[int, int], sine_rate: float) -> tuple[Floats, Ints, Bools]:
    """The series x (N, T, D), labels and truth of a SeqComb data set.

    Args:
        rng: Where randomness comes from.
        n: N.
        n_sensors: D; with more than one, the two ramps are on different sensors.
        lengths: The shortest and the longest ramp.
        sine_rate: Mean of the Poisson variable a in the ramp's sin(a g).
    """
    n_steps = 200
    y = balanced_labels(rng, n, len(SEQCOMB_DIRECTIONS))
    x = narma(rng, n, n_steps, n_sensors) + rng.normal(0, 0.01, (n, n_steps, n_sensors))
    start, length = two_segments(rng, n, n_steps, lengths)  # (N, 2)
    sensor = rng.permuted(np.tile(np.arange(max(n_sensors, 2)), (n, 1)), axis=1)[:, :2] % n_sensors  # (N, 2)
    rate = rng.poisson(sine_rate, (n, 2))
    span = 5 * np.abs(x.min(axis=(1, 2))) + 5 * np.abs(x.max(axis=(1, 2)))  # (N,) before anything is written

    written = np.repeat(y > 0, 2)  # (2N,) class 0 stays bare
    segment, offset = segment_cells(np.where(written, length.ravel(), 0))
    sample = segment // 2
    direction = SEQCOMB_DIRECTIONS[y].ravel()[segment]
    cells = (sample, start.ravel()[segment] + offset, sensor.ravel()[segment])
    x[cells] = ramp(offset, length.ravel()[segment], direction * span[sample], rate.ravel()[segment])
    return x, y, marked(x.shape, cells)


def two_segments(rng: Generator, n: int, n_steps: int, lengths: tuple[int, int]) -> tuple[Ints, Ints]:
    """Starts and lengths of two segments per sample, each (N, 2): the first starts in [0, T/2), the second after its end."""
    length = rng.integers(lengths[0], lengths[1] + 1, (n, 2))
    first = rng.integers(0, n_steps // 2, n)
    second = rng.integers(first + length[:, 0], n_steps - length[:, 1] + 1)
    return np.stack([first, second], axis=1), length


def segment_cells(length: Ints) -> tuple[Ints, Ints]:
    """For every cell of segments of the given lengths: the segment's number and the place in the segment.

    >>> segment_cells(np.array([2, 0, 3]))
    (array([0, 0, 2, 2, 2]), array([0, 1, 0, 1, 2]))
    """
    segment = np.repeat(np.arange(len(length)), length)
    return segment, np.arange(len(segment)) - (np.cumsum(length) - length)[segment]


def ramp(offset: Ints, length: Ints, span: Floats, rate: Ints) -> Floats:
    """Cells of straight lines over `length` steps that rise by `span` (fall, if negative) around 0, plus sin(rate * g).

    g is the centred integer grid. A line between two values less its own mean is slope * (offset - middle), whichever way
    it runs, so that no mean has to be taken.
    """
    return span / (length - 1) * (offset - (length - 1) / 2) + sine(rate * (offset - length // 2))


def sine(k: Ints) -> Floats:
    """sin(k) from a table made with the C library: numpy's vectorised sine depends on the processor in the last bit."""
    table = np.array([math.sin(i) for i in range(int(np.abs(k).max(initial=0)) + 1)])
    return np.sign(k) * table[np.abs(k)]


def sawteeth() -> Floats:
    """The four motifs that decide a class of EqualShapes, (4, L): the same twelve values as 2, 3, 4 or 5 rising teeth.

    Stepping through 1..12 by s modulo the prime 13 meets every value once, whatever s is, and wraps around s - 1 times. The
    mirror image in time has as many falling teeth.
    """
    values = np.linspace(-1.5, 1.5, 12)
    return values[np.outer([2, 3, 4, 5], np.arange(1, 13)) % 13 - 1]


def spread(rng: Generator, n: int, n_steps: int, count: int, length: int, gap: int) -> Ints:
    """Starts of `count` segments of one length per row, at least `gap` apart, all such choices equally likely, (N, count)."""
    free = n_steps - count * length - (count - 1) * gap
    places = rng.permuted(np.tile(np.arange(free + count), (n, 1)), axis=1)[:, :count]  # stars and bars
    return np.sort(places, axis=1) + np.arange(count) * (length + gap - 1)


def drop_steps(series: Series, keep: Bools) -> Series:
    """Leave out the steps that are not in `keep` (N, T): the remaining steps move to the left and keep their times."""
    order = np.argsort(~keep, axis=1, kind="stable")  # kept steps first, in order
    kept = np.take_along_axis(keep, order, axis=1)  # (N, T)
    observed = np.broadcast_to(kept[:, :, None], series.shape)

    def moved(cells: NDArray[Any]) -> NDArray[Any]:
        return np.where(observed, np.take_along_axis(cells, order[:, :, None], axis=1), 0)

    times = np.where(kept, np.take_along_axis(series.times, order, axis=1), 0)
    truth = None if series.truth is None else moved(series.truth)
    return Series(moved(series.x), times, observed, series.y, truth)


def marked(shape: tuple[int, ...], cells: tuple[Ints, ...]) -> Bools:
    """True at `cells`, False elsewhere."""
    truth = np.zeros(shape, dtype=bool)
    truth[cells] = True
    return truth


# ------------------------------------------------------------------------------------------------------ the data sets

SPIKE_CLASSES = ("down every 10", "up every 10", "down every 17", "up every 17")
RAMP_CLASSES = ("no ramp", "falling, falling", "rising, rising", "rising, falling")
LOWVAR_CLASSES = ("low on sensor 0", "high on sensor 0", "low on sensor 1", "high on sensor 1")
MOTIF_CLASSES = ("2 rising teeth", "3 rising teeth", "4 rising teeth", "5 rising teeth")

freqshapes = Recipe("freqshapes", 1, draw_freqshapes, SPIKE_CLASSES, 1)
seqcomb_uv = Recipe("seqcomb_uv", 2, draw_seqcomb_uv, RAMP_CLASSES, 1)
seqcomb_mv = Recipe("seqcomb_mv", 3, draw_seqcomb_mv, RAMP_CLASSES, 4)
lowvar = Recipe("lowvar", 4, draw_lowvar, LOWVAR_CLASSES, 2)
seqcomb_mv_irregular = Recipe("seqcomb_mv_irregular", 5, draw_seqcomb_mv_irregular, RAMP_CLASSES, 4)
equalshapes = Recipe("equalshapes", 6, draw_equalshapes, MOTIF_CLASSES, 2)

SYNTHETIC: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (freqshapes, seqcomb_uv, seqcomb_mv, lowvar, seqcomb_mv_irregular, equalshapes)
}
