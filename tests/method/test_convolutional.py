"""The convolutional generator: its curve over prices, its inputs, padding, stacking, and a cost linear in T.

Shapes: B samples, T steps, D channels, Z the width of the context, all different.
"""

import math
from itertools import pairwise

import pytest
import torch
from parts import seeded
from torch.func import functional_call, stack_module_state

from timex.engine.stacking import stacked
from timex.method.convolutional import (
    POOLED,
    PRICES,
    SCALES,
    SLOPE,
    Block,
    ConvolutionalGenerator,
    Curve,
    at_scales,
    evaluated_prices,
)
from timex.reference.evidence import smoothed

B, T, D, Z = 5, 23, 3, 7


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def generator(t=T, d=D, gradients=True, seed=0, **options):
    return seeded(lambda: ConvolutionalGenerator(d, t, Z, 8, gradients=gradients, **options), seed)


def inputs(b=B, t=T, d=D, seed=0):
    """x, gradient and context."""
    return normal(b, t, d, seed=seed), normal(b, t, d, seed=seed + 1), normal(b, Z, seed=seed + 2)


def trained(model, seed=3):
    """Weights that are away from their start, at which every block is the identity."""
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.add_(0.3 * normal(*p.shape, seed=seed + k))
    return model


# ------------------------------------------------------------------------------------------------------------ the curve


def test_kept_sets_are_nested_in_the_price():
    curve = trained(generator())(*inputs())
    assert (curve.slope > 0).all()
    kept = [curve.logit(price) > 0 for price in torch.linspace(-1, 1, 9).tolist()]
    assert len({int(k.sum()) for k in kept}) > 2
    for cheap, dear in pairwise(kept):
        assert (cheap | ~dear).all()


def test_the_prices_are_the_middles_of_equal_pieces():
    low, high = 0.02, 0.5
    for k, place in enumerate(evaluated_prices(low, high)):
        price = low * (high / low) ** ((place + 1) / 2)  # as the objective has it
        assert price == pytest.approx(low + (high - low) * (k + 0.5) / PRICES)
    assert evaluated_prices(0.1, 0.1) == [0.0]


def test_p_is_the_mean_over_the_prices():
    curve = Curve(normal(B, T, D), normal(B, T, D, seed=1).exp())
    expected = sum(1 / (1 + (-curve.level + curve.slope * price).exp()) for price in evaluated_prices(0.05, 0.2)) / PRICES
    torch.testing.assert_close(curve.p(0.05, 0.2), expected)


# -------------------------------------------------------------------------------------------------------- the generator


@pytest.mark.parametrize(("b", "t", "d"), [(2, 23, 3), (5, 7, 4), (1, 3, 2), (3, 4, 1), (2, 150, 2)])
def test_a_curve_for_every_cell(b, t, d):
    curve = trained(generator(t, d))(*inputs(b, t, d))
    assert curve.level.shape == curve.slope.shape == (b, t, d)
    assert curve.level.isfinite().all()


def test_it_starts_at_the_smoothed_gradients():
    """But for last-layer weights of .02: -2 + 4 times the mean over the scales, and a slope of one half."""
    model = generator()
    with torch.no_grad():
        model.out.weight.zero_()
    x, gradient, context = inputs()
    curve = model(x, gradient, context)
    torch.testing.assert_close(curve.level, -2 + 4 * sum(at_scales(gradient)) / len(SCALES))
    torch.testing.assert_close(curve.slope, torch.full((B, T, D), 0.5))
    assert math.log1p(math.exp(SLOPE)) == pytest.approx(0.5)


def test_scales_are_parts_of_the_samples_largest_value():
    gradient = normal(B, T, D)
    for width, scale in zip(SCALES, at_scales(gradient), strict=True):
        expected = smoothed(gradient.abs(), width)
        for i in range(B):
            torch.testing.assert_close(scale[i], expected[i] / expected[i].max())
    assert all((scale == 0).all() for scale in at_scales(torch.zeros(B, T, D)))


def test_it_keeps_samples_apart():
    x, gradient, context = inputs()
    x.requires_grad_()
    (found,) = torch.autograd.grad(trained(generator())(x, gradient, context).level[2].sum(), x)
    assert found[2].abs().sum() > 0
    assert found[[0, 1, 3, 4]].abs().sum() == 0


def test_every_input_matters():
    x, gradient, context = inputs()
    model = trained(generator())
    level = model(x, gradient, context).level
    others = [(x + 1, gradient, context), (x, gradient.flip(1), context), (x, gradient, context + 1)]
    for other in others:
        assert not torch.allclose(model(*other).level, level, atol=1e-3)
    blind = trained(generator(gradients=False))
    assert blind.gradient_weight is None
    assert blind(x, None, context).level.shape == (B, T, D)


