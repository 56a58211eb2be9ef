"""Whatever is handed in: it works or raises a documented error, and no argument changes."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from strategies import C, D, T, arrays, chunks, labels, names, numbers, observed, odd_or, targets, times, usual
from timex import TimeX, TimeXConfig
from timex.engine import Diverged
from timex.explainers.gradients import IntegratedGradients
from timex.method.config import TimeXConfig as Config
from timex.metrics.familiarity import traits
from timex.records import Explanation, Series
from timex.reference import adapt
from timex.registry import EXPLAINERS

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


@given(x=arrays(), times=times, observed=observed, y=labels, channels=names, scaling=usual(odd_or(st.tuples(numbers, numbers))))
def series(x, times, observed, y, channels, scaling):
    made = tried(Series, x, times=times, observed=observed, y=y, channels=channels or (), scaling=scaling)
    if made is not None:
        assert made.x.shape == made.observed.shape
        assert np.isfinite(made.x).all()
        assert np.isfinite(traits(made)).all()
    tried(Series.with_gaps, x, times)


@given(x=arrays(), times=times, observed=observed, target=targets, contrast=targets, chunk=chunks)
def explain(x, times, observed, target, contrast, chunk):
    explainer = IntegratedGradients(model(), device="cpu")
    e = tried(explainer.explain, x, target, times, observed, contrast=contrast, chunk=chunk)
    assert e is None or (isinstance(e, Explanation) and np.isfinite(e.attribution).all())
    tried(explainer.attribute, x, target)


@given(x=arrays(), y=labels, val=usual(arrays()), times=times, observed=observed)
def fit(x, y, val, times, observed):
    explainer = EXPLAINERS["amplitude"](model(), device="cpu")
    tried(explainer.fit, x, y, val, times, observed, progress=False)
    tried(
        TimeX(model(), config=TimeXConfig(epochs=1, batch_size=2), device="cpu").fit, x, y, val, times, observed, progress=False
    )


@given(
    name=st.sampled_from([row.name for row in Config.rows()]),
    value=numbers,
    text=st.text(max_size=8),
)
def setting(name, value, text):
    changed = tried(Config().replaced, {name: value})
    assert changed is None or isinstance(changed, Config)
    tried(Config().updated, [f"{name}={text}"])
    tried(Config.from_dict, {name.split(".")[0]: value})


@given(x=arrays(), how=st.dictionaries(st.sampled_from(["layout", "task", "target", "embedding", "pool", "output"]), numbers))
def adapted(x, how):
    tried(lambda: adapt(model(), x, **how))


CASES = {series: (50, 3000), explain: (50, 1500), setting: (150, 3000), adapted: (30, 500), fit: (10, 100)}
"""Every entry point with its number of examples in the fast and in the slow tests."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_any_input(case):
    settings(QUICK, max_examples=CASES[case][0])(case)()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_much_input(case):
    settings(QUICK, max_examples=CASES[case][1])(case)()


def test_a_fitted_explainer(fitted):
    @settings(QUICK, max_examples=40)
    @given(x=arrays(), times=times, observed=observed, chunk=chunks)
    def explained(x, times, observed, chunk):
        e = tried(fitted.explain, x, None, times, observed, chunk=chunk)
        assert e is None or (np.isfinite(e.attribution).all() and e.attribution.min() >= 0 and e.attribution.max() <= 1)

    explained()
