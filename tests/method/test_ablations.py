"""Every switch of the settings runs and changes something, under the objective that reads it."""

from dataclasses import replace

import numpy as np
import pytest
from cases import CONFIG, PAPER_CONFIG, quick, series

SHARED = [
    {"mask.hide": "attention"},
    {"mask.hide": "both"},
    {"training.scheduler": "none", "training.patience": 1, "training.clip": None},
]
EVIDENCE = [
    {"evidence.price_low": 0.1},
    {"evidence.price_high": 1.0},
    {"evidence.free_cells": 1.0},
    {"evidence.lam_hidden": 0.0},
    {"evidence.lam_variation": 1.0},
    {"evidence.sampled": 0.0},
    {"evidence.sampled": 1.0},
    {"mask.fill": "shift"},
    {"mask.fill": "draw"},
    {"generator.width": 8},
    {"generator.gradient_points": 0},
    {"generator.gradient_points": 1},
    {"training.max_series": 20},
]
PAPER = [
    {"mask.sampling": "soft"},
    {"mask.hide": "auto"},
    {"mask.fill": "mean"},
    {"loss.r": 0.2},
    {"loss.consistency": "simclr"},
    {"loss.consistency": "none"},
    {"loss.consistency": "mbc_normalised"},
    {"loss.label": "pairwise"},
    {"loss.label": "pairwise", "loss.divergence": "js"},
    {"loss.label": "instance"},
    {"loss.label": "none"},
    {"loss.landmark_temperature": 0.1},
    {"loss.connectivity": "equation"},
    {"loss.connectivity": "published_batch"},
    {"loss.reference_dropout": True},
    {"loss.select": "objective"},
    {"training.scheduler": "cosine"},
    {"generator.layers": 1, "generator.hidden": 5, "generator.dropout": 0.0},
    {"generator.residual": True},
    {"generator.attention_dropout": False},
    {"generator.output": "sigmoid"},
]
NOTHING = ({"mask.hide": "auto"}, {"training.scheduler": "cosine"})
"""Switches that change nothing on this model and in one epoch."""


def name(switch):
    return "-".join(f"{key}={value}" for key, value in switch.items())


def after_one_epoch(mv, config):
    explainer = mv.fresh(replace(config, epochs=1)).fit(mv.x, x_val=mv.x_val, progress=False)
    assert np.isfinite(explainer.explain(mv.asked).attribution).all()
    return explainer.history


@pytest.fixture(scope="module")
def plain(mv):
    """The histories without any switch."""
    return {config: after_one_epoch(mv, config) for config in (CONFIG, PAPER_CONFIG)}


def check_switch(mv, plain, config, switch):
    """The switch runs, its figures are finite, and it changes the losses."""
    history = after_one_epoch(mv, config.replaced(switch))
    losses = history.drop(columns=["part", "selected"])
    assert np.isfinite(losses[history.part != "surrogate"].dropna(axis=1, how="all").to_numpy()).all()
    if switch not in NOTHING:
        assert history.loc[0, ["loss", "criterion"]].tolist() != plain[config].loc[0, ["loss", "criterion"]].tolist()
    return history


@pytest.mark.parametrize("switch", [*SHARED, *EVIDENCE], ids=name)
def test_every_switch_of_the_evidence_objective_does_something(mv, plain, switch):
    history = check_switch(mv, plain, CONFIG, switch)
    assert history["part"].tolist() == ["generator", "surrogate"]


@pytest.mark.parametrize("switch", [*SHARED, *PAPER], ids=name)
def test_every_switch_of_the_papers_objective_does_something(mv, plain, switch):
    history = check_switch(mv, plain, PAPER_CONFIG, switch)
    off = {term for term, key in (("mbc", "loss.consistency"), ("lc", "loss.label")) if switch.get(key) == "none"}
    assert {term for term in ("mbc", "lc") if history[term].item() == 0} == off


def test_attention_masking_of_a_model_without_attention():
    with pytest.raises(ValueError, match=r"mask.hide='attention' needs a model with an attention mask, which CNN has not"):
        quick(config=CONFIG.replaced({"mask.hide": "attention"})).fit(series(20, 12, 2), progress=False)
