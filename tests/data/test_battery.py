"""The battery: every recipe writes the class where its truth says, and nothing else gives it away."""

import numpy as np
import pytest

from timex.data import LOADERS, load_dataset
from timex.data import battery as sets
from timex.data.battery import BATTERY, FINAL, GUIDE
from timex.metrics import ground_truth_scores
from timex.reference import REFERENCES

N = 240


@pytest.fixture(params=BATTERY)
def name(request):
    return request.param


def part(name, n=N, seed=0):
    return BATTERY[f"heldout_{name}"].part("train", seed, 0, n)


def true_cells(series):
    """The values of the deciding cells of every sample, in the order of time."""
    return [x[cells] for x, cells in zip(series.x, series.truth, strict=True)]


# ------------------------------------------------------------------------------------------------------------- all sets


def test_two_halves_without_a_common_set():
    assert len(BATTERY) == len(GUIDE) + len(FINAL) == 26
    assert set(BATTERY) <= set(LOADERS)
    assert len({recipe.stream for recipe in BATTERY.values()}) == 26
    assert {name: recipe.name for name, recipe in BATTERY.items()} == {name: name for name in BATTERY}


def test_a_set_has_the_shape_it_names_and_a_model(name):
    recipe = BATTERY[name]
    series = recipe.part("test", 0, 0, 60)
    assert series.shape[2] == recipe.n_sensors
    assert np.bincount(series.y).tolist() == [60 // len(recipe.classes)] * len(recipe.classes)
    assert series.truth.any()
    assert not (series.truth & ~series.observed).any()
    assert recipe.arch in REFERENCES


def test_parts_and_folds_are_independent_draws(name):
    recipe = BATTERY[name]
    few, more = (recipe(seed=1, fold=0, sizes=sizes) for sizes in ((6, 6, 6), (9, 6, 6)))
    np.testing.assert_array_equal(few.test.x, more.test.x)
    assert not np.array_equal(few.train.x, few.val.x)
    assert not np.array_equal(few.test.x, recipe(seed=1, fold=1, sizes=(6, 6, 6)).test.x)


def test_sizes():
    data = load_dataset("heldout_triangles", fold=1)
    assert [len(p) for p in (data.train, data.val, data.test)] == [3000, 200, 400]
    assert (data.name, data.fold) == ("heldout_triangles", 1)


def test_size_gives_the_deciding_cells_away_only_where_it_should():
    """AUPRC of |x - median| on two sets whose deciding cells are not large: near the share of deciding cells."""
    for name, most in {"runs": 0.12, "stuck": 0.08, "flatline": 0.08, "tempos": 0.16}.items():
        series = part(name)
        size = np.abs(series.x - np.median(series.x, axis=(0, 1)))
        assert np.nanmean(ground_truth_scores(size, series.truth)["auprc"]) < most, name


# -------------------------------------------------------------------------------------------------------------- helpers


def test_written_changes_the_cells_it_reports():
    x = np.zeros((2, 6, 3))
    cells = sets.written(x, np.array([1, 3]), np.array([2, 0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    expected = np.zeros((2, 6, 3))
    expected[0, 1, 2], expected[0, 2, 2], expected[1, 3, 0], expected[1, 4, 0] = 1, 2, 3, 4
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(cells, expected > 0)


def test_smooth_noise_is_as_wide_as_named():
    x = sets.smooth(np.random.default_rng(0), 300, 120, 2, 5)
    assert x.shape == (300, 120, 2)
    assert x.std() == pytest.approx(1)
    lag = 7  # two points that are `lag` apart correlate by exp(-lag^2 / (4 width^2))
    correlation = (x[:, lag:] * x[:, :-lag]).mean()
    assert correlation == pytest.approx(np.exp(-(lag**2) / (4 * 5**2)), abs=0.03)


def test_autoregressive_noise_by_loop():
    x = sets.autoregressive(np.random.default_rng(3), (2, 4, 3), 0.5, 2.0)
    e = np.random.default_rng(3).normal(0, 2.0, (2, 4, 3))
    expected = [e[:, 0]]
    for t in range(1, 4):
        expected.append(0.5 * expected[-1] + e[:, t])
    np.testing.assert_allclose(x, np.stack(expected, axis=1))


def test_places_are_different_and_in_order():
    found = sets.places(np.random.default_rng(0), 50, 4, 92, 8, 4)
    assert (np.diff(found, axis=1) >= 8).all()
    assert set(found.ravel()) == set(range(4, 92, 8))


# ------------------------------------------------------------------------------------------------------- single recipes


def test_ramps_rise_fall_or_are_absent():
    series = part("ramps")
    slopes = [np.polyfit(np.arange(len(v)), v, 1)[0] if len(v) else 0.0 for v in true_cells(series)]
    expected = np.array([4 / 15, -4 / 15, 0])[series.y]
    np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.parametrize(("name", "channels"), [("levels", [0, 1, 2]), ("variances", [0, 1, 2]), ("stuck", [0, 1, 2])])
def test_the_sensor_of_the_cells_is_the_class(name, channels):
    series = part(name)
    sensor = series.truth.any(axis=1).argmax(axis=1)
    np.testing.assert_array_equal(sensor, np.array(channels)[series.y])


def test_what_sets_the_cells_apart():
    """The mean for levels, the spread for variances, stillness for stuck."""
    for name, inside, outside in [("levels", 1.5, 0.0), ("variances", 2.1, 0.53), ("stuck", 0.02, 1.0)]:
        series = part(name, 900)
        values, rest = (series.x[m] for m in (series.truth, ~series.truth))
        if name == "levels":
            found = values.mean(), rest.mean()
        elif name == "variances":
            found = values.std(), rest.std()
        else:
            found = np.mean([v.std() for v in true_cells(series)]), rest.std()
        assert found == pytest.approx((inside, outside), abs=0.08), name


def test_orders_have_the_peak_first_or_second():
    series = part("orders")
    first = np.array([v[:5].mean() for v in true_cells(series)])
    np.testing.assert_array_equal(first < 0, series.y == 1)


def test_a_chirp_stands_among_tones_of_its_energy():
    series = part("chirps")
    energy = (series.x[:, :, 0] ** 2).reshape(N, 5, 40).sum(-1)  # five slots
    assert energy.mean(0) == pytest.approx(np.full(5, 9 + 40 * 0.2**2), rel=0.05)
    g = np.arange(32)
    falling, rising = (2 * np.pi * (f * g + (h - f) * g**2 / 64) for f, h in ((1 / 4, 1 / 12), (1 / 12, 1 / 4)))
    assert (loudest(np.array(true_cells(series)), [falling, rising]) == series.y).mean() > 0.95


def loudest(values, phases):
    """Which of some waves, given by their phases, has the most power in every row of `values` (N, L)."""
    waves = np.hanning(values.shape[1]) * np.exp(1j * np.array(phases))
    return np.abs(values @ waves.T).argmax(axis=1)


@pytest.mark.parametrize(("name", "d"), [("bumps10", 10), ("bumps16", 16), ("bumps24", 24), ("bumps64", 64)])
def test_bumps_among_many_sensors(name, d):
    series = part(name)
    sensor = series.truth.any(axis=1).argmax(axis=1)
    np.testing.assert_array_equal(sensor, np.array([1, d - 2])[series.y // 2])
    signs = np.array([np.sign(v.mean()) for v in true_cells(series)])
    assert (signs == np.array([-1, 1])[series.y % 2]).mean() > 0.95
    assert (series.truth.sum(axis=(1, 2)) == 9).all()


def test_the_last_pulse_alone_decides():
    series = part("last", 600)
    signs = np.array([np.sign(v.mean()) for v in true_cells(series)])
    np.testing.assert_array_equal(signs, np.array([-1, 1])[series.y])
    end = series.truth[:, :, 0].cumsum(1).argmax(1)
    assert all((np.abs(x[e + 1 :, 0]) < 1.6).all() for x, e in zip(series.x, end, strict=True))  # no pulse after it
    rest = np.where(series.truth, 0, series.x).sum(axis=(1, 2))
    assert abs(np.corrcoef(rest, series.y)[0, 1]) < 0.15


def test_relations_are_between_sensors():
    series = part("relations")
    for x, truth, y in zip(series.x, series.truth, series.y, strict=True):
        first, second = x[truth.all(axis=1)].T
        assert len(first) == 16
        np.testing.assert_array_equal(second, first if y == 0 else -first)


@pytest.mark.parametrize("name", ["bumps", "triangles", "trends", "echoes", "plateaus"])
def test_signs_are_those_of_the_class(name):
    series = part(name)
    signs = np.array([np.sign(v.mean()) for v in true_cells(series)])
    assert (signs == np.array([-1, 1])[series.y % 2]).mean() > 0.9


def test_bursts_have_the_period_of_their_class():
    series = part("bursts")
    g = np.arange(32)
    values = np.array(true_cells(series))
    values -= np.array([np.polyval(np.polyfit(g, v, 3), g) for v in values])  # the slow sine, about
    assert (loudest(values, [2 * np.pi * g / period for period in (6, 10, 16)]) == series.y).mean() > 0.95


def test_spikes_point_as_the_class_says():
    series = part("spikes")
    assert (series.truth.sum(axis=(1, 2)) == 9).all()
    spikes = np.array(true_cells(series)).reshape(N, 3, 3)
    middle = spikes[:, :, 1] - spikes[:, :, ::2].mean(-1)  # the middle of a spike is .25 higher than its sides
    np.testing.assert_allclose(np.sign(middle[:, 0]), np.array([1, -1, 1])[series.y])


def test_the_long_packet_has_the_period_of_its_class():
    series = part("long", 60)
    assert series.shape == (60, 2000, 1)
    packets = np.array(true_cells(series))
    periods = 64 / np.abs(np.fft.rfft(packets, axis=1)).argmax(1)
    np.testing.assert_array_equal(periods > 9, series.y == 1)


def test_gaps_are_irregular_and_miss_a_fifth():
    series = part("gaps")
    steps = np.diff(series.times, axis=1)
    assert steps.min() > 0.49
    assert steps.max() < 1.51
    assert series.observed.mean() == pytest.approx(0.8, abs=0.01)
    sensor = series.truth.any(axis=1).argmax(axis=1)
    np.testing.assert_array_equal(sensor, np.array([0, 2])[series.y // 2])
    spans = [times[cells.any(1)] for times, cells in zip(series.times, series.truth, strict=True)]
    assert max(np.ptp(span) for span in spans) <= 8
    signs = np.array([np.sign(v.mean()) for v in true_cells(series)])
    assert (signs == np.array([-1, 1])[series.y % 2]).mean() > 0.95


def test_a_beat_is_missing_on_the_sensor_of_the_class():
    series = part("flatline", 600)
    assert (series.truth.sum(axis=(1, 2)) == 7).all()
    np.testing.assert_array_equal(series.truth.any(axis=1).argmax(axis=1), series.y)
    assert np.abs(np.array(true_cells(series)).mean()) < 0.02  # noise about zero
    quiet = [longest(np.abs(x) < 1) for sample in series.x for x in sample.T]
    found = np.array(quiet).reshape(600, 3).argmax(1)
    assert (found == series.y).mean() > 0.95


def longest(flags):
    """The longest run of True."""
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best


def test_a_run_is_ten_equal_values_in_order():
    series = part("runs")
    assert (series.truth.sum(axis=(1, 2)) == 10).all()
    runs = np.array(true_cells(series))
    slope = np.array([np.polyfit(np.arange(10), run, 1)[0] for run in runs])
    np.testing.assert_array_equal(slope > 0.2, series.y == 1)
    inside, outside = (
        np.histogram(series.x[m], bins=12, range=(-1.8, 1.8), density=True)[0] for m in (series.truth, ~series.truth)
    )
    np.testing.assert_allclose(inside, outside, atol=0.06)


def test_echoes_are_three_equal_pulses():
    series = part("echoes")
    assert (series.truth.sum(axis=(1, 2)) == 15).all()
    assert 0.6 < (series.truth.any(axis=1).sum(axis=1) == 2).mean() < 0.9  # both sensors, in three samples of four


def test_pairs_are_two_bumps_of_the_classes_signs():
    series = part("pairs")
    assert (series.truth.sum(axis=1).max(axis=1) == 7).all()  # never two bumps on one sensor
    first = series.truth.any(axis=2).argmax(axis=1)
    sensor = series.truth[np.arange(N), first].argmax(axis=1)
    early = series.truth & (np.arange(4) == sensor[:, None, None])
    for cells, signs in ((early, [-1, 1, 1]), (series.truth & ~early, [-1, 1, -1])):
        means = (series.x * cells).sum(axis=(1, 2)) / 7
        assert (np.sign(means) == np.array(signs)[series.y]).mean() > 0.97


def test_a_tempo_is_faster_or_slower_by_class():
    series = part("tempos")
    g = np.arange(36)
    values = np.array(true_cells(series))
    waves = np.exp(2j * np.pi * g / np.array([6.0, 24.0])[:, None])
    np.testing.assert_array_equal(np.abs(values @ waves.T).argmax(1), series.y)
    assert series.x.max() < 2.2


def test_ringing_has_the_period_of_its_class_and_fades():
    series = part("ringing")
    values = np.array(true_cells(series))
    waves = np.exp(-np.arange(30) / 15) * np.cos(2 * np.pi * np.arange(30) / np.array([5.0, 8.0, 12.0])[:, None])
    assert ((values @ waves.T).argmax(1) == series.y).mean() > 0.97
    assert values[:, :6].std() > 2 * values[:, -6:].std()
