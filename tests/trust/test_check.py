"""The verdict on explainers that are right or wrong by construction. Slow: seven planted failures of TimeX."""

import copy
import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from windows import WINDOWS, C, D, T, windows_model, windows_series

from timex import Series, TimeX, TimeXConfig, check
from timex.explainers import Amplitude, Gradients, IntegratedGradients, Occlusion, Random
from timex.explainers.batch import uniform_per_sample
from timex.metrics import distance_from
from timex.records import Explanation
from timex.trust.measure import measured, over_time, probe_of, recall_over_chance
from timex.trust.randomise import correlation_with, shuffled

HELD_OUT = windows_series(120, seed=1)
TRAIN = windows_series(240)


@pytest.fixture(scope="module")
def model():
    return windows_model()


@pytest.fixture(scope="module")
def explainer(model):
    return Gradients(model, device="cpu").fit(TRAIN, progress=False)


class Masked(IntegratedGradients):
    """Integrated gradients from the zero series, and a mask: the four largest cells, but none for one class."""

    name = "masked"
    empty = -1

    def _explain(self, batch):
        a = super()._explain(batch)["attribution"].abs()
        edge = a.flatten(1).topk(4).values[:, -1:, None]
        return {"attribution": a, "mask": (a >= edge) & (batch.target != self.empty)[:, None, None]}


class EmptyForOne(Masked):
    empty = 2


class WholeChannels(Masked):
    """Keeps every step of the deciding channel."""

    def _explain(self, batch):
        a = super()._explain(batch)["attribution"].detach()
        a = over_time(a.numpy(), Series(batch.x.numpy()))
        return {"attribution": torch.tensor(a, dtype=torch.float32), "mask": torch.tensor(a == a.max((1, 2), keepdims=True))}


def verdicts(group):
    return {f.name: f.verdict for f in group.findings if f.verdict != "trust"}


def test_explanations_that_are_right_are_trusted(model, explainer):
    for found in (check(explainer, HELD_OUT, TRAIN), check(Masked(model, device="cpu"), HELD_OUT, TRAIN)):
        assert found.verdict == "trust", str(found)
        assert found.default == "rest"
        assert [(g.name, g.n) for g in found.classes] == [("rest", 40), ("early", 40), ("late", 40)]
        late = found.classes[2]
        assert (late["kept alone"].value, late["without kept"].value) == (1.0, 0.0)
    assert late["share kept"].value == pytest.approx(4 / (T * D))


def test_explainers_have_a_shortcut(explainer):
    assert explainer.check(HELD_OUT, TRAIN, seed=1) == check(explainer, HELD_OUT, TRAIN, seed=1)


def test_a_random_order_and_the_size_of_values_are_not_trusted(model):
    assert verdicts(check(Random(model, device="cpu"), HELD_OUT, TRAIN).overall)["evidence gap"] == "do not use"
    found = check(Amplitude(model, device="cpu"), HELD_OUT, TRAIN)
    assert verdicts(found.overall)["shuffled weights"] == "do not use"  # another model gets the same explanations
    assert found.verdict == "do not use"


def test_explanations_that_move_with_the_seed_or_with_noise_are_weak(model):
    found = check(Random(model, device="cpu"), HELD_OUT, TRAIN)
    assert found.overall["two seeds"].verdict == "weak"  # no fit is needed: the second seed is free
    assert abs(found.overall["two seeds"].value) < 0.1
    assert found.overall["small noise"].value == 1  # the same random numbers

    class Hash(Masked):
        """Scores that follow the last digits of the values."""

        def _explain(self, batch):
            return {"attribution": (1e4 * batch.x) % 1}

    assert check(Hash(model, device="cpu"), HELD_OUT, TRAIN).overall["small noise"].verdict == "weak"


def test_a_second_fit_with_another_seed(model):
    class Seeded(Random):
        """Right scores, plus as much noise as the fit was told."""

        name = "seeded"
        needs_fit = True

        def _fit(self, train, val, progress):
            return SimpleNamespace(shape=train.shape[1:], seed=self.config.seed)

        def _explain(self, batch):
            noise = uniform_per_sample(self.fitted.seed, batch.place, *batch.x.shape[1:])
            return {"attribution": batch.x.abs() + 0.1 * noise}

    seeded = Seeded(model, device="cpu").fit(TRAIN)
    with pytest.raises(ValueError, match="Expected train= for a refit"):
        check(seeded, HELD_OUT, second_seed=True)
    assert "two seeds" not in [f.name for f in check(seeded, HELD_OUT).overall.findings]  # a fit is asked for
    found = check(seeded, HELD_OUT, TRAIN, second_seed=True).overall["two seeds"]
    assert found.verdict == "trust"
    assert 0.9 < found.value < 1
    assert (seeded.fitted.seed, seeded.config.seed) == (0, 0)