def test_the_times_matter_in_units_of_the_usual_interval():
    x, gradient, context = inputs()
    model, minutes = trained(generator()), trained(generator(time_unit=60.0))
    times = torch.arange(1.0, T + 1).expand(B, T)
    torch.testing.assert_close(model(x, gradient, context, times).level, model(x, gradient, context).level)
    torch.testing.assert_close(minutes(x, gradient, context, 60 * times).level, model(x, gradient, context).level)
    assert not torch.allclose(model(x, gradient, context, 2 * times).level, model(x, gradient, context).level, atol=1e-3)


def test_the_times_of_padded_steps_do_not_matter():
    """x and the gradient are zero there, as for every cell that was not measured."""
    x, gradient, context = inputs()
    observed = torch.ones(B, T, D, dtype=torch.bool)
    observed[:, -5:] = False
    x, gradient, times = x * observed, gradient * observed, torch.arange(1.0, T + 1).expand(B, T)
    other_times = times.clone()
    other_times[:, -5:] = 123.0
    model = trained(generator())
    level = model(x, gradient, context, times, observed).level
    assert torch.equal(level, model(x, gradient, context, other_times, observed).level)
    assert not torch.allclose(level[:, :-5], model(x, gradient, context, times).level[:, :-5], atol=1e-3)


def test_gates_and_attention_leave_padded_steps_out():
    """With convolutions of one step, padded steps reach the others through the gates and the attention alone."""
    model = trained(generator())
    seen = torch.ones(B, T)
    seen[:, -5:] = 0
    h, other = normal(B, 8, T), normal(B, 8, T)
    other[..., -5:] = 7.0
    torch.testing.assert_close(model._across(h, seen)[..., :-5], model._across(other, seen)[..., :-5])
    share = (seen / seen.sum(-1, keepdim=True)).unsqueeze(1)
    block = trained(seeded(lambda: Block(8, 1)))
    block.norm, block.conv = torch.nn.Identity(), torch.nn.Identity()
    torch.testing.assert_close(block(h, share)[..., :-5], block(other, share)[..., :-5])


def test_stacked_equals_alone():
    models = [trained(generator(seed=k), seed=40 * k) for k in range(3)]
    params, _ = stack_module_state(models)
    data = [inputs(seed=10 * k) for k in range(3)]
    batch = [torch.stack(part) for part in zip(*data, strict=True)]
    together = stacked(lambda p, *parts: functional_call(models[0], p, parts)._asdict(), False)(params, *batch)
    for k in range(3):
        alone = models[k](*data[k])
        torch.testing.assert_close(together["level"][k], alone.level, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(together["slope"][k], alone.slope, atol=1e-4, rtol=1e-4)


# --------------------------------------------------------------------------------------------------------------- length


@pytest.mark.parametrize(("t", "pieces"), [(23, 23), (64, 64), (65, 33), (200, 50), (2000, 63)])
def test_attention_sees_at_most_64_averages(t, pieces):
    """A piece is the mean of its measured steps."""
    model, seen = generator(t), torch.ones(2, t)
    seen[1, t // 2 :] = 0
    h, views, paddings = normal(2, 8, t), [], []
    model.across = torch.nn.ModuleList([Spy(views, paddings)])
    spread = model._across(h, seen)
    (g,), (padding,) = views, paddings
    size = -(-t // POOLED)
    assert g.shape == (2, pieces, 8)
    for k in range(pieces):
        part = slice(k * size, min(t, (k + 1) * size))
        torch.testing.assert_close(g[0, k], h[0, :, part].mean(-1), atol=1e-5, rtol=1e-4)
        n = int(seen[1, part].sum())
        assert bool(padding[1, k]) == (n == 0)
        if n:
            torch.testing.assert_close(g[1, k], h[1, :, part][:, :n].mean(-1), atol=1e-5, rtol=1e-4)
        assert torch.equal(spread[0, :, part], g[0, k][:, None].expand(8, part.stop - part.start))


class Spy(torch.nn.Module):
    """An attention layer that changes nothing and remembers what it was given."""

    def __init__(self, views, paddings):
        super().__init__()
        self.views, self.paddings = views, paddings

    def forward(self, g, mask, padding, noise):
        self.views.append(g)
        self.paddings.append(padding)
        return g


def most_elements(t):
    """The size of the largest tensor of a pass over series of T steps."""
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for value in torch.utils._pytree.tree_leaves(out):
                if isinstance(value, torch.Tensor):
                    largest = max(largest, value.numel())
            return out

    with torch.no_grad(), Largest():
        generator(t)(*inputs(1, t))
    return largest


def test_memory_grows_linearly_with_the_length():
    """No tensor has T x T elements: the largest of a pass doubles with T."""
    sizes = [most_elements(t) for t in (2000, 4000)]
    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[1] < 4000**2 / 10
