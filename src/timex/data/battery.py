"""The battery: small sets on which explainers are compared, each with the architecture of the model that is explained.

The sets of `GUIDE` may guide choices of settings. Those of `FINAL` are run once, after every choice was made.

Every draw is a function `(rng, n) -> Series`. A cell counts as deciding (`truth`) if the recipe wrote the class there.

Shapes: N samples, T time steps, D sensors, L steps of a motif.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from timex.data.synthetic import Bools, Floats, Ints, Recipe, balanced_labels, marked, narma
from timex.records import Series

SIGN = np.array([-1.0, 1.0])
"""Down for class 0, up for class 1."""


@dataclass(frozen=True)
class HeldOut(Recipe):
    """A set of the battery.

    Attributes:
        arch: Architecture of the model that the benchmark explains.
    """

    sizes: tuple[int, int, int] = (3000, 200, 400)
    arch: str = "cnn"


# ---------------------------------------------------------------------------------------------- what they are made of


def written(x: Floats, start: Ints, sensor: Ints, values: Floats) -> Bools:
    """Add `values` (N, L) to x in place, from `start` (N,) on, on one sensor (N,) of every sample; the changed cells."""
    n, length = values.shape
    cells = (np.arange(n)[:, None], start[:, None] + np.arange(length), np.broadcast_to(sensor[:, None], (n, length)))
    x[cells] += values
    return marked(x.shape, cells)


def smooth(rng: Generator, n: int, n_steps: int, n_sensors: int, width: int) -> Floats:
    """Noise filtered by a Gaussian with a standard deviation of `width` steps, scaled to a variance of 1, (N, T, D)."""
    from scipy.ndimage import gaussian_filter1d

    edge = 4 * width
    x = gaussian_filter1d(rng.normal(size=(n, n_steps + 2 * edge, n_sensors)), width, axis=1)[:, edge:-edge]
    return x / x.std()


def autoregressive(rng: Generator, shape: tuple[int, int, int], memory: float, scale: float) -> Floats:
    """x_t = memory * x_(t-1) + N(0, scale), (N, T, D)."""
    x = rng.normal(0, scale, shape)
    for t in range(1, shape[1]):
        x[:, t] += memory * x[:, t - 1]
    return x


def places(rng: Generator, n: int, first: int, last: int, step: int, count: int) -> Ints:
    """`count` different places of first, first + step, ... before `last`, in order, (N, count)."""
    grid = np.tile(np.arange(first, last, step), (n, 1))
    return np.sort(rng.permuted(grid, axis=1)[:, :count], axis=1)


def bump(width: float, reach: int) -> Floats:
    """A Gaussian of height 1 over 2 * reach + 1 steps."""
    return np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)


def packet(length: int, period: Floats, phase: Floats) -> Floats:
    """Sines of the given periods and phases under a Hann window, (N, length)."""
    return np.hanning(length) * np.sin(2 * np.pi * np.arange(length) / period[:, None] + phase[:, None])


def on_first(n: int) -> Ints:
    """Sensor 0 for every sample."""
    return np.zeros(n, dtype=np.int64)


# ------------------------------------------------------------------------------------------------- sets that may guide


def draw_ramps(rng: Generator, n: int) -> Series:
    """A ramp of 16 steps in the place of a smooth signal, rising or falling by class; the third class has none."""
    y, x = balanced_labels(rng, n, 3), smooth(rng, n, 200, 1, 10)
    start, direction = rng.integers(5, 175, n), np.array([1, -1, 0])[y]
    cells = (np.arange(n)[:, None], start[:, None] + np.arange(16), 0)
    ramp = np.where(direction[:, None] == 0, 0, direction[:, None] * np.linspace(-2, 2, 16) - x[cells])
    truth = written(x, start, on_first(n), ramp)
    return Series(x, y=y, truth=truth & (direction != 0)[:, None, None])


def draw_levels(rng: Generator, n: int) -> Series:
    """A step up of 12 steps on one of three autoregressive signals; its sensor is the class."""
    y, x = balanced_labels(rng, n, 3), autoregressive(rng, (n, 100, 3), 0.8, 0.3)
    return Series(x, y=y, truth=written(x, rng.integers(5, 80, n), y, np.full((n, 12), 1.5)))


def draw_variances(rng: Generator, n: int) -> Series:
    """A stretch of 12 steps in which one of three NARMA signals varies more; its sensor is the class."""
    y, x = balanced_labels(rng, n, 3), narma(rng, n, 120, 3) + rng.normal(0, 0.5, (n, 120, 3))
    return Series(x, y=y, truth=written(x, rng.integers(10, 100, n), y, rng.normal(0, 2, (n, 12))))


def draw_orders(rng: Generator, n: int) -> Series:
    """A peak and a trough of 5 steps in NARMA noise; which comes first is the class, though either alone decides it."""
    y, x = balanced_labels(rng, n, 2), narma(rng, n, 100, 1) + rng.normal(0, 0.3, (n, 100, 1))
    first, second = rng.integers(4, 40, n), rng.integers(50, 92, n)
    peak = -SIGN[y][:, None] * np.array([1.2, 2, 2.4, 2, 1.2])
    return Series(x, y=y, truth=written(x, first, on_first(n), peak) | written(x, second, on_first(n), -peak))


def draw_chirps(rng: Generator, n: int) -> Series:
    """A chirp among four pure tones of the same energy; its pitch falls or rises by class."""
    count, length, slot = 5, 32, 40
    y, x, truth = balanced_labels(rng, n, 2), rng.normal(0, 0.2, (n, count * slot, 1)), np.zeros((n, count * slot, 1), bool)
    chosen, g = rng.integers(0, count, n), np.arange(length)
    low, high = np.array([1 / 4, 1 / 12])[y, None], np.array([1 / 12, 1 / 4])[y, None]
    for k in range(count):
        tone = rng.uniform(1 / 12, 1 / 4, (n, 1)) * g
        turns = np.where(chosen[:, None] == k, low * g + (high - low) * g**2 / (2 * length), tone)
        wave = np.hanning(length) * np.sin(2 * np.pi * (turns + rng.random((n, 1))))
        wave *= 3 / np.linalg.norm(wave, axis=1, keepdims=True)
        cells = written(x, k * slot + rng.integers(0, slot - length + 1, n), on_first(n), wave)
        truth |= cells & (chosen == k)[:, None, None]
    return Series(x, y=y, truth=truth)


def draw_bumps_among(rng: Generator, n: int, n_sensors: int) -> Series:
    """A bump of 9 steps at a random place on the second or the last but one sensor; sensor and sign are the class."""
    y, x = balanced_labels(rng, n, 4), autoregressive(rng, (n, 80, n_sensors), 0.6, 0.5)
    sensor = np.array([1, n_sensors - 2])[y // 2]
    return Series(x, y=y, truth=written(x, rng.integers(2, 68, n), sensor, 2.5 * SIGN[y % 2][:, None] * bump(2, 4)))


def draw_stuck(rng: Generator, n: int) -> Series:
    """One of three noisy sensors stands still near its mean for 20 steps; which sensor is the class."""
    y, x = balanced_labels(rng, n, 3), rng.normal(0, 1, (n, 120, 3))
    for t in range(1, 120):
        x[:, t] = 0.5 * x[:, t - 1] + 0.87 * x[:, t]
    cells = (np.arange(n)[:, None], rng.integers(5, 95, n)[:, None] + np.arange(20), y[:, None])
    x[cells] = rng.normal(0, 0.1, (n, 1)) + rng.normal(0, 0.02, (n, 20))
    return Series(x, y=y, truth=marked(x.shape, cells))


def draw_last(rng: Generator, n: int) -> Series:
    """Four pulses of either sign; the sign of the last one alone is the class."""
    y, x = balanced_labels(rng, n, 2), rng.normal(0, 0.3, (n, 100, 1))
    start = places(rng, n, 4, 92, 8, 4)
    signs = np.concatenate([rng.choice(SIGN, (n, 3)), SIGN[y][:, None]], axis=1)
    pulses = [written(x, start[:, k], on_first(n), signs[:, k, None] * np.array([1, 2, 2.5, 2, 1])) for k in range(4)]
    return Series(x, y=y, truth=pulses[-1])


def draw_relations(rng: Generator, n: int) -> Series:
    """For 16 steps the second of two noises is the first, or the first upside down: no cell decides alone."""
    y, x = balanced_labels(rng, n, 2), rng.normal(0, 1, (n, 80, 2))
    sample, steps = np.arange(n)[:, None], rng.integers(4, 60, n)[:, None] + np.arange(16)
    x[sample, steps, 1] = -SIGN[y][:, None] * x[sample, steps, 0]
    truth = np.zeros(x.shape, dtype=bool)
    truth[sample, steps] = True
    return Series(x, y=y, truth=truth)


def draw_bursts(rng: Generator, n: int) -> Series:
    """A burst of 32 steps on a slow sine; its period, 6, 10 or 16 steps, is the class."""
    y, phase = balanced_labels(rng, n, 3), rng.uniform(0, 2 * np.pi, (2, n))
    slow = 2 * np.pi * np.arange(200) / rng.uniform(40, 80, (n, 1)) + phase[0][:, None]
    x = np.sin(slow)[:, :, None]
    burst = packet(32, np.array([6.0, 10.0, 16.0])[y], phase[1])
    return Series(x, y=y, truth=written(x, rng.integers(10, 155, n), on_first(n), burst))


def draw_spikes(rng: Generator, n: int) -> Series:
    """Three spikes of 3 steps on a smooth signal; which of them point up is the class."""
    y, x = balanced_labels(rng, n, 3), smooth(rng, n, 200, 1, 10)
    start = places(rng, n, 4, 196, 8, 3) - 1
    signs = np.array([[1, 1, 1], [-1, -1, -1], [1, -1, 1]])[y]
    spikes = [written(x, start[:, k], on_first(n), signs[:, k, None] * np.array([1.75, 2, 1.75])) for k in range(3)]
    return Series(x, y=y, truth=np.any(spikes, axis=0))


def draw_triangles(rng: Generator, n: int) -> Series:
    """A triangle of 7 steps on one of two noises, down or up by class."""
    y, x = balanced_labels(rng, n, 2), rng.normal(0, 0.5, (n, 60, 2))
    triangle = SIGN[y][:, None] * np.array([0.5, 1, 1.5, 2, 1.5, 1, 0.5])
    return Series(x, y=y, truth=written(x, rng.integers(2, 50, n), rng.integers(0, 2, n), triangle))


def draw_runs(rng: Generator, n: int) -> Series:
    """Blocks of the same ten values in random order on two sensors; one block falls or rises by class. Size decides nothing."""
    values, n_blocks = np.linspace(-1.5, 1.5, 10), 9
    y, sample = balanced_labels(rng, n, 2), np.arange(n)
    blocks = rng.permuted(np.tile(values, (n, 2, n_blocks, 1)), axis=-1)  # (N, D, blocks, L)
    sensor, block = rng.integers(0, 2, n), rng.integers(1, n_blocks - 1, n)
    blocks[sample, sensor, block] = SIGN[y][:, None] * values
    decides = np.zeros(blocks.shape, dtype=bool)
    decides[sample, sensor, block] = True
    window = rng.integers(0, 11, n)[:, None] + np.arange(80)  # blocks begin at any step
    cells = (sample[:, None], slice(None), window)
    x, truth = (v.reshape(n, 2, -1)[cells] for v in (blocks, decides))  # (N, T, D)
    return Series(x + rng.normal(0, 0.1, x.shape), y=y, truth=truth)


def draw_echoes(rng: Generator, n: int) -> Series:
    """Three equal pulses of 5 steps on either of two sensors, down or up by class: any one of them is enough."""
    y, x = balanced_labels(rng, n, 2), autoregressive(rng, (n, 120, 2), 0.5, 0.35)
    start, sensor = places(rng, n, 4, 112, 8, 3), rng.integers(0, 2, (n, 3))
    pulse = SIGN[y][:, None] * np.array([1, 2, 2.4, 2, 1])
    return Series(x, y=y, truth=np.any([written(x, start[:, k], sensor[:, k], pulse) for k in range(3)], axis=0))


# ------------------------------------------------------------------------------------------------- sets of the last run


def draw_bumps(rng: Generator, n: int) -> Series:
    """A bump of 11 steps on one of two smooth signals; its sensor and sign are the class."""
    y, x = balanced_labels(rng, n, 4), smooth(rng, n, 150, 2, 8)
    return Series(x, y=y, truth=written(x, rng.integers(10, 130, n), y // 2, 2 * SIGN[y % 2][:, None] * bump(3, 5)))


def draw_trends(rng: Generator, n: int) -> Series:
    """One of four NARMA signals goes down by 2 and back, or up and back, within 25 steps; the direction is the class."""
    y, x = balanced_labels(rng, n, 2), narma(rng, n, 150, 4) + rng.normal(0, 0.3, (n, 150, 4))
    trend = 2 * np.concatenate([np.linspace(0.1, 1, 12), np.linspace(1, 0.1, 13)])
    return Series(x, y=y, truth=written(x, rng.integers(5, 120, n), rng.integers(0, 4, n), SIGN[y][:, None] * trend))


def draw_long(rng: Generator, n: int) -> Series:
    """A wave packet of 64 steps in 2,000 steps of noise; its period, 6 or 12 steps, is the class."""
    y, x = balanced_labels(rng, n, 2), autoregressive(rng, (n, 2000, 1), 0.5, 0.3)
    wave = 2 * packet(64, np.array([6.0, 12.0])[y], rng.uniform(0, 2 * np.pi, n))
    return Series(x, y=y, truth=written(x, rng.integers(10, 1920, n), on_first(n), wave))


def draw_gaps(rng: Generator, n: int) -> Series:
    """A bump on one of two of three sensors, at irregular times; a fifth of the cells is missing. Sensor and sign decide."""
    y, x = balanced_labels(rng, n, 4), rng.normal(0, 0.5, (n, 80, 3))
    times = np.cumsum(rng.uniform(0.5, 1.5, (n, 80)), axis=1)
    since = times - rng.uniform(8, 60, (n, 1))  # (N, T) time since the middle of the bump
    sample, sensor = np.arange(n), np.array([0, 2])[y // 2]
    x[sample, :, sensor] += 2.5 * SIGN[y % 2][:, None] * np.exp(-0.5 * (since / 2) ** 2)
    observed = rng.random(x.shape) >= 0.2
    truth = np.zeros(x.shape, dtype=bool)
    truth[sample, :, sensor] = np.abs(since) <= 4
    return Series(x, times, observed, y, truth & observed)


def draw_flatline(rng: Generator, n: int) -> Series:
    """Three sensors with a beat of 7 steps every 12 to 15 steps; on one of them a beat is missing: its sensor is the class."""
    y, t = balanced_labels(rng, n, 3), np.arange(120)[None, :, None]
    period = rng.integers(12, 16, (n, 1, 3))
    beat, since = np.divmod(t - rng.integers(0, period), period)  # (N, T, D)
    within = since < 7
    missing = (beat == rng.integers(1, 6, (n, 1, 1))) & (np.arange(3) == y[:, None, None]) & within
    shape = np.array([0.4, 1.2, 2, 2.4, 2, 1.2, 0.4])[np.minimum(since, 6)]
    x = rng.normal(0, 0.2, since.shape) + np.where(within & ~missing, shape, 0)
    return Series(x, y=y, truth=missing)


def draw_pairs(rng: Generator, n: int) -> Series:
    """Two bumps of 7 steps on two of four noisy sensors: both down, both up, or the first up and the second down."""
    y, x = balanced_labels(rng, n, 3), autoregressive(rng, (n, 120, 4), 0.4, 0.45)
    start, sensors = places(rng, n, 4, 112, 10, 2), rng.permuted(np.tile(np.arange(4), (n, 1)), axis=1)
    signs = np.array([[-1, -1], [1, 1], [1, -1]])[y]
    bumps = [written(x, start[:, k], sensors[:, k], 2.5 * signs[:, k, None] * bump(1.5, 3)) for k in range(2)]
    return Series(x, y=y, truth=np.any(bumps, axis=0))


def draw_tempos(rng: Generator, n: int) -> Series:
    """Two noisy sines of period 12; for 36 steps one of them has the period 6 or 24 by class. Size decides nothing."""
    y, x = balanced_labels(rng, n, 2), rng.normal(0, 0.2, (n, 150, 2))
    start, sensor, step = rng.integers(8, 104, n), rng.integers(0, 2, n), np.arange(150)[None, :, None]
    inside = (step >= start[:, None, None]) & (step < start[:, None, None] + 36) & (np.arange(2) == sensor[:, None, None])
    period = np.where(inside, np.array([6.0, 24.0])[y, None, None], 12.0)
    turns = rng.random((n, 1, 2)) + np.cumsum(1 / period, axis=1)  # the phase never jumps
    return Series(x + np.sin(2 * np.pi * turns), y=y, truth=inside)


def draw_ringing(rng: Generator, n: int) -> Series:
    """A sine that begins with a jump and fades within 30 steps of noise; its period, 5, 8 or 12 steps, is the class."""
    y, x, g = balanced_labels(rng, n, 3), rng.normal(0, 0.3, (n, 120, 1)), np.arange(30)
    wave = 2 * np.exp(-g / 15) * np.cos(2 * np.pi * g / np.array([5.0, 8.0, 12.0])[y, None])
    return Series(x, y=y, truth=written(x, rng.integers(5, 85, n), on_first(n), wave))


def draw_plateaus(rng: Generator, n: int) -> Series:
    """A shift of 24 steps on one of three smooth signals, down or up by class, with edges of 4 steps."""
    y, x = balanced_labels(rng, n, 2), smooth(rng, n, 160, 3, 6)
    shape = np.concatenate([np.linspace(0.2, 0.8, 4), np.ones(16), np.linspace(0.8, 0.2, 4)])
    return Series(x, y=y, truth=written(x, rng.integers(5, 130, n), rng.integers(0, 3, n), 2 * SIGN[y][:, None] * shape))


# ------------------------------------------------------------------------------------------------------- the two halves

RESIDUAL = "transformer_residual"
DOWN_UP = ("down", "up")
THREE_SENSORS = ("sensor 0", "sensor 1", "sensor 2")
TWO_BY_SIGN = ("down on the first", "up on the first", "down on the second", "up on the second")


def _named(*sets: HeldOut) -> dict[str, HeldOut]:
    return {s.name: s for s in sets}


def _among(stream: int, n_sensors: int, arch: str) -> HeldOut:
    draw = partial(draw_bumps_among, n_sensors=n_sensors)
    return HeldOut(f"heldout_bumps{n_sensors}", stream, draw, TWO_BY_SIGN, n_sensors, arch=arch)


GUIDE = _named(
    HeldOut("heldout_ramps", 101, draw_ramps, ("rising", "falling", "no ramp"), 1),
    HeldOut("heldout_levels", 102, draw_levels, THREE_SENSORS, 3),
    HeldOut("heldout_variances", 103, draw_variances, THREE_SENSORS, 3, arch=RESIDUAL),
    HeldOut("heldout_orders", 104, draw_orders, ("peak first", "trough first"), 1, arch=RESIDUAL),
    HeldOut("heldout_chirps", 105, draw_chirps, ("falling", "rising"), 1),
    _among(106, 10, "cnn"),
    _among(107, 16, RESIDUAL),
    HeldOut("heldout_stuck", 108, draw_stuck, THREE_SENSORS, 3),
    HeldOut("heldout_last", 109, draw_last, DOWN_UP, 1, arch="lstm"),
    HeldOut("heldout_relations", 110, draw_relations, ("equal", "opposite"), 2),
    HeldOut("heldout_bursts", 112, draw_bursts, ("period 6", "period 10", "period 16"), 1),
    HeldOut("heldout_spikes", 113, draw_spikes, ("up, up, up", "down, down, down", "up, down, up"), 1),
    HeldOut("heldout_triangles", 114, draw_triangles, DOWN_UP, 2, arch="lstm"),
    HeldOut("heldout_runs", 121, draw_runs, ("falling", "rising"), 2, arch="lstm"),
    HeldOut("heldout_echoes", 122, draw_echoes, DOWN_UP, 2, arch=RESIDUAL),
)
"""Sets on which settings may be chosen."""
FINAL = _named(
    HeldOut("heldout_bumps", 111, draw_bumps, TWO_BY_SIGN, 2),
    HeldOut("heldout_trends", 115, draw_trends, DOWN_UP, 4, arch=RESIDUAL),
    _among(116, 24, "cnn"),
    _among(117, 64, RESIDUAL),
    HeldOut("heldout_long", 118, draw_long, ("period 6", "period 12"), 1),
    HeldOut("heldout_gaps", 119, draw_gaps, TWO_BY_SIGN, 3, arch=RESIDUAL),
    HeldOut("heldout_flatline", 120, draw_flatline, THREE_SENSORS, 3),
    HeldOut("heldout_pairs", 123, draw_pairs, ("down, down", "up, up", "up, down"), 4, arch=RESIDUAL),
    HeldOut("heldout_tempos", 124, draw_tempos, ("fast", "slow"), 2),
    HeldOut("heldout_ringing", 125, draw_ringing, ("period 5", "period 8", "period 12"), 1, arch="lstm"),
    HeldOut("heldout_plateaus", 126, draw_plateaus, DOWN_UP, 3),
)
"""Sets that are run once, at the end."""
BATTERY: dict[str, HeldOut] = {**GUIDE, **FINAL}
