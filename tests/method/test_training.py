"""The trainings of a fit: how long, on which series, and what happens when a stage diverges."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import CONFIG, PAPER_CONFIG, quick, series

from timex import TimeXConfig, engine, fit_many
from timex.method.fit import SURROGATE_LR, schedule_of
from timex.method.task import prepare
from timex.records import Series

T, D = 12, 2


def task(n=40, **top):
    return prepare(quick(config=replace(CONFIG, **top)), Series(series(n, T, D)), Series(series(9, T, D, seed=1)))


@pytest.mark.parametrize(
    ("n", "batch_size", "epochs", "surrogate"),
    [(640, 64, 30, 20), (40, 64, 300, 200), (1000, 32, 9, 6), (60_000, 64, 1, 1)],
)
def test_a_fit_takes_about_300_steps_whatever_the_number_of_series(n, batch_size, epochs, surrogate):
    made = replace(task(), train=Series(np.zeros((n, 2, 1))), config=TimeXConfig(batch_size=batch_size))
    assert schedule_of(made).epochs == epochs
    assert schedule_of(made, surrogate=True).epochs == surrogate


def test_epochs_that_are_set():
    made = task(epochs=7)
    assert (schedule_of(made).epochs, schedule_of(made, surrogate=True).epochs) == (7, 5)
    assert schedule_of(replace(made, config=replace(PAPER_CONFIG, epochs=7))).epochs == 7


def test_the_schedule_of_each_objective():
    made = task(n=320, batch_size=8)  # 40 steps in an epoch
    ours, paper = (schedule_of(replace(made, config=c)) for c in (TimeXConfig(batch_size=8), PAPER_CONFIG))
    assert (ours.warmup, ours.decay, ours.plateau_factor, ours.clip) == (40, True, 1.0, 1.0)
    assert (paper.warmup, paper.decay, paper.plateau_factor) == (0, False, 0.1)
    assert schedule_of(replace(made, config=CONFIG.replaced({"training.clip": None}))).clip == np.inf


def test_at_most_max_series_are_used():
    """Drawn at random by the seed, in their order; landmarks name them by their place in the series handed in."""
    x, x_val = series(60, T, D), series(9, T, D, seed=1)
    config = replace(CONFIG, seed=3).replaced({"training.max_series": 20})
    made = prepare(quick(config=config), Series(x), Series(x_val))
    chosen = np.sort(np.random.default_rng(3).permutation(60)[:20])
    np.testing.assert_array_equal(made.kept, chosen)
    np.testing.assert_array_equal(made.train.x, x[chosen])
    explainer = quick(config=config).fit(x, x_val=x_val, progress=False)
    assert explainer.landmarks.counts.sum() == 20
    assert set(explainer.landmarks.nearest.ravel()) <= set(chosen)
    alone = quick(config=replace(CONFIG, seed=3)).fit(x[chosen], x_val=x_val, progress=False)
    np.testing.assert_array_equal(explainer.explain(x).attribution, alone.explain(x).attribution)
    assert len(prepare(quick(config=config.replaced({"training.max_series": None})), Series(x), Series(x_val)).train) == 60


def spied_runs(monkeypatch, change):
    """The members of every run of the engine as they start; `change(number, runs)` gives what the run returns."""
    seen, train = [], engine.train

    def spy(program, members, *arguments, **options):
        seen.append([replace(m, params={name: p.clone() for name, p in m.params.items()}) for m in members])
        return change(len(seen), train(program, members, *arguments, **options))

    monkeypatch.setattr(engine, "train", spy)
    return seen


def test_the_surrogate_is_trained_after_the_generator(monkeypatch):
    seen = spied_runs(monkeypatch, lambda number, runs: runs)
    x = series(40, T, D)
    explainer = quick().fit(x, x_val=x, progress=False)
    (generator,), (surrogate,) = seen
    model = explainer.fitted.model
    assert set(generator.params) == {name for name, _ in model.generator.named_parameters()}
    assert set(surrogate.params) == {name for name, _ in model.surrogate.named_parameters()}
    assert surrogate.lr == pytest.approx(SURROGATE_LR * generator.lr)
    started = {name: p.clone() for name, p in explainer.model.named_parameters()}
    trained = dict(model.surrogate.encoder.named_parameters())
    assert all(torch.equal(surrogate.params[f"encoder.{name}"], p) for name, p in started.items())
    assert any(not torch.equal(trained[name], p) for name, p in started.items())


@pytest.mark.parametrize("stage", [1, 2])
def test_one_that_diverges_in_either_stage_leaves_the_others(monkeypatch, stage):
    def lose_the_second(number, runs):
        return [replace(run, epoch=-1) if number == stage and k == 1 else run for k, run in enumerate(runs)]

    x = series(40, T, D)
    many = [quick(config=replace(CONFIG, seed=seed)) for seed in range(3)]
    spied_runs(monkeypatch, lose_the_second)
    with pytest.raises(engine.Diverged, match="Explainer 1 of 3 diverged"):
        fit_many(many, [(x, None, x)] * 3, progress=False)
    monkeypatch.undo()
    assert many[1].fitted_ is None
    for explainer in (many[0], many[2]):
        alone = quick(config=explainer.config).fit(x, x_val=x, progress=False)
        np.testing.assert_allclose(explainer.explain(x).attribution, alone.explain(x).attribution, atol=1e-4)


def test_a_fit_whose_every_member_diverges(monkeypatch):
    seen = spied_runs(monkeypatch, lambda number, runs: [replace(run, epoch=-1) for run in runs])
    explainer = quick()
    with pytest.raises(engine.Diverged):
        explainer.fit(series(40, T, D), progress=False)
    assert len(seen) == 1  # no surrogate is trained
    assert explainer.fitted_ is None


@pytest.mark.parametrize("base", [CONFIG, PAPER_CONFIG], ids=["evidence", "paper"])
def test_a_forecast_is_explained(base, tmp_path):
    """Its evidence is a squared error in units of the answers' spread; agreement is undefined."""
    x = series(40, T, D)
    explainer = quick(config=replace(base, task="forecast")).fit(x, x_val=x[:9], progress=False)
    e = explainer.explain(x[:5])
    assert explainer.fitted.spread > 0
    assert explainer.fitted.quality.agreement is None
    assert (e.agreement, e.divergence) == (None, None)
    assert 0 < e.attribution.min() < e.attribution.max() < 1
    loaded = type(explainer).load(explainer.save(tmp_path), explainer.model)
    assert loaded.fitted.spread == pytest.approx(explainer.fitted.spread)
    np.testing.assert_array_equal(loaded.explain(x[:5]).attribution, e.attribution)
