"""The trainable parts of TimeX: what the surrogate's encoder gets to see, where gradients go, and what is never random."""

import math

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d
from torch import nn
from torch.func import functional_call

from timex.engine import Noise
from timex.method.config import TimeXConfig
from timex.method.generator import Generator, blur_weights, blurred, resolution_of
from timex.method.losses import necessity, sufficiency
from timex.method.model import Surrogate, TimeXModel, masking_for
from timex.method.objective import FROZEN, Objective, hyper_of
from timex.reference import CNN, LSTM, Transformer
from timex.reference.base import ReferenceModel, weights_hash
from timex.reference.wrap import Wrapped

B, T, D, C = 6, 11, 3, 4
MEAN = 100.0 + torch.arange(T * D, dtype=torch.float32).reshape(T, D)  # no cell of x has such a value
STD = 1.0 + torch.arange(T * D, dtype=torch.float32).reshape(T, D) / 10
TAU = torch.tensor(1.0)


def seeded(make, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def series(n=B, t=T, d=D, seed=0):
    return torch.randn(n, t, d, generator=torch.Generator().manual_seed(seed))


def transformer(d=D, t=T, **options):
    return seeded(lambda: Transformer(n_channels=d, n_classes=C, n_steps=t, d_hidden=9, **options)).eval()


def timex_model(reference=None, **options):
    return seeded(lambda: TimeXModel(reference or transformer(), TimeXConfig(n_landmarks=5, **options)), seed=1)


def noise(key=3):
    return Noise(torch.tensor(key))


class Recorder(ReferenceModel):
    """Stands in for the encoder and remembers what it was shown."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.seen = []

    def encode(self, x, times=None, observed=None, mask=None, noise=None):
        self.seen.append((x, times, observed, mask, noise))
        return x.mean((1, 2))[:, None].expand(len(x), self.width)


def recorded(**options):
    model = timex_model(**options)
    model.encoder = Recorder(model.landmarks.shape[1])
    return model


def explain(model, x, times=None, observed=None, noise=None, sample=None, mean=MEAN, std=STD):
    with torch.no_grad():
        return model(x, times, observed, mean, std, TAU, noise, sample)


# ----------------------------------------------------------------------------------------------- nothing random at explain


def test_shapes():
    out = explain(timex_model(), series())
    assert out.p.shape == out.mask.shape == (B, T, D)
    assert out.z_e.shape == (B, 16 + D)
    assert out.logits_e.shape == (B, C)


@pytest.mark.parametrize("mask", ["straight_through", "soft"])
@pytest.mark.parametrize("fill", ["mean", "draw"])
def test_nothing_is_random_without_a_source(mask, fill):
    model, x = timex_model(mask=mask, fill=fill, generator_dropout=0.5, shown=0.5).train(), series()
    before = torch.get_rng_state()
    first, second = explain(model, x), explain(model, x)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(first.mask, (first.p > 0.5).float())
    assert 0 < float(first.mask.mean()) < 1


def test_samples_are_explained_one_by_one():
    model, x = timex_model(), series()
    whole = explain(model, x)
    for i in range(B):
        torch.testing.assert_close(explain(model, x[i : i + 1]).p[0], whole.p[i], atol=1e-6, rtol=0)


def test_draws_come_from_the_source_alone():
    model, x = timex_model(shown=0.0), series()
    a, b, c = (explain(model, x, sample=noise(key)) for key in (3, 3, 4))
    assert torch.equal(a.mask, b.mask)
    assert torch.equal(a.p, c.p)  # only masks are drawn, p is not
    assert not torch.equal(a.mask, c.mask)
    assert set(a.mask.unique().tolist()) == {0.0, 1.0}


def test_masks_are_drawn_with_probability_p():
    model, x = timex_model(shown=0.0), series(n=1).expand(4000, T, D)
    out = explain(model, x, sample=noise())
    torch.testing.assert_close(out.mask.mean(0), out.p[0], atol=0.04, rtol=0)


def test_shown_samples_get_the_users_mask():
    x = series(n=400)
    out = explain(timex_model(shown=1.0), x, sample=noise())
    assert torch.equal(out.mask, (out.p > 0.5).float())
    out = explain(timex_model(shown=0.25), x, sample=noise())
    share = (out.mask == (out.p > 0.5)).all(dim=2).all(dim=1).float().mean()
    assert float(share) == pytest.approx(0.25, abs=0.07)


def test_soft_masks_lie_between():
    out = explain(timex_model(mask="soft", shown=0.0), series(), sample=noise())
    assert ((out.mask > 0) & (out.mask < 1)).all()


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
    model, x = recorded(fill="mean", shown=0.0), series()
    out = explain(model, x, noise=noise(), sample=noise())
    hidden = out.mask == 0
    assert hidden.any()
    assert torch.equal(model.encoder.seen[0][0][hidden], MEAN.expand(B, T, D)[hidden])


def test_fill_draw_draws_from_the_baseline_distribution():
    model, x = recorded(fill="draw", shown=0.0), series(n=2000)
    out = explain(model, x, sample=noise())
    seen, hidden = model.encoder.seen[0][0], out.mask == 0
    assert torch.equal(seen[~hidden], x[~hidden])
    away = (seen - MEAN)[hidden]
    standard = ((seen - MEAN) / STD)[hidden]
    assert float(standard.mean()) == pytest.approx(0, abs=0.02)
    assert float(standard.std()) == pytest.approx(1, abs=0.02)
    explain(model, x, sample=noise(), std=2 * STD)  # the same draw, twice as far from the mean
    torch.testing.assert_close((model.encoder.seen[1][0] - MEAN)[hidden], 2 * away, atol=1e-3, rtol=1e-4)
    explain(model, x, sample=noise(), std=0 * STD)
    assert torch.equal(model.encoder.seen[2][0][hidden], MEAN.expand_as(x)[hidden])


def test_fill_draw_fills_with_the_mean_at_explain():
    model, x = recorded(fill="draw"), series()
    out = explain(model, x)
    hidden = out.mask == 0
    assert torch.equal(model.encoder.seen[0][0][hidden], MEAN.expand_as(x)[hidden])


@pytest.mark.parametrize(("masking", "values_change"), [("attention", False), ("both", True)])
def test_attention_masking_passes_the_step_mask(masking, values_change):
    model, x = recorded(masking=masking), series()
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
        model = timex_model(reference, masking="attention")
        x_m, attended = model.masked(x, None, mask, MEAN)
        z_e = model.encoder.encode(x_m, mask=attended)
        assert torch.equal(z_e, reference.encode(x, mask=steps))
        assert not torch.allclose(z_e, reference.encode(x), atol=1e-3)


def test_value_masking_hides_cells_from_the_embedding():
    model, x = timex_model(), series()
    mask = torch.ones(B, T, D)
    mask[:, 2:5, 1] = 0
    changed = x.clone()
    changed[:, 2:5, 1] += 7
    with torch.no_grad():
        a, b = (model.encoder.encode(*model.masked(v, None, mask, MEAN)[:1]) for v in (x, changed))
    assert torch.equal(a, b)


def test_fill_does_not_invent_cells_that_were_not_measured():
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, 5:, 2] = False
    observed[0, -3:] = False
    times = torch.arange(1.0, T + 1).expand(B, T) * 1.5
    for options in ({}, {"masking": "both"}, {"fill": "draw"}):
        model = recorded(**options)
        explain(model, torch.where(observed, series(), 0.0), times, observed, sample=noise())
        seen, seen_times, seen_observed, _, _ = model.encoder.seen[0]
        assert (seen[~observed] == 0).all()
        assert torch.equal(seen_times, times)
        assert torch.equal(seen_observed, observed)


# ------------------------------------------------------------------------------------------------------- which masking


def test_masking_by_architecture():
    wrapped = seeded(lambda: Wrapped(nn.Sequential(nn.Flatten(), nn.Linear(T, 5), nn.Linear(5, C)), "1", series(d=1)))
    references = {
        "uv": (transformer(d=1), "attention"),
        "mv": (transformer(), "value"),
        "cnn": (CNN(1, C, T, width=3), "value"),
        "lstm": (LSTM(1, C, T, hidden=2, n_layers=1), "value"),
        "wrapped": (wrapped, "value"),
    }
    for reference, expected in references.values():
        assert masking_for(reference, TimeXConfig(masking="auto")) == expected
        assert masking_for(reference, TimeXConfig(masking="value")) == "value"
    for masking in ("attention", "both"):
        assert masking_for(transformer(), TimeXConfig(masking=masking)) == masking
        for reference in (references["cnn"][0], references["lstm"][0], wrapped):
            with pytest.raises(ValueError, match=f"masking='{masking}' needs a model with an attention mask, which"):
                masking_for(reference, TimeXConfig(masking=masking))


def test_masking_errors_name_the_model():
    with pytest.raises(ValueError, match=r"which CNN has not: use masking='value'\."):
        TimeXModel(CNN(1, C, T, width=3), TimeXConfig(masking="both"))


# --------------------------------------------------------------------------------------------------------- the generator


def generator(d=D, t=T, rate=0.0):
    return seeded(lambda: Generator(d, t, 1, 7, rate))


@pytest.mark.parametrize(("b", "t", "d"), [(2, 13, 1), (5, 7, 4), (1, 3, 2)])
def test_generator_gives_a_probability_for_every_cell(b, t, d):
    p = generator(d, t)(series(b, t, d))
    assert p.shape == (b, t, d)
    assert ((p > 0) & (p < 1)).all()


def test_generator_is_not_causal():
    x = series().requires_grad_()
    p = generator()(x)
    (early,) = torch.autograd.grad(p[:, 0].sum(), x, retain_graph=True)
    (late,) = torch.autograd.grad(p[:, -1].sum(), x)
    assert (early[:, -1].abs() > 0).all()
    assert (late[:, 0].abs() > 0).all()


def test_generator_keeps_samples_apart():
    x = series().requires_grad_()
    (gradient,) = torch.autograd.grad(generator()(x)[2].sum(), x)
    assert gradient[2].abs().sum() > 0
    assert gradient[[0, 1, 3, 4, 5]].abs().sum() == 0


def test_generator_does_not_look_at_padding():
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, -4:] = False
    times = torch.arange(1.0, T + 1).expand(B, T)
    x, other = series(), series()
    other[:, -4:] = 55.0
    other_times = times.clone()
    other_times[:, -4:] = 0.0
    with torch.no_grad():
        a, b = generator()(x, times, observed), generator()(other, other_times, observed)
        free = generator()(x, times, None)
    torch.testing.assert_close(a[:, :-4], b[:, :-4], atol=0, rtol=0)
    assert not torch.allclose(a[:, :-4], free[:, :-4], atol=1e-4)


def test_generator_equals_one_without_the_padding():
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, -4:] = False
    with torch.no_grad():
        padded = generator()(series(), None, observed)
        short = generator()(series()[:, :-4])
    torch.testing.assert_close(padded[:, :-4], short, atol=1e-6, rtol=0)


def test_generator_reads_the_times():
    model, x = generator(), series()
    regular = torch.arange(1.0, T + 1).expand(B, T)
    with torch.no_grad():
        torch.testing.assert_close(model(x, regular), model(x))
        assert not torch.allclose(model(x, regular * 2), model(x), atol=1e-3)


def test_generator_has_the_size_of_the_reference_or_the_configured():
    reference = transformer(n_layers=3)
    assert len(timex_model(reference).generator.encoder.layers) == 3
    assert timex_model(reference).generator.encoder.layers[0].feed_forward.linear1.out_features == 9
    small = timex_model(reference, generator_layers=1, generator_hidden=4).generator.encoder
    assert (len(small.layers), small.layers[0].feed_forward.linear1.out_features) == (1, 4)
    foreign = timex_model(CNN(D, C, T, width=3)).generator.encoder
    assert (len(foreign.layers), foreign.layers[0].feed_forward.linear1.out_features) == (2, 64)


# ------------------------------------------------------------------------------------------------------- its resolution


def test_blurred_is_the_loop_over_steps():
    p = torch.rand(3, 11, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    blurry = blurred(p, blur_weights(11, 2).double())
    for t in range(11):
        weights = [math.exp(-((t - s) ** 2) / (2 * 2**2)) for s in range(11)]
        expected = sum(w * p[:, s] for s, w in enumerate(weights)) / sum(weights)
        torch.testing.assert_close(blurry[:, t], expected, rtol=1e-6, atol=0)


def test_blurred_leaves_a_constant_alone():
    p = torch.full((2, 9, 3), 0.7)
    torch.testing.assert_close(blurred(p, blur_weights(9, 4)), p)
    some = torch.rand(2, 300, 3, generator=torch.Generator().manual_seed(0)) > 0.3
    for observed in (None, some):
        assert blurred(torch.ones(2, 300, 3), blur_weights(300, 7), observed).max() == 1  # not 1.0000001


def test_blurred_averages_what_was_measured():
    observed = torch.ones(2, 12, 3, dtype=torch.bool)
    observed[0, 4:7, 1] = False
    observed[1, :, 2] = False  # a channel of which nothing was measured
    p = torch.rand(2, 12, 3, generator=torch.Generator().manual_seed(0))
    other = torch.where(observed, p, 0.99)
    weights = blur_weights(12, 2)
    a, b = blurred(p, weights, observed), blurred(other, weights, observed)
    torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert a.isfinite().all()
    torch.testing.assert_close(blurred(p, weights, torch.ones_like(observed)), blurred(p, weights))
    t, near = 3, [0, 1, 2, 3, 7, 8, 9, 10, 11]
    torch.testing.assert_close(a[0, t, 1], (weights[t, near] * p[0, near, 1]).sum() / weights[t, near].sum())


def test_generator_blurs_p_and_has_nothing_more_to_learn():
    fine, coarse = (seeded(lambda n=n: Generator(D, T, 1, 7, 0.0, resolution=n)) for n in (1, 3))
    assert fine.state_dict().keys() == coarse.state_dict().keys()
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, -4:] = False
    for seen in (None, observed):
        torch.testing.assert_close(coarse(series(), None, seen), blurred(fine(series(), None, seen), blur_weights(T, 3), seen))


def smooth(steps, n=60, t=400, d=1, seed=0):
    """Noise blurred over `steps`."""
    noise = np.random.default_rng(seed).normal(size=(n, t, d))
    return (noise if steps == 0 else gaussian_filter1d(noise, steps, axis=1, mode="wrap")).astype(np.float32)


def found_in(x, times=None, observed=None):
    n, t, _ = x.shape
    times = np.tile(np.arange(1.0, t + 1), (n, 1)) if times is None else times
    return resolution_of(x.astype(np.float32), times, np.ones(x.shape, dtype=bool) if observed is None else observed)


@pytest.mark.parametrize(
    "x",
    [
        smooth(0),
        smooth(0).cumsum(axis=1),
        smooth(0) + np.linspace(0, 99, 400)[:, None],
        0.1 * smooth(0) + 3 * np.sin(np.linspace(0, 12, 400))[:, None],
        np.concatenate([smooth(6), smooth(0)], axis=2),
        np.ones((5, 400, 2)),
        np.tile(np.linspace(3, 4, 400)[:, None], (5, 1, 1)),
        smooth(6, t=90),
    ],
    ids=["noise", "random walk", "drift", "slow sine with noise", "one channel needs all", "constant", "ramp", "few steps"],
)
def test_every_step_counts(x):
    assert found_in(x) == 1


def test_a_finely_sampled_signal_has_its_own_resolution():
    found = [found_in(smooth(steps)) for steps in (3, 6)]
    assert found[0] > 3
    assert found[1] / found[0] == pytest.approx(2, rel=0.2)
    assert found_in(smooth(6) * 1e-3 + 5) == found[1]
    still = np.tile(np.linspace(0, 1, 400)[:, None], (60, 1, 1))  # a clock beside the signal needs nothing
    assert found_in(np.concatenate([smooth(6), still, np.ones_like(still)], axis=2)) == found[1]
    assert found_in(np.concatenate([smooth(6), smooth(12)], axis=2)) == found[1]
    assert found_in(smooth(60)) == 400 // 32  # a window always has some to tell apart


def test_the_resolution_is_that_of_all_classes():
    x = smooth(6, n=4000)
    x[::2] = smooth(0, n=2000)
    assert found_in(x) == found_in(x[1:]) == 1


def test_gaps_and_uneven_times_say_nothing_of_the_resolution():
    x = smooth(6)
    observed, times = np.ones(x.shape, dtype=bool), np.tile(np.arange(400.0), (60, 1)) / 360
    observed[:29, 7] = False
    assert found_in(x, times, observed) == found_in(x) > 1  # most have no gap, and even steps may have any length
    observed[:31, 7] = False
    assert found_in(x, times, observed) == 1
    times[:31, 200:] += 0.5
    assert found_in(x, times) == 1


# ---------------------------------------------------------------------------------------------------------- the encoder


@pytest.mark.parametrize(
    "make", [transformer, lambda: seeded(lambda: CNN(D, C, T, 5)), lambda: seeded(lambda: LSTM(D, C, T, 3, 1))]
)
def test_encoder_starts_as_a_copy_and_trains_alone(make):
    reference = make().requires_grad_(False)
    before = weights_hash(reference)
    model = timex_model(reference)
    assert weights_hash(model.encoder) == before
    shared = {p.data_ptr() for p in model.parameters()} & {p.data_ptr() for p in reference.parameters()}
    assert not shared
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    out = model(series(), None, None, MEAN, STD, TAU, noise(), noise())
    out.logits_e.square().sum().backward()
    optimiser.step()
    assert weights_hash(model.encoder) != before
    assert weights_hash(reference) == before
    assert not any(p.requires_grad or p.grad is not None for p in reference.parameters())


# ------------------------------------------------------------------------------------------------------------ gradients


def terms_and_params(**options):
    config = TimeXConfig(n_landmarks=5, **options)
    reference = transformer()
    model = seeded(lambda: TimeXModel(reference, config), seed=1)
    nn.init.constant_(model.landmarks, 0.1)
    x = series(n=17)
    with torch.no_grad():
        out = reference.output(x)
    params = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    terms = Objective(model, reference, config).loss(
        params,
        {"mean": x.mean(0), "std": x.std(0), **{FROZEN + name: p.detach() for name, p in reference.named_parameters()}},
        {"x": x, "z": out.z, "logits": out.logits, "blank": out.logits[:1].expand_as(out.logits)},
        {name: torch.tensor(value) for name, value in hyper_of(config).items()},
        noise(),
    )
    return terms, params


def reached(term, params):
    """Parts of the model a term has a gradient in."""
    gradients = torch.autograd.grad(term, list(params.values()), allow_unused=True, retain_graph=True)
    return {n.split(".")[0] for n, g in zip(params, gradients, strict=True) if g is not None and float(g.abs().max()) > 0}


def test_shown_samples_teach_the_surrogate_only():
    terms, params = terms_and_params(shown=1.0)
    assert reached(terms["mbc"] + terms["lc"], params) == {"encoder", "predictor"}
    assert reached(terms["l_m"] + terms["l_con"], params) == {"generator"}


def test_drawn_samples_teach_the_generator():
    for options in ({}, {"masking": "attention"}, {"masking": "both"}, {"mask": "soft"}):
        terms, params = terms_and_params(shown=0.0, **options)
        assert reached(terms["mbc"], params) == {"generator", "encoder"}
        assert reached(terms["lc"], params) == {"generator", "encoder", "predictor"}
        assert reached(terms["l_m"], params) == {"generator"}
        assert reached(terms["l_con"], params) == {"generator"}
        assert reached(terms["landmarks"], params) == {"landmarks"}


def test_total_is_the_papers_sum_and_the_models_judgement():
    terms, _ = terms_and_params(lam_lc=3.0, lam_model=2.0, lam_e=5.0, lam_con=7.0)
    behaviour = terms["mbc"] + terms["landmarks"] + 3 * terms["lc"] + 2 * terms["model"]
    total = behaviour + 5 * (terms["l_m"] + 7 * terms["l_con"])
    torch.testing.assert_close(terms["loss"], total)


def test_functional_weights_are_those_given():
    """The engine trains a copy of the weights: the module's own must not be what is run."""
    model, x = timex_model(), series()
    zeros = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    with torch.no_grad():
        out = functional_call(model, zeros, (x, None, None, MEAN, STD, TAU, None, None))
    assert torch.equal(out.p, torch.full((B, T, D), 0.5))
    assert torch.equal(out.logits_e, torch.zeros(B, C))


# ------------------------------------------------------------------------------------------------ the model's own judgement


def judged(p, mask, lam_hidden=1.0, masking="value", times=None, observed=None, way="draw"):
    """The model term for a given p and a draw from it, and its parts by hand."""
    reference, x = transformer().requires_grad_(False), series()
    config = TimeXConfig(n_landmarks=5, masking=masking, judged=way)
    model = seeded(lambda: TimeXModel(reference, config), seed=1)
    objective = Objective(model, reference, config)
    b = MEAN.expand(B, T, D)
    blank_x = b if observed is None else torch.where(observed, b, 0.0)
    with torch.no_grad():
        batch = {"x": x, "logits": reference(x, times, observed), "blank": reference(blank_x, times, observed)}
        batch |= {} if observed is None else {"times": times, "observed": observed}
        out = Surrogate(p, mask, b, torch.zeros(B, 1), torch.zeros(B, C))
        frozen = {FROZEN + name: p for name, p in reference.named_parameters()}
        got = objective._model(out, frozen, batch, {"lam_hidden": torch.tensor(lam_hidden)})
    return got, reference, x, b, batch


@pytest.mark.parametrize("way", ["draw", "strength"])
def test_the_model_term_is_two_passes_by_hand(way):
    p, mask = series(seed=3).sigmoid(), (series(seed=4) > 0).float()
    got, reference, x, b, batch = judged(p, mask, lam_hidden=0.5, way=way)
    shown = mask if way == "draw" else p
    with torch.no_grad():
        kept, hidden = reference(shown * x + (1 - shown) * b), reference((1 - p) * x + p * b)
    logits, blank = batch["logits"], batch["blank"]
    torch.testing.assert_close(got, sufficiency(logits, kept, blank) + 0.5 * necessity(logits, hidden, blank))
    assert got > 0


def test_the_model_term_vanishes_where_everything_is_kept_and_nothing_hidden():
    got, *_ = judged(torch.ones(B, T, D), torch.ones(B, T, D))
    torch.testing.assert_close(got, torch.zeros(()), atol=1e-6, rtol=0)


def test_the_model_term_with_missing_cells_hides_none_that_never_were():
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, 4:, 1] = False
    times = torch.arange(1.0, T + 1).expand(B, T) * 1.5
    p, mask = series(seed=3).sigmoid(), (series(seed=4) > 0).float()
    got, reference, x, b, batch = judged(p, mask, times=times, observed=observed)
    with torch.no_grad():
        views = [torch.where(observed, m * x + (1 - m) * b, 0.0) for m in (mask, 1 - p)]
        kept, hidden = (reference(v, times, observed) for v in views)
    logits, blank = batch["logits"], batch["blank"]
    torch.testing.assert_close(got, sufficiency(logits, kept, blank) + necessity(logits, hidden, blank))


def test_the_model_term_teaches_the_generator_alone():
    terms, params = terms_and_params(lam_model=1.0, shown=0.0)
    assert reached(terms["model"], params) == {"generator"}
