"""Data that TimeX refuses, and data at the edge of what it takes."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import CONFIG, Recurrent, quick, seeded, series

from timex import TimeX


def test_nan_is_refused_with_its_place(mv):
    x = mv.x.copy()
    x[3, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"got nan at sample 3, step 2, channel 1 .* pass observed="):
        mv.fresh().fit(x, progress=False)
    with pytest.raises(ValueError, match="got nan at sample 3, step 2, channel 1"):
        mv.explainer.explain(x)


@pytest.mark.parametrize(("t", "d"), [(13, 3), (14, 2), (3, 14)])
def test_another_shape_than_the_models(mv, t, d):
    with pytest.raises(ValueError, match=rf"Expected x of shape \(N, 14, 3\) as in fit, got \(9, {t}, {d}\)"):
        mv.explainer.explain(series(9, t, d))
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 14, 3\)"):
        mv.fresh().fit(series(9, t, d), progress=False)


def test_foreign_models_hold_to_the_shape_fitted_on():
    explainer = TimeX(seeded(Recurrent, 11, 3), "gru", replace(CONFIG, epochs=1)).fit(series(20, 11, 3), progress=False)
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 11, 3\) as in fit, got \(4, 12, 3\)"):
        explainer.explain(series(4, 12, 3))


def test_a_single_series_needs_no_batch_axis(mv):
    np.testing.assert_array_equal(mv.explainer.explain(mv.x[0]).attribution, mv.explainer.explain(mv.x[:1]).attribution)


def test_wrong_rank(mv):
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, T, D\), or \(T, D\) for one sample, got \(14,\)"):
        mv.explainer.explain(mv.x[0, :, 0])
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 14, 3\) as in fit, got \(1, 48, 14\)"):
        mv.explainer.explain(mv.x[:, :, 0])


@pytest.mark.parametrize("n", [4, 10])
def test_fewer_samples_than_a_batch(n):
    explainer = quick(config=replace(CONFIG, batch_size=64)).fit(series(n, 12, 2), progress=False)
    assert np.isfinite(explainer.explain(series(n, 12, 2)).attribution).all()
    assert len(explainer.landmarks) == 6  # more landmarks than samples: some start alike


def test_too_few_samples_to_split():
    with pytest.raises(ValueError, match="Expected at least 4 samples to fit and validate on, got 3: pass more, or x_val="):
        quick().fit(series(3, 12, 2), progress=False)


def test_one_sample_can_be_explained(mv):
    assert mv.explainer.explain(mv.x[:1]).attribution.shape == (1, 14, 3)


def test_a_single_predicted_class_warns():
    explainer = quick()
    with torch.no_grad():
        explainer.model.head[-1].bias[1] += 1000
    with pytest.warns(UserWarning, match="predicts class 1 for all 27 training samples: there is no difference") as caught:
        explainer.fit(series(30, 12, 2), progress=False)
    assert caught[0].filename == __file__  # the user's line, not one of ours
    assert np.isfinite(explainer.explain(series(5, 12, 2)).attribution).all()


def test_constant_channels():
    x = series(40, 12, 2)
    x[:, :, 1] = 2.5
    for fill in ("mean", "draw"):
        explainer = quick(config=CONFIG.replaced({"mask.fill": fill})).fit(x, progress=False)
        e = explainer.explain(x)
        assert np.isfinite(e.attribution).all()
        assert np.isfinite(explainer.history["criterion"]).all()


def test_without_validation_data_a_tenth_is_held_out_and_logged(caplog):
    x = series(40, 12, 2)
    with caplog.at_level(logging.INFO, logger="timex"):
        explainer = quick().fit(x, progress=False)
    assert "no x_val: 4 of 40 samples are held out for validation" in caplog.messages
    assert explainer.landmarks.counts.sum() == 36
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="timex"):
        quick().fit(x, x_val=x[:9], progress=False)
    assert not any("held out" in message for message in caplog.messages)


def test_validation_data_of_another_shape(mv):
    with pytest.raises(ValueError, match=r"Expected x_val with \(T, D\) = \(14, 3\), got \(14, 2\)"):
        mv.fresh().fit(mv.x, x_val=series(8, 14, 2), progress=False)


def test_labels_of_another_length(mv):
    with pytest.raises(ValueError, match=r"Expected one label per sample, shape \(48,\), got \(47,\)"):
        mv.fresh().fit(mv.x, np.zeros(47, dtype=int), progress=False)


def test_a_target_is_refused(mv):
    with pytest.raises(ValueError, match="explains the class the model predicts and takes no target"):
        mv.explainer.explain(mv.asked, target=np.zeros(20, dtype=int))


def test_before_fit(mv, tmp_path):
    explainer = mv.fresh()
    for call in (
        lambda: explainer.explain(mv.asked),
        lambda: explainer.landmarks,
        lambda: explainer.history,
        lambda: explainer.save(tmp_path),
    ):
        with pytest.raises(RuntimeError, match="has not been fitted"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_diverges_raises(mv):
    """A scale of 1e30 overflows: no epoch has a finite validation value."""
    explainer = quick()
    with pytest.raises((RuntimeError, ValueError), match="finite"):
        explainer.fit(series(20, 12, 2) * np.float32(1e30), progress=False)
