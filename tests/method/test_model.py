"""The trainable parts of TimeX: what the surrogate's encoder gets to see, where gradients go, and what is never random."""

import pytest
import torch
from parts import MEAN, STD, TAU, B, C, D, T, config_of, noise, paper_model, seeded, series, transformer
from torch import nn
from torch.func import functional_call

from timex.method.model import TimeXModel, masking_for
from timex.reference import CNN, LSTM, adapt
from timex.reference.base import Output, ReferenceModel, weights_hash


class Recorder(ReferenceModel):
    """Stands in for the encoder and remembers what it was shown."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.seen = []

    def output(self, x, times=None, observed=None, mask=None, noise=None):
        self.seen.append((x, times, observed, mask, noise))
        z = x.mean((1, 2))[:, None].expand(len(x), self.width)
        return Output(z, z)


def recorded(settings=None):
    model = paper_model(settings=settings)
    model.surrogate.encoder = Recorder(model.landmarks.shape[1])
    return model


def explain(model, x, times=None, observed=None, noise=None, sample=None, mean=MEAN, std=STD, fill="mean"):
    with torch.no_grad():
        return model(x, times, observed, mean, std, TAU, fill, noise, sample)


def masks(model):
    """The masks of every later pass, in a list that fills."""
    found, masked = [], model.masked
    model.masked = lambda x, observed, mask, fill: (found.append(mask), masked(x, observed, mask, fill))[1]
    return found


# ----------------------------------------------------------------------------------------------- nothing random at explain


def test_shapes():
    out = explain(paper_model(), series())
    assert out.p.shape == (B, T, D)
    assert out.z_e.shape == (B, 16 + D)
    assert out.logits_e.shape == (B, C)


@pytest.mark.parametrize("mask", ["straight_through", "soft"])
@pytest.mark.parametrize("fill", ["mean", "draw", "shift"])
def test_nothing_is_random_without_a_source(mask, fill):
    model = paper_model(settings={"mask.sampling": mask, "generator.dropout": 0.5}).train()
    x, found, before = series(), masks(model), torch.get_rng_state()
    first, second = explain(model, x, fill=fill), explain(model, x, fill=fill)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(found[0], (first.p > 0.5).float())
    assert 0 < float(found[0].mean()) < 1


def test_samples_are_explained_one_by_one():
    model, x = paper_model(), series()
    whole = explain(model, x)
    for i in range(B):
        torch.testing.assert_close(explain(model, x[i : i + 1]).p[0], whole.p[i], atol=1e-6, rtol=0)


def test_draws_come_from_the_source_alone():
    model, x = paper_model(), series()
    found = masks(model)
    outs = [explain(model, x, sample=noise(key)) for key in (3, 3, 4)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(outs[0].p, outs[2].p)  # only masks are drawn, p is not
    assert not torch.equal(found[0], found[2])
    assert set(found[0].unique().tolist()) == {0.0, 1.0}


def test_masks_are_drawn_with_probability_p():
    model, x = paper_model(), series(n=1).expand(4000, T, D)
    found = masks(model)
    out = explain(model, x, sample=noise())
    torch.testing.assert_close(found[0].mean(0), out.p[0], atol=0.04, rtol=0)


def test_soft_masks_lie_between():
    model = paper_model(settings={"mask.sampling": "soft"})
    found = masks(model)
    explain(model, series(), sample=noise())
    assert ((found[0] > 0) & (found[0] < 1)).all()


# ------------------------------------------------------------------------------------------------ what the encoder sees


def test_hidden_cells_hold_the_mean():
    model, x = recorded(), series()
    out = explain(model, x)
    ((seen, times, observed, attended, drawn),) = model.encoder.seen
    kept = out.p > 0.5
    assert torch.equal(seen[kept], x[kept])
    assert torch.equal(seen[~kept], MEAN.expand(B, T, D)[~kept])
    assert times is None
    assert observed is None
    assert attended is None
    assert drawn is None


def test_hidden_cells_hold_the_mean_in_training_too():
    model, x = recorded(), series()
    found = masks(model)
    explain(model, x, noise=noise(), sample=noise())
    hidden = found[0] == 0
    assert hidden.any()
    assert torch.equal(model.encoder.seen[0][0][hidden], MEAN.expand(B, T, D)[hidden])


def test_fill_draw_draws_from_the_baseline_distribution():
    model, x = recorded(), series(n=2000)
    found = masks(model)
    explain(model, x, sample=noise(), fill="draw")
    seen, hidden = model.encoder.seen[0][0], found[0] == 0
    assert torch.equal(seen[~hidden], x[~hidden])
    away = (seen - MEAN)[hidden]
    standard = ((seen - MEAN) / STD)[hidden]
    assert float(standard.mean()) == pytest.approx(0, abs=0.02)
    assert float(standard.std()) == pytest.approx(1, abs=0.02)
    explain(model, x, sample=noise(), std=2 * STD, fill="draw")  # the same draw, twice as far from the mean
    torch.testing.assert_close((model.encoder.seen[1][0] - MEAN)[hidden], 2 * away, atol=1e-3, rtol=1e-4)
    explain(model, x, sample=noise(), std=0 * STD, fill="draw")
    assert torch.equal(model.encoder.seen[2][0][hidden], MEAN.expand_as(x)[hidden])


def test_fill_draw_fills_with_the_mean_at_explain():
    model, x = recorded(), series()
    out = explain(model, x, fill="draw")
    hidden = out.p <= 0.5
    assert torch.equal(model.encoder.seen[0][0][hidden], MEAN.expand_as(x)[hidden])


@pytest.mark.parametrize(("hide", "values_change"), [("attention", False), ("both", True)])
def test_attention_masking_passes_the_step_mask(hide, values_change):
    model, x = recorded({"mask.hide": hide}), series()
    out = explain(model, x)
    seen, _, _, attended, _ = model.encoder.seen[0]
    assert attended.shape == (B, T)
    assert torch.equal(attended, (out.p > 0.5).any(dim=-1).float())  # a step is kept if any of its channels is
    assert torch.equal(seen, x) is not values_change


def test_attention_masking_is_the_references_own():
    """G^E starts as G, so on x it gives what G gives under the same attention mask."""
    reference, x = transformer(), series()
    mask = (series(seed=5) > 0.8).float()
    steps = mask.amax(-1)
    assert 0 < float(steps.mean()) < 1
    with torch.no_grad():
        model = paper_model(reference, {"mask.hide": "attention"})
        x_m, attended = model.masked(x, None, mask, MEAN)
        z_e = model.encoder.output(x_m, mask=attended).z
        assert torch.equal(z_e, reference.output(x, mask=steps).z)
        assert not torch.allclose(z_e, reference.output(x).z, atol=1e-3)


def test_value_masking_hides_cells_from_the_embedding():
    model, x = paper_model(), series()
    mask = torch.ones(B, T, D)
    mask[:, 2:5, 1] = 0
    changed = x.clone()
    changed[:, 2:5, 1] += 7
    with torch.no_grad():
        a, b = (model.encoder.output(model.masked(v, None, mask, MEAN)[0]).z for v in (x, changed))
    assert torch.equal(a, b)


def test_fill_does_not_invent_cells_that_were_not_measured():
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, 5:, 2] = False
    observed[0, -3:] = False
    times = torch.arange(1.0, T + 1).expand(B, T) * 1.5
    for options, fill in (({}, "mean"), ({"mask.hide": "both"}, "mean"), ({}, "draw"), ({}, "shift")):
        model = recorded(options)
        explain(model, torch.where(observed, series(), 0.0), times, observed, sample=noise(), fill=fill)
        seen, seen_times, seen_observed, _, _ = model.encoder.seen[0]
        assert (seen[~observed] == 0).all()
        assert torch.equal(seen_times, times)
        assert torch.equal(seen_observed, observed)


# ------------------------------------------------------------------------------------------------------- which masking


def test_masking_by_architecture():
    wrapped = seeded(lambda: adapt(nn.Sequential(nn.Flatten(), nn.Linear(T, 5), nn.Linear(5, C)), series(d=1), embedding="1"))
    references = {
        "uv": (transformer(d=1), "attention"),
        "mv": (transformer(), "value"),
        "cnn": (CNN(1, C, T, width=3), "value"),
        "lstm": (LSTM(1, C, T, hidden=2, n_layers=1), "value"),
        "wrapped": (wrapped, "value"),
    }
    for reference, expected in references.values():
        assert masking_for(reference, config_of({"mask.hide": "auto"})) == expected
        assert masking_for(reference, config_of({"mask.hide": "value"})) == "value"
    for hide in ("attention", "both"):
        assert masking_for(transformer(), config_of({"mask.hide": hide})) == hide
        for reference in (references["cnn"][0], references["lstm"][0], wrapped):
            with pytest.raises(ValueError, match=f"mask.hide='{hide}' needs a model with an attention mask, which"):
                masking_for(reference, config_of({"mask.hide": hide}))


def test_masking_errors_name_the_model():
    with pytest.raises(ValueError, match=r"which CNN has not: use mask\.hide='value'\."):
        TimeXModel(CNN(1, C, T, width=3), config_of({"mask.hide": "both"}))


# ---------------------------------------------------------------------------------------------------------- the encoder


@pytest.mark.parametrize(
    "make", [transformer, lambda: seeded(lambda: CNN(D, C, T, 5)), lambda: seeded(lambda: LSTM(D, C, T, 3, 1))]
)
def test_encoder_starts_as_a_copy_and_trains_alone(make):
    reference = make().requires_grad_(False)
    before = weights_hash(reference)
    model = paper_model(reference)
    assert weights_hash(model.encoder) == before
    shared = {p.data_ptr() for p in model.parameters()} & {p.data_ptr() for p in reference.parameters()}
    assert not shared
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    out = model(series(), None, None, MEAN, STD, TAU, "mean", noise(), noise())
    out.logits_e.square().sum().backward()
    optimiser.step()
    assert weights_hash(model.encoder) != before
    assert weights_hash(reference) == before
    assert not any(p.requires_grad or p.grad is not None for p in reference.parameters())


def test_functional_weights_are_those_given():
    """The engine trains a copy of the weights: the module's own must not be what is run."""
    model, x = paper_model(), series()
    zeros = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    with torch.no_grad():
        out = functional_call(model, zeros, (x, None, None, MEAN, STD, TAU, "mean", None, None))
    assert torch.equal(out.p, torch.full((B, T, D), 0.5))
    assert torch.equal(out.logits_e, torch.zeros(B, C))
