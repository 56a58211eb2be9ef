"""Explanations and explainers as a notebook shows them, and as the user takes them apart."""

import re
import sys
import types
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from making import make, make_demo
from matplotlib.figure import Figure
from test_page import EVIL
from torch import nn

from timex import TimeX, TimeXConfig
from timex.progress import counting_bar
from timex.report.samples import caption
from timex.report.spans import important_spans

SVG = "{http://www.w3.org/2000/svg}"


def figures(html):
    """The SVGs of a piece of HTML, parsed: broken markup fails here."""
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


class TestParts:
    def test_an_index_gives_explanations_again(self):
        e = make(y=np.arange(9) % 2, ids=[f"bed {i}" for i in range(9)])
        mask = np.arange(9) % 4 == 1
        for index, rows in ((3, [3]), (-1, [8]), (slice(2, 8, 3), [2, 5]), ([7, 0], [7, 0]), (mask, [1, 5]), ([], [])):
            part = e[index]
            assert part.series.ids == tuple(f"bed {i}" for i in rows)
            for name in ("x", "attribution", "mask", "probability", "prediction", "landmark", "agreement", "divergence"):
                np.testing.assert_array_equal(getattr(part, name), getattr(e, name)[rows])
        assert [one.series.ids[0] for one in e] == list(e.series.ids)

    @pytest.mark.parametrize(
        ("index", "words"),
        [
            (9, r"Expected samples -9\.\.8, got 9"),
            ([0, -10], "Expected samples"),
            (np.ones(8, dtype=bool), r"Expected a mask of 9 truth values, one for each sample, got the shape \(8,\)"),
            (1.5, r"Expected a number, a slice, a list of numbers or a mask, got 1\.5"),
        ],
    )
    def test_an_index_of_no_sample(self, index, words):
        with pytest.raises(IndexError, match=words):
            make()[index]

    def test_spans_are_those_of_the_report(self):
        e = make_demo()
        assert e.spans(4) == important_spans(e, 4)
        assert len(e.spans(4, n=1)) == 1

    def test_the_summary_has_a_row_per_class(self):
        e = make_demo(d=2)
        frame = e.summary()
        assert frame.index.tolist() == ["early", "second", "third", "late"]
        assert frame["samples"].sum() == 120
        late = e[e.prediction == 3]
        assert frame.loc["late", "kept"] == pytest.approx(late.mask.mean())
        assert frame.loc["late", "accuracy"] == pytest.approx((late.series.y == 3).mean())
        assert frame.loc["late", "channels"].startswith("sensor 0 100%")
        assert e.prediction[frame.loc["late", "typical"]] == 3
        nothing = {"mask": None, "embedding": None, "landmark": None, "agreement": None, "divergence": None, "y": None}
        assert {"accuracy", "agreement", "kept"}.isdisjoint(make(**nothing).summary().columns)

    def test_a_line_of_text(self):
        assert repr(make()) == f"Explanation(9 x 14 x 3, timex, surrogate agrees 67%, cells kept {make().mask.mean():.0%})"
        assert repr(make()[:0]) == "Explanation(0 x 14 x 3, timex)"
        observed = np.arange(9 * 14 * 3).reshape(9, 14, 3) % 4 > 0
        assert repr(make(observed=observed, ids=list("abcdefghi")).series) == "Series(9 x 14 x 3, 75% observed, ids)"


class TestPlot:
    def test_channels_time_and_title(self):
        e = make(channels=("pulse", "flow", "spo2"), units=("1/min", "l/s", "%"))
        axes = e.plot(2, channels=["flow [l/s]", "pulse", 2], time=(3, 8), title="Night").axes
        assert [ax.get_ylabel() for ax in axes[:3]] == ["flow [l/s]", "pulse [1/min]", "spo2 [%]"]
        assert axes[0].get_title(loc="left") == "Night"
        assert axes[0].get_xlim() == (2.5, 8.5)

    def test_into_axes_of_the_user(self):
        figure = Figure()
        left, right = figure.subplots(1, 2)
        e = make()
        assert e.plot(1, ax=left) is figure
        assert e.plot(1, ax=right, channels=[2], title="one") is figure
        assert [text.get_text() for text in left.get_yticklabels()] == ["sensor 0", "sensor 1", "sensor 2"]
        assert right.get_title(loc="left") == "one"
        low, high = right.get_ylim()
        assert low < e.x[1, :, 2].min() < e.x[1, :, 2].max() < high
        figure.draw_without_rendering()

    def test_what_is_not_there(self):
        with pytest.raises(ValueError, match=r"Expected channels among sensor 0, sensor 1, sensor 2 or 0\.\.2, got 'hr'"):
            make().plot(0, channels=["hr"])
        with pytest.raises(ValueError, match="Expected at least one channel, got none"):
            make().plot(0, channels=[])
        with pytest.raises(ValueError, match=r"Expected time=\(first, last\) that overlaps 1 to 14, got \(20, 30\)"):
            make().plot(0, time=(20, 30))


