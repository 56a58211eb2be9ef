"""What a fit computes of the frozen model: its outputs, the unit of a forecast's evidence, and the neutral fill."""

import numpy as np
import pytest
import torch
from cases import CONFIG, quick, seeded, series
from torch import nn

from timex.engine import Noise
from timex.method.explain import context_of
from timex.method.masking import direct_value
from timex.method.outputs import FrozenModel, neutral_fill, outputs_of, random_pieces, spread_of
from timex.method.task import prepare
from timex.records import Series
from timex.reference import CNN
from timex.reference.adapt import adapt
from timex.reference.evidence import log_odds, path_gradients

N, T, D, C = 11, 12, 2, 3
CPU = torch.device("cpu")


def by_value(x, observed, mask, fill):
    """Masking of values, as `TimeXModel.masked` does it."""
    x = direct_value(x, mask, fill)
    return (x if observed is None else torch.where(observed, x, 0.0)), None


def frozen(reference, mean, spread=None):
    return FrozenModel(reference=reference, masked=by_value, mean=torch.as_tensor(mean), spread=spread)


def cnn():
    return seeded(lambda: CNN(D, C, T, width=6), T, D).eval()


@pytest.mark.parametrize("missing", [False, True])
def test_outputs_are_those_of_the_model(missing):
    x, mean = series(N, T, D), series(1, T, D, seed=5)[0]
    observed = np.random.default_rng(0).random(x.shape) > 0.3 if missing else None
    reference, data = cnn(), Series(x, None, observed)
    found = outputs_of(frozen(reference, mean), data, 4)
    values, seen = torch.as_tensor(data.x), None if observed is None else torch.as_tensor(observed)
    start = torch.as_tensor(mean).expand(N, T, D) * (1 if seen is None else seen)
    out, blank = reference.output(values, None, seen), reference(start, None, seen)
    target = out.logits.argmax(-1)
    gradient = path_gradients(lambda point: log_odds(reference(point, None, seen), target), values, start, 4)
    context = torch.cat([out.z, out.logits.softmax(-1)], dim=-1)
    expected = {"z": out.z, "logits": out.logits, "blank": blank, "gradient": gradient, "context": context}
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value.detach(), atol=1e-5, rtol=1e-4)
    assert set(found) == {"x", *expected, *(("times", "observed") if missing else ())}
    if missing:
        assert (found["gradient"][~seen] == 0).all()
    assert "gradient" not in outputs_of(frozen(reference, mean), data, 0)


def test_the_context_of_a_forecast_holds_its_values():
    out = cnn().output(torch.as_tensor(series(N, T, D)))
    assert torch.equal(context_of(out, True), torch.cat([out.z, out.logits], dim=-1))


def test_the_generator_reads_a_standardised_context():
    """By the training series: mean 0 and deviation 1 there, and the same scale for validation."""
    task = prepare(quick(), Series(series(40, T, D)), Series(series(9, T, D, seed=1)))
    train, val = task.member.train["context"], task.member.val["context"]
    torch.testing.assert_close(train.mean(0), torch.zeros(train.shape[1]), atol=1e-5, rtol=0)
    constant = task.model.context_std == 1e-6  # units of the model that never fire
    torch.testing.assert_close(train.std(0), (~constant).float(), atol=1e-4, rtol=0)
    assert constant.float().mean() < 0.5
    raw = context_of(task.reference.output(torch.as_tensor(task.val.x)), False)
    torch.testing.assert_close(val * task.model.context_std + task.model.context_mean, raw, atol=1e-5, rtol=1e-4)


def test_spread_by_hand():
    """The answers to training series, from the answer to their mean."""
    reference, data = cnn(), Series(series(N, T, D))
    baseline = data.baseline()
    with torch.no_grad():
        blank = reference(torch.as_tensor(baseline.mean)[None])
        far = [float((reference(torch.as_tensor(x)[None]) - blank).square().mean()) for x in data.x]
    assert spread_of(reference, data, baseline, CPU) == pytest.approx(np.mean(far), rel=1e-4)


# ---------------------------------------------------------------------------------------------------------- the fill


def test_random_pieces_take_about_a_tenth():
    pieces = random_pieces(torch.Size((400, 60, 3)), Noise(torch.tensor(1)))
    assert set(pieces.unique().tolist()) == {0.0, 1.0}
    assert 0.08 < float(pieces.mean()) < 0.1  # pieces may overlap
    runs = (torch.diff(pieces, dim=1, prepend=torch.zeros(400, 1, 3)) == 1).sum((1, 2))
    assert runs.max() <= 3  # three pieces of six steps
    first, last = pieces[:, 0].mean(), pieces[:, -1].mean()
    assert float(first) > 0 < float(last)


class Stillness(nn.Module):
    """Logits of "some sensor stands still for 7 steps" against "none does"; the embedding is the smallest change."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Identity(), nn.Linear(1, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-16.0], [16.0]]))
            self.head.bias.copy_(torch.tensor([2.0, -2.0]))

    def forward(self, x):
        change = (x[:, 1:] - x[:, :-1]).abs()
        change = change.unfold(1, 6, 1).mean(-1).flatten(1)  # (B, windows), of six changes
        return self.head(self.embed(-torch.logsumexp(-20 * change, dim=1, keepdim=True) / 20))


def test_the_mean_is_no_neutral_fill_where_standing_still_decides():
    """Replacing a piece by the mean makes any sensor stand still; a shifted copy of the series does not."""
    data = Series(series(60, 80, 3))
    reference = adapt(Stillness(), data, embedding="embed")
    model = frozen(reference, data.baseline().mean)
    outputs = outputs_of(model, data, 0)
    assert outputs["logits"].argmax(-1).float().mean() > 0.9  # noise does not stand still
    assert outputs["blank"].argmax(-1).max() == 0
    assert neutral_fill(model, data, outputs, seed=0) == "shift"


class Level(nn.Module):
    """Logits of the level of the first channel in the middle of the window."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Identity(), nn.Linear(1, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-1.0], [1.0]]))
            self.head.bias.zero_()

    def forward(self, x):
        return self.head(self.embed(x[:, 15:25, :1].mean(1)))


def test_the_mean_is_neutral_where_a_level_decides():
    x = series(60, 40, 3) * 0.1
    x[::2, 15:25, 0] += 2
    x[1::2, 15:25, 0] -= 2
    x[:, :10, 0] += 5 * np.where(np.arange(60) % 2, 1, -1)[:, None]  # what a shift brings into the middle
    data = Series(x)
    model = frozen(adapt(Level(), data, embedding="embed"), data.baseline().mean)
    assert neutral_fill(model, data, outputs_of(model, data, 0), seed=0) == "mean"


def test_the_fill_of_a_fit():
    data = Series(series(40, T, D)), Series(series(9, T, D, seed=1))
    assert prepare(quick(), *data).fill in ("mean", "shift")
    for fill in ("mean", "draw", "shift"):
        assert prepare(quick(config=CONFIG.replaced({"mask.fill": fill})), *data).fill == fill
    assert prepare(quick(config=CONFIG.replaced({"objective": "paper"})), *data).fill == "draw"
