"""Thirty wrong uses, each with the message that says what to do instead."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

from timex import Series, TimeX, TimeXConfig, adapt
from timex.explainers import Dynamask, Gradients, IntegratedGradients, Occlusion
from timex.reference import CNN

N, T, D, C = 24, 10, 3, 4
X = np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)
QUICK = TimeXConfig(epochs=1)
GAPPY = np.arange(N) % 2
GAPS = np.where((GAPPY == 1)[:, None, None] & (np.arange(T)[:, None] == 4), np.nan, X)
"""Series of which every other one has a gap."""


class Net(nn.Module):
    """Layers `body` and `head`; `reply` makes the output of the logits."""

    def __init__(self, reply=lambda h: h, outputs=C):
        super().__init__()
        self.body, self.head, self.reply = nn.Linear(T * D, 7), nn.Linear(7, outputs), reply

    def forward(self, x):
        return self.reply(self.head(self.body(x.flatten(1)).tanh()))


class ChannelsFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(D, 5, 3), nn.Linear(5, C)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean(-1))


class Needy(nn.Module):
    def forward(self, x, age):
        return x.mean(1) + age


class Rounding(nn.Module):
    def forward(self, x):
        return x.round().sum(1)


def made(kind, *arguments, **options):
    """A model with the same weights in every run: whether other warnings come along depends on them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(*arguments, **options)


