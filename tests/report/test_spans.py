import numpy as np
from making import make

from timex.report.spans import Span, important_spans


def with_mask(cells, **changes):
    mask = np.zeros((9, 14, 3), dtype=bool)
    for i, steps, k in cells:
        mask[i, steps, k] = True
    return make(mask=mask, attribution=np.where(mask, 0.75, 0.25).astype(np.float32), **changes)


def test_runs_of_kept_cells_the_heaviest_first():
    e = with_mask([(2, slice(3, 7), 1), (2, 9, 1), (2, slice(0, 2), 0), (5, slice(0, 14), 2)])
    assert important_spans(e, 2) == [
        Span("sensor 1", 4.0, 7.0, 3.0),
        Span("sensor 0", 1.0, 2.0, 1.5),
        Span("sensor 1", 10.0, 10.0, 0.75),
    ]
    assert important_spans(e, 2, n=1) == [Span("sensor 1", 4.0, 7.0, 3.0)]
    assert [str(s) for s in important_spans(e, 2)[1:]] == ["t = 1 to 2, sensor 0", "t = 10, sensor 1"]


def test_without_a_mask_the_strongest_tenth_counts_signed_or_not():
    attribution = np.zeros((9, 14, 3), dtype=np.float32)
    attribution[0, [4, 5, 6, 7], 2] = [-3, -2, -4, -1]
    attribution[0, 0, 0] = 2.5
    e = make(attribution=attribution, mask=None, signed=True, method="ig")
    assert important_spans(e, 0) == [Span("sensor 2", 5.0, 8.0, 10.0), Span("sensor 0", 1.0, 1.0, 2.5)]


def test_a_mask_that_keeps_nothing_counts_as_none():
    attribution = np.full((9, 14, 3), 0.1, dtype=np.float32)
    attribution[0, 3:8, 1] = 0.4
    e = make(attribution=attribution, mask=np.zeros((9, 14, 3), dtype=bool), channels=())
    assert [(s.channel, s.start, s.end) for s in important_spans(e, 0)] == [("channel 1", 4.0, 8.0)]


def test_cells_that_are_all_alike_say_nothing():
    assert important_spans(make(attribution=np.full((9, 14, 3), 0.2, dtype=np.float32), mask=None), 0) == []


def test_times_are_those_of_the_sample():
    times = np.tile(np.arange(14, dtype=np.float32) * 0.5, (9, 1))
    observed = np.ones((9, 14, 3), dtype=bool)
    observed[0, 5, 0] = False  # a gap parts the run
    e = with_mask([(0, slice(3, 8), 0)], times=times, observed=observed)
    assert [(s.start, s.end) for s in important_spans(e, 0)] == [(1.5, 2.0), (3.0, 3.5)]