def test_other_fills_are_asked_too(explainer):
    with_train, without = check(explainer, HELD_OUT, TRAIN, refit=True), check(explainer, HELD_OUT, fill="local")
    meaning = with_train.overall["other fills"].meaning
    assert re.findall("filled by (\\w+), evidence gap over a random order", meaning) == ["zero", "local", "draw"]
    assert set(with_train.unmeasured) == {"two seeds"}
    assert "local" not in without.overall["other fills"].meaning
    assert without.unmeasured == {
        "familiar series": ("train",),  # the fit keeps the mean of its training series, and no more of them
        "other fills, draw": ("train",),
        "two seeds": ("second_seed", "train"),
        "explanations of shuffled models": ("refit", "train"),  # the same explanations were scored on such models
    }
    for words in ("other fills, draw: not measured: pass train=\n", "models: not measured: pass refit=True and train=\n"):
        assert words in str(without)


def test_series_are_not_compared_with_themselves(model):
    """Without a fit and without training series nothing shows where the training series lie."""
    occlusion = Occlusion(model, device="cpu")
    for x in (HELD_OUT, Series(HELD_OUT.x + 4)):
        found = check(occlusion, x)
        assert not {"training range", "familiar series"} & {f.name for f in found.overall.findings}
        assert found.unmeasured == {"training range": ("train",), "familiar series": ("train",)}
    found = check(occlusion, Series(HELD_OUT.x + 4), TRAIN)
    assert found.unmeasured == {}
    assert verdicts(found.overall)["training range"] == "do not use"


def test_empty_masks_of_one_class_weaken_the_whole(model):
    found = check(EmptyForOne(model, device="cpu"), HELD_OUT, TRAIN)
    assert found.verdict == "weak"
    assert [g.verdict for g in found.classes[1:]] == ["trust", "do not use"]
    assert verdicts(found.classes[2])["share kept"] == "do not use"


def test_whole_channels_say_no_moments(model):
    found = check(WholeChannels(model, device="cpu"), HELD_OUT, TRAIN)
    assert verdicts(found.overall)["moments"] == "weak"
    assert found.overall["kept alone"].verdict == "trust"  # the channel is right


def test_a_constant_model_is_not_trusted(model):
    constant = copy.deepcopy(model)
    with torch.no_grad():
        constant[1].weight.zero_()
    found = check(Occlusion(constant, device="cpu"), HELD_OUT, TRAIN)
    assert verdicts(found.overall)["guessing"] == "do not use"
    assert verdicts(found.overall)["evidence gap"] == "do not use"
    assert found.verdict == "do not use"
    assert found.classes[0].verdict == "do not use"


def test_the_usual_distance_is_that_of_the_training_series(explainer):
    """Most series are small and few are large: the median lies far below one deviation, in training as in the check."""
    size = np.where(np.arange(240) % 6 < 3, 8.0, 0.5)[:, None, None]
    train, held_out = Series(TRAIN.x * size), Series(HELD_OUT.x * size[:120])
    found = check(explainer, held_out.take(size[:120, 0, 0] < 1), train).overall["training range"]
    assert "(usual: 0." in found.meaning
    assert check(explainer, held_out, train).overall["training range"].verdict == "trust"


@pytest.mark.parametrize("order", ["steps", "noise"])
def test_series_of_usual_values_in_another_order_are_not_trusted(explainer, order):
    """Smooth training series; the check has the same values without their smoothness."""

    def smooth(series):
        return Series((series.x + np.roll(series.x, 1, axis=1) + np.roll(series.x, 2, axis=1)) / 3)

    train, held_out = smooth(TRAIN), smooth(HELD_OUT)
    assert check(explainer, held_out, train).overall["familiar series"].verdict == "trust"
    rng = np.random.default_rng(0)
    mean, std = train.baseline()
    x = rng.permuted(held_out.x, axis=1) if order == "steps" else mean + std * rng.normal(size=held_out.shape)
    found = check(explainer, Series(x), train).overall
    assert found["familiar series"].verdict == "do not use"
    assert found["training range"].verdict != "do not use"


