"""How foreign models are called and read: layout, keywords, outputs, tasks, the layer that is taken, and warnings."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from timex import Series, adapt
from timex.reference.adapt import tried
from timex.reference.answers import MANY

B, T, D, C = 6, 10, 3, 4


def series(n=B):
    return torch.randn(n, T, D, generator=torch.Generator().manual_seed(0))


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


class ChannelsFirst(nn.Module):
    def __init__(self, classes=C):
        super().__init__()
        self.conv, self.head = nn.Conv1d(D, 5, 3), nn.Linear(5, classes)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean(-1))


class Replying(nn.Module):
    """Two layers; what they give is returned as `reply` makes it."""

    def __init__(self, reply, width=C):
        super().__init__()
        self.body, self.head, self.reply = nn.Linear(T * D, 7), nn.Linear(7, width), reply

    def forward(self, x):
        return self.reply(self.head(self.body(x.flatten(1)).tanh()))


def replying(reply, width=C):
    return seeded(lambda: Replying(reply, width))


def plain(width=C):
    return replying(lambda h: h, width)


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


# ------------------------------------------------------------------------------------------------------------- calling


@torch.no_grad()
def test_channels_first():
    module, x = seeded(ChannelsFirst), series()
    close(adapt(module, x, layout="BDT")(x), module(x.transpose(1, 2)))
    with pytest.raises(
        ValueError, match=r"^The model fails on x as \(B, T, D\) and runs on it as \(B, D, T\): pass layout='BDT'"
    ):
        adapt(module, x)
    with pytest.raises(
        ValueError, match=r"as \(B, D, T\) and runs on it as \(B, T, D\): pass layout='BTD' if x is \(N, T, D\)"
    ):
        adapt(module, x.transpose(1, 2), layout="BDT")


def test_series_handed_over_channels_first_are_noticed():
    text = r"^The model convolves along the last axis of x, which has 10 .* pass x.transpose\(0, 2, 1\), of shape \(N, 10, 3\)"
    with pytest.warns(UserWarning, match=text) as caught:
        adapt(seeded(ChannelsFirst), series().transpose(1, 2))
    assert caught[0].filename == __file__


class Keyed(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(T * D, C)

    def forward(self, past_values, offset=0.0):
        return SimpleNamespace(loss=None, score=self.head(past_values.flatten(1)) + offset)


@torch.no_grad()
def test_a_keyword_or_a_function_calls_the_model():
    module, x = seeded(Keyed), series()
    expected = module(x).score
    close(adapt(module, x, forward="past_values")(x), expected)
    close(adapt(module, x, forward=lambda model, x: model(x, offset=2.0))(x), expected + 2)
    with pytest.raises(
        ValueError, match=r"^The model takes no such keyword \(TypeError: .*'values'.*\): pass another one as forward="
    ):
        adapt(module, x, forward="values")


class Needy(nn.Module):
    def forward(self, x, static):
        return x.mean(1) + static


@torch.no_grad()
def test_further_inputs():
    x = series()
    with pytest.raises(
        ValueError, match=r"^The model needs more inputs than the series .*'static'.* pass forward=lambda model, x"
    ):
        adapt(Needy(), x)
    close(adapt(Needy(), x, forward=lambda model, x: model(x, 3.0))(x), x.mean(1) + 3)


class Aware(nn.Module):
    """Reads what a model may ask for: times, measured cells and lengths."""

    def forward(self, x, times, observed, lengths):
        return torch.stack([times.sum(1), observed.float().sum((1, 2)), lengths.float()], dim=1)


@torch.no_grad()
def test_times_observed_and_lengths_reach_a_forward_that_has_parameters_for_them():
    x = series(2)
    model = adapt(Aware(), x)
    close(model(x), torch.tensor([[55.0, 30.0, 10.0]] * 2))  # times 1..10
    observed = torch.ones(2, T, D, dtype=torch.bool)
    observed[1, 7:] = False  # padding
    observed[1, 2, 0] = False
    times = torch.arange(2 * T).view(2, T).float()
    close(model(x, times, observed), torch.tensor([[45.0, 30.0, 10.0], [145.0, 20.0, 7.0]]))


def test_a_model_that_reads_nan_is_noticed():
    class Counting(nn.Module):
        def forward(self, x):
            missing = x.isnan().float().mean((1, 2))
            return torch.stack([missing, -missing, x.nan_to_num().sum((1, 2))], dim=1)

    x = series().numpy()
    x[0, 3, 1] = np.nan
    gappy = Series.with_gaps(x)
    with pytest.warns(UserWarning, match=r"^The model reads NaN and answers differently when missing cells are 0"):
        adapt(Counting(), gappy)
    model = adapt(Counting(), gappy, forward=lambda model, x, observed: model(x.masked_fill(~observed, float("nan"))))
    tensors = gappy.tensors()
    assert model(tensors["x"], tensors["times"], tensors["observed"])[0, 0] == pytest.approx(1 / 30)


# -------------------------------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        (lambda h: {"loss": None, "logits": h, "hidden": h + 1}, None),
        (lambda h: (h, h[:, None, None, :]), None),  # logits and attention weights
        (lambda h: (None, h), None),
        (lambda h: [h], None),
        (lambda h: SimpleNamespace(prediction_logits=h, other=h), None),
        (lambda h: (h, h + 1), 0),
        (lambda h: {"a": h + 1, "b": h}, "b"),
        (lambda h: SimpleNamespace(a=h + 1, b=h), "b"),
        (lambda h: h[:, None].expand(-1, 5, -1), lambda out: out[:, -1]),  # a step of many
    ],
)
@torch.no_grad()
def test_the_answer_is_found_or_named(reply, output):
    x = series()
    close(adapt(replying(reply), x, output=output)(x), plain()(x))


def test_an_answer_that_is_not_there():
    with pytest.raises(ValueError, match=r"^output='c' is not in the output, which is dict with a \(6, 4\), b \(6, 4\)\.$"):
        adapt(replying(lambda h: {"a": h, "b": h}), series(), output="c")


# ---------------------------------------------------------------------------------------------------------------- tasks


@torch.no_grad()
def test_probabilities_become_their_logarithm():
    x = series()
    model = adapt(replying(lambda h: h.softmax(-1)), x)
    close(model(x), plain()(x).log_softmax(-1))


@torch.no_grad()
def test_one_logit_becomes_two():
    x, module = series(), plain(1)
    expected = module(x)[:, 0]
    for reply in (lambda h: h, lambda h: h[:, 0]):
        logits = adapt(replying(reply, 1), x, task="binary")(x)
        close(logits[:, 1] - logits[:, 0], expected)  # the log-odds
        close(logits.softmax(-1)[:, 1], expected.sigmoid())


@torch.no_grad()
def test_a_label_is_explained_as_yes_or_no():
    x = series()
    logits = adapt(plain(), x, task="multilabel", target=2)(x)
    close(logits.softmax(-1)[:, 1], plain()(x)[:, 2].sigmoid())


@torch.no_grad()
def test_numbers_are_chosen_by_step_and_channel():
    x = series()
    grid = replying(lambda h: h.view(-1, 2, 3), 6)  # 2 steps ahead, 3 channels
    raw = plain(6)(x).view(-1, 2, 3)
    close(adapt(grid, x, task="forecast")(x), raw.flatten(1))
    close(adapt(grid, x, task="forecast", target=1)(x), raw[:, 1])
    close(adapt(grid, x, task="forecast", target=(1, 2))(x), raw[:, 1, 2:])
    close(adapt(replying(lambda h: h[:, 0], 1), x, task="regress")(x), plain(1)(x))
    with pytest.raises(ValueError, match=r"^target=9 is not in the model's answer, a tensor of shape \(6, 2, 3\)\.$"):
        adapt(grid, x, task="forecast", target=9)


@torch.no_grad()
def test_numbers_are_scaled_by_the_training_series():
    x = series(40)
    model = tried(adapt(replying(lambda h: 100 + 50 * h, 2), task="regress"), Series(x), scale_numbers=True)
    scaled = model(x)
    close(scaled.mean(0), torch.zeros(2))
    close(scaled.std(0, correction=0), torch.ones(2))
    torch.testing.assert_close(model.in_own_units(scaled), 100 + 50 * plain(2)(x))


def sure(h):
    """Sigmoids near 0 and 1, as a trained model gives."""
    return (50 * (h - h.mean(0))).sigmoid()


def test_outputs_between_0_and_1_are_noticed():
    with pytest.warns(
        UserWarning, match=r"lie between 0 and 1 and do not sum to 1, so they are no logits of classes: .*multilabel"
    ):
        adapt(replying(sure), series())
    with pytest.warns(UserWarning, match=r"lie between 0 and 1, as probabilities do, and logits are expected: pass output="):
        adapt(replying(sure, 1), series(), task="binary")


def test_small_logits_are_not_taken_for_sigmoids():
    """Few logits lie between 0 and 1 by chance, as here, all of them near .5; a warning would be an error."""
    adapt(replying(torch.sigmoid), series())


def test_many_hazards_below_a_half_are_noticed():
    hazards = replying(lambda h: 0.5 * torch.sigmoid(h))
    with pytest.warns(UserWarning, match="lie between 0 and 1 and do not sum to 1, so they are no logits of classes"):
        adapt(hazards, torch.randn(MANY // C, T, D, generator=torch.Generator().manual_seed(0)))


# ------------------------------------------------------------------------------------------------------- the embedding


@torch.no_grad()
def test_the_input_of_the_last_linear_layer_is_the_embedding(caplog):
    x, module = series(), plain()
    with caplog.at_level("INFO"):
        z = adapt(module, x).output(x).z
    close(z, module.body(x.flatten(1)).tanh())
    assert "the embedding is the input of layer 'head'; embedding= names another layer" in caplog.text


@torch.no_grad()
def test_features_stay_on_the_last_axis_of_a_linear_input():
    """(B, T, Z) with Z = T, which has no single time axis."""

    class PerStep(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(D, T), nn.Linear(T, C)

        def forward(self, x):
            return self.head(self.body(x)).mean(1)

    x, module = series(), seeded(PerStep)
    close(adapt(module, x).output(x).z, module.body(x).mean(1))


@torch.no_grad()
def test_a_flat_model_falls_back_to_the_logits(caplog):
    x, module = series(), seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(T * D, C)))
    with caplog.at_level("INFO"):
        out = adapt(module, x).output(x)
    close(out.z, out.logits)
    assert "the embedding is the model's logits; embedding= names another layer" in caplog.text


def test_naming_the_head_is_noticed():
    with pytest.warns(UserWarning, match=r"^The embedding, the output of layer 'head', equals the model's output"):
        adapt(plain(), series(), embedding="head")


def test_a_model_must_be_tried_before_it_runs():
    with pytest.raises(RuntimeError, match=r"must see a few series first: call tried\(x\)"):
        adapt(plain())(series())
