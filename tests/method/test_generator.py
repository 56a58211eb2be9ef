"""The paper's generator: a probability for every cell, padding, times and sizes."""

import pytest
import torch
from parts import B, C, D, T, paper_model, seeded, series, transformer

from timex.method.generator import Generator
from timex.reference import CNN


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
    assert len(paper_model(reference).generator.encoder.layers) == 3
    assert paper_model(reference).generator.encoder.layers[0].feed_forward.linear1.out_features == 9
    small = paper_model(reference, {"generator.layers": 1, "generator.hidden": 4}).generator.encoder
    assert (len(small.layers), small.layers[0].feed_forward.linear1.out_features) == (1, 4)
    foreign = paper_model(CNN(D, C, T, width=3)).generator.encoder
    assert (len(foreign.layers), foreign.layers[0].feed_forward.linear1.out_features) == (2, 64)
