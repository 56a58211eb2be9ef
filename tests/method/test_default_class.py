"""Explanations of a class that a blank series gets as well follow the model's gradients."""

import pytest
import torch
from cases import CONFIG, quick, series

from timex.method.convolutional import at_scales, start_probability
from timex.method.evidence import openness
from timex.method.explain import generator_inputs, keep_probability
from timex.method.task import prepare
from timex.records import Series

N, T, D, C = 8, 12, 2, 3


@pytest.fixture
def task():
    return prepare(quick(), Series(series(30, T, D)), Series(series(N, T, D, seed=1)))


def batch_of(task, blank, observed=None):
    """The validation series, with the given answers to a blank series."""
    x = torch.as_tensor(task.val.x)
    batch = {"x": x, "logits": task.reference(x), "blank": blank(task.reference(x))}
    batch |= generator_inputs(task, x, None, None)
    return batch if observed is None else batch | {"observed": observed}


def learned(task, batch):
    prices = task.config.evidence
    curve = task.model.generator(batch["x"], batch.get("gradient"), batch["context"], None, batch.get("observed"))
    return curve.p(prices.price_low, prices.price_high).detach()


def certain(logits):
    """A blank series gets the class of every sample for sure."""
    return 100.0 * torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1])


def undecided(logits):
    return torch.zeros_like(logits)


def test_of_a_default_class_they_are_half_of_where_the_generator_started(task):
    """In the order of the gradients, and no cell is kept: the model needs none."""
    batch = batch_of(task, certain)
    p = keep_probability(task, batch)
    torch.testing.assert_close(p, start_probability(batch["gradient"]) / 2)
    assert (p < 0.5).all()


def test_of_the_others_they_are_learned(task):
    batch = batch_of(task, undecided)
    torch.testing.assert_close(keep_probability(task, batch), learned(task, batch))


def test_between_the_two_they_are_weighted(task):
    half = batch_of(task, lambda logits: logits)
    open_ = openness(half["logits"], half["blank"], task.fill, False)[:, None, None]
    p = keep_probability(task, half) * 2 / (1 + open_)
    ends = torch.stack([learned(task, half), start_probability(half["gradient"])])
    assert (p >= ends.amin(0) - 1e-6).all()
    assert (p <= ends.amax(0) + 1e-6).all()


def test_cells_that_were_not_measured_stay_zero(task):
    observed = torch.rand(N, T, D, generator=torch.Generator().manual_seed(0)) > 0.3
    p = keep_probability(task, batch_of(task, certain, observed))
    assert (p[~observed] == 0).all()
    assert (p[observed] > 0).all()


def test_a_shift_has_no_default_class():
    task = prepare(
        quick(config=CONFIG.replaced({"mask.fill": "shift"})), Series(series(30, T, D)), Series(series(N, T, D, seed=1))
    )
    batch = batch_of(task, certain)
    torch.testing.assert_close(keep_probability(task, batch), learned(task, batch))


def test_without_gradients_they_are_learned():
    config = CONFIG.replaced({"generator.gradient_points": 0})
    task = prepare(quick(config=config), Series(series(30, T, D)), Series(series(N, T, D, seed=1)))
    batch = batch_of(task, certain)
    torch.testing.assert_close(keep_probability(task, batch), learned(task, batch))


def test_the_start_rises_with_the_gradients():
    gradient = torch.rand(4, T, D, generator=torch.Generator().manual_seed(1))
    p = start_probability(gradient)
    order = torch.stack(at_scales(gradient)).mean(0).flatten(1).argsort(-1)
    assert (p.flatten(1).gather(1, order).diff() >= 0).all()


def test_an_untrained_generator_begins_there(task):
    """At the middle price, but for the small random weights of its last layer."""
    batch = batch_of(task, undecided)
    generator = task.model.generator
    torch.nn.init.zeros_(generator.out.weight)
    level = generator(batch["x"], batch["gradient"], batch["context"]).level
    torch.testing.assert_close(level.sigmoid(), start_probability(batch["gradient"]))
