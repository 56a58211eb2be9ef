"""Series far from the training series are flagged, one by one and in total; series like them are not."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from cases import CONFIG
from torch import nn

from timex import TimeX
from timex.io.explanations import read_explanation, write_explanation
from timex.metrics.familiarity import distances_outside, traits, unfamiliar
from timex.records import Series
from timex.reference import adapt
from timex.reference.base import weights_hash

T, D = 24, 2


def waves(n, seed=0):
    """Noisy waves, the second channel slower and larger."""
    rng = np.random.default_rng(seed)
    phase, t = rng.uniform(0, 6, (n, 1, 1)), np.arange(T)[:, None]
    x = np.sin(t * np.array([0.9, 0.4]) + phase) * np.array([1.0, 3.0]) + 0.3 * rng.normal(size=(n, T, D))
    return x.astype(np.float32)


@pytest.fixture(scope="module")
def fitted():
    model = nn.Sequential(nn.Flatten(), nn.Linear(T * D, 8), nn.Tanh(), nn.Linear(8, 3))
    return TimeX(model, config=CONFIG, device="cpu").fit(waves(200), progress=False)


FAR = {
    "shifted": lambda x: x + 5,
    "zeros": np.zeros_like,
    "noise": lambda x: np.random.default_rng(1).normal(size=x.shape).astype(np.float32) * x.std((0, 1)),
    "ramp": lambda x: np.broadcast_to(np.linspace(0, 1e4, T, dtype=np.float32)[:, None], x.shape),
    "ten times as large": lambda x: 10 * x,
}


@pytest.mark.parametrize("kind", FAR)
def test_far_series_are_flagged_one_by_one_and_in_total(fitted, caplog, kind):
    x = waves(40, seed=5)
    x[7:] = FAR[kind](x[7:])
    e = fitted.explain(x)
    assert not e.unfamiliar[:7].any()
    assert e.unfamiliar[7:].mean() > 0.9
    assert f"{e.unfamiliar.sum()} of 40 series lie outside the range of the training series (sample 7 first, by" in caplog.text


def test_series_like_the_training_series_are_not_flagged(fitted, caplog):
    assert not fitted.explain(waves(300, seed=9)).unfamiliar.any()
    assert "training series" not in caplog.text


@pytest.mark.parametrize("n", [20, 60, 256])
def test_few_training_series_flag_few(n):
    """At most one of a hundred, since the tolerance grows where fewer series show less of the range."""
    rates = [unfamiliar(traits(Series(waves(n, i))), Series(waves(200, 100 + i))).flags.mean() for i in range(8)]
    assert np.mean(rates) < 0.01


def test_distances_are_counted_in_widths_of_the_range():
    known = np.array([[0.0, 1.0, 0, 0, 0, 0], [2.0, 1.0, 0.5, 0, 0, 0]])
    other = np.array([[3.0, 1.0, 0.25, 0, 0, 0], [1.0, np.e**0.5, 0, 0, 0, -0.2]])
    expected = [[0.5, 0, 0, 0, 0, 0], [0, 2.0, 0, 0, 0, 2.0]]  # the least widths are .25 for log deviations, .1 otherwise
    np.testing.assert_allclose(distances_outside(known, other), expected, atol=1e-9)


def test_the_reason_names_trait_and_channel():
    known = traits(Series(waves(60)))
    x = waves(3)
    x[1, :, 1] = 0
    found = unfamiliar(known, Series(x, channels=("fast", "slow")))
    assert (found.flags.tolist(), found.reason) == ([False, True, False], "deviation of slow")


def test_too_few_training_series_say_nothing(fitted):
    few = TimeX(fitted.model, device="cpu")
    few.fitted_ = dataclasses.replace(fitted.fitted, traits=fitted.fitted.traits[:9])
    assert few.explain(waves(3)).unfamiliar is None


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_files_keep_the_flags_and_the_hash_of_the_model(fitted, tmp_path, suffix):
    x = waves(4)
    x[2] += 9
    e = fitted.explain(x)
    assert e.model_hash == fitted.fitted.reference_hash == weights_hash(fitted.model)
    read = read_explanation(write_explanation(tmp_path / f"e{suffix}", e))
    assert read.unfamiliar.tolist() == [False, False, True, False]
    assert read.model_hash == e.model_hash


def test_a_retrained_model_has_another_hash(fitted):
    before = fitted.explain(waves(2)).model_hash
    other = TimeX(nn.Sequential(nn.Flatten(), nn.Linear(T * D, 3)), "0", CONFIG, device="cpu").fit(waves(40), progress=False)
    assert other.explain(waves(2)).model_hash != before
    with torch.no_grad():
        other.model[1].weight.add_(1)
    again = other.fit(waves(40), progress=False).explain(waves(2))
    assert again.model_hash == weights_hash(other.model)


def test_a_black_box_has_no_hash():
    from timex.explainers.drawn_occlusion import AugmentedOcclusion

    explainer = AugmentedOcclusion(lambda x: np.stack([x.mean((1, 2)), x.max((1, 2))], 1))
    assert explainer.fit(waves(20)).explain(waves(2)).model_hash == ""


def test_a_model_that_answers_by_chance_is_named():
    class Noisy(nn.Module):
        def forward(self, x):
            return x.mean(1) + torch.rand(2)

    for model in (Noisy(), lambda x: np.random.default_rng().normal(size=(len(x), 2))):
        with pytest.warns(UserWarning, match=r"answers differently when it sees the same series twice \(by up to"):
            adapt(model, waves(5))


def test_the_command_line_marks_samples(fitted):
    from timex.cli.explain import summary

    facts = summary(fitted.explain(waves(1) + 50), 0)
    assert json.loads(json.dumps(facts))["unfamiliar"] is True
