"""Whatever is handed in: it works or raises a documented error, and no argument changes."""

from __future__ import annotations

import copy
import warnings
from functools import wraps

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from strategies import (
    C,
    D,
    T,
    arrays,
    batches,
    chunks,
    containers,
    fills,
    labels,
    names,
    numbers,
    observed,
    odd_or,
    seeds,
    targets,
    times,
    usual,
)
from timex import TimeX, TimeXConfig
from timex.engine import Diverged
from timex.explainers.gradients import IntegratedGradients
from timex.method.config import TimeXConfig as Config
from timex.metrics import Probe, ground_truth_scores
from timex.metrics.faithfulness import evidence_gap
from timex.metrics.familiarity import traits
from timex.records import Explanation, Series
from timex.reference import adapt
from timex.reference.predict import model_predict
from timex.registry import EXPLAINERS
from timex.trust import check, compare

DOCUMENTED = (ValueError, Diverged)
"""What a wrong argument raises, and what a fit on values near the largest of 32 bits raises."""
QUICK = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 5), nn.Tanh(), nn.Linear(5, C))


@pytest.fixture(scope="module")
def fitted():
    x = np.random.default_rng(0).normal(size=(40, T, D)).astype(np.float32)
    return TimeX(model(), config=TimeXConfig(epochs=1, batch_size=16), device="cpu").fit(x, progress=False)


def tried(call, *arguments, **options):
    """The result, or None if a documented error was raised; the arguments are compared with copies made before."""
    given_ = [*arguments, *options.values()]
    before = [copy.deepcopy(v) if isinstance(v, np.ndarray | torch.Tensor | list | dict) else v for v in given_]
    result = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(*arguments, **options)
        except DOCUMENTED as error:
            if not str(error):
                raise AssertionError("an error without words") from error
    for old, new in zip(before, given_, strict=True):
        if isinstance(new, torch.Tensor):
            assert torch.equal(torch.nan_to_num(old.double()), torch.nan_to_num(new.double()))
        elif isinstance(new, np.ndarray):
            assert repr(old.tolist()) == repr(new.tolist())
        elif isinstance(new, list | dict):
            assert repr(old) == repr(new)
    return result


def examples_of(**strategies):
    """Makes a property a function of the number of examples that it is tried on."""

    def decorated(holds):
        @wraps(holds)
        def on(examples):
            settings(QUICK, max_examples=examples)(given(**strategies)(holds))()

        return on

    return decorated


@examples_of(
    x=arrays(), times=times, observed=observed, y=labels, channels=names, scaling=usual(odd_or(st.tuples(numbers, numbers)))
)
def series(x, times, observed, y, channels, scaling):
    made = tried(Series, x, times=times, observed=observed, y=y, channels=channels or (), scaling=scaling)
    if made is not None:
        assert made.x.shape == made.observed.shape
        assert np.isfinite(made.x).all()
        assert np.isfinite(traits(made)).all()
    tried(Series.with_gaps, x, times)


@examples_of(x=arrays(), times=times, observed=observed, target=targets, contrast=targets, chunk=chunks)
def explain(x, times, observed, target, contrast, chunk):
    explainer = IntegratedGradients(model(), device="cpu")
    e = tried(explainer.explain, x, target, times, observed, contrast=contrast, chunk=chunk)
    assert e is None or (isinstance(e, Explanation) and np.isfinite(e.attribution).all())
    tried(explainer.attribute, x, target)


@examples_of(x=arrays(), y=labels, val=usual(arrays()), times=times, observed=observed)
def fit(x, y, val, times, observed):
    explainer = EXPLAINERS["amplitude"](model(), device="cpu")
    tried(explainer.fit, x, y, val, times, observed, progress=False)
    tried(
        TimeX(model(), config=TimeXConfig(epochs=1, batch_size=2), device="cpu").fit, x, y, val, times, observed, progress=False
    )


@examples_of(
    name=st.sampled_from([row.name for row in Config.rows()]),
    value=numbers,
    text=st.text(max_size=8),
)
def setting(name, value, text):
    changed = tried(Config().replaced, {name: value})
    assert changed is None or isinstance(changed, Config)
    tried(Config().updated, [f"{name}={text}"])
    tried(Config.from_dict, {name.split(".")[0]: value})


@examples_of(
    x=arrays(), how=st.dictionaries(st.sampled_from(["layout", "task", "target", "embedding", "pool", "output"]), numbers)
)
def adapted(x, how):
    tried(lambda: adapt(model(), x, **how))


@examples_of(data=odd_or(batches), target=targets, contrast=targets, size=chunks)
def explain_stream(data, target, contrast, size):
    explainer = IntegratedGradients(model(), device="cpu")
    parts = tried(lambda *a, **how: list(explainer.explain_stream(*a, **how)), data, target, contrast=contrast, size=size)
    assert parts is None or all(np.isfinite(e.attribution).all() for e in parts)