class TestHtml:
    def test_every_colour_says_when_and_how_much(self):
        p = np.zeros((9, 14, 1), dtype=np.float32)
        p[0, 3:6], p[0, 9] = 0.875, 0.25
        (figure,) = figures(make(d=1, attribution=p, mask=p > 0.5, sampling_rate=100.0)[0]._repr_html_())
        notes = [r[0].text for r in figure.iter(f"{SVG}rect") if r.get("fill-opacity")]
        assert notes == ["30 to 50: p = 0.88", "90: p = 0.25"]  # milliseconds, as on the axis
        (figure,) = figures(make(d=1, attribution=-2 * p, signed=True, mask=None)[0]._repr_html_())
        notes = [r[0].text for r in figure.iter(f"{SVG}rect") if r.get("fill-opacity")]
        assert notes == ["4 to 6: attribution = -1.8", "10: attribution = -0.5"]

    def test_colours_and_strips_are_those_of_the_data(self):
        mask = np.zeros((9, 14, 1), dtype=bool)
        mask[0, 3:6] = True
        e = make(d=1, mask=mask, attribution=np.where(mask, 1.0, 0.0).astype(np.float32), truth=np.roll(mask, 2, axis=1))
        (figure,) = figures(e[0]._repr_html_())
        rects = [r for r in figure.iter(f"{SVG}rect") if r.get("fill") != "none"]
        band, truth, kept = rects
        assert band.get("fill-opacity") == "1.00"
        assert (band.get("x"), band.get("width")) == (kept.get("x"), kept.get("width"))
        step = float(band.get("width")) / 3
        assert float(truth.get("x")) - float(band.get("x")) == pytest.approx(2 * step, abs=0.2)
        assert [r.find(f"{SVG}title").text for r in (truth, kept)] == [
            "sensor 0, 6 to 8: known to decide",
            "sensor 0, 4 to 6: kept",
        ]
        (line,) = figure.iter(f"{SVG}path")
        assert len(re.findall(r"[ML]", line.get("d"))) == 14

    def test_gaps_long_series_and_signs(self):
        observed = np.ones((2, 3000, 2), dtype=bool)
        observed[:, 500:900, 0] = False
        observed[1] = False
        e = make(n=2, t=3000, d=2, observed=observed, signed=True, method="ig")
        e = replace(e, attribution=e.attribution - 0.5, mask=None)
        html = e._repr_html_()
        assert len(html) < 120_000
        first, second = figures(html)
        assert [path.get("d").count("M") for path in first.iter(f"{SVG}path")] == [2, 1]
        assert not list(second.iter(f"{SVG}path"))
        assert {r.get("fill") for r in first.iter(f"{SVG}rect")} == {"none", "#e25508", "#7a5cb4"}

    def test_names_are_text(self):
        e = make(channels=(EVIL, "b", "c"), classes=(EVIL, "calm"), ids=[f"{EVIL}{i}" for i in range(9)], y=np.zeros(9, int))
        html = e._repr_html_()
        assert "<script" not in html.lower()
        assert "<img" not in html.lower()
        assert "&lt;" in html
        assert len(figures(html)) == 3

    def test_numbers_and_nothing(self):
        e = replace(make(), numbers=np.arange(54, dtype=np.float32).reshape(9, 6), agreement=None, mask=None)
        assert "Sample 0: 0, 1, 2, 3, …" in e._repr_html_()
        assert "<b>0 explanations</b>" in make()[:0]._repr_html_()

    def test_an_explainer(self):
        model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))
        explainer = TimeX(model, config=TimeXConfig(epochs=1, n_landmarks=2), classes=("a", EVIL, "c"))
        assert repr(explainer) == "TimeX(Sequential, not fitted)"
        assert "no: call fit(x)" in explainer._repr_html_()
        explainer.fit(np.random.default_rng(0).normal(scale=3, size=(40, 16, 2)), progress=False)
        assert repr(explainer) == "TimeX(Sequential, fitted for 16 steps x 2 channels)"
        html = explainer._repr_html_()
        assert "of the training series" in html
        assert "<script" not in html.lower()


def test_a_bar_in_a_notebook_replaces_itself(monkeypatch):
    drawn = []
    handle = types.SimpleNamespace(update=drawn.append)
    display = types.SimpleNamespace(HTML=str, display=lambda html, display_id: drawn.append(html) or handle)
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr("timex.progress.REDRAWN", 0.0)
    with counting_bar("work <1>", 4) as done:
        done(3)
    assert [re.findall(r"</progress> (\S+)", html)[0] for html in drawn] == ["starting", "starting", "3/4", "3/4"]
    assert "work &lt;1&gt; <progress max='4' value='3'>" in drawn[-1]
    with counting_bar("quiet", 4, show=False) as done:
        done(3)
    assert len(drawn) == 4


def test_a_regression_is_told_in_numbers_and_not_in_classes():
    e = make(n=3)
    numbers = np.array([[12.345678], [2.0], [3.0]], np.float32)
    e = replace(e, prediction=np.zeros(3, np.int64), probability=np.ones((3, 1), np.float32), numbers=numbers)
    assert e.plot(0).axes[0].get_title("left") == "Sample 0, predicted: 12.35"
    assert caption(e, 1) == "sample 1: 2"
    assert e.summary().index.tolist() == ["all"]
    assert "Sample 0: 12.35" in e._repr_html_()
