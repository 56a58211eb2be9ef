"""Means over data sets, by hand."""

import math

import pytest
from test_summary import made

from timex.bench import TABLES
from timex.bench.across import across
from timex.bench.render import markdown, sheets
from timex.bench.summary import blocks
from timex.data.battery import BATTERY

LEVELS, LAST, LONG = "heldout_levels", "heldout_last", "heldout_long"


def cells(method, values, **facts):
    """One fold or more of a method on some sets of the battery, each with its model."""
    out = []
    for dataset, folds in values.items():
        for r in made(method, folds, dataset=dataset, **facts):
            r.cell["arch"] = BATTERY[dataset].arch
            out.append(r)
    return out


RESULTS = [
    *cells("timex", {LEVELS: [0.9, 0.7], LAST: [0.6], LONG: [0.5]}, fit_seconds=30.0, explain_seconds=0.5),
    *cells("gradients", {LEVELS: [0.4, 0.6], LAST: [0.8]}, fit_seconds=2.0, explain_seconds=1.5),
    *cells("random", {LEVELS: [0.1, 0.1]}),
]


def groups(results=RESULTS):
    return list(across(TABLES["heldout"], blocks(TABLES["heldout"], results)))


def test_means_are_over_the_sets_of_a_half():
    guide, final = groups()
    assert guide.title == "The half that may guide choices, 2 of 15 sets"
    assert final.title == "The half of the last run, 1 of 11 sets"
    means = {row.label: (row.sets, row.values["auprc"]) for row in guide.rows}
    assert means == {"timex": (2, pytest.approx(0.7)), "gradients": (2, pytest.approx(0.65)), "random": (1, pytest.approx(0.1))}
    assert (guide.rows[0].fit_seconds, guide.rows[1].explain_seconds) == (30.0, 1.5)
    assert math.isnan(guide.rows[2].fit_seconds)
    assert [(row.label, row.values["auprc"]) for row in final.rows] == [("timex", 0.5)]


def test_timex_beside_gradients_set_by_set():
    guide, final = groups()
    (auprc,) = guide.comparisons  # no other metric was measured
    assert (auprc.metric, auprc.ahead, auprc.sets) == ("auprc", 1, 2)
    assert auprc.difference == pytest.approx((0.3 - 0.2) / 2)
    assert auprc.ratio == pytest.approx(0.75)
    assert auprc.where == "heldout_last, lstm"
    assert final.comparisons == []


def test_a_gap_below_zero_has_no_ratio():
    results = [*cells("timex", {LAST: [0.5]}, metric="gap"), *cells("gradients", {LAST: [-0.25]}, metric="gap")]
    ((gap,),) = (group.comparisons for group in groups(results))
    assert (gap.difference, gap.ahead) == (0.75, 1)
    assert math.isnan(gap.ratio)


def test_the_means_stand_below_the_sets():
    ((_, shown),) = sheets(["heldout"], RESULTS)
    assert [s.title.partition(",")[0] for s in shown] == [
        LEVELS,
        LAST,
        LONG,
        "The half that may guide choices",
        "The half of the last run",
    ]
    text = markdown(shown[3])
    assert "| TimeX (ours) | .700 | - | - | - | 2 | 30.0 | 0.50 |" in text
    note = (
        "AUPRC: TimeX (ours) − smoothed IG (ours) = .050 in the mean, above on 1 of 2 sets, smallest ratio 0.75 (heldout_last,"
    )
    assert note in text
    assert not any("residuals" in n for s in shown for n in s.notes)
