"""`check_explainer` accepts an explainer that keeps the contract, and names the promise that another one breaks."""

import random
from typing import NamedTuple

import pytest
import torch

from timex.explainers.base import Explainer
from timex.testing import check_explainer


class Scale(NamedTuple):
    """The largest absolute value of the training series."""

    value: float
    shape: tuple[int, ...]


class Relative(Explainer[Scale]):
    """|x| relative to the largest value of the training series: keeps every promise."""

    name = "relative"
    needs_fit = True

    def _fit(self, train, val, progress):
        return Scale(float(abs(train.x).max()), train.shape[1:])

    def _explain(self, batch):
        return {"attribution": batch.x.abs() / self.fitted.value}


class Complete(Relative):
    """Takes no missing cells, and says so."""

    accepts_missing = False


class Random(Relative):
    def _explain(self, batch):
        return {"attribution": torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(random.getrandbits(32)))}


class Drawing(Relative):
    def _explain(self, batch):
        torch.rand(1)
        return super()._explain(batch)


class Chunked(Relative):
    def _explain(self, batch):
        return {"attribution": batch.x.abs() / batch.x.abs().max()}


class Constant(Relative):
    def _explain(self, batch):
        return {"attribution": torch.ones_like(batch.x)}


class Overflowing(Relative):
    def _explain(self, batch):
        return {"attribution": batch.x / 0}


class Transposed(Relative):
    def _explain(self, batch):
        return {"attribution": batch.x.abs().transpose(1, 2)}


class Changing(Relative):
    def _own_model(self, model):
        return model.eval().requires_grad_(False)


class Undefined(Relative):
    """NaN wherever a series has missing cells, without refusing them."""

    def _explain(self, batch):
        return {"attribution": batch.x.abs() / (self.fitted.value if batch.observed is None else torch.nan)}


class Targeted(Relative):
    """Declares that it takes no target: the base class then refuses one."""

    takes_target = False


class Foreign(Relative):
    def _explain(self, batch):
        return {**super()._explain(batch), "prediction": 0 * batch.target}


class Unready(Relative):
    """Says that it needs no fit, and needs one."""

    needs_fit = False


class Forgetful(Relative):
    """Saves nothing of what it learned."""

    def save(self, folder):
        return folder

    def load(self, folder, model):
        other = Forgetful(model)
        other.fitted_ = Scale(1.0, self.fitted.shape)
        return other


@pytest.mark.parametrize("explainer", [Relative, Complete, Targeted])
def test_explainers_that_keep_the_contract(explainer):
    check_explainer(explainer)


@pytest.mark.parametrize(
    ("explainer", "broken"),
    [
        (Random, "explained again: scores differ by"),
        (Drawing, "the global random state was changed"),
        (Chunked, "in chunks of 1: scores differ by"),
        (Constant, "attribution is constant"),
        (Changing, "the model was changed: work on a copy"),
        (Foreign, "prediction is not the model's"),
        (Forgetful, "saved and loaded: scores differ by"),
    ],
)
def test_broken_promises_are_named(explainer, broken):
    with pytest.raises(AssertionError, match=broken):
        check_explainer(explainer)


def test_errors_of_the_explainer_itself_come_through():
    with pytest.raises(ValueError, match="Expected attribution of the shape of x"):
        check_explainer(Transposed)
    with pytest.raises(RuntimeError, match="has not been fitted"):
        check_explainer(Unready)
    for explainer in (Overflowing, Undefined):
        with pytest.raises(ValueError, match="Expected finite numbers, got NaN or inf as the attribution"):
            check_explainer(explainer)