def test_a_model_that_learned_nothing_is_not_trusted(explainer):
    wrong = dataclasses.replace(HELD_OUT, y=np.random.default_rng(0).permutation(HELD_OUT.labels))
    assert check(explainer, wrong, TRAIN).overall["accuracy"].verdict != "trust"
    opposite = dataclasses.replace(HELD_OUT, y=(HELD_OUT.labels + 1) % C)
    assert check(explainer, opposite, TRAIN).overall["accuracy"].verdict == "do not use"
    assert check(explainer, HELD_OUT, TRAIN).overall["accuracy"].value == 1


def test_empty_masks_of_the_default_class_weaken_it(model):
    class EmptyForDefault(Masked):
        empty = 0

    found = check(EmptyForDefault(model, device="cpu"), HELD_OUT, TRAIN)
    assert found.default == found.classes[0].name == "rest"
    assert found.classes[0]["share kept"].verdict == "weak"
    assert "no cell has to be kept" in found.classes[0]["share kept"].advice


@pytest.mark.parametrize("x", [5 * HELD_OUT.x, HELD_OUT.x + 4, 0.05 * HELD_OUT.x], ids=["large", "shifted", "small"])
def test_series_from_elsewhere_are_not_trusted(explainer, x):
    found = check(explainer, Series(x), TRAIN)
    assert verdicts(found.overall)["training range"] == "do not use"


def test_a_class_of_few_series_is_weak(explainer):
    few = HELD_OUT.take(np.r_[np.flatnonzero(HELD_OUT.y != 2), np.flatnonzero(HELD_OUT.y == 2)[:3]])
    assert verdicts(check(explainer, few, TRAIN).classes[2]) == {"series": "weak"}


def test_the_result_is_plain_json(explainer):
    facts = json.loads(json.dumps(check(explainer, HELD_OUT, TRAIN).to_dict(), allow_nan=False))
    assert (facts["verdict"], facts["default_class"], facts["overall"]["verdict"]) == ("trust", "rest", "trust")
    assert facts["numbers"] is False
    assert facts["unmeasured"] == {"two seeds": ["second_seed"], "explanations of shuffled models": ["refit"]}
    assert facts["model_hash"] == explainer.explain(HELD_OUT).model_hash != ""
    names = [f["name"] for f in facts["overall"]["findings"]]
    assert names[:5] == ["guessing", "accuracy", "training range", "familiar series", "share kept"]
    assert len(names) == len(set(names))
    values = [f["value"] for group in (facts["overall"], *facts["classes"]) for f in group["findings"]]
    assert any(value % 1 for value in values)
    assert all(value == float(f"{value:.4g}") for value in values)


