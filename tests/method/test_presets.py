"""The paper's settings: the rows of its hyperparameter tables, and what all of them share."""

import pytest

from timex import TimeXConfig

NAMES = ("freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar", "ecg", "epilepsy", "pam", "boiler", "seqcomb_mv_irregular", "ett")


def test_what_all_rows_share():
    for config in map(TimeXConfig.paper, NAMES):
        assert config.objective == "paper"
        assert (config.loss.lam_e, config.loss.lam_lc, config.mask.tau) == (2.0, 1.0, 1.0)
        assert (config.loss.connectivity, config.loss.select) == ("published", "consistency")
        assert (config.mask.fill, config.mask.sampling, config.training.max_series) == ("draw", "straight_through", None)
        assert (config.generator.residual, config.generator.attention_dropout, config.generator.output) == (
            False,
            True,
            "softmax",
        )
        assert (config.n_landmarks, config.loss.landmark_temperature, config.smoothing) == (50, 1.0, 0)


@pytest.mark.parametrize(
    ("name", "r", "lr", "weight_decay", "epochs", "batch_size", "scheduler"),
    [
        ("freqshapes", 0.5, 1e-3, 1e-3, 50, 64, "plateau"),
        ("seqcomb_uv", 0.5, 1e-3, 1e-3, 50, 64, "plateau"),
        ("seqcomb_mv", 0.5, 1e-3, 1e-3, 100, 64, "none"),
        ("lowvar", 0.5, 3e-3, 1e-4, 100, 64, "none"),
        ("ecg", 0.5, 5e-4, 1e-4, 5, 16, "none"),
        ("epilepsy", 0.5, 1e-4, 1e-3, 50, 32, "plateau"),
        ("pam", 0.1, 2e-3, 1e-3, 100, 32, "none"),
        ("boiler", 0.5, 1e-4, 1e-3, 50, 32, "plateau"),
    ],
)
def test_rows(name, r, lr, weight_decay, epochs, batch_size, scheduler):
    config = TimeXConfig.paper(name)
    assert (config.loss.r, config.lr, config.epochs, config.batch_size) == (r, lr, epochs, batch_size)
    assert (config.training.weight_decay, config.training.scheduler) == (weight_decay, scheduler)


def test_rows_that_change_the_objective():
    assert TimeXConfig.paper("lowvar").loss.consistency == TimeXConfig.paper("pam").loss.consistency == "mbc_normalised"
    assert TimeXConfig.paper("pam").loss.lam_con == TimeXConfig.paper("seqcomb_mv_irregular").loss.lam_con == 0.0
    assert TimeXConfig.paper("freqshapes").loss.lam_con == 2.0
    assert TimeXConfig.paper("ett").forecasts
    assert not TimeXConfig.paper("freqshapes").forecasts


def test_other_splits_and_architectures():
    assert TimeXConfig.paper("ecg_by_patient") == TimeXConfig.paper("ecg")
    assert TimeXConfig.paper("seqcomb_mv_irregular") != TimeXConfig.paper("seqcomb_mv")
    assert TimeXConfig.paper("freqshapes").mask.hide == "auto"
    for arch in ("cnn", "lstm"):
        generator = {"generator.layers": 1, "generator.hidden": 16}  # the paper changes G and G^E alone
        assert TimeXConfig.paper("freqshapes", arch) == TimeXConfig.paper("freqshapes").replaced(
            {"mask.hide": "value", **generator}
        )
        assert TimeXConfig.paper("seqcomb_mv", arch).generator.layers == 2
        assert TimeXConfig.paper("seqcomb_mv", arch).generator.hidden == 128
    with pytest.raises(ValueError, match=r"known for freqshapes, .*, not for 'mine'"):
        TimeXConfig.paper("mine")
