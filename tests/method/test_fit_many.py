"""Several explainers fitted as one program are those fitted alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import CONFIG, OURS, PAPER_CONFIG, quick, seeded, series

from timex import TimeX, engine, fit_many
from timex.engine.group import Group
from timex.reference import CNN, LSTM, ResidualTransformer, Transformer


def arms():
    """Explainers that differ in numbers (train together), in structure (apart) and in architecture (apart), interleaved."""
    t, d = 12, 2
    models = {
        "cnn": seeded(lambda: CNN(d, 3, t, width=6), t, d),
        "cnn_wide": seeded(lambda: CNN(d, 3, t, width=7), t, d),
        "transformer": seeded(lambda: Transformer(d, 3, t, d_hidden=8), t, d),
        "transformer_residual": seeded(lambda: ResidualTransformer(d, 3, t, d_hidden=8), t, d),
        "transformer_undropped": seeded(lambda: Transformer(d, 3, t, d_hidden=8, dropout=0.0), t, d),
        "lstm": seeded(lambda: LSTM(d, 3, t, hidden=3, n_layers=1), t, d),
    }
    return [
        (models["cnn"], CONFIG),
        (models["transformer"], CONFIG),
        (models["cnn"], replace(CONFIG, lr=1e-3, seed=1).replaced({"evidence.price_low": 0.1})),
        (models["lstm"], CONFIG),
        (models["cnn"], CONFIG.replaced({"mask.fill": "draw"})),
        (models["cnn"], PAPER_CONFIG),
        (models["transformer_undropped"], CONFIG),
        (models["cnn"], PAPER_CONFIG.replaced({"loss.select": "objective", "loss.lam_e": 3.0})),
        (models["cnn"], CONFIG.replaced({"generator.gradient_points": 0})),
        (models["cnn"], CONFIG.replaced({"n_landmarks": 4, "generator.width": 16})),
        (models["transformer_residual"], CONFIG),
        (models["transformer"], PAPER_CONFIG.replaced({"mask.hide": "both"})),
        (models["cnn_wide"], CONFIG),
        (
            models["cnn"],
            CONFIG.replaced(
                {
                    "evidence.price_high": 0.8,
                    "evidence.free_cells": 3.0,
                    "evidence.lam_hidden": 0.5,
                    "evidence.lam_variation": 0.2,
                    "evidence.sampled": 0.9,
                    "smoothing": 2,
                    "training.weight_decay": 0.1,
                }
            ),
        ),
    ]


def test_fit_many_equals_each_alone(monkeypatch):
    x = series(40, 12, 2)
    data = [(x + 0.1 * i, np.arange(40) % 3, series(9, 12, 2, seed=i)) for i in range(14)]
    many = [TimeX(model, config=config) for model, config in arms()]
    sizes, train = [], engine.train
    monkeypatch.setattr(
        engine, "train", lambda program, members, *a, **k: sizes.append(len(members)) or train(program, members, *a, **k)
    )
    fitted = fit_many(many, data, progress=False)
    assert all(a is b for a, b in zip(fitted, many, strict=True))
    # The three CNNs that differ in numbers alone run as one program, in two stages; the paper's objective has one stage.
    assert sizes == [3, 3, *[1] * (2 * 8 + 3)]
    for i, ((model, config), (x_i, y, x_val)) in enumerate(zip(arms(), data, strict=True)):
        alone = TimeX(model, config=config).fit(x_i, y, x_val=x_val, progress=False)
        a, b = alone.explain(x_i), fitted[i].explain(x_i)
        np.testing.assert_allclose(b.attribution, a.attribution, atol=1e-4, err_msg=str(i))
        np.testing.assert_allclose(b.divergence, a.divergence, atol=1e-4, err_msg=str(i))
        assert fitted[i].config == config


def spied_members(monkeypatch):
    """The members of every later run of the engine, in a list that fills."""
    members, train = [], engine.train
    monkeypatch.setattr(engine, "train", lambda p, m, *a, **k: members.extend(m) or train(p, m, *a, **k))
    return members


def test_everything_hidden_is_by_the_means_of_ones_own_training_series(monkeypatch):
    """Two explainers may share their validation series, but not what replaces its cells."""
    members = spied_members(monkeypatch)
    x, x_val = series(20, 12, 2), series(9, 12, 2, seed=1)
    many = [quick(), quick()]
    many[1].model = many[0].model
    fit_many(many, [(x, None, x_val), (x + 3, None, x_val)], progress=False)
    generators = [member for member in members if "blank" in member.val]
    for member, source in zip(generators, (x, x + 3), strict=True):
        hidden = torch.as_tensor(source).mean(0).expand(9, -1, -1)
        with torch.no_grad():
            torch.testing.assert_close(member.val["blank"], many[0].model.eval()(hidden), rtol=1e-4, atol=1e-4)


def test_everything_hidden_is_as_the_masking_hides_it(monkeypatch):
    members = spied_members(monkeypatch)
    model, x = seeded(OURS["transformer_uv"][3], 16, 1).eval(), series(20, 16, 1)
    mean, nothing = torch.as_tensor(x).mean(0).expand(20, -1, -1), torch.zeros(20, 16)
    seen = {"value": (mean, None), "attention": (torch.as_tensor(x), nothing), "both": (mean, nothing)}
    for masking, (hidden, attended) in seen.items():
        TimeX(model, config=CONFIG.replaced({"epochs": 1, "mask.hide": masking})).fit(x, x_val=x, progress=False)
        with torch.no_grad():
            torch.testing.assert_close(members[-2].train["blank"], model(hidden, mask=attended), rtol=1e-4, atol=1e-5)


def test_one_that_diverges_costs_the_others_nothing():
    x = series(30, 12, 2)
    many = [quick(), quick(config=replace(CONFIG, lr=1e30)), quick(config=replace(CONFIG, seed=1))]
    with pytest.raises(
        RuntimeError, match=r"No epoch gave a finite validation value.* Explainer 1 of 3 diverged; the others are fitted"
    ):
        fit_many(many, [(x, None, x[:9])] * 3, progress=False)
    assert many[1].fitted_ is None
    for config, explainer in ((CONFIG, many[0]), (replace(CONFIG, seed=1), many[2])):
        alone = quick(config=config).fit(x, x_val=x[:9], progress=False)
        np.testing.assert_allclose(explainer.explain(x).attribution, alone.explain(x).attribution, atol=1e-5)


def test_fit_many_asks_for_data_for_each():
    with pytest.raises(ValueError, match="Expected data for each of 2 explainers, got 1"):
        fit_many([quick(), quick()], [(series(20, 12, 2), None, None)], progress=False)


def test_explainers_of_one_model_and_one_data_set_share_it_on_the_device(monkeypatch):
    """Seeds on a fold cost the device one copy of its data, and the frozen model one pass over it."""
    x, x_val, other = series(40, 12, 2), series(20, 12, 2, seed=1), series(40, 12, 2, seed=2)
    explainers = [quick(config=replace(CONFIG, epochs=1, seed=seed)) for seed in range(3)]
    for explainer in explainers[1:]:
        explainer.model = explainers[0].model
    runs, kept = [], Group.__init__
    monkeypatch.setattr(Group, "__init__", lambda run, *a: (kept(run, *a), runs.append(run))[0])
    fit_many(explainers, [(x, None, x_val), (x, None, x_val), (other, None, x_val)], progress=False)
    assert runs[0].data["x"].shape == (2, 40, 12, 2)
    assert runs[0].source.flatten().tolist() == [0, 0, 1]
    alone = quick(config=replace(CONFIG, epochs=1, seed=1))
    alone.model = explainers[0].model
    alone.fit(x, x_val=x_val, progress=False)
    np.testing.assert_allclose(explainers[1].explain(x).attribution, alone.explain(x).attribution, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_models_that_differ_only_in_their_code_share_nothing():
    """The same weights with and without a residual are two models, with outputs of their own."""
    t, d = 12, 2
    plain = seeded(lambda: Transformer(d, 3, t, d_hidden=8), t, d)
    residual = ResidualTransformer(d, 3, t, d_hidden=8)
    residual.load_state_dict(plain.state_dict())
    x = series(30, t, d)
    config = replace(CONFIG, epochs=1)
    many = fit_many([TimeX(m, config=config) for m in (plain, residual)], [(x, None, x[:9])] * 2, progress=False)
    alone = TimeX(residual, config=config).fit(x, x_val=x[:9], progress=False)
    np.testing.assert_array_equal(many[1].explain(x).attribution, alone.explain(x).attribution)
