"""Counterfactuals of a linear model, whose smallest edits are known, and of series with missing cells."""

import numpy as np
import pytest
import torch
from torch import nn

from timex import Series, counterfactual
from timex.explainers import GradientXInput, Random
from timex.explainers.base import Explainer
from timex.trust.counterfactual import distances, usual_distance

T, D = 8, 2


class Linear(nn.Module):
    """Class 1 if steps 2 and 3 of channel 1 sum to more than 0."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        z = self.scale * x[:, 2:4, 1].sum(1)
        return torch.stack([-z, z], dim=1)


class Keeps(Explainer):
    """Keeps step 2 of channel 1, or of channel 0 by `channel=0`; the highest score has step 3 of channel 1, which it hides."""

    name = "keeps"
    channel = 1

    def _explain(self, batch):
        mask = torch.zeros_like(batch.x, dtype=torch.bool)
        mask[:, 2, self.channel] = True
        attribution = mask.float()
        attribution[:, 3, 1] = 2
        return {"attribution": attribution, "mask": mask}


class KeepsNothing(Keeps):
    """Has an empty mask."""

    def _explain(self, batch):
        found = super()._explain(batch)
        return {**found, "mask": torch.zeros_like(found["mask"])}


class KeepsOther(Keeps):
    """Keeps a cell that the model ignores."""

    channel = 0


def series(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, T, D)).astype(np.float32)


def test_the_edit_of_a_linear_model_touches_deciding_cells_alone():
    x = series(60)
    found = counterfactual(GradientXInput(Linear()), x[:12], x)
    assert found.valid.all()
    other = found.cells.copy()
    other[:, 2:4, 1] = False
    assert not other.any()
    assert (found.cells.sum((1, 2)) >= 1).all()
    np.testing.assert_array_equal(found.edited[~found.cells], x[:12][~found.cells])
    with torch.no_grad():
        after = Linear()(torch.as_tensor(found.edited)).softmax(-1)
    np.testing.assert_allclose(found.probability, after, atol=1e-6)
    np.testing.assert_array_equal(found.target, 1 - found.explanation.prediction)


def test_the_blend_is_the_smallest_of_the_steps_tried():
    x = series(60)
    found = counterfactual(GradientXInput(Linear()), x[:12], x)
    for i in range(12):
        moved = x[found.guide[i]] - x[i]
        share = np.median((found.edited[i] - x[i])[found.cells[i]] / moved[found.cells[i]])
        less = np.where(found.cells[i], x[i] + (share - 1 / 16) * moved, x[i])
        with torch.no_grad():
            assert int(Linear()(torch.as_tensor(less[None])).argmax()) != found.target[i]


def test_spare_cells_are_given_back():
    """A random order edits many cells first; those that are not needed return to their values."""
    x = series(60)
    found = counterfactual(Random(Linear()), x[:12], x)
    assert found.valid.all()
    other = found.cells.copy()
    other[:, 2:4, 1] = False
    assert not other.any()


def test_kept_cells_come_before_cells_of_higher_attribution():
    """Where the kept cell suffices, it alone is edited; elsewhere the other deciding cell is needed."""
    x = series(60)
    found = counterfactual(Keeps(Linear()), x[:12], x)
    assert found.valid.all()
    sign = np.where(found.explanation.prediction == 1, 1, -1)
    guided = sign * (x[found.guide, 2, 1] + x[:12, 3, 1])  # with the guide's value in the kept cell
    assert 0 < (guided < 0).sum() < 12
    np.testing.assert_array_equal(found.cells[:, 3, 1], guided >= 0)
    np.testing.assert_array_equal(found.within_mask[guided < 0], 1)


def test_within_the_mask_no_other_cell_is_edited():
    x = series(60)
    anywhere, found = (counterfactual(Keeps(Linear()), x[:12], x, within=where) for where in ("all", "mask"))
    assert not (found.cells & ~found.explanation.mask).any()
    np.testing.assert_array_equal(found.valid, anywhere.within_mask == 1)
    np.testing.assert_array_equal(found.edited[found.valid], anywhere.edited[found.valid])
    np.testing.assert_array_equal(found.edited[~found.valid], x[:12][~found.valid])


def test_cells_outside_the_mask_are_edited_where_kept_ones_change_nothing():
    """The kept cell, which the model ignores, is given back."""
    x = series(60)
    found = counterfactual(KeepsOther(Linear()), x[:12], x)
    assert found.valid.all()
    np.testing.assert_array_equal(found.within_mask, 0)
    assert not counterfactual(KeepsOther(Linear()), x[:12], x, within="mask").valid.any()


def test_an_empty_mask_leaves_the_other_cells():
    x = series(60)
    assert counterfactual(KeepsNothing(Linear()), x[:12], x).valid.all()
    found = counterfactual(KeepsNothing(Linear()), x[:12], x, within="mask")
    assert not found.valid.any()
    np.testing.assert_array_equal(found.edited, x[:12])


def test_models_of_numbers_are_refused():
    x = series(60)
    with pytest.raises(ValueError, match="Expected a classifier, got a model of numbers"):
        counterfactual(GradientXInput(Linear(), task="regress", target=0), x[:2], x)


def test_measures_by_hand():
    x = series(60)
    found = counterfactual(GradientXInput(Linear()), x[:5], x)
    unit = np.sqrt((Series(x).baseline().std ** 2).mean(0))
    change = (found.edited - x[:5]) / unit
    np.testing.assert_allclose(found.distance, np.sqrt((change**2).mean((1, 2))), rtol=1e-5)
    np.testing.assert_allclose(found.share, found.cells.mean((1, 2)))
    with torch.no_grad():
        of_class = Linear()(torch.as_tensor(x)).argmax(1).numpy()
    for i in range(5):
        same = x[of_class == found.target[i]]
        nearest = min(np.sqrt((((s - found.edited[i]) / unit) ** 2).mean()) for s in same)
        apart = np.sqrt((((same[:, None] - same[None]) / unit) ** 2).mean((2, 3))) + np.diag(np.full(len(same), np.inf))
        between = apart.min(1)
        assert found.plausibility[i] == pytest.approx(nearest / np.median(between), rel=1e-4)
    table = found.table()
    assert table["valid"].tolist() == [True] * 5
    assert table["after"].tolist() == pytest.approx(found.probability[np.arange(5), found.target])


def test_targets_and_errors():
    x = series(60)
    explainer = GradientXInput(Linear())
    predicted = explainer.explain(x[:12]).prediction
    named = Series(x[:12], classes=("low", "high"))
    one = counterfactual(explainer, named.take(predicted == 0), x, target="high")
    assert (one.target == 1).all()
    with pytest.raises(ValueError, match="Expected a target other than the predicted class"):
        counterfactual(explainer, x[:12], x, target=predicted)
    with pytest.raises(ValueError, match="Found no training series that the model gives another class"):
        counterfactual(explainer, x[:1], x[:1])
    with pytest.raises(ValueError, match='Expected within="all" or "mask", got \'both\''):
        counterfactual(explainer, x[:1], x, within="both")
    with pytest.raises(ValueError, match='Expected within="all" for GradientXInput, which keeps no cells'):
        counterfactual(explainer, x[:1], x, within="mask")
    with pytest.raises(ValueError, match=r"Expected train with \(T, D\) = \(8, 2\) as x, got \(7, 2\)"):
        counterfactual(explainer, x[:1], x[:, 1:])


def test_missing_cells_are_never_edited():
    x = series(60)
    observed = np.random.default_rng(1).random(x.shape) < 0.8
    observed[:, 2:4, 1] = True
    train = Series(x, observed=observed)
    found = counterfactual(GradientXInput(Linear()), train.take(slice(0, 8)), train)
    assert found.valid.all()
    assert not (found.cells & ~observed[:8]).any()
    a, b = train.x[0], train.x[1]
    both = observed[0] & observed[1]
    expected = np.sqrt(((a - b)[both] ** 2).mean())
    assert distances(a, observed[0], train.take([1]), np.ones(D))[0] == pytest.approx(expected, rel=1e-5)
    assert usual_distance(train.take([0]), np.ones(D)) == 1


def test_it_says_what_it_is():
    x = series(60)
    found = counterfactual(GradientXInput(Linear()), Series(x[:3], classes=("low", "high")), x)
    assert "not what it rests on" in repr(found)
    figure = found.plot(1)
    texts = [t.get_text() for ax in figure.axes for t in ax.texts] + [ax.get_title(loc="left") for ax in figure.axes]
    assert any("Counterfactual of sample 1" in t for t in texts)
    assert any("not what the answer rests on" in t for t in texts)
