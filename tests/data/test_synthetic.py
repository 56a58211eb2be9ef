"""The synthetic recipes, checked by hand-worked numbers, slow loops and statistics."""

import hashlib
import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from timex.data import LOADERS, load_dataset
from timex.data import synthetic as syn
from timex.records import Series

SMALL = (36, 8, 12)


def runs(row):
    """Starts and lengths of the runs of True in a 1-D array."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return list(zip(edges[::2], edges[1::2] - edges[::2], strict=True))


def digest(part):
    hashed = hashlib.sha256()
    for array in (part.x, part.times, part.observed, part.y, part.truth):
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()[:16]


class Scripted:
    """A generator whose uniform draws are given, to work NARMA out by hand."""

    def __init__(self, u):
        self.u = u

    def uniform(self, low, high, size):
        assert (low, high, size) == (0, 0.5, self.u.shape)
        return self.u


# ---------------------------------------------------------------------------------------------------- all data sets


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("freqshapes", (50, 1)),
        ("seqcomb_uv", (200, 1)),
        ("seqcomb_mv", (200, 4)),
        ("lowvar", (200, 2)),
        ("seqcomb_mv_irregular", (200, 4)),
        ("equalshapes", (100, 2)),
    ],
)
def test_sizes_classes_and_truth(name, shape):
    data = load_dataset(name, fold=1, seed=3)
    assert [p.x.shape for p in (data.train, data.val, data.test)] == [(n, *shape) for n in (5000, 100, 1000)]
    assert (data.name, data.fold, data.seed) == (name, 1, 3)
    assert data.channels == tuple(f"sensor {k}" for k in range(shape[1]))
    for part in (data.train, data.val, data.test):
        assert (np.bincount(part.y) == len(part) // 4).all()
        assert not (np.diff(part.y) >= 0).all()  # shuffled
        bare = ~part.truth.any(axis=(1, 2))
        assert (bare == ((part.y == 0) & name.startswith("seqcomb"))).all()


@pytest.mark.parametrize("name", syn.SYNTHETIC)
def test_streams_are_independent_and_repeatable(name):
    recipe = syn.SYNTHETIC[name]
    data = recipe(seed=0, fold=0, sizes=SMALL)
    again = recipe(seed=0, fold=0, sizes=(20, SMALL[1], SMALL[2]))
    assert digest(data.test) == digest(again.test)  # whatever the size of the others
    assert digest(data.val) == digest(again.val)
    others = [recipe.part(part, seed, fold, 12) for part in syn.PARTS for seed in (0, 1) for fold in (0, 1)]
    assert len({digest(part) for part in others}) == len(others)
    assert digest(syn.check_part(name, n=12)) == digest(recipe.part("check", 0, 0, 12))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("freqshapes", "8d8477f0a6385696"),
        ("seqcomb_uv", "130920ef6a044fbb"),
        ("seqcomb_mv", "2197d809d1e58757"),
        ("lowvar", "ddf53ce05805a040"),
        ("seqcomb_mv_irregular", "169e3c3c461e6ac3"),
        ("equalshapes", "e443ddd81600299c"),
    ],
)
def test_same_bytes_as_ever(name, expected):
    assert digest(syn.SYNTHETIC[name].part("train", seed=5, fold=2, n=24)) == expected


def test_noise_of_two_folds_is_uncorrelated():
    first, second = (syn.lowvar.part("train", 0, fold, 200).x.ravel() for fold in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(len(first))


# -------------------------------------------------------------------------------------------------------- the parts


def test_narma_by_hand():
    u = np.array([0.2, 0.4, 0.5, 0.1, 0.3]).reshape(1, 5, 1)  # two before the start, then three steps
    y0 = 1.5 * 0.2 * 0.5 + 0.1
    y1 = 0.3 * y0 + 0.05 * y0 * y0 + 1.5 * 0.4 * 0.1 + 0.1
    y2 = 0.3 * y1 + 1.5 * 0.5 * 0.3 + 0.1
    np.testing.assert_allclose(syn.narma(Scripted(u), 1, 3, 1).ravel(), [y0, y1, y2], rtol=1e-14)


def test_narma_is_a_loop_over_samples_and_has_its_mean():
    def loop(u):  # the equation, one value at a time
        y = [0.0, 0.0]
        for k in range(2, len(u)):
            s = y[-1] + y[-2] if k < 4 else 0.0
            y.append(0.3 * y[-1] + 0.05 * y[-1] * s + 1.5 * u[k - 2] * u[k] + 0.1)
        return y[2:]

    u = np.random.default_rng(0).uniform(0, 0.5, (7, 33, 3))
    expected = np.array([[loop(u[i, :, d]) for d in range(3)] for i in range(7)]).transpose(0, 2, 1)
    np.testing.assert_allclose(syn.narma(Scripted(u), 7, 31, 3), expected, rtol=1e-13)
    x = syn.narma(np.random.default_rng(1), 300, 120, 2)
    assert x[:, 20:].mean() == pytest.approx((1.5 * 0.25**2 + 0.1) / 0.7, abs=0.003)


def test_spikes_by_hand():
    cells, values = syn.spike_train(12, first=np.array([0, 3, 1]), period=np.array([10, 4, 7]))
    expected = np.zeros((3, 12))
    expected[0, 9:12] = [1.75, 2, 1.75]  # the spike around 0 sticks out, the one around 10 just fits
    expected[1, 2:5] = expected[1, 6:9] = [1.75, 2, 1.75]  # around 3 and 7; around 11 it sticks out
    expected[2, 0:3] = expected[2, 7:10] = [1.75, 2, 1.75]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(cells, expected > 0)


def test_ramp_is_a_centred_line_plus_a_sine():
    low, high, rate = -0.7, 2.9, 4
    grids = {6: [-3, -2, -1, 0, 1, 2], 7: [-3, -2, -1, 0, 1, 2, 3]}  # integers: an even length has no middle cell
    for length, g in grids.items():
        line = np.linspace(low, high, length)
        offset, same = np.arange(length), np.full(length, length)
        rising = syn.ramp(offset, same, np.full(length, high - low), np.full(length, rate))
        falling = syn.ramp(offset, same, np.full(length, low - high), np.full(length, rate))
        np.testing.assert_allclose(rising, line - line.mean() + np.sin(rate * np.array(g)), atol=1e-13)
        np.testing.assert_allclose(falling, (line - line.mean())[::-1] + np.sin(rate * np.array(g)), atol=1e-13)


def test_sine_is_the_sine():
    k = np.array([[0, 3, -3], [7, -11, 240]])
    np.testing.assert_allclose(syn.sine(k), np.sin(k), atol=1e-15)
    assert syn.sine(np.array([], dtype=int)).shape == (0,)


def test_two_segments_fill_their_ranges():
    start, length = syn.two_segments(np.random.default_rng(0), 20000, 60, (5, 9))
    assert set(np.unique(length)) == set(range(5, 10))
    assert (start[:, 0].min(), start[:, 0].max()) == (0, 29)
    assert (start[:, 1] >= start[:, 0] + length[:, 0]).all()
    assert (start[:, 1] == start[:, 0] + length[:, 0]).any()
    assert (start[:, 1] + length[:, 1]).max() == 60


def test_spread_reaches_every_choice_equally_often():
    start = syn.spread(np.random.default_rng(0), 6000, n_steps=12, count=2, length=4, gap=1)
    choices, count = np.unique(start, axis=0, return_counts=True)
    possible = [(a, b) for a in range(9) for b in range(a + 5, 9)]
    assert [tuple(c) for c in choices] == possible
    assert np.abs(count / 6000 - 1 / len(possible)).max() < 0.02


# ------------------------------------------------------------------------------------------------------ freqshapes


def test_freqshapes_spikes():
    part = syn.freqshapes.part("train", 0, 0, 4000)
    x, truth = part.x[:, :, 0], part.truth[:, :, 0]
    assert np.std(x[~truth]) == pytest.approx(0.25, abs=0.005)
    assert np.mean(x[~truth]) == pytest.approx(0, abs=0.005)
    for label, (sign, period) in enumerate([(-1, 10), (1, 10), (-1, 17), (1, 17)]):
        firsts = set()
        for i in np.flatnonzero(part.y == label):
            spikes = runs(truth[i])
            starts = np.array([start for start, _ in spikes])
            assert all(length == 3 for _, length in spikes)
            assert (np.diff(starts) == period).all()
            assert starts[-1] + period + 3 > 50  # none is missing at the end
            firsts.add(int(starts[0]) + 1)
        # a first centre of 0 leaves out its spike, and the next centre is a period later
        assert firsts == set(range(1, 50 - period)) | {period}
        spike = sign * x[part.y == label][truth[part.y == label]].reshape(-1, 3)
        np.testing.assert_allclose(spike.mean(axis=0), [1.75, 2, 1.75], atol=0.03)
        np.testing.assert_allclose(spike.std(axis=0), 0.25, atol=0.02)


# --------------------------------------------------------------------------------------------------------- seqcomb


@pytest.mark.parametrize(("name", "d", "lengths"), [("seqcomb_uv", 1, range(10, 20)), ("seqcomb_mv", 4, range(15, 30))])
def test_seqcomb_ramps(name, d, lengths):
    part = syn.SYNTHETIC[name].part("train", 0, 0, 2000)
    directions = {1: (-1, -1), 2: (1, 1), 3: (1, -1)}
    seen, sensors, firsts = set(), set(), []
    for i in np.flatnonzero(part.y > 0):
        segments = sorted((start, length, k) for k in range(d) for start, length in runs(part.truth[i, :, k]))
        if d == 1 and len(segments) == 1:
            continue  # the second ramp follows at once: one run
        (s1, l1, k1), (s2, l2, k2) = segments
        assert s1 < 100
        assert s1 + l1 <= s2
        assert d == 1 or k1 != k2
        seen |= {l1, l2}
        sensors |= {(k1, k2)}
        firsts.append(s1)
        for (start, length, k), direction in zip(segments, directions[part.y[i]], strict=True):
            values = part.x[i, start : start + length, k]
            g = np.arange(length) - (length - 1) / 2
            assert np.sign(np.dot(g, values)) == direction
            assert abs(values.mean()) < 0.5  # centred, up to the sine
    assert seen == set(lengths)
    assert len(sensors) == max(1, d * (d - 1))
    assert np.mean(firsts) == pytest.approx(49.5, abs=3)


def seqcomb_noise(rng, n, d):
    """The noise a SeqComb data set starts from, drawn again."""
    syn.balanced_labels(rng, n, 4)
    return (syn.narma(rng, n, 200, d) + rng.normal(0, 0.01, (n, 200, d))).astype(np.float32)


def test_seqcomb_writes_the_truth_cells_and_nothing_else(monkeypatch):
    written = syn.seqcomb_mv.part("test", 1, 0, 60)
    monkeypatch.setattr(syn, "SEQCOMB_DIRECTIONS", np.zeros((4, 2), dtype=int))
    level = syn.seqcomb_mv.part("test", 1, 0, 60)  # the same draws, but the ramps are level: the sine alone
    np.testing.assert_array_equal(written.x[~written.truth], level.x[~level.truth])
    assert (np.abs(level.x[level.truth]) <= 1).all()
    noise = seqcomb_noise(syn.seqcomb_mv.generator("test", 1, 0), 60, 4)
    np.testing.assert_array_equal(written.x[~written.truth], noise[~written.truth])
    # what is left is the line between -5|min| and 5|max| of the sample's own noise
    i = int(np.flatnonzero(written.y == 2)[0])
    ramps = (written.x - level.x)[i]
    span = 5 * abs(noise[i].min()) + 5 * abs(noise[i].max())
    for k in np.flatnonzero(written.truth[i].any(axis=0)):
        line = ramps[written.truth[i, :, k], k]
        np.testing.assert_allclose(line, np.linspace(-span / 2, span / 2, len(line)), atol=1e-5)


def test_irregular_is_the_whole_series_with_steps_left_out():
    part = syn.seqcomb_mv_irregular.part("train", 0, 0, 120)
    whole = syn.draw_seqcomb_mv(syn.seqcomb_mv_irregular.generator("train", 0, 0), 120)
    kept = part.observed.any(axis=2)
    np.testing.assert_array_equal(kept, part.observed.all(axis=2))  # a step is dropped on all sensors
    assert 1 - kept.mean() == pytest.approx(0.15, abs=0.01)
    for i in range(120):
        n = kept[i].sum()
        assert kept[i, :n].all()  # left-aligned
        steps = part.times[i, :n].astype(int) - 1
        assert (np.diff(steps) > 0).all()
        np.testing.assert_array_equal(part.x[i, :n], whole.x[i, steps])
        np.testing.assert_array_equal(part.truth[i, :n], whole.truth[i, steps])
        assert not part.x[i, n:].any()
        assert not part.truth[i, n:].any()
        assert not part.times[i, n:].any()
    np.testing.assert_array_equal(part.y, whole.y)


def test_drop_steps_by_hand():
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 3, 2)
    whole = Series(x, np.array([[1, 2, 3]]), np.ones((1, 3, 2), bool), np.array([0]), x > 3)
    part = syn.drop_steps(whole, np.array([[False, True, True]]))
    np.testing.assert_array_equal(part.x, [[[3, 4], [5, 6], [0, 0]]])
    np.testing.assert_array_equal(part.times, [[2, 3, 0]])
    np.testing.assert_array_equal(part.observed[0, :, 0], [True, True, False])
    np.testing.assert_array_equal(part.truth, [[[False, True], [True, True], [False, False]]])


# ---------------------------------------------------------------------------------------------------------- lowvar


def test_lowvar_segment():
    part = syn.lowvar.part("train", 0, 0, 4000)
    assert (part.truth.any(axis=1).argmax(axis=1) == part.y // 2).all()
    assert (part.truth.any(axis=1).sum(axis=1) == 1).all()
    rows = part.truth.any(axis=2)
    start, length = rows.argmax(axis=1), rows.sum(axis=1)
    assert all(len(runs(row)) == 1 for row in rows)
    assert set(np.unique(start)) == set(range(20, 160))
    assert set(np.unique(length)) == set(range(10, 20))
    for label, mean in enumerate([-1.5, 1.5, -1.5, 1.5]):
        segment = part.x[part.y == label][part.truth[part.y == label]]
        assert segment.mean() == pytest.approx(mean, abs=0.005)
        assert segment.std() == pytest.approx(0.1, abs=0.003)
    assert part.x[:, 20:][~part.truth[:, 20:]].std() == pytest.approx(1.0, abs=0.02)


# ----------------------------------------------------------------------------------------------------- equalshapes


def test_sawteeth_are_orders_of_the_same_values():
    shapes = syn.sawteeth()
    level = np.rint((shapes + 1.5) / 3 * 11).astype(int) + 1
    np.testing.assert_array_equal(level[0], [2, 4, 6, 8, 10, 12, 1, 3, 5, 7, 9, 11])
    np.testing.assert_array_equal(level[3], [5, 10, 2, 7, 12, 4, 9, 1, 6, 11, 3, 8])
    np.testing.assert_array_equal(np.sort(shapes, axis=1), np.tile(np.sort(shapes[0]), (4, 1)))
    assert ((np.diff(shapes, axis=1) < 0).sum(axis=1) + 1).tolist() == [2, 3, 4, 5]  # teeth
    both = np.concatenate([shapes, shapes[:, ::-1]])
    assert len(np.unique(both, axis=0)) == 8  # no shape is its own or another's mirror image


def test_equalshapes_truth_is_the_motif_of_the_class():
    part = syn.equalshapes.part("train", 0, 0, 400)
    shapes = syn.sawteeth()
    assert (part.truth.sum(axis=(1, 2)) == 12).all()
    assert (part.truth.any(axis=1).sum(axis=1) == 1).all()
    found = np.stack([part.x[i][part.truth[i]] for i in range(400)])
    assert np.abs(found - shapes[part.y]).max() < 0.5
    assert (found - shapes[part.y]).std() == pytest.approx(0.1, abs=0.005)
    sensor = part.truth.any(axis=1).argmax(axis=1)
    assert 0.4 < sensor.mean() < 0.6
    # nowhere else is there a motif that decides, and the nine others are mirror images
    windows = np.lib.stride_tricks.sliding_window_view(part.x, 12, axis=1)[:, :, :, None]  # (N, T-11, D, 1, L)
    near, mirrored = (
        (((windows - motif) ** 2).mean(axis=-1) < 0.19**2).sum(axis=(1, 2)) for motif in (shapes, shapes[:, ::-1])
    )  # (N, 4)
    np.testing.assert_array_equal(near, np.eye(4, dtype=int)[part.y])
    assert (mirrored.sum(axis=1) == 9).all()


def test_equalshapes_amplitude_tells_nothing():
    data = syn.equalshapes(sizes=(800, 8, 200))
    test = data.test
    score = np.abs(test.x - np.median(data.train.x, axis=(0, 1)))
    chance = np.random.default_rng(0).random(test.x.shape)
    amplitude, random = (
        np.mean([average_precision_score(t.ravel(), s.ravel()) for t, s in zip(test.truth, scores, strict=True)])
        for scores in (score, chance)
    )
    assert amplitude < random + 0.01
    inside, outside = score[test.truth], score[~test.truth]
    assert inside.mean() == pytest.approx(outside.mean(), rel=0.02)
    assert (inside**2).mean() == pytest.approx((outside**2).mean(), rel=0.02)


# ---------------------------------------------------------------------------------------------------------- errors


def test_unknown_names_and_folds_say_what_to_do():
    with pytest.raises(ValueError, match=r"among .*freqshapes.*seqcomb_uv.*, got 'seqcomb-uv': did you mean seqcomb_uv"):
        load_dataset("seqcomb-uv")
    with pytest.raises(ValueError, match=r"got 'zzz'\.$"):
        load_dataset("zzz")
    for fold in (-1, 1.0, True):
        with pytest.raises(ValueError, match="Expected fold as a whole number"):
            load_dataset("freqshapes", fold=fold)
    with pytest.raises(ValueError, match=r"Expected seed as a whole number 0, 1, 2, \.\.\., got -3"):
        load_dataset("freqshapes", seed=-3)
    with pytest.raises(ValueError, match=r"Expected one of the synthetic data sets freqshapes, .*, got 'ecg'"):
        syn.check_part("ecg")
    assert set(syn.SYNTHETIC) <= set(LOADERS)
