"""Recipes: arms, the paper's settings, smoke and the settings of large data sets."""

from dataclasses import replace

import numpy as np
import pytest

from timex import TimeXConfig, load_dataset
from timex.bench.recipes import (
    PAPER_SWAPS,
    SMOKE_SIZES,
    SWAPS,
    explainer_config,
    few,
    in_paper,
    reference_config,
    shrunk,
)
from timex.data.battery import BATTERY


def timex(arm="", dataset="freqshapes", arch="transformer", **more):
    return explainer_config(dataset, arch, "timex", arm, **more)


def test_an_arm_swaps_one_setting_of_ours_or_of_the_papers():
    assert timex("blended") == TimeXConfig().replaced({"evidence.sampled": 0.0})
    assert timex("paper") == TimeXConfig.paper("freqshapes")
    assert timex("paper_no_ste") == TimeXConfig.paper("freqshapes").replaced({"mask.sampling": "soft"})
    assert timex("paper_r0.3", "lowvar") == TimeXConfig.paper("lowvar").replaced({"loss.r": 0.3})
    assert timex("paper", arch="cnn").mask.hide == "value"
    assert timex(seed=3) == TimeXConfig(seed=3)


def test_every_swap_changes_the_settings():
    default, papers = TimeXConfig(), TimeXConfig.paper("freqshapes")
    assert [arm for arm in SWAPS if timex(arm) == default] == []
    assert [arm for arm in PAPER_SWAPS if timex(f"paper_{arm}") == papers] == ["r0.5"]


def test_unknown_arms_are_refused_with_the_known_ones():
    for arm in ("nothing", "paper_nothing", "no_ste", "paper_blended"):  # the last two belong to the other objective
        with pytest.raises(ValueError, match=f"Unknown arm '{arm}' of TimeX; known: as_occluded, .*, paper, .*, paper_no_ste"):
            timex(arm)
    with pytest.raises(ValueError, match=r"Expected random alone or random:absolute, got random:r0\.1"):
        explainer_config("freqshapes", "transformer", "random", "r0.1")


def test_the_papers_settings_are_known_for_the_papers_data_sets():
    assert [name for name in ("freqshapes", "ecg_by_patient", "ett", "equalshapes") if in_paper(name)] == [
        "freqshapes",
        "ecg_by_patient",
        "ett",
    ]
    with pytest.raises(ValueError, match=r"known for freqshapes, .*, not for 'equalshapes'"):
        timex("paper", "equalshapes")


def test_the_epochs_of_large_models_are_cut():
    assert reference_config("ecg", "transformer").epochs == 8
    assert timex("paper", "ecg").epochs == TimeXConfig.paper("ecg").epochs == 5  # the paper's own


def test_models_of_the_battery_are_small_and_quick():
    for name, recipe in BATTERY.items():
        config = reference_config(name, recipe.arch, seed=2)
        assert config.seed == 2
        assert config.epochs <= 40
        assert config.model.get("width", config.model.get("hidden", config.model.get("d_hidden"))) <= 32
    assert reference_config("heldout_ramps", "transformer").epochs == 200  # of no recipe: the general preset


def test_smoke_is_small():
    data = shrunk(load_dataset("freqshapes"))
    assert tuple(len(p) for p in (data.train, data.val, data.test)) == SMOKE_SIZES
    assert timex(smoke=True).epochs == timex("paper", smoke=True).epochs == 2
    model = reference_config("freqshapes", "transformer", seed=4, smoke=True)
    assert (model.epochs, model.attempts, model.seed) == (2, 1, 4)


def test_few_samples_have_every_class():
    whole = load_dataset("freqshapes").test
    by_class = whole.take(np.argsort(whole.y))
    assert np.bincount(few(by_class, 16).y).tolist() == [4, 4, 4, 4]
    np.testing.assert_array_equal(few(few(by_class, 16), 16).x, few(by_class, 16).x)
    uneven = replace(whole.take([0, 1, 2]), y=[1, 1, 0])
    assert few(uneven, 2).y.tolist() == [1, 0]
