"""The page in a real browser, opened from disk: what a click shows, what is drawn, and that nothing else happens.

Needs Debian's chromium (`.ci/run` installs it) and the package playwright; without either the tests say so and are skipped.
Set TIMEX_SCREENSHOTS to a folder to keep the pictures that the tests take.
"""

import csv
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from making import checked, make, make_landmarks
from reading import unpack
from test_page import EVIL
from visitor import DESKTOP, PHONE, WIDE

from timex.report.page import write_report

pytestmark = pytest.mark.slow


class TestPage:
    """The page of TimeX and integrated gradients."""

    def test_a_click_on_a_point_shows_what_was_explained(self, demo, e, visit):
        page = visit(demo)
        i = 17
        page.click_at(page.ask(f"pointAt({i})"))
        chosen = page.ask("state.sample")  # points may lie on top of each other: the nearest is taken
        assert np.allclose(page.ask(f"pointAt({chosen})"), page.ask(f"pointAt({i})"), atol=12)
        page.page.fill("#search", str(i))
        assert page.text("#sample-title") == f"Sample {i}"
        c = e.prediction[i]
        assert f"{e.classes[c]} (confidence {e.probability[i, c]:.2f})" in page.text("#verdict")
        assert ("agrees with the model" if e.agreement[i] else "disagrees: treat with care") in page.text("#verdict")
        assert f"landmark {e.landmark[i]}" in page.text("#verdict")
        for step in (0, 7, 49):
            page.page.mouse.move(*page.ask(f"cellAt(0, {step})"))
            words = page.text("#readout").split(" · ")
            assert words[1] == f"t = {step + 1}"
            assert float(words[2].removeprefix("value ")) == pytest.approx(e.x[i, step, 0], abs=2e-3)
            assert float(words[3].removeprefix("attribution ")) == pytest.approx(e.attribution[i, step, 0], abs=3e-3)
            assert words[4] == ("kept" if e.mask[i, step, 0] else "not kept")
            assert ("ground truth" in words) == e.series.truth[i, step, 0]

    def test_the_colours_drawn_are_those_of_the_data(self, demo, visit):
        page = visit(demo, "sample=3")
        _, packed = unpack(demo)
        for method in (0, 1):
            page.page.click(f"#methods button >> nth={method}")
            (lane,) = page.ask("lanes()")
            box = page.page.locator("#series").bounding_box()
            for step in range(0, 50, 7):
                x, _ = page.ask(f"cellAt(0, {step})")
                expected = page.ask(f"colourOf({method}, timexReport.data['attribution-{method}'][3 * 50 + {step}])")
                wanted = [int(v) for v in re.findall(r"\d+", expected)]
                # the cell as seen just inside the top and the bottom of the band: the series may hide one of them
                height = lane["box"]["h"]
                seen = [page.pixel("series", x, box["y"] + lane["box"]["y"] + y) for y in (12.5, height - 12.5)]
                assert wanted in seen, (method, step)
            np.testing.assert_allclose(
                [page.ask(f"attributionAt(3, 0, {t}, {method})") for t in range(50)], packed[f"attribution-{method}"][3, 0]
            )

    def test_a_click_on_a_landmark_shows_its_neighbours(self, demo, visit):
        page = visit(demo)
        meta, packed = unpack(demo)
        page.click_at(page.ask("landmarkAt(0)"))
        first = meta["landmarks"][0]
        assert page.text("#landmark-title") == f"Landmark {first['number']} (1 of {len(meta['landmarks'])} by size)"
        members = int((packed["landmark"] == first["number"]).sum())
        assert f"{first['count']} training explanations and of {members} explanations" in page.text("#landmark-facts")
        tiles = page.page.locator("#landmark-near button")
        assert [tiles.nth(j).inner_text().split("\n")[0] for j in range(tiles.count())] == [
            f"Sample {i}" for i in first["nearest"]
        ]
        page.page.click("#landmark-facts button")
        assert page.ask("shown().length") == members
        assert page.address()["near"] == str(first["number"])
        page.screenshot("landmark")
        tiles.first.click()
        assert page.text("#sample-title") == f"Sample {first['nearest'][0]}"

    def test_filters_count_and_step(self, demo, visit):
        page = visit(demo)
        _, packed = unpack(demo)
        classes, counts = np.unique(packed["prediction"], return_counts=True)
        c = int(classes[counts.argmax()])
        page.page.select_option("#filter-class", str(c))
        assert page.text("#shown") == f"{counts.max()} of 120 shown"
        page.page.select_option("#filter-correct", "0")
        wrong = np.flatnonzero((packed["prediction"] == c) & (packed["correct"] == 0)).tolist()
        assert len(wrong) > 1
        assert page.ask("shown()") == wrong
        page.page.click("#tab-sample")
        assert page.text("#sample-title") == f"Sample {wrong[0]}"  # the panel moves to a sample that is shown
        page.page.locator("#map").focus()
        page.page.keyboard.press("ArrowRight")
        assert page.ask("state.sample") == wrong[1]
        page.page.keyboard.press("Escape")
        assert page.text("#shown") == "120 of 120 shown"

    def test_a_lasso_keeps_what_lies_inside(self, demo, visit):
        page = visit(demo)
        _, _packed = unpack(demo)
        page.page.click("#lasso")
        box = page.page.locator("#map").bounding_box()
        x0, x1 = box["x"] + 0.05 * box["width"], box["x"] + 0.5 * box["width"]
        y0, y1 = box["y"] + 4, box["y"] + box["height"] - 4
        page.page.mouse.move(x0, y0)
        page.page.mouse.down()
        for corner in ((x1, y0), (x1, y1), (x0, y1), (x0, y0)):
            page.page.mouse.move(*corner, steps=5)
        page.page.mouse.up()
        inside = [i for i in range(120) if x0 < page.ask(f"pointAt({i})")[0] < x1]
        assert page.ask("shown()") == inside
        assert 0 < len(inside) < 120
        assert "lasso" in page.address()

    def test_methods_side_by_side(self, demo, visit):
        page = visit(demo, "view=sample")
        assert page.page.locator("#methods button").all_inner_texts() == ["timex", "ig", "all"]
        page.page.keyboard.press("m")
        assert page.address()["method"] == "ig"
        assert "orange speaks for the class" in page.text("#series-key")
        page.page.keyboard.press("m")
        assert [lane["m"] for lane in page.ask("lanes()")] == [-1, 0, 1]
        page.screenshot("comparison")

    def test_scores_and_training(self, demo, visit):
        page = visit(demo, "view=scores")
        rows = page.page.locator("#scores tbody tr td:first-child").all_inner_texts()
        assert rows == ["timex", "ig", "amplitude control", "random control", "reference"]
        bold = page.page.locator("#scores td.best").all_inner_texts()
        assert bold == ["0.910", "0.850"]  # the best of the methods that see the model
        grey = page.page.evaluate("getComputedStyle(document.querySelector('tr.control td')).color")
        assert grey != page.page.evaluate("getComputedStyle(document.querySelector('tbody td')).color")
        assert page.page.locator("#scores th").all_inner_texts() == ["", "AUPRC ↑", "AUP ↑", "", "F1 ↑"]
        assert "precision over recall" in page.text(".definitions")
        assert {"Training", "Validation"} <= set(page.page.locator("figcaption").all_inner_texts())
        page.screenshot("scores")

    def test_an_address_brings_the_view_back(self, demo, visit):
        first = visit(demo, "sample=5&colour=correct&method=all")
        first.page.keyboard.press("+")
        again = visit(demo, first.page.url.partition("#")[2])
        for field in ("sample", "colour", "method", "view", "filter"):
            assert again.ask(f"state.{field}") == first.ask(f"state.{field}")
        np.testing.assert_allclose(again.ask("pointAt(9)"), first.ask("pointAt(9)"), atol=2)
        assert again.page.input_value("#colour") == "correct"
        again.page.evaluate("location.hash = 'sample=7'")  # another address in the same window: nothing of the old one stays
        again.page.wait_for_function("timexReport.state.sample === 7")
        assert [again.ask(f"state.{field}") for field in ("colour", "method")] == ["prediction", 0]
        assert again.ask("state.zoom.k") == 1

    def test_an_address_of_nonsense_is_ignored(self, demo, visit):
        page = visit(demo, "sample=zzz&colour=pink&method=no&class=abc&lasso=1,x&zoom=0,0&landmark=-4&view=%3Cb%3E")
        assert page.ask("shown().length") == 120
        assert page.ask("state.view") == "sample"  # since a sample is named

    def test_keys_and_focus(self, demo, visit):
        page = visit(demo)
        page.page.keyboard.press("/")
        assert page.page.evaluate("document.activeElement.id") == "search"
        page.page.keyboard.type("44")
        assert page.text("#sample-title") == "Sample 44"
        page.page.keyboard.press("Escape")
        page.page.keyboard.press("ArrowRight")
        assert page.text("#sample-title") == "Sample 45"
        page.page.keyboard.press("]")
        assert page.text("#landmark-title").endswith(f"(2 of {len(page.ask('meta.landmarks'))} by size)")
        page.page.keyboard.press("c")
        assert page.ask("state.colour") == "label"
        page.page.keyboard.press("?")
        assert page.page.locator("#help").is_visible()
        page.page.keyboard.press("Escape")
        page.page.locator("#tab-landmarks").focus()
        page.page.keyboard.press("ArrowRight")
        assert page.page.evaluate("document.activeElement.id") == "tab-scores"
        ring = page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring == "solid"

    def test_everything_that_can_be_pressed_has_a_name(self, demo, visit):
        page = visit(demo)
        nameless = page.page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, canvas[tabindex]")]
                .filter((e) => !e.hidden && !(e.innerText || e.getAttribute("aria-label") || e.labels?.length))
                .map((e) => e.outerHTML)"""
        )
        assert nameless == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize(("name", "viewport"), [("desktop", DESKTOP), ("wide", WIDE), ("phone", PHONE)])
    def test_light_and_dark_at_every_width(self, demo, visit, name, viewport, scheme):
        page = visit(demo, viewport=viewport, color_scheme=scheme)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(int(v) for v in re.findall(r"\d+", background)) > 128) == (scheme == "light")
        for tab in ("overview", "sample", "selection", "landmarks", "scores"):
            page.page.click(f"#tab-{tab}")
            assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
            page.screenshot(f"{tab}-{name}-{scheme}")


def test_filters_that_find_nothing_say_so(demo, visit):
    page = visit(demo, "sample=0")
    page.page.select_option("#filter-correct", "0")
    page.page.select_option("#filter-trust", "0")
    assert page.text("#shown") == "0 of 120 shown"
    assert page.page.locator("#panel-sample").is_hidden()
    assert "No explanation passes these filters" in page.text("#nothing")
    page.screenshot("nothing")
    page.page.click("#nothing-reset")
    assert page.text("#shown") == "120 of 120 shown"
    assert page.page.locator("#panel-sample").is_visible()


def test_a_search_finds_samples_that_filters_hide(demo, visit):
    page = visit(demo, "correct=0&trust=0&sample=0")
    page.page.fill("#search", "17")
    assert page.text("#sample-title") == "Sample 17"
    assert page.page.input_value("#search") == "17"


def test_filters_are_folded_on_a_phone(demo, visit):
    page = visit(demo, viewport=PHONE)
    assert page.page.locator("#filter-class").is_hidden()
    page.page.click("#filters-open")
    page.page.select_option("#filter-class", "1")
    assert page.ask("shown().length") < 120


def test_names_are_shown_as_text(tmp_path, visit):
    names = (EVIL, "</script><script>alert(2)</script>", "<b>bold</b>")
    labels = {"y": np.arange(9) % 2, "ids": [f"{EVIL}{i}" for i in range(9)]}
    e = make(channels=names, classes=(EVIL, "<svg onload=alert(3)>"), **labels)
    hostile = checked() | {"default_class": EVIL}
    hostile["overall"]["findings"][2] |= {"name": EVIL, "meaning": EVIL, "advice": EVIL}
    path = write_report(
        tmp_path / "report.html",
        {EVIL: e, "</script>": make(channels=names, classes=e.classes)},
        landmarks=make_landmarks(),
        scores={EVIL: {"<i>x</i>": 1.0}},
        history=[{"epoch": 0, "loss": 1.0, "selected": True}],
        check=hostile,
        title=EVIL,
    )
    page = visit(path)
    assert page.text("h1") == EVIL
    assert EVIL in page.text("#classes")
    assert f"weak, {EVIL}: {EVIL}. To do: {EVIL}." in page.text("#banner")
    assert EVIL in page.text("#confusion")
    page.page.click("#tab-sample")
    assert page.text("#sample-title") == f"Sample {EVIL}0"
    assert EVIL in page.text("#verdict")
    assert any(name in page.text("#spans") for name in names)
    page.page.mouse.move(*page.ask("cellAt(1, 3)"))
    assert page.text("#readout").startswith(names[1])
    page.page.click("#tab-selection")
    assert EVIL in page.text("#selections .bars >> nth=0")  # classes
    assert names[2] in page.text("#selections .bars >> nth=1")  # channels
    page.page.click("#tab-landmarks")
    assert EVIL in page.text("#makeup")
    assert EVIL in page.text("#landmark-table")
    assert EVIL in page.text("#landmark-near")
    page.page.click("#tab-scores")
    assert EVIL in page.text("#scores tbody")
    assert "<i>x</i>" in page.text("#scores thead")
    page.click_at(page.ask("pointAt(2)"))
    page.page.mouse.move(*page.ask("pointAt(4)"))
    assert EVIL in page.text("#tip-text")
    assert (
        page.page.evaluate("document.querySelectorAll('img, b:not(.bars b, #attention b, #banner b), svg[onload]').length") == 0
    )


def test_names_stay_text_in_saved_files(tmp_path, visit):
    formula = '=HYPERLINK("http://a.b")'
    e = make(channels=(EVIL, "</svg>", "<b>bold</b>"), classes=(formula, EVIL), ids=[f"{EVIL}{i}" for i in range(9)])
    page = visit(write_report(tmp_path / "report.html", e, scores={EVIL: {"<i>x</i>": 1.0}}), "view=sample")

    def saved(button):
        with page.page.expect_download() as file:
            page.page.click(button)
        file.value.save_as(tmp_path / "saved")
        return tmp_path / "saved"

    figure = ElementTree.parse(saved("#series-save button >> nth=1")).getroot()
    kinds = {element.tag.rpartition("}")[2] for element in figure.iter()}
    words = [element.text for element in figure.iter() if element.text]
    assert kinds <= {"svg", "g", "path", "rect", "text", "line", "defs", "clipPath", "pattern"}
    assert "</svg>" in words
    page.page.click("#tab-selection")
    rows = list(csv.reader(saved("#selections article > .save").read_text().splitlines()))
    assert [row[:2] for row in rows[1:3]] == [[f"{EVIL}0", f"'{formula}"], [f"{EVIL}1", EVIL]]  # no formula begins a cell
    page.page.click("#tab-scores")
    assert saved("#scores .save").read_text() == f",<i>x</i>\n{EVIL},1.000\n"


@pytest.mark.parametrize(("n", "t", "d"), [(1, 20, 1), (12, 5000, 2), (12, 100, 64)])
def test_every_shape_is_drawn(tmp_path, visit, n, t, d):
    e = make(n=n, t=t, d=d)
    page = visit(write_report(tmp_path / "report.html", e, landmarks=make_landmarks()), "view=sample")
    lanes = page.ask("lanes()")
    assert len(lanes) == min(d, 16)
    if d > 16:
        page.page.click("#more-channels")
        assert len(page.ask("lanes()")) == d
        page.page.evaluate("scrollTo(0, 0)")
    place = page.ask("cellAt(0, 3)")
    page.page.mouse.move(*place)
    assert e.channels[page.ask("lanes()")[0]["k"]] in page.text("#readout")
    if t == 5000:
        assert "minimum and maximum of every 10 steps" in page.text("#summary")
        assert re.search(r"values \S+ to \S+", page.text("#readout"))


def test_irregular_series_and_methods_without_a_latent_space(tmp_path, visit):
    times = np.sort(np.random.default_rng(0).uniform(0, 50, (9, 14)), axis=1).astype(np.float32)
    observed = np.random.default_rng(1).random((9, 14, 3)) > 0.3
    nothing = {"embedding": None, "landmark": None, "agreement": None, "divergence": None, "mask": None}
    e = make(times=times, observed=observed, method="winit", **nothing)
    page = visit(write_report(tmp_path / "report.html", e), "sample=2")
    for step in range(14):
        page.page.mouse.move(*page.ask(f"cellAt(1, {step})"))
        words = page.text("#readout").split(" · ")
        assert float(words[1].removeprefix("time = ")) == pytest.approx(times[2, step], rel=1e-3)
        if observed[2, step, 1]:
            assert float(words[2].removeprefix("value ")) == pytest.approx(e.x[2, step, 1], abs=0.02)
        else:
            assert words[2] == "not observed"
    assert page.page.locator("#tab-landmarks").is_hidden()
    assert "this method has no latent space" in page.text("#map-note")


def test_the_benchmark_of_the_page_runs(chromium):
    script = Path(__file__).parents[2] / "benchmarks" / "page.py"
    arguments = ["--explanations", "30", "--steps", "20", "--channels", "2", "--repeats", "1"]
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"explanations": 30' in done.stdout
    assert "click, median" in done.stdout
