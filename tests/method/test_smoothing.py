"""Explanations are smoothed over time by the width that the settings or the model choose."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import CONFIG, PAPER_CONFIG, quick, series

from timex import TimeX, engine, fit_many
from timex.method import fit
from timex.method.finish import best_smoothing, finished_masks, gaps_of
from timex.method.task import prepare
from timex.records import Series
from timex.reference.evidence import WIDTHS, gap, smoothed

T, D = 12, 2


def data(missing=False):
    parts = series(30, T, D), series(9, T, D, seed=1)
    seen = [np.random.default_rng(0).random(x.shape) > 0.3 if missing else None for x in parts]
    return [Series(x, None, o) for x, o in zip(parts, seen, strict=True)]


@pytest.mark.parametrize("config", [CONFIG, PAPER_CONFIG], ids=["evidence", "paper"])
@pytest.mark.parametrize("missing", [False, True])
def test_explanations_are_smoothed_by_the_configured_width(config, missing):
    train, val = data(missing)
    found = []
    for width in (0, 2):
        explainer = quick(config=replace(config, smoothing=width)).fit(train, x_val=val, progress=False)
        assert explainer.fitted.smoothing == width
        found.append(torch.as_tensor(explainer.explain(val).attribution))
    observed = torch.as_tensor(val.observed)
    expected = torch.where(observed, smoothed(found[0], 2, observed), 0.0)
    torch.testing.assert_close(found[1], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("missing", [False, True])
def test_the_best_width_has_the_largest_gap_on_validation_series(missing, monkeypatch):
    """Also when the series do not fit into one chunk."""
    task = prepare(quick(), *data(missing))
    p = torch.rand(9, T, D, generator=torch.Generator().manual_seed(0))
    x, mean = torch.as_tensor(task.val.x), torch.as_tensor(task.baseline.mean)
    observed = torch.as_tensor(task.val.observed) if missing else None
    times = torch.as_tensor(task.val.times) if missing else None

    def answer(view):
        view = view if observed is None else torch.where(observed, view, 0.0)
        return task.reference.output(view, times, observed).logits

    fill = mean if task.fill == "mean" else torch.roll(x, -(T // 2), dims=1)
    with torch.no_grad():
        blank = answer(mean.expand_as(x))
        gaps = {w: float(gap(answer, x, smoothed(p, w, observed), fill, blank=blank, observed=observed).mean()) for w in WIDTHS}
    best = max(gaps, key=gaps.get)
    assert max(gaps_of(task, p).items(), key=lambda pair: pair[1])[0] == best
    monkeypatch.setattr("timex.method.finish.chunk_size", lambda n_steps: 4)
    assert max(gaps_of(task, p).items(), key=lambda pair: pair[1])[0] == best


@pytest.mark.parametrize(
    ("of_p", "of_gradients", "expected"),
    [
        ([1.0, 0.99, 0.98, 0.96, 0.96, 0.96], 6, 3),  # all nearly as good: half of the width of the gradients
        ([1.0, 0.99, 0.98, 0.96, 0.96, 0.96], 3, 2),
        ([1.0, 0.99, 0.98, 0.96, 0.96, 0.96], 1, 1),
        ([1.0, 0.99, 0.98, 0.96, 0.96, 0.96], 0, 0),
        ([1.0, 0.95, 0.89, 0.88, 0.87, 0.86], 6, 1),  # 2 steps cost more than .1 of the gap
        ([0.1, 0.2, 0.3, 0.2, 0.4, 0.1], 6, 4),  # the width of p itself is wider
        ([-0.1, -0.104, -0.2, -0.3, -0.4, -0.5], 6, 1),
    ],
)
def test_the_smoothing_follows_the_gradients_where_it_costs_little(of_p, of_gradients, expected, monkeypatch):
    task = prepare(quick(), *data())
    p = torch.rand(9, T, D, generator=torch.Generator().manual_seed(0))
    gaps = {True: dict(zip(WIDTHS, of_p, strict=True)), False: {w: float(w == of_gradients) for w in WIDTHS}}
    monkeypatch.setattr("timex.method.finish.gaps_of", lambda task, a, by_openness=False: gaps[by_openness])
    assert best_smoothing(task, p) == expected


def test_without_gradients_p_alone_chooses(monkeypatch):
    task = prepare(quick(config=CONFIG.replaced({"generator.gradient_points": 0})), *data())
    monkeypatch.setattr("timex.method.finish.gaps_of", lambda task, a, by_openness=False: {0: 0.99, 2: 1.0, 3: 0.99})
    assert best_smoothing(task, torch.rand(9, T, D)) == 2


def test_the_model_chooses_the_width(monkeypatch):
    """By p before smoothing; the width is kept, saved and logged in the record of the fit."""
    seen = []
    monkeypatch.setattr("timex.method.finish.best_smoothing", lambda task, p: (seen.append(p), 3)[1])
    train, val = data()
    explainer = quick().fit(train, x_val=val, progress=False)
    assert explainer.fitted.smoothing == 3
    plain = quick(config=replace(CONFIG, smoothing=0)).fit(train, x_val=val, progress=False)
    np.testing.assert_allclose(seen[0], plain.explain(val).attribution, atol=1e-6)
    assert len(seen) == 1  # a configured width asks no model


def test_the_width_found_is_saved(tmp_path):
    train, val = data()
    explainer = quick(config=replace(CONFIG, smoothing=4)).fit(train, x_val=val, progress=False)
    loaded = TimeX.load(explainer.save(tmp_path / "e"), explainer.model)
    assert loaded.fitted.smoothing == 4
    np.testing.assert_array_equal(loaded.explain(val).attribution, explainer.explain(val).attribution)


def test_explainers_of_different_smoothing_train_together(monkeypatch):
    sizes, train = [], engine.train
    monkeypatch.setattr(engine, "train", lambda p, m, *a, **k: sizes.append(len(m)) or train(p, m, *a, **k))
    parts = data()
    many = [quick(config=replace(CONFIG, smoothing=width)) for width in (0, 3)]
    fit_many(many, [(parts[0], None, parts[1])] * 2, progress=False)
    assert sizes == [2, 2]
    for explainer in many:
        alone = quick(config=explainer.config).fit(parts[0], x_val=parts[1], progress=False)
        np.testing.assert_allclose(explainer.explain(parts[1]).attribution, alone.explain(parts[1]).attribution, atol=1e-4)


def test_the_surrogate_learns_from_the_smoothed_masks(monkeypatch):
    """What it is trained on is p as users see it."""
    members, train = [], engine.train
    monkeypatch.setattr(engine, "train", lambda p, m, *a, **k: members.extend(m) or train(p, m, *a, **k))
    parts = data(missing=True)
    explainer = quick(config=replace(CONFIG, smoothing=2)).fit(*parts[:1], x_val=parts[1], progress=False)
    for series_, given in zip(parts, (members[-1].train, members[-1].val), strict=True):
        np.testing.assert_allclose(given["p"], explainer.explain(series_).attribution, atol=1e-5)


def test_masks_of_an_untrained_generator_are_those_of_explaining():
    """The outputs computed before the training give the p that explaining computes anew."""
    task = prepare(quick(config=replace(CONFIG, smoothing=1)), *data(missing=True))
    found = finished_masks(task)
    fitted = fit.finish(task, found, ())
    explainer = quick()
    explainer.fitted_ = fitted
    np.testing.assert_allclose(explainer.explain(task.train).attribution, found.train, atol=1e-5)
    np.testing.assert_allclose(explainer.explain(task.val).attribution, found.val, atol=1e-5)