@examples_of(
    data=odd_or(containers),
    y=labels,
    how=st.dictionaries(
        st.sampled_from(["layout", "column", "label", "channels", "classes", "units", "sampling_rate", "ids"]),
        st.one_of(numbers, names, st.sampled_from(["BTD", "BDT", "x", "y"])),
        max_size=2,
    ),
)
def converted(data, y, how):
    made = tried(Series.from_, data, y, **how)
    assert made is None or np.isfinite(made.x).all()


@examples_of(x=arrays(), train=usual(arrays()), name=st.sampled_from(["saliency", "amplitude"]), fill=usual(fills), seed=seeds)
def checked(x, train, name, fill, seed):
    known = None if train is None else tried(Series, train)
    found = tried(check, EXPLAINERS[name](model(), device="cpu"), x, known, fill=fill, most=10, seed=seed)
    assert found is None or (found.verdict in ("trust", "weak", "do not use") and str(found))


@examples_of(
    x=arrays(),
    train=usual(arrays()),
    methods=st.lists(odd_or(st.sampled_from(["saliency", "ig", "centre"])), max_size=2),
    fills=st.lists(fills, max_size=2),
    seed=seeds,
)
def compared(x, train, methods, fills, seed):
    how = {"fills": fills, "most": 10, "seed": seed, "device": "cpu", "progress": False}
    found = tried(compare, model(), x, methods, train, **how)
    assert found is None or {"amplitude", "random"} <= {*found.ranking}


PROBED = Series(np.random.default_rng(2).normal(size=(4, T, D)).astype(np.float32))


@examples_of(
    attribution=arrays(st.sampled_from([(4, T, D)] * 6 + [(3, T, D), (T, D), (4, T), ()])),
    background=usual(arrays()),
    fill=fills,
    target=usual(odd_or(st.lists(st.integers(-1, C), min_size=3, max_size=5))),
    seed=st.integers(0, 9),
)
def probed(attribution, background, fill, target, seed):
    """Scores of an attribution by a model that hides its cells, and against a truth."""
    if np.asarray(attribution).dtype.kind not in "biuf":
        return
    found = tried(ground_truth_scores, attribution, PROBED.x > 0.5)
    assert found is None or all(values.shape == (4,) for values in found.values())
    known = PROBED if background is None else tried(Series, background)
    if known is not None:
        predict = model_predict(adapt(model(), PROBED), "cpu")
        probe = tried(Probe, predict, PROBED, known, fill, target, seed)
        gap = None if probe is None else tried(evidence_gap, probe, attribution)
        assert gap is None or (np.abs(gap) <= 2).all()


@examples_of(
    x=arrays(),
    y=labels,
    task=odd_or(st.sampled_from(["regress", "forecast", "classify", "labels"])),
    times=times,
    observed=observed,
    target=targets,
)
def numbers_out(x, y, task, times, observed, target):
    """A model of numbers, or one that is said to be."""
    gradients = tried(IntegratedGradients, model(), device="cpu", task=task)
    if gradients is None:
        return
    tried(gradients.explain, x, target, times, observed)
    fitted = tried(
        TimeX(model(), config=TimeXConfig(epochs=1, batch_size=2), device="cpu", task=task).fit,
        x,
        y,
        None,
        times,
        observed,
        progress=False,
    )
    e = None if fitted is None else tried(fitted.explain, x, None, times, observed)
    assert e is None or np.isfinite(e.attribution).all()


WITHOUT_FIT = [name for name, method in EXPLAINERS.items() if not method.needs_fit]


@examples_of(x=arrays(), name=st.sampled_from(WITHOUT_FIT), times=times, observed=observed, target=targets, contrast=targets)
def registered(x, name, times, observed, target, contrast):
    method = tried(EXPLAINERS[name], model(), device="cpu")
    e = None if method is None else tried(method.explain, x, target, times, observed, contrast=contrast)
    assert e is None or (e.attribution.shape == e.x.shape and np.isfinite(e.attribution).all())


CASES = {
    series: (50, 3000),
    explain: (50, 1500),
    explain_stream: (50, 1500),
    converted: (100, 3000),
    setting: (150, 3000),
    adapted: (30, 500),
    fit: (10, 100),
    checked: (15, 200),
    compared: (15, 200),
    probed: (50, 1000),
    numbers_out: (15, 200),
    registered: (40, 1000),
}
"""Every entry point with its number of examples in the fast and in the slow tests."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_any_input(case):
    case(CASES[case][0])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_much_input(case):
    case(CASES[case][1])


def test_a_fitted_explainer(fitted):
    @settings(QUICK, max_examples=40)
    @given(x=arrays(), times=times, observed=observed, chunk=chunks)
    def explained(x, times, observed, chunk):
        e = tried(fitted.explain, x, None, times, observed, chunk=chunk)
        assert e is None or (np.isfinite(e.attribution).all() and e.attribution.min() >= 0 and e.attribution.max() <= 1)

    explained()
