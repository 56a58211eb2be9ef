"""Methods compared on a model whose reasons are known."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from windows import windows_model, windows_series

import timex
from timex import Series, TimeX, TimeXConfig, compare
from timex.engine import Diverged
from timex.engine.checkpoint import Stage
from timex.explainers import Gradients, IntegratedGradients, Random
from timex.metrics.faithfulness import degradation, evidence_gap, interpret_time
from timex.metrics.hiding import Probe
from timex.reference.predict import model_predict
from timex.trust.interval import Interval

HELD_OUT, TRAIN = windows_series(60, seed=1), windows_series(90)


@pytest.fixture(scope="module")
def model():
    return windows_model()


@pytest.fixture(scope="module")
def found(model):
    return compare(model, HELD_OUT, ["gradients", "saliency"], TRAIN, fills=("mean", "local"), device="cpu", progress=False)


def test_scores_are_those_of_the_metrics(model, found):
    gradients = Gradients(model, device="cpu").fit(TRAIN, progress=False).explain(HELD_OUT)
    for fill in ("mean", "local"):
        probe = Probe(model_predict(model), HELD_OUT, TRAIN, fill)
        expected = evidence_gap(probe, gradients.attribution)
        np.testing.assert_allclose(found.scores["gradients"][fill]["gap"], expected, atol=1e-5)
        other = probe.classes != probe.blank.argmax(1)  # of the class of a blank series, hiding cells says nothing
        assert 0 < other.sum() < len(other)
        assert found.table().loc["gradients", f"gap ({fill})"] == pytest.approx(expected[other].mean(), abs=1e-5)
        assert np.isnan(found.gap("gradients", fill)[~other]).all()


def test_the_gap_is_the_mean_over_the_fills_that_say_something(found):
    gaps = np.stack([found.gap("saliency", fill) for fill in ("mean", "local")])
    some = ~np.isnan(gaps).all(axis=0)
    np.testing.assert_allclose(found.gap("saliency")[some], np.nanmean(gaps[:, some], axis=0))
    assert np.isnan(found.gap("saliency")[~some]).all()
    none = replace(found, open={fill: np.zeros_like(v) for fill, v in found.open.items()})
    np.testing.assert_allclose(none.gap("saliency"), np.mean([s["gap"] for s in found.scores["saliency"].values()], axis=0))


def test_methods_that_see_the_model_come_first_and_random_last(found):
    assert found.best == "gradients"
    assert found.ranking[-1] == "random"
    assert found.behind("gradients") == (0, 0, 0)
    difference = Interval.of(found.gap("gradients") - found.gap("random"))
    assert found.behind("random") == difference
    assert difference.low > 0
    assert found.recommendation.startswith("Use gradients: its evidence gap")


def test_agreement_of_methods(found):
    table = found.correlation
    assert set(table.columns) == {"gradients", "saliency", "amplitude", "random"}
    np.testing.assert_allclose(np.diag(table), 1)
    np.testing.assert_allclose(table, table.T)
    assert abs(table.loc["random", "gradients"]) < 0.1 < table.loc["saliency", "gradients"]


def test_scores_of_all_samples_together(model):
    found = compare(model, HELD_OUT, ["saliency"], TRAIN, fills=("zero",), thorough=True, device="cpu")
    a = found.runs["saliency"].explanation.attribution
    probe = Probe(model_predict(model), HELD_OUT, TRAIN, "zero")
    summary = found.summaries["saliency"]["zero"]
    dds, pes, cmi = degradation(probe, a, steps=10)
    assert (summary["dds"], summary["pes"], summary["cmi"]) == pytest.approx((dds.mean(), pes, cmi), abs=1e-4)
    assert summary["f1s"] == pytest.approx(interpret_time(probe, np.abs(a)).f1, abs=1e-4)
    assert found.table().loc["saliency", "cmi (zero)"] == summary["cmi"]


def test_the_centre_joins_where_windows_are_aligned(model):
    found = compare(model, HELD_OUT, ["saliency"], TRAIN, fills=("mean",), aligned=True, device="cpu")
    assert set(found.ranking) == {"saliency", "amplitude", "random", "centre"}
    assert found.best == "saliency"

    class Middle(nn.Module):
        def forward(self, x):
            return torch.stack([torch.zeros(len(x)), 4 * x[:, 10:14].mean((1, 2))], dim=1)

    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.3, size=HELD_OUT.shape)
    x[:, 10:14] += np.where(np.arange(len(x)) % 2, 2, -2)[:, None, None]
    found = compare(Middle(), x, ["saliency"], fills=("mean",), aligned=True, device="cpu")
    assert "The middle of the window alone does as well" in found.recommendation


def test_memory_counts_what_explaining_holds(model):
    class Greedy(IntegratedGradients):
        name = "greedy"

        def _explain(self, batch):
            self.held = torch.ones(24 * 2**20)  # 96 MiB
            return super()._explain(batch)

    found = compare(model, HELD_OUT, [Greedy(model, device="cpu"), "saliency"], TRAIN, fills=("mean",), device="cpu")
    table = found.table()["megabytes"]
    if np.isfinite(table["greedy"]):  # measured on Linux
        assert table["greedy"] > 80 > table["saliency"]


def test_a_stopped_fit_goes_on_from_its_checkpoint(model, tmp_path, monkeypatch):
    config = TimeXConfig(epochs=3)
    methods = [TimeX(model, "0", config, device="cpu")]
    options = {"fills": ("mean",), "folder": tmp_path, "device": "cpu", "progress": False}
    whole = compare(model, HELD_OUT, [TimeX(model, "0", config, device="cpu")], TRAIN, fills=("mean",), device="cpu")
    kept, keep = [], Stage.keep

    def interrupted(self, epoch, state):
        keep(self, epoch, state)
        kept.append(epoch)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Stage, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(model, HELD_OUT, methods, TRAIN, **options)
    assert list(tmp_path.glob("timex-*.fit"))
    found = compare(model, HELD_OUT, [TimeX(model, "0", config, device="cpu")], TRAIN, **options)
    assert kept[:3] == [1, 2, 3]  # the third epoch came after the stop
    np.testing.assert_allclose(found.gap("timex"), whole.gap("timex"), atol=1e-5)
    assert not list(tmp_path.glob("timex-*.fit"))


def test_a_figure_of_where_methods_disagree(found):
    left, right, *_ = found.plot(3).axes
    assert [t.get_text() for t in left.get_xticklabels()] == ["gradients", "saliency"]
    assert right.get_title().startswith("where methods disagree: sample 3")
    assert found.plot().axes[1].get_title() == "where methods disagree: mean of 60 samples"


def test_equal_methods_are_named_with_the_quicker_one(model):
    class Slow(IntegratedGradients):
        name = "slow"

    found = compare(model, HELD_OUT, [Slow(model, device="cpu"), "ig"], TRAIN, fills=("mean",), device="cpu")
    other = next(name for name in ("slow", "ig") if name != found.best)
    assert f"Not clearly worse: {other}" in found.recommendation


def test_no_method_is_recommended_if_none_is_better_than_random(model):
    class Blind(Random):
        name = "blind"

    found = compare(model, HELD_OUT, [Blind(model, Random.config_class(seed=5), device="cpu")], TRAIN, device="cpu")
    assert found.recommendation.startswith("Use none of these methods")


def test_a_comparison_goes_on_from_its_folder(model, tmp_path, monkeypatch):
    options = {"fills": ("mean",), "folder": tmp_path, "device": "cpu", "progress": False}
    first = compare(model, HELD_OUT, ["gradients"], TRAIN, **options)
    fits = []
    monkeypatch.setattr(Gradients, "_fit", lambda *a: fits.append(a))
    second = compare(model, HELD_OUT, ["gradients", "saliency"], TRAIN, **options)
    assert fits == []
    for name in ("gradients", "random"):
        assert second.runs[name].explanation.attribution.tobytes() == first.runs[name].explanation.attribution.tobytes()
        assert (second.runs[name].seconds, second.runs[name].fit_seconds) == (
            first.runs[name].seconds,
            first.runs[name].fit_seconds,
        )


def test_another_version_of_timex_runs_again(model, tmp_path, monkeypatch):
    for version in ("1.0", "1.0", "1.1"):
        monkeypatch.setattr(timex, "__version__", version)
        compare(model, HELD_OUT, ["saliency"], TRAIN, fills=("mean",), folder=tmp_path, device="cpu")
    assert len(list(tmp_path.glob("saliency-*.npz"))) == 2


@pytest.mark.parametrize("change", ["train", "x", "model"])
def test_another_question_is_another_run(model, tmp_path, change):
    other = windows_model()
    with torch.no_grad():
        other[1].bias.add_(torch.tensor([1.0, 0.0, 0.0]))
    changes = {"train": HELD_OUT, "x": HELD_OUT.take(slice(30)), "model": other}
    asked = {"model": model, "x": HELD_OUT, "methods": ["gradients"], "train": TRAIN}
    for question in (asked, {**asked, change: changes[change]}):
        compare(**question, fills=("mean",), folder=tmp_path, device="cpu", progress=False)
    assert len(list(tmp_path.glob("gradients-*.npz"))) == 2


def test_a_half_written_run_is_made_again(model, tmp_path):
    options = {"fills": ("mean",), "folder": tmp_path, "device": "cpu"}
    first = compare(model, HELD_OUT, ["saliency"], TRAIN, **options)
    (times,) = tmp_path.glob("saliency-*.json")
    times.unlink()
    second = compare(model, HELD_OUT, ["saliency"], TRAIN, **options)
    assert times.is_file()
    np.testing.assert_array_equal(first.gap("saliency"), second.gap("saliency"))


def test_methods_that_cannot_explain_are_left_out_with_a_reason(caplog):
    def black_box(x):
        p = 1 / (1 + np.exp(-x[:, 2:6, 0].mean(1)))
        return np.stack([1 - p, p], axis=1)

    with caplog.at_level(logging.WARNING):
        found = compare(black_box, HELD_OUT, ["ig", "occlusion"], TRAIN, fills=("mean",), device="cpu")
    assert "needs gradients" in found.skipped["ig"]
    assert found.best == "occlusion"
    assert "ig is left out" in caplog.text


def test_explainers_of_one_name_stand_beside_each_other(model):
    seeds = [Random(model, Random.config_class(seed=seed), device="cpu") for seed in (5, 6)]
    found = compare(model, HELD_OUT, ["saliency", *seeds, "saliency", "random"], TRAIN, fills=("mean",), device="cpu")
    assert set(found.ranking) == {"saliency", "amplitude", "random", "random 2", "random 3"}
    for name, explainer in (("random 2", seeds[0]), ("random 3", seeds[1])):
        np.testing.assert_array_equal(
            found.runs[name].explanation.attribution, explainer.explain(HELD_OUT).attribution, err_msg=name
        )
    assert found.behind("random 2") != found.behind("random 3")


def test_a_fit_that_diverges_is_left_out_with_a_reason(model):
    class Diverging(Gradients):
        name = "diverging"

        def _fit(self, train, val, progress):
            raise Diverged

    found = compare(model, HELD_OUT, [Diverging(model, device="cpu"), "saliency"], TRAIN, fills=("mean",), device="cpu")
    assert found.skipped == {"diverging": str(Diverged())}
    assert found.best == "saliency"


def test_the_result_is_plain_json(found):
    facts = json.loads(json.dumps(found.to_dict()))
    assert facts["best"] == "gradients"
    assert facts["model_hash"] == found.runs["random"].explanation.model_hash != ""
    numbers = [v for table in ("methods", "rank_correlation") for row in facts[table].values() for v in row.values()]
    assert all(v == float(f"{v:.4g}") for v in numbers if v is not None)
    assert any(v % 1 for v in numbers if v is not None)
    assert facts["methods"]["gradients"]["behind_mean"] == 0
    assert facts["rank_correlation"]["random"]["random"] == 1


def test_undefined_correlations_are_none_in_json(model):
    class Level(Random):
        name = "level"

        def _explain(self, batch):
            return {"attribution": torch.ones_like(batch.x)}

    found = compare(model, HELD_OUT, [Level(model, device="cpu")], TRAIN, fills=("mean",), device="cpu")
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert facts["rank_correlation"]["level"]["random"] is None
    assert facts["recommendation"].startswith("Use none of these methods")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: compare(m, HELD_OUT, ["shap"], device="cpu"), "Unknown method 'shap'"),
        (lambda m: compare(m, HELD_OUT, fills=(), device="cpu"), "Expected a list of fills, got \\(\\)"),
        (lambda m: compare(m, HELD_OUT, fills="mean", device="cpu"), "Expected a list of fills, got 'mean'"),
        (lambda m: compare(m, HELD_OUT, "gradients", device="cpu"), "Expected a list of methods, got 'gradients'"),
        (lambda m: compare(m, HELD_OUT, most=0, device="cpu"), "Expected most= of at least 1"),
        (lambda m: compare(m, HELD_OUT, seed=0.5, device="cpu"), "Expected most= of at least 1"),
        (lambda m: compare(m, HELD_OUT, ["saliency"], fills=("blur",), device="cpu"), "Expected fill among"),
    ],
)
def test_wrong_arguments_are_named(model, call, words):
    with pytest.raises(ValueError, match=words):
        call(model)


def test_a_model_of_numbers():
    regression = nn.Sequential(nn.Flatten(), nn.Linear(48, 1))
    with torch.no_grad():
        regression[1].weight.copy_(windows_model()[1].weight[1:2])
        regression[1].bias.fill_(20.0)
    methods = ["gradients", "occlusion"]
    found = compare(regression, HELD_OUT, methods, TRAIN, thorough=True, task="regress", device="cpu", progress=False)
    assert found.best in methods
    assert found.ranking[-2:] != methods
    answer = lambda x: regression(torch.tensor(x, dtype=torch.float32)).detach().numpy()[:, 0]  # noqa: E731
    blank = answer(TRAIN.x.mean(axis=0, keepdims=True))
    distance, usual = (np.abs(answer(series.x) - blank) for series in (HELD_OUT, TRAIN))
    np.testing.assert_array_equal(found.open["mean"], distance > 0.1 * np.sqrt((usual**2).mean()))
    assert {"gap", "comprehensiveness", "aopc"} <= set(found.scores["occlusion"]["mean"])
    assert not {"cpd", "log_odds"} & set(found.scores["occlusion"]["mean"])  # they need probabilities
    assert found.summaries == {}
    assert np.isfinite(found.table().to_numpy()).all()


def test_series_without_the_rare_event_do_not_count():
    """A detector that is above 0 for every twentieth series."""
    detector = nn.Sequential(nn.Flatten(), nn.Linear(48, 1), nn.ReLU())
    with torch.no_grad():
        detector[1].weight.copy_(windows_model()[1].weight[1:2])
        detector[1].bias.fill_(-3.0)
    x = np.random.default_rng(0).normal(scale=0.5, size=(100, 24, 2))
    x[::20, 2:6, 0] += 2
    found = compare(detector, x, ["occlusion"], x, fills=("mean",), task="regress", device="cpu")
    assert np.flatnonzero(~np.isnan(found.gap("occlusion"))).tolist() == [0, 20, 40, 60, 80]
    assert found.recommendation.startswith("Use occlusion")


def test_bare_arrays_and_missing_cells(model):
    seen = np.random.default_rng(0).random(HELD_OUT.shape) < 0.9
    found = compare(model, Series(HELD_OUT.x, observed=seen), ["saliency"], fills=("mean", "local"), device="cpu")
    assert np.isfinite(found.table().to_numpy()).all()
    assert compare(model, HELD_OUT.x, ["saliency"], fills=("mean",), most=20, device="cpu").gap("saliency").shape == (20,)
