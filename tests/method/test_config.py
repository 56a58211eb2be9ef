"""Settings: errors by name, and the numbers that stacked trainings may differ in."""

import pytest

from timex import TimeXConfig


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"loss.r": 0.0}, "Expected r > 0, got 0.0"),
        ({"loss.r": 1.0}, "Expected r < 1, got 1.0"),
        ({"mask.tau": 0.0}, "Expected tau > 0, got 0.0"),
        ({"loss.landmark_temperature": 0.0}, "Expected landmark_temperature > 0, got 0.0"),
        ({"smoothing": -1}, "Expected smoothing >= 0, got -1"),
        ({"lr": -1.0}, "Expected lr > 0, got -1.0"),
        ({"loss.lam_lc": -1.0}, "Expected lam_lc >= 0, got -1.0"),
        ({"loss.lam_e": -1.0}, "Expected lam_e >= 0"),
        ({"loss.lam_con": -1.0}, "Expected lam_con >= 0"),
        ({"training.weight_decay": -0.1}, "Expected weight_decay >= 0"),
        ({"evidence.sampled": 1.5}, "Expected sampled <= 1, got 1.5"),
        ({"n_landmarks": 0}, "Expected n_landmarks >= 1, got 0"),
        ({"epochs": 0}, "Expected epochs >= 1, got 0"),
        ({"epochs": 1.5}, "Expected epochs as int or None, got 1.5"),
        ({"batch_size": 1}, "Expected batch_size >= 2, got 1"),
        ({"training.patience": 0}, "Expected patience >= 1, got 0"),
        ({"training.clip": 0.0}, "Expected clip > 0, got 0.0"),
        ({"generator.layers": -1}, "Expected layers >= 1, got -1"),
        ({"generator.hidden": 0}, "Expected hidden >= 1, got 0"),
        ({"generator.gradient_points": -1}, "Expected gradient_points >= 0, got -1"),
        ({"generator.dropout": 1.0}, "Expected dropout < 1, got 1.0"),
        ({"loss.consistency": "none", "loss.label": "none"}, "got neither: nothing would tie the masks to the model"),
        ({"evidence.price_low": 0.5}, "Expected price_low <= price_high, got 0.5 and 0.4"),
        ({"evidence.free_cells": 0.0}, "Expected free_cells > 0, got 0.0"),
        ({"training.max_series": 3}, "Expected max_series >= 4, got 3"),
        ({"objective": "mine"}, "Expected objective among evidence, paper, instance, got 'mine'"),
        ({"mask.sampling": "hard"}, "Expected sampling among straight_through, soft, got 'hard'"),
        ({"mask.hide": "values"}, "Expected hide among value, attention, both, auto, got 'values'"),
        ({"masking": "value"}, "Unknown setting 'masking'"),
        ({"loss.lam_f": 1.0}, r"Unknown setting 'loss\.lam_f': did you mean loss\.lam_"),
    ],
)
def test_errors_name_the_setting(values, words):
    with pytest.raises(ValueError, match=words):
        TimeXConfig().replaced(values)


def test_no_two_numbers_share_a_name():
    """A stack of trainings knows them by the last part of their names."""
    assert len(TimeXConfig().scalars()) == sum(row.scalar for row in TimeXConfig.rows())


def test_the_numbers_of_a_stack():
    config = TimeXConfig().replaced({"loss.r": 0.2, "loss.lam_con": 3.0, "mask.tau": 0.5, "evidence.price_low": 0.1})
    assert config.scalars() == {
        "price_low": 0.1,
        "price_high": 0.4,
        "free_cells": 10.0,
        "lam_hidden": 1.0,
        "lam_variation": 0.05,
        "sampled": 0.5,
        "r": 0.2,
        "lam_lc": 1.0,
        "lam_e": 2.0,
        "lam_con": 3.0,
        "landmark_temperature": 1.0,
        "tau": 0.5,
    }
