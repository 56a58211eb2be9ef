"""The evidence objective: price and loss by hand, which part each term trains, and the surrogate on finished masks."""

import math

import pytest
import torch
from parts import MEAN, STD, B, C, D, T, config_of, noise, seeded, series, transformer

from timex.method import losses
from timex.method.evidence import EvidenceObjective, SurrogateObjective, priced
from timex.method.masking import filled
from timex.method.model import TimeXModel
from timex.method.objective import FROZEN
from timex.reference.evidence import log_odds

Z = 16 + D


# -------------------------------------------------------------------------------------------------------------- the price


def test_priced_by_hand():
    # Channel 1: 1, 1, 0, .5 keeps 2.5 cells and changes by 1.5. Channel 2 is constant at .25: 1 cell. 3.5 cells in all.
    p = torch.tensor([[[1.0, 0.25], [1.0, 0.25], [0.0, 0.25], [0.5, 0.25]], [[0.0, 0.0]] * 4])
    size, variation = priced(p, 7.0)
    assert size.tolist() == pytest.approx([math.log(1 + 3.5 / 7), 0.0])
    assert variation.tolist() == pytest.approx([1.5 / (3.5 + 7), 0.0])


def test_halving_an_explanation_is_worth_the_same_at_any_size():
    for cells in (10_000, 100_000):
        large, small = (priced(torch.ones(1, n, 1), 10.0)[0] for n in (cells, cells // 2))
        assert float(large - small) == pytest.approx(math.log(2), abs=1e-3)


# ------------------------------------------------------------------------------------------------------------- the loss


def made(settings=None, fill="mean", observed=None, seed=1):
    """An objective, its weights, a batch with the frozen model's outputs, and the arguments around them."""
    config = config_of(settings)
    reference = transformer().requires_grad_(False)
    model = seeded(lambda: TimeXModel(reference, config), seed)
    x = series() if observed is None else series() * observed
    times = None if observed is None else torch.arange(1.0, T + 1).expand(B, T) * 1.5
    blank = MEAN.expand(B, T, D) if observed is None else MEAN * observed
    with torch.no_grad():
        out = reference.output(x, times, observed)
        batch = {"x": x, "z": out.z, "logits": out.logits, "blank": reference(blank, times, observed)}
    batch |= {"gradient": series(seed=7), "context": series(d=1, seed=8)[:, 0].expand(B, Z + C)}
    batch |= {} if observed is None else {"times": times, "observed": observed}
    params = {name: p.detach().clone().requires_grad_() for name, p in model.generator.named_parameters()}
    frozen = {"mean": MEAN, "std": STD, **{FROZEN + name: p for name, p in reference.named_parameters()}}
    hyper = {name: torch.tensor(value) for name, value in config.scalars().items()} | {"spread": torch.tensor(0.3)}
    return EvidenceObjective(model, reference, config, fill), params, frozen, batch, hyper


def loss_by_hand(objective, batch, hyper, key=3):
    """The terms, sample by sample, from the same random numbers."""
    model, reference, source = objective.model, objective.reference, noise(key)
    x, times, observed = batch["x"], batch.get("times"), batch.get("observed")
    price = 2 * source.uniform(B, 1, 1) - 1
    curve = model.generator(x, batch["gradient"], batch["context"], times, observed)
    p = 1 / (1 + (curve.slope * price - curve.level).exp())
    p = p if observed is None else p * observed
    sample, blended = (source.uniform(B, T, D) > 1 - p).float(), source.uniform(B) >= hyper["sampled"]
    fill = filled(objective.fill, x, MEAN, STD, source).expand(B, T, D)
    terms = {"sufficiency": 0.0, "necessity": 0.0, "size": 0.0, "variation": 0.0}
    for i in range(B):
        keep = p[i] if blended[i] else sample[i]
        views = [m * x[i] + (1 - m) * fill[i] for m in (keep, 1 - p[i])]
        views = views if observed is None else [v * observed[i] for v in views]
        rest = [None if v is None else v[i : i + 1] for v in (times, observed)]
        kept, hidden = (reference(v[None], *rest) for v in views)
        c = batch["logits"][i : i + 1].argmax(-1)
        whole, from_kept, from_hidden, none = (
            float(log_odds(v, c)) for v in (batch["logits"][i : i + 1], kept, hidden, batch["blank"][i : i + 1])
        )
        none = min(none, 0.0) if objective.fill == "shift" else none
        unit = max(1.0, whole - none)
        cells = float(p[i].sum())
        place = (float(price[i]) + 1) / 2
        cost = math.exp((1 - place) * math.log(hyper["price_low"]) + place * math.log(hyper["price_high"]))
        given = float(batch["blank"][i].softmax(-1)[c])
        weight = 1.0 if objective.fill == "shift" else min(1.0, (1 - given) / (1 - 1 / C))
        terms["sufficiency"] += weight * max(0.0, whole - from_kept) / unit / B
        terms["necessity"] += weight * max(0.0, from_hidden - none) / unit / B
        terms["size"] += weight * cost * math.log(1 + cells / hyper["free_cells"]) / B
        terms["variation"] += weight * float((p[i, 1:] - p[i, :-1]).abs().sum()) / (cells + hyper["free_cells"]) / B
    return terms


@pytest.mark.parametrize("fill", ["mean", "draw", "shift"])
@pytest.mark.parametrize("missing", [False, True])
@torch.no_grad()
def test_the_loss_is_the_loop_over_samples(fill, missing):
    observed = (series(seed=5) > -0.7) if missing else None
    settings = {"evidence.lam_hidden": 0.7, "evidence.lam_variation": 0.2, "evidence.free_cells": 3.0}
    objective, params, frozen, batch, hyper = made(settings, fill, observed)
    found = objective.loss(params, frozen, batch, hyper, noise())
    expected = loss_by_hand(objective, batch, {n: float(v) for n, v in hyper.items()})
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-3, abs=1e-5), name
    total = expected["sufficiency"] + 0.7 * expected["necessity"] + expected["size"] + 0.2 * expected["variation"]
    assert float(found["loss"]) == pytest.approx(total, rel=1e-3)
    assert min(expected.values()) > 0


def test_a_class_that_a_blank_series_gets_trains_nothing():
    """Its masks would become empty, and its cells would no longer be ranked."""
    objective, params, frozen, batch, hyper = made()
    batch["blank"] = torch.nn.functional.one_hot(batch["logits"].argmax(-1), C) * 60.0
    terms = objective.loss(params, frozen, batch, hyper, noise())
    gradients = torch.autograd.grad(terms["loss"], list(params.values()), allow_unused=True)
    assert all(gradient is None or not gradient.any() for gradient in gradients)
    objective.fill = "shift"  # which has no blank series
    assert objective.loss(params, frozen, batch, hyper, noise())["size"] > 0


@torch.no_grad()
def test_evidence_of_a_forecast_is_its_squared_error():
    objective, *_ = made()
    objective.forecasts = True
    answer, kept, hidden, blank = (series(B, 1, C, seed=seed)[:, 0] for seed in range(4))
    lacks, remains = objective._shares(answer, kept, hidden, blank, torch.tensor(0.3))
    for i in range(B):
        far = [float((v[i] - answer[i]).square().mean() / 0.3) for v in (kept, hidden, blank)]
        unit = max(1.0, far[2])
        assert float(lacks[i]) == pytest.approx(far[0] / unit, rel=1e-4)
        assert float(remains[i]) == pytest.approx(max(0.0, far[2] - far[1]) / unit, rel=1e-4, abs=1e-6)


def test_a_series_that_keeps_everything_lacks_nothing():
    objective, *_ = made()
    answer, blank = series(B, 1, C)[:, 0], series(B, 1, C, seed=1)[:, 0]
    lacks, remains = objective._shares(answer, answer, blank, blank, None)
    assert (lacks == 0).all()
    assert (remains == 0).all()


def test_only_the_generator_is_trained_and_all_of_it():
    objective, params, frozen, batch, hyper = made()
    terms = objective.loss(params, frozen, batch, hyper, noise())
    gradients = torch.autograd.grad(terms["loss"], list(params.values()), allow_unused=True)
    zero_at_start = {n for n in params if ".out." not in n and n.split(".")[0] in ("local", "after")}
    for name, gradient in zip(params, gradients, strict=True):
        if name not in zero_at_start:  # the last layer of a block starts at zero, and stops the gradient before it
            assert gradient is not None, name
            assert float(gradient.abs().max()) > 0, name
    assert not any(p.requires_grad for p in objective.reference.parameters())


def test_every_term_but_the_evidence_is_blind_to_the_model():
    objective, params, frozen, batch, hyper = made()
    weights = [v.requires_grad_() for n, v in frozen.items() if n.startswith(FROZEN)]
    terms = objective.loss(params, frozen, batch, hyper, noise())
    for name, seen in {"sufficiency": True, "necessity": True, "size": False, "variation": False}.items():
        gradients = torch.autograd.grad(terms[name], weights, allow_unused=True, retain_graph=True)
        assert any(g is not None and float(g.abs().max()) > 0 for g in gradients) is seen, name


@torch.no_grad()
def test_the_criterion_is_the_loss_with_fixed_draws():
    objective, params, frozen, batch, hyper = made()
    found = objective.criterion(params, frozen, batch, hyper, noise(9))
    again = objective.criterion(params, frozen, batch, hyper, noise(9))
    assert found["criterion"] == again["criterion"] == objective.loss(params, frozen, batch, hyper, noise(9))["loss"]
    assert set(found) == {"criterion", *(f"val_{n}" for n in ("sufficiency", "necessity", "size", "variation", "kept"))}


# -------------------------------------------------------------------------------------------------------- the surrogate


def surrogate(fill="mean", observed=None):
    objective, _, frozen, batch, hyper = made(fill=fill, observed=observed)
    batch["p"] = series(seed=11).sigmoid()
    params = {name: p.detach().clone().requires_grad_() for name, p in objective.model.surrogate.named_parameters()}
    frozen = {name: frozen[name] for name in ("mean", "std")}
    return SurrogateObjective(objective.model, config_of(), fill), params, frozen, batch, hyper


@pytest.mark.parametrize("fill", ["mean", "shift"])
@torch.no_grad()
def test_the_surrogate_is_judged_on_the_masks_that_users_see(fill):
    objective, params, frozen, batch, hyper = surrogate(fill)
    found = objective.criterion(params, frozen, batch, hyper, noise())
    values = MEAN.expand(B, T, D) if fill == "mean" else torch.roll(batch["x"], -(T // 2), dims=1)
    z_e, logits_e = objective.model.surrogate(torch.where(batch["p"] > 0.5, batch["x"], values), None, None, None, None)
    mbc, lc = losses.mbc(batch["z"], z_e), losses.js(batch["logits"], logits_e).mean()
    torch.testing.assert_close(found["criterion"], mbc + lc)
    torch.testing.assert_close(found["val_mbc"], mbc)
    agree = (logits_e.argmax(-1) == batch["logits"].argmax(-1)).float().mean()
    assert found["val_agreement"] == agree


def test_the_surrogate_is_trained_on_samples_and_on_masks():
    """Half of the samples get the mask p > .5, the others a sample of p."""
    objective, params, frozen, batch, hyper = surrogate()
    seen = []
    objective.model.masked = lambda x, observed, mask, fill: (seen.append(mask), (x, None))[1]
    terms = objective.loss(params, frozen, batch, hyper, noise())
    source = noise()
    sample, hard = source.uniform(B, T, D) < batch["p"], source.uniform(B) < 0.5
    assert 0 < int(hard.sum()) < B
    for i in range(B):
        assert torch.equal(seen[0][i] == 1, batch["p"][i] > 0.5 if hard[i] else sample[i])
    gradients = torch.autograd.grad(terms["loss"], list(params.values()), allow_unused=True)
    reached = {n.split(".")[0] for n, g in zip(params, gradients, strict=True) if g is not None and float(g.abs().max()) > 0}
    assert reached == {"encoder", "predictor"}


@torch.no_grad()
def test_the_surrogate_of_a_forecast_is_judged_by_its_squared_error():
    objective, params, frozen, batch, hyper = surrogate()
    forecasts = SurrogateObjective(objective.model, config_of(task="forecast"), "mean")
    found = forecasts.criterion(params, frozen, batch, hyper, noise())
    _, logits_e = objective.model.surrogate(torch.where(batch["p"] > 0.5, batch["x"], MEAN), None, None, None, None)
    torch.testing.assert_close(found["val_lc"], (batch["logits"] - logits_e).square().mean(-1).mean())