def regression(weight=0.75, offset=100.0):
    """One number: the offset, and `weight` times the sum of the window of class 1."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(T * D, 1))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.fill_(offset)
        steps, channel = WINDOWS[1]
        model[1].weight.view(T, D)[steps, channel] = weight
    return model


def test_a_model_of_numbers():
    found = check(Masked(regression(), task="regress", device="cpu"), HELD_OUT, TRAIN)
    assert found.verdict == "trust", str(found)
    assert (found.numbers, found.default, found.classes) == (True, "", ())
    assert "the model's numbers hold 100.0% of the evidence" in found.overall["kept alone"].meaning
    assert found.overall["without kept"].value < 0.01
    names = {f.name for f in found.overall.findings}
    assert "answers" in names
    assert not {"guessing", "accuracy", "agreement"} & names  # they need classes
    assert "The model gives numbers" in str(found)
    facts = json.loads(json.dumps(found.to_dict()))
    assert (facts["numbers"], facts["classes"]) == (True, [])


def test_the_unit_of_numbers_does_not_change_the_verdict():
    values = [
        [f.value for f in check(Masked(regression(w, o), task="regress", device="cpu"), HELD_OUT, TRAIN).overall.findings]
        for w, o in ((0.75, 100.0), (0.0075, 0.0))
    ]
    np.testing.assert_allclose(*values, atol=0.01)


def test_wrong_explanations_of_numbers_are_not_trusted():
    how = {"task": "regress", "device": "cpu"}
    assert verdicts(check(Random(regression(), **how), HELD_OUT, TRAIN).overall)["evidence gap"] == "do not use"
    constant = check(Occlusion(regression(weight=0.0), **how), HELD_OUT, TRAIN)
    assert verdicts(constant.overall)["answers"] == "do not use"
    assert verdicts(check(Amplitude(regression(), **how), HELD_OUT, TRAIN).overall)["shuffled weights"] == "do not use"


def rare_series(n, seed=0):
    """Noise, and a bump in the window of class 1 for every fiftieth series."""
    x = np.random.default_rng(seed).normal(scale=0.5, size=(n, T, D))
    steps, channel = WINDOWS[1]
    x[::50, steps, channel] += 2
    return Series(x)


def test_a_detector_of_rare_events():
    """A right explanation of a model that answers 2 % of the series otherwise than a blank series."""
    detector = nn.Sequential(*regression(offset=-3.0), nn.ReLU())
    how = {"task": "regress", "device": "cpu"}
    found = check(Masked(detector, **how), rare_series(500, seed=1), rare_series(500))
    assert verdicts(found.overall) == {"answers": "weak"}, str(found)
    assert found.overall["answers"].value == 0.02
    assert "few series get another answer than a blank one" in found.overall["answers"].advice
    assert found.overall["kept alone"].value == pytest.approx(1, abs=0.01)  # of the 10 series that have a reason
    random = check(Random(detector, **how), rare_series(500, seed=1), rare_series(500))
    assert verdicts(random.overall)["evidence gap"] == "do not use"


@pytest.mark.parametrize("n_events", [0, 1, 7])
def test_too_few_events_condemn_nothing(n_events):
    detector = nn.Sequential(*regression(offset=-3.0), nn.ReLU())
    events = rare_series(500, seed=1).take(np.arange(500) % 50 == 0)
    quiet = rare_series(500, seed=1).take(np.arange(500) % 50 != 0).take(slice(0, 100))
    x = np.concatenate([events.x[:n_events], quiet.x])
    found = check(Occlusion(detector, task="regress", device="cpu"), x, rare_series(500))
    assert verdicts(found.overall) == {"answers": "weak", "series": "weak"}, str(found)
    assert f"only {n_events} series get another answer" in found.overall["series"].meaning


def test_training_series_may_be_an_array(model):
    of_arrays = check(Gradients(model, device="cpu").fit(TRAIN.x), HELD_OUT.x, TRAIN.x)
    assert str(of_arrays) == str(check(Gradients(model, device="cpu").fit(TRAIN), Series(HELD_OUT.x), TRAIN))


def test_a_refit_needs_training_series(explainer):
    with pytest.raises(ValueError, match="Expected train= for a refit"):
        check(explainer, HELD_OUT, refit=True)


def test_refitting_for_shuffled_models(model, explainer):
    found = check(explainer, HELD_OUT, TRAIN, refit=True)
    assert "with explanations of a model with shuffled weights" in found.overall["shuffled weights"].meaning
    assert found.verdict == "trust"
    assert explainer.fitted_ is not None  # the explainer itself stays fitted


def test_measured_values_by_hand(model):
    """Two series of class 1 whose explanation keeps half of the window, and the other half is zero."""
    x = np.zeros((2, T, D), np.float32)
    x[:, 2:4, 0] = 4.0
    a = np.where(x > 0, 1.0, 0.0).astype(np.float32)
    a[1, 2:4, 0] = 0.0
    a[1, 20, 1] = 1.0  # the second explanation points elsewhere
    e = Explanation(
        series=Series(x),
        attribution=a,
        mask=a > 0.5,
        prediction=np.array([1, 1]),
        probability=np.eye(C, dtype=np.float32)[[1, 1]],
    )
    nothing = Series(np.zeros((3, T, D))).baseline()
    explainer = IntegratedGradients(model, device="cpu")
    explainer.explain(e.series)  # an explainer tries its model on the first series
    probe = dataclasses.replace(probe_of(explainer, e.series), background=nothing)
    m = measured(explainer, e, probe)
    assert m.predicted.tolist() == [1, 1]
    assert m.alone.tolist() == [True, False]
    assert m.without.tolist() == [False, True]
    assert m.kept.tolist() == [2 / (T * D), 1 / (T * D)]
    assert m.correlation == pytest.approx([1.0, spearmanr(a[1].ravel(), np.abs(x[1]).ravel()).statistic])


def test_recall_over_chance_by_hand():
    predicted, y = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 0, 1, 1])  # recalls of 1/2 and 1/2
    found = recall_over_chance(predicted, y, 3)
    assert found.mean == pytest.approx(1 / 2 - 1 / 3)
    assert found.high - found.mean == pytest.approx(1.96 * np.sqrt(0.25 / 4 + 0.25 / 2) / 2)


def test_distance_counts_training_deviations():
    train = Series(np.array([[[0.0, 10.0], [0.0, 10.0]], [[2.0, 30.0], [2.0, 30.0]]]))  # means 1, 20; deviations 1, 10
    x = np.array([[[1.0, 20.0], [1.0, 20.0]], [[4.0, 50.0], [4.0, 50.0]]])
    np.testing.assert_allclose(distance_from(train.baseline(), Series(x)), [0, 3], atol=1e-6)


def test_constant_maps_are_alike_only_if_both_are():
    """Measured cells alone count: the last cell of every series is missing."""
    seen = np.array([[[True], [True], [False]]] * 3)
    series = Series(np.ones((3, 3, 1)), observed=seen)

    def maps(*rows):
        a = np.array(rows, np.float32)[:, :, None]
        return Explanation(series=series, attribution=a, prediction=np.zeros(3, int), probability=np.ones((3, 1), np.float32))

    first, second = maps([2, 2, 9], [2, 2, 9], [1, 2, 0]), maps([5, 5, 0], [1, 2, 0], [1, 3, 0])
    assert correlation_with(first, second).tolist() == [1, 0, 1]


def test_shuffling_keeps_the_values_and_the_model(model):
    before = model[1].weight.clone()
    other = shuffled(model, 0)
    assert torch.equal(model[1].weight, before)
    assert not torch.equal(other[1].weight, before)
    assert torch.equal(other[1].weight.flatten().sort().values, before.flatten().sort().values)


# -------------------------------------------------------------------------------------- planted failures of a fitted TimeX


@pytest.fixture(scope="module")
def fitted(model):
    return TimeX(model, "0", device="cpu").fit(TRAIN, progress=False)


def refitted(fitted, **changes):
    """The explainer with another model or generator, as if loaded so."""
    other = copy.copy(fitted)
    other.fitted_ = dataclasses.replace(fitted.fitted, **changes)
    return other


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestPlantedFailures:
    def test_a_good_fit(self, fitted):
        found = check(fitted, HELD_OUT, TRAIN, second_seed=True)
        assert found.verdict == "trust", str(found)
        assert found.overall["two seeds"].value > 0.5

    def test_one_epoch_of_the_papers_objective(self, model):
        config = dataclasses.replace(TimeXConfig.paper("freqshapes", "cnn"), epochs=1)
        found = check(TimeX(model, "0", config, device="cpu").fit(TRAIN, progress=False), HELD_OUT)
        assert found.verdict == "do not use", str(found)

    def test_a_generator_with_random_weights(self, fitted):
        random = copy.deepcopy(fitted.fitted.model)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in random.generator.parameters():
                p.copy_(torch.randn(p.shape, generator=generator))
        found = check(refitted(fitted, model=random), HELD_OUT)
        assert found.verdict == "do not use", str(found)

    def test_a_model_with_shuffled_weights(self, fitted):
        found = check(refitted(fitted, reference_hash="another"), HELD_OUT)
        assert verdicts(found.overall)["same model"] == "do not use"
        other = shuffled(fitted.fitted.reference, 1)
        found = check(refitted(fitted, reference=other), HELD_OUT)
        assert found.verdict != "trust", str(found)

    def test_a_constant_model(self, fitted):
        constant = copy.deepcopy(fitted.fitted.reference)
        with torch.no_grad():
            for p in constant.parameters():
                p.zero_()
            list(constant.parameters())[-1][1] = 3.0
        found = check(refitted(fitted, reference=constant), HELD_OUT)
        assert verdicts(found.overall)["guessing"] == "do not use"

    def test_series_from_another_distribution(self, fitted):
        assert check(fitted, Series(5 * HELD_OUT.x)).verdict == "do not use"
        noise = np.random.default_rng(3).normal(size=HELD_OUT.shape) * HELD_OUT.x.std()
        found = check(fitted, Series(noise))  # what the training series are like is kept with the fit
        assert found.overall["familiar series"].value > 0.8
