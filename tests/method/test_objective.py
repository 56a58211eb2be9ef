"""The paper's objective: its sum, which parts each term trains, and what selects the epoch."""

import torch
from parts import B, C, config_of, noise, seeded, series, transformer
from torch import nn

from timex.method.config import TimeXConfig
from timex.method.losses import label_consistency_mse, label_consistency_mse_instance
from timex.method.model import TimeXModel
from timex.method.objective import Objective, label_of


def program(settings):
    """The objective, and its weights, frozen tensors, batch and numbers."""
    config = config_of(settings, objective="paper")
    reference = transformer()
    model = seeded(lambda: TimeXModel(reference, config), seed=1)
    nn.init.constant_(model.landmarks, 0.1)
    x = series(n=17)
    with torch.no_grad():
        out = reference.output(x)
    params = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    hyper = {name: torch.tensor(value) for name, value in config.scalars().items()}
    batch = {"x": x, "z": out.z, "logits": out.logits}
    return Objective(model, reference, config), (params, {"mean": x.mean(0), "std": x.std(0)}, batch, hyper)


def terms_and_params(settings):
    objective, arguments = program(settings)
    return objective.loss(*arguments, noise()), arguments[0]


def reached(term, params):
    """Parts of the model a term has a gradient in."""
    gradients = torch.autograd.grad(term, list(params.values()), allow_unused=True, retain_graph=True)
    found = {n for n, g in zip(params, gradients, strict=True) if g is not None and float(g.abs().max()) > 0}
    return {n.removeprefix("surrogate.").split(".")[0] for n in found}


def test_drawn_samples_teach_the_generator():
    for options in ({}, {"mask.hide": "attention"}, {"mask.hide": "both"}, {"mask.sampling": "soft"}):
        terms, params = terms_and_params(options)
        assert reached(terms["mbc"], params) == {"generator", "encoder"}
        assert reached(terms["lc"], params) == {"generator", "encoder", "predictor"}
        assert reached(terms["l_m"], params) == {"generator"}
        assert reached(terms["l_con"], params) == {"generator"}
        assert reached(terms["landmarks"], params) == {"landmarks"}


def test_total_is_the_papers_sum():
    terms, _ = terms_and_params({"loss.lam_lc": 3.0, "loss.lam_e": 5.0, "loss.lam_con": 7.0})
    total = terms["mbc"] + terms["landmarks"] + 3 * terms["lc"] + 5 * (terms["l_m"] + 7 * terms["l_con"])
    torch.testing.assert_close(terms["loss"], total)


def test_forecasts_are_compared_by_their_squared_errors():
    """The published code's form for classes has no counterpart for numbers: `batch` is `pairwise` there."""
    config = TimeXConfig(objective="paper", task="forecast")
    y, y_e = series(B, 1, C)[:, 0], series(B, 1, C, seed=1)[:, 0]
    expected = {
        "instance": label_consistency_mse_instance(y, y_e),
        "pairwise": label_consistency_mse(y, y_e),
        "batch": label_consistency_mse(y, y_e),
        "none": torch.zeros(()),
    }
    for label, value in expected.items():
        assert torch.equal(label_of(config.replaced({"loss.label": label}))(y, y_e), value)


def test_select_by_the_whole_objective_or_by_consistency():
    for select, more in (("consistency", 0.0), ("objective", 1.0)):
        objective, arguments = program({"loss.select": select, "loss.lam_e": 3.0, "loss.lam_con": 0.0})
        with torch.no_grad():
            found = objective.criterion(*arguments, noise())
        value = found["val_mbc"] + found["val_lc"] + more * 3 * found["val_l_m"]
        torch.testing.assert_close(found["criterion"], value)