class CastsToHalf(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(D, C)

    def forward(self, x):
        return self.head(x.half().mean(1))


def net(*arguments, **options):
    return made(Net, *arguments, **options)


def sure(h):
    """Sigmoids near 0 and 1, as a trained model gives."""
    return (50 * (h - h.mean(0))).sigmoid()


def tried(model, **how):
    return adapt(model, X, **how)


def fitted(model, x=X, **how):
    return TimeX(model, config=QUICK, **how).fit(x, progress=False)


def fails_to_answer(x):
    raise RuntimeError("no such table")


ERRORS = {
    # what is handed over
    "a class": (lambda: TimeX(Net), r"got the class Net: pass an instance"),
    "a name": (lambda: TimeX("my_model"), r"Expected a torch\.nn\.Module, an estimator .* or a function x -> output, got str"),
    "an untrained lazy module": (lambda: TimeX(nn.LazyLinear(3)), r"has no values yet: run the model once, and train it"),
    "weights that were never loaded": (
        lambda: adapt(made(Net).to("meta")),
        r"weights are on the meta device, where they have no values: load them first",
    ),
    "an exported program": (
        lambda: TimeX(torch.export.export(net(), (torch.tensor(X),))),
        r"got an exported program: pass the module it was made from",
    ),
    "a predictor of numbers as a classifier": (
        lambda: tried(type("Regressor", (), {"predict": lambda self, x: x.sum((1, 2))})()),
        r"Regressor has predict alone: pass task='regress' if it gives numbers",
    ),
    "a function that fails": (
        lambda: tried(fails_to_answer),
        r"The black box fails on x of shape \(2, 10, 3\), and as \(N, T \* D\) too\. RuntimeError: no such table",
    ),
    # how it is called
    "channels last for a model with channels first": (
        lambda: tried(made(ChannelsFirst)),
        r"fails on x as \(B, T, D\) and runs on it as \(B, D, T\): pass layout='BDT'",
    ),
    "series as (N, D, T) with layout='BDT'": (
        lambda: adapt(made(ChannelsFirst), X.transpose(0, 2, 1), layout="BDT"),
        r"runs on it as \(B, T, D\): pass layout='BTD' if x is \(N, T, D\), or transpose x",
    ),
    "series of another length": (
        lambda: adapt(net(), X[:, :-1]),
        r"The model fails on x of shape \(24, 9, 3\), handed over as \(B, T, D\), float32\. RuntimeError: mat1 and mat2",
    ),
    "a cast to half": (
        lambda: tried(CastsToHalf().half()),
        r"forward casts to half or bfloat16, and its weights are explained in float32 \(RuntimeError: .*\): cast to",
    ),
    "a missing input": (lambda: tried(Needy()), r"needs more inputs than the series .*'age'.* pass forward=lambda model, x:"),
    "a keyword it does not take": (
        lambda: tried(net(), forward="values"),
        r"takes no such keyword .* pass another one as forward=",
    ),
    "an unknown layout": (lambda: TimeX(net(), layout="NCL"), r"Expected layout as one of 'BTD', 'BDT', got 'NCL'"),
    "a misspelt keyword": (lambda: Gradients(net(), laiout="BDT"), r"Unknown keyword laiout=: did you mean layout=\?"),
    "a layer of a black box": (lambda: TimeX(lambda x: x, "body"), r"a black box, which has no layers: leave out embedding="),
    "a layer of our own model": (
        lambda: TimeX(made(CNN, D, C, T), "head"),
        r"CNN is a reference model, .*: leave out embedding=",
    ),
    # how it is read
    "a misspelt layer": (lambda: tried(net(), embedding="bdy"), r"The model has no layer 'bdy'\. Did you mean 'body'\?"),
    "several outputs": (
        lambda: tried(net(lambda h: (h, h))),
        r"one tensor with the model's answer, got tuple with 0 \(24, 4\), 1 \(24, 4\): choose it with output=",
    ),
    "a part that is not there": (
        lambda: tried(net(lambda h: {"a": h}), output="b"),
        r"output='b' is not in the output, which is dict",
    ),
    "one logit as classes": (
        lambda: tried(net(outputs=1)),
        r"at least 2 classes, got a tensor of shape \(24, 1\): pass task='binary'",
    ),
    "classes as one logit": (lambda: tried(net(), task="binary"), r"one logit per series .* \(24, 4\): pass task='classify'"),
    "an answer per step": (
        lambda: tried(net(lambda h: h[:, None].expand(-1, T, -1))),
        r"logits of shape \(B, C\) .* got a tensor of shape \(24, 10, 4\): reduce it with output= \(for one step of many",
    ),
    "a mean over the batch": (
        lambda: tried(net(lambda h: h.mean(0))),
        r"one answer for each of 24 series .* got a tensor of shape \(4,\)",
    ),
    "labels without a target": (lambda: TimeX(net(), task="multilabel"), r"Expected target=INDEX with task='multilabel'"),
    "a label that is not there": (
        lambda: tried(net(), task="multilabel", target=9),
        r"target=9 is not in the model's answer, a tensor of shape \(24, 4\)",
    ),
    "a class in the wrong place": (
        lambda: TimeX(net(), task="binary", target=1),
        r"no target= with task='binary', whose answers already are no and yes",
    ),
    # what cannot be explained
    "no gradient": (
        lambda: fitted(Rounding()),
        r"No gradient of the model's output reaches x, and TimeX learns from gradients",
    ),
    "gradients of a black box": (
        lambda: IntegratedGradients(lambda x: x.sum(1)),
        r"needs gradients, and function is explained as a",
    ),
    "numbers for a method of classes": (lambda: Dynamask(net(), task="regress"), r"Dynamask explains classes, not numbers"),
    "several numbers at once": (
        lambda: Occlusion(net(), task="regress").explain(X),
        r"explains one number at a time and the model gives 4: choose one with Occlusion\(model, target=INDEX\)",
    ),
    "NaN in the output": (lambda: fitted(net(lambda h: h * torch.nan)), r"The model gives NaN or inf on some samples"),
}
WARNINGS = {
    "the head as embedding": (
        lambda: tried(net(), embedding="head"),
        r"equals the model's output: .* Name the layer before the head",
    ),
    "x as (N, D, T)": (
        lambda: adapt(made(ChannelsFirst), X.transpose(0, 2, 1)),
        r"convolves along the last axis of x, which has 10 entries",
    ),
    "sigmoids as classes": (lambda: tried(net(sure)), r"do not sum to 1, so they are no logits of classes"),
    "a probability as a logit": (
        lambda: tried(net(sure, outputs=1), task="binary"),
        r"lie between 0 and 1, as probabilities do, and logits are expected",
    ),
    "a model that reads NaN, on gaps": (
        lambda: adapt(
            ReadsNaN(),
            Series.with_gaps(np.where(np.arange(T)[:, None] == 4, np.nan, X)),
        ),
        r"The model reads NaN and answers differently when missing cells are 0, .* pass forward=lambda model, x, observed:",
    ),
    "trees that read NaN, on gaps": (
        lambda: adapt(trees(), Series.with_gaps(GAPS)),
        r"pass lambda x, observed: model\.predict_proba\(np\.where\(observed, x, np\.nan\)\.reshape\(len\(x\), -1\)\)",
    ),
    "labels of a function as classes": (
        lambda: tried(lambda x: 1 / (1 + np.exp(-9 * x.mean(1)))),
        r"do not sum to 1, so they are no logits of classes",
    ),
}


class ReadsNaN(nn.Module):
    def forward(self, x):
        return torch.cat([x.isnan().float().mean(1), x.nan_to_num().mean(1)], 1)


def trees():
    """Boosted trees that were trained on series with gaps as NaN."""
    return HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3).fit(GAPS.reshape(N, -1), GAPPY)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_what_to_do(name):
    use, text = ERRORS[name]
    with pytest.raises(ValueError, match=text):
        use()


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_says_what_to_do(name):
    use, text = WARNINGS[name]
    with pytest.warns(UserWarning, match=text):
        use()


def test_a_detector_that_answers_few_series_has_a_gradient():
    """Its first series give 0, and no gradient, whatever their size; a later one does not."""

    class Rare(nn.Module):
        def forward(self, x):
            return (x[:, :1, 0].abs() - 3).relu() * torch.ones(C)

    x = np.clip(X, -1, 1)
    x[20, 0, 0] = 5.0
    Gradients(Rare(), device="cpu", task="regress", target=0).fit(x)
    with pytest.raises(ValueError, match="No gradient of the model's output reaches x"):
        Gradients(Rare(), device="cpu", task="regress", target=0).fit(x[:20])
