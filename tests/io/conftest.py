"""An explanation with everything an explanation can have."""

from __future__ import annotations

import numpy as np
import pytest

from timex.records import Explanation, Series

N, T, D, C = 4, 6, 3, 5


@pytest.fixture
def explanation() -> Explanation:
    """Irregular times, missing cells, a shorter sample, five classes of which one is never predicted."""
    rng = np.random.default_rng(1)
    observed = rng.random((N, T, D)) < 0.7
    observed[:, -1, 0] = True
    observed[2, 4:] = False
    times = np.cumsum(rng.random((N, T)) + 0.1, axis=1)
    times[2, 4:] = 0
    series = Series(
        rng.normal(size=(N, T, D)),
        times,
        observed,
        y=[4, 0, 2, 2],
        truth=(rng.random((N, T, D)) < 0.3) & observed,
        ids=("s-3", "007", "NA", "s 1"),
        channels=("pulse", "spo2", "flow, left"),
        classes=("rest", "NA", "run", "2", "jump"),
    )
    inside = (np.arange(T) < np.array([T, T, 4, T])[:, None])[:, :, None]
    return Explanation(
        series=series,
        attribution=(rng.normal(size=(N, T, D)) * inside).astype(np.float32),
        prediction=np.array([4, 1, 2, 3]),
        probability=rng.dirichlet(np.ones(C), N).astype(np.float32),
        signed=True,
        method="ig",
        contrast=np.array([0, 0, 1, 1]),
        mask=(rng.random((N, T, D)) < 0.5) & inside,
        direction=np.where(inside, np.sign(rng.normal(size=(N, T, D))), 0).astype(np.int8),
        landmark=np.array([3, 0, 0, 11]),
        agreement=np.array([True, False, True, True]),
        divergence=rng.random(N).astype(np.float32),
    )
