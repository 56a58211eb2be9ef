"""Missing cells and irregular times, in the fit and in the explanation."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases import CONFIG, PAPER_CONFIG, N, same_explanations, seeded, series

from timex import TimeX
from timex.reference import CNN, LSTM, Transformer


@dataclass
class Irregular:
    x: np.ndarray
    times: np.ndarray
    observed: np.ndarray
    explainer: TimeX


@pytest.fixture(scope="module")
def irregular():
    t, d = 14, 3
    rng = np.random.default_rng(0)
    x, observed = series(N, t, d), rng.random((N, t, d)) > 0.15
    observed[::2, -4:] = False  # every other sample is shorter
    times = np.cumsum(rng.uniform(0.5, 1.5, size=(N, t)), axis=1).astype(np.float32)
    times[::2, -4:] = 0
    model = seeded(lambda: Transformer(d, 3, t, d_hidden=8), t, d)
    explainer = TimeX(model, config=CONFIG).fit(np.where(observed, x, np.nan), times=times, observed=observed, progress=False)
    return Irregular(x, times, observed, explainer)


def test_unobserved_cells_get_no_attribution(irregular):
    e = irregular.explainer.explain(irregular.x, times=irregular.times, observed=irregular.observed)
    assert (e.attribution[~irregular.observed] == 0).all()
    assert not e.mask[~irregular.observed].any()
    assert (e.attribution[irregular.observed] > 0).all()
    assert (e.x[~irregular.observed] == 0).all()
    np.testing.assert_array_equal(e.observed, irregular.observed)
    np.testing.assert_array_equal(e.times, irregular.times)
    assert np.isfinite(e.attribution).all()


def test_what_stands_in_unobserved_cells_does_not_matter(irregular):
    options = {"times": irregular.times, "observed": irregular.observed}
    a, b = (irregular.explainer.explain(np.where(irregular.observed, irregular.x, v), **options) for v in (np.nan, 1e9))
    same_explanations(a, b)


def test_unobserved_cells_do_not_matter_to_the_fit_either(irregular):
    options = {"times": irregular.times, "observed": irregular.observed, "progress": False}
    other = TimeX(irregular.explainer.model, config=CONFIG).fit(np.where(irregular.observed, irregular.x, -77.0), **options)
    explained = {"times": irregular.times, "observed": irregular.observed}
    same_explanations(other.explain(irregular.x, **explained), irregular.explainer.explain(irregular.x, **explained))


def test_the_times_of_the_padding_do_not_matter(irregular):
    times = irregular.times.copy()
    times[::2, -4:] = 123.0
    a, b = (irregular.explainer.explain(irregular.x, times=t, observed=irregular.observed) for t in (irregular.times, times))
    same_explanations(a, b)


def test_the_share_kept_is_of_the_cells_that_exist(irregular):
    explainer = TimeX(irregular.explainer.model, config=replace(CONFIG, epochs=1, smoothing=2))
    where = {"times": irregular.times, "observed": irregular.observed, "progress": False}
    val = {"x_val": irregular.x, "times_val": irregular.times, "observed_val": irregular.observed}
    explainer.fit(irregular.x, **where, **val)
    e = explainer.explain(irregular.x, times=irregular.times, observed=irregular.observed)
    assert explainer.fitted.quality.kept == pytest.approx(e.attribution[irregular.observed].mean(), abs=1e-4)


def test_the_share_kept_in_the_history_of_the_papers_objective(irregular):
    explainer = TimeX(irregular.explainer.model, config=replace(PAPER_CONFIG, epochs=1))
    where = {"times": irregular.times, "observed": irregular.observed, "progress": False}
    val = {"x_val": irregular.x, "times_val": irregular.times, "observed_val": irregular.observed}
    explainer.fit(irregular.x, **where, **val)
    e = explainer.explain(irregular.x, times=irregular.times, observed=irregular.observed)
    assert explainer.history["val_kept"][0] == pytest.approx(e.attribution[irregular.observed].mean(), abs=1e-4)


def test_the_times_matter(irregular):
    a, b = (irregular.explainer.explain(irregular.x, times=irregular.times * s, observed=irregular.observed) for s in (1, 2))
    assert not np.allclose(a.attribution, b.attribution, atol=1e-3)


def test_whole_steps_may_be_marked_as_unobserved(irregular):
    """Observed of shape (N, T) says the same as the same for every channel."""
    observed = np.ones((6, 14, 3), dtype=bool)
    observed[:, -5:] = False
    times = irregular.times[:6]
    a, b = (irregular.explainer.explain(irregular.x[:6], times=times, observed=o) for o in (observed[:, :, 0], observed))
    same_explanations(a, b)
    assert (a.attribution[:, -5:] == 0).all()


def test_irregular_chunks(irregular):
    options = {"times": irregular.times, "observed": irregular.observed}
    whole, parts = (irregular.explainer.explain(irregular.x, **options, chunk=chunk) for chunk in (None, 5))
    np.testing.assert_allclose(parts.attribution, whole.attribution, atol=1e-6)


def test_regular_data_given_as_irregular_is_the_same(mv):
    times = np.tile(np.arange(1, 15), (20, 1))
    e = mv.explainer.explain(mv.asked, times=times, observed=np.ones(mv.asked.shape, dtype=bool))
    np.testing.assert_array_equal(e.attribution, mv.explainer.explain(mv.asked).attribution)


def test_irregular_data_on_models_without_times():
    """CNN and LSTM see zeros in the place of missing cells; validation data may be irregular too."""
    x = series(30, 12, 2)
    observed = np.random.default_rng(0).random(x.shape) > 0.2
    for make in (lambda: CNN(2, 3, 12, width=6), lambda: LSTM(2, 3, 12, hidden=3, n_layers=1)):
        explainer = TimeX(seeded(make, 12, 2), config=CONFIG)
        explainer.fit(x, observed=observed, x_val=x[:8], observed_val=observed[:8], progress=False)
        e = explainer.explain(x, observed=observed)
        assert (e.attribution[~observed] == 0).all()
        assert np.isfinite(e.attribution).all()
