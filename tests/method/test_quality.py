"""How good a fit is: its figures by hand, its warnings, and fits that can be good."""

import pytest
import torch
from cases import CONFIG, PAPER_CONFIG, quick, seeded, series

from timex import TimeX
from timex.method.quality import Quality, quality_of
from timex.reference import ResidualTransformer

N, T, D = 4, 5, 3


def test_quality_by_hand():
    p, observed = torch.full((N, T, D), 0.25), torch.ones(N, T, D, dtype=torch.bool)
    observed[0, 3:, 0] = False
    p[0, :3] = 0.75
    agreement, predicted = torch.tensor([True, False, True, True]), torch.tensor([2, 0, 2, 2, 1])
    found = quality_of(p, observed, agreement, predicted)
    kept = (9 * 0.75 + (N * T * D - 9 - 2) * 0.25) / (N * T * D - 2)  # over the cells that were measured
    assert found.kept == pytest.approx(kept)
    assert (found.agreement, found.commonest, found.flat) == (0.75, 0.6, ())
    assert quality_of(p, observed, None, predicted).agreement is None


def test_flat_channels_are_kept_at_every_measured_step_of_most_series():
    p, observed = torch.full((N, T, D), 0.25), torch.ones(N, T, D, dtype=torch.bool)
    p[:3, :, 1] = 0.75
    p[:2, :, 2] = 0.75  # half of the series are not most
    p[:, :, 0], observed[:3, :, 0] = 0.75, False  # of a channel that was not measured nothing is kept
    assert quality_of(p, observed, None, torch.tensor([0])).flat == (1,)
    observed[2, 3:, 1], p[2, 3:, 1] = False, 0.0
    assert quality_of(p, observed, None, torch.tensor([0])).flat == (1,)
    p[2, 2, 1] = 0.25
    assert quality_of(p, observed, None, torch.tensor([0])).flat == ()


@pytest.mark.parametrize(
    ("kept", "agreement", "commonest", "undecided", "untrusted"),
    [
        (0.3, 0.9, 0.3, False, False),
        (0.3, 0.6, 0.3, False, True),  # less than halfway from the most common class to 1
        (0.3, 0.66, 0.3, False, False),
        (0.68, 1.0, 0.3, True, False),
        (0.66, 1.0, 0.3, False, False),
        (0.3, None, 0.3, False, False),  # agreement is undefined for forecasts
    ],
)
def test_which_fits_fail(kept, agreement, commonest, undecided, untrusted):
    quality = Quality(kept, agreement, commonest)
    assert (quality.undecided, quality.untrusted) == (undecided, untrusted)


@pytest.mark.parametrize(
    ("quality", "words"),
    [
        (Quality(0.3, 0.95, 0.34), ""),
        (Quality(0.3, 0.3, 0.34), "for 30 % of the training samples (the most common class is 34 %)"),
        (Quality(0.8, 0.95, 0.34), "keep a cell with probability 0.80 on average"),
        (
            Quality(0.3, 0.95, 0.34, (1, 4)),
            "keep every step of channel 1 and 4 in most series: they show which",
        ),
    ],
)
def test_what_fails_is_logged(quality, words, caplog):
    quality.warn()
    assert len(caplog.records) == (1 if words else 0)
    assert words in caplog.text


def test_where_everything_is_kept_no_channel_is_named(caplog):
    Quality(0.9, 0.95, 0.34, (0, 1)).warn()
    assert "every step of channel" not in caplog.text


def learnable(t=12, d=2):
    """A model, and 32 series: one batch."""
    return seeded(lambda: ResidualTransformer(d, 3, t, d_hidden=16), t, d), series(32, t, d)


@pytest.mark.parametrize(("price", "kept"), [(0.01, (0.5, 1.0)), (0.3, (0.0, 0.5))])
def test_one_batch_can_be_overfitted(price, kept):
    """The generator finds cells that carry the evidence, fewer at a higher price, and the surrogate their classes."""
    model, x = learnable()
    config = CONFIG.replaced({"epochs": 80, "lr": 1e-2, "batch_size": 32, "smoothing": 0, "evidence.free_cells": 1.0})
    config = config.replaced({"evidence.price_low": price, "evidence.price_high": price})
    explainer = TimeX(model, config=config).fit(x, x_val=x, progress=False)
    generator = explainer.history[explainer.history.part == "generator"]
    assert generator["loss"].iloc[-5:].mean() < 0.7 * generator["loss"].iloc[0]
    assert kept[0] < explainer.fitted.quality.kept < kept[1]
    assert generator["sufficiency"].iloc[-5:].mean() + generator["necessity"].iloc[-5:].mean() < 1
    assert explainer.explain(x).agreement.mean() > 0.7


@pytest.mark.parametrize(("lam_e", "left"), [(0.0, 0.25), (1.0, 0.75)])
def test_one_batch_can_be_overfitted_by_the_papers_objective(lam_e, left):
    """The surrogate learns the model's predictions, best where nothing has to be hidden."""
    model, x = learnable()
    config = PAPER_CONFIG.replaced(
        {"epochs": 60, "lr": 1e-2, "batch_size": 32, "generator.dropout": 0.0, "loss.lam_e": lam_e, "loss.label": "instance"}
    )
    explainer = TimeX(model, config=config).fit(x, x_val=x, progress=False)
    first, last = explainer.history.iloc[0], explainer.history.iloc[-5:].mean(numeric_only=True)
    assert last["lc"] < left * first["lc"]
    assert last["loss"] < 0.75 * first["loss"]
    assert last["val_kept"] == pytest.approx(0.5 if lam_e else 1.0, abs=0.05)  # the prior, or everything
    assert explainer.explain(x).agreement.mean() > 0.7


def test_explanations_that_keep_everything_are_logged(caplog):
    """A price that is next to nothing, and one that is not."""
    x = series(32, 12, 2)
    for price, logged in ((1e-6, True), (0.4, False)):
        caplog.clear()
        config = CONFIG.replaced({"lr": 3e-2, "epochs": 20, "evidence.price_low": price, "evidence.price_high": price})
        quick(config=config).fit(x, x_val=x, progress=False)
        assert ("keep a cell with probability" in caplog.text) is logged
