"""The page in a real browser, opened from disk: what a click shows, what is drawn, and that nothing else happens.

Needs Debian's chromium (`.ci/run` installs it) and the package playwright; without either the tests say so and are skipped.
Set TIMEX_SCREENSHOTS to a folder to keep the pictures that the tests take.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs
from xml.etree import ElementTree

import numpy as np
import pytest
from making import make, make_demo, make_landmarks
from reading import unpack
from test_page import EVIL

from timex.report.page import write_report

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium():
    path = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


HISTORY = [
    {"epoch": k, "loss": 4.0 / (k + 1), "criterion": 2.0 / (k + 1), "val_agreement": 1 - 0.5**k, "selected": k == 8}
    for k in range(10)
]
SCORES = {
    "timex": {"auprc": 0.91, "aup": 0.8},
    "ig": {"auprc": 0.83, "aup": 0.85},
    "amplitude": {"auprc": 0.99, "aup": 0.9},
    "random": {"auprc": 0.12, "aup": 0.1},
    "reference": {"f1": 0.97},
}


@pytest.fixture(scope="module")
def e():
    """120 explanations of one channel."""
    return make_demo()


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """The page of explanations of four channels with names, units and a sampling rate."""
    names = {"channels": ("pulse", "flow", "spo2", "temp"), "units": ("1/min", "l/s", "%", "°C")}
    ids = [f"bed-{i}" for i in range(120)]
    explained = make_demo(d=4, **names, ids=ids, sampling_rate=25.0)
    path = tmp_path_factory.mktemp("ward") / "report.html"
    return write_report(path, explained, landmarks=make_landmarks((30, 30, 30, 30)), prior=0.15, projection="pca", title="Ward")


@pytest.fixture(scope="module")
def demo(tmp_path_factory, e):
    """The page of two methods, with scores and a training."""
    nothing = {"mask": None, "embedding": None, "landmark": None, "agreement": None, "divergence": None}
    ig = dataclasses.replace(e, attribution=e.x * (e.attribution - 0.3), signed=True, method="ig", **nothing)
    path = tmp_path_factory.mktemp("demo") / "report.html"
    given = {"scores": SCORES, "history": HISTORY, "occlusion": {"timex": {0.5: 0.97, 0.9: 0.8}, "ig": {0.5: 0.9, 0.9: 0.6}}}
    methods = {"timex": e, "ig": ig}
    return write_report(path, methods, landmarks=make_landmarks((40, 30, 20, 8)), prior=0.15, projection="pca", **given)


class Visitor:
    """A page in the browser, and everything it complained about or asked the network for."""

    def __init__(self, browser, path, fragment="", viewport=DESKTOP, **options):
        self.context = browser.new_context(viewport=viewport, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_selector("html[data-ready]", timeout=20_000)

    def ask(self, expression):
        return self.page.evaluate(f"timexReport.{expression}")

    def text(self, selector):
        return self.page.inner_text(selector)

    def click_at(self, place):
        self.page.mouse.click(*place)

    def address(self):
        return {k: v[0] for k, v in parse_qs(self.page.url.partition("#")[2]).items()}

    def pixel(self, canvas, x, y):
        """The colour of a canvas at a place on the screen."""
        return self.page.evaluate(
            """([id, x, y]) => {
                const canvas = document.getElementById(id), box = canvas.getBoundingClientRect();
                const at = (v, start, size, n) => Math.floor((v - start) / size * n);
                const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
                const g = copy.getContext("2d", { willReadFrequently: true });  // reading the original is warned of
                g.drawImage(canvas, 0, 0);
                const [px, py] = [at(x, box.left, box.width, canvas.width), at(y, box.top, box.height, canvas.height)];
                return Array.from(g.getImageData(px, py, 1, 1).data).slice(0, 3);
            }""",
            [canvas, x, y],
        )

    def screenshot(self, name):
        folder = os.environ.get("TIMEX_SCREENSHOTS")
        picture = self.page.screenshot(path=Path(folder) / f"{name}.png" if folder else None, full_page=True)
        assert picture.startswith(b"\x89PNG")

    def leave(self):
        """Every visit ends here: the page was silent and asked for itself only."""
        address = self.page.url.partition("#")[0]
        self.context.close()
        assert self.complaints == []
        # A download is a request for a blob that the page made itself.
        assert {url.partition("#")[0] for url in self.requests if not url.startswith("blob:null/")} == {address}


@pytest.fixture
def visit(chromium):
    visitors = []

    def start(*arguments, **options):
        visitors.append(Visitor(chromium, *arguments, **options))
        return visitors[-1]

    yield start
    for visitor in visitors:
        visitor.leave()


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
    @pytest.mark.parametrize(("name", "viewport"), [("desktop", DESKTOP), ("phone", PHONE)])
    def test_light_and_dark_at_every_width(self, demo, visit, name, viewport, scheme):
        page = visit(demo, viewport=viewport, color_scheme=scheme)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(int(v) for v in re.findall(r"\d+", background)) > 128) == (scheme == "light")
        for tab in ("overview", "sample", "selection", "landmarks", "scores"):
            page.page.click(f"#tab-{tab}")
            assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
            page.screenshot(f"{tab}-{name}-{scheme}")


class TestTime:
    """A part of the time axis, and the values under the pointer."""

    def test_a_drag_zooms_and_a_double_click_shows_all(self, ward, visit):
        page = visit(ward, "sample=bed-3")
        assert page.ask("state.window") is None
        start, end = (page.ask(f"cellAt(0, {c})") for c in (10, 20))
        page.page.mouse.move(*start)
        page.page.mouse.down()
        page.page.mouse.move(*end, steps=4)
        page.page.mouse.up()
        assert page.ask("state.window") == pytest.approx([400, 800], abs=12)  # ms, of 2,000
        assert page.page.locator("#series-part").is_visible()
        page.page.mouse.move(*page.ask("cellAt(1, 15)"))
        assert page.text("#readout").startswith("flow [l/s] · 600 ms (step 16) · ")
        page.page.click("#series-right")
        assert page.ask("state.window") == pytest.approx([600, 1000], abs=12)
        again = visit(ward, page.page.url.partition("#")[2])
        assert again.ask("state.window") == pytest.approx(page.ask("state.window"), rel=1e-5)
        page.screenshot("zoomed")
        page.page.locator("#series").dblclick()
        assert page.ask("state.window") is None
        assert page.page.locator("#series-part").is_hidden()

    def test_keys_and_buttons_zoom_and_move(self, demo, visit):
        page = visit(demo, "sample=3")
        page.page.locator("#series").focus()
        page.page.keyboard.press("+")
        assert page.ask("state.window") == pytest.approx([13, 38], abs=0.01)
        page.page.keyboard.press("Shift+ArrowRight")
        assert page.ask("state.window") == pytest.approx([18, 43], abs=0.01)
        page.page.click("#series-out")
        assert page.ask("state.window") is None
        assert page.ask("state.zoom.k") == 1  # the map stays
        for _ in range(9):
            page.page.click("#series-in")
        low, high = page.ask("state.window")
        assert high - low == pytest.approx(4)

    def test_the_values_of_every_channel_stand_at_the_pointer(self, ward, visit):
        page = visit(ward, "sample=bed-3")
        before = page.page.locator("#cursor").is_visible()
        page.page.mouse.move(*page.ask("cellAt(2, 7)"))
        assert (before, page.page.locator("#cursor").is_visible()) == (False, True)
        page.screenshot("cursor")
        page.page.mouse.move(2, 2)
        assert page.page.locator("#cursor").is_hidden()


class TestMap:
    """Layers of the map."""

    def test_density_takes_the_place_of_points(self, demo, visit):
        page = visit(demo)
        at = page.ask("pointAt(9)")
        point = page.pixel("map", *at)
        page.page.click("#density")
        assert page.address()["density"] == "1"
        assert page.pixel("map", *at) != point
        page.screenshot("density")
        page.page.keyboard.press("d")
        assert page.pixel("map", *at) == point

    def test_landmarks_can_be_left_out(self, demo, visit):
        page = visit(demo)
        place = page.ask("landmarkAt(0)")
        page.page.click("#diamonds")
        page.click_at(place)
        assert page.ask("state.view") != "landmarks"

    def test_it_folds_away(self, demo, visit):
        page = visit(demo)
        narrow = page.page.locator("#detail").bounding_box()["width"]
        page.page.click("#map-fold")
        assert page.page.locator("#map").is_hidden()
        assert page.page.locator("#detail").bounding_box()["width"] > 1.5 * narrow
        page.screenshot("folded")
        page.page.click("#map-fold")
        assert page.page.locator("#map").is_visible()
        assert page.ask("pointAt(3)") == pytest.approx(visit(demo).ask("pointAt(3)"), abs=1)


class TestSelection:
    """What the chosen explanations have in common."""

    def test_a_class_has_its_channels_spans_and_average(self, ward, visit):
        page = visit(ward, "view=selection")
        _, packed = unpack(ward)
        page.page.select_option("#filter-class", "2")
        members = np.flatnonzero(packed["prediction"] == 2)
        assert page.text("#selections h3") == f"predicted third: {len(members)}"
        assert page.page.locator("#selections .bars").nth(1).locator("span").first.inner_text() == "pulse [1/min]"
        assert "per sample; the heaviest has a median of 6 steps." in page.text("#selections")
        label = page.page.locator("#selections .average").get_attribute("aria-label")
        assert label == f"Average of {len(members) - 3} explanations around their heaviest span"  # three are empty
        assert "10 % of the samples have none" in page.text("#selections")
        page.page.wait_for_function("document.querySelectorAll('#selections .tiles button').length === 4")
        page.screenshot("selection")

    def test_two_selections_stand_side_by_side(self, demo, visit):
        page = visit(demo, "view=selection")
        page.page.select_option("#filter-class", "0")
        page.page.click("#selection-keep")
        page.page.select_option("#filter-class", "3")
        titles = page.page.locator("#selections h3").all_inner_texts()
        assert [title.split(":")[0] for title in titles] == ["predicted early", "predicted late"]
        rows = [row.split("\t") for row in page.text("#selection-change tbody").splitlines()]
        assert sorted(rows[:2]) == [
            ["predicted early", "100 %", "0 %", "−100 %"],
            ["predicted late", "0 %", "100 %", "+100 %"],
        ]
        page.screenshot("two-selections")
        again = visit(demo, page.page.url.partition("#")[2])
        assert again.page.locator("#selections h3").all_inner_texts() == titles
        page.page.click("#selection-forget")
        assert page.page.locator("#selections h3").count() == 1

    def test_a_lasso_opens_it(self, demo, visit):
        page = visit(demo)
        page.page.click("#lasso")
        box = page.page.locator("#map").bounding_box()
        page.page.mouse.move(box["x"] + 4, box["y"] + 4)
        page.page.mouse.down()
        for x, y in ((0.5, 0.01), (0.5, 0.99), (0.01, 0.99)):
            page.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
        page.page.mouse.up()
        assert page.text("#selections h3") == f"inside the lasso: {page.ask('shown().length')}"


class TestExport:
    """What leaves the page as a file or an address."""

    def test_figures_are_saved_as_png_and_svg(self, ward, visit, tmp_path):
        page = visit(ward, "sample=bed-3")
        with page.page.expect_download() as png:
            page.page.click("#series-save button >> nth=0")
        assert png.value.suggested_filename == "sample-bed-3.png"
        png.value.save_as(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
        with page.page.expect_download() as svg:
            page.page.click("#series-save button >> nth=1")
        svg.value.save_as(tmp_path / "figure.svg")
        root = ElementTree.parse(tmp_path / "figure.svg").getroot()
        words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        assert "pulse [1/min]" in words
        assert "time in ms (25 steps per second)" in words
        assert sum(len(path.get("d")) for path in root.iter("{http://www.w3.org/2000/svg}path")) > 1000  # the series

    def test_tables_are_saved_as_csv(self, demo, e, visit, tmp_path):
        page = visit(demo, "view=scores")
        with page.page.expect_download() as table:
            page.page.click("#scores .save")
        table.value.save_as(tmp_path / "scores.csv")
        lines = (tmp_path / "scores.csv").read_text().splitlines()
        assert lines[:2] == [",AUPRC ↑,AUP ↑", "timex,0.910,0.800"]
        page.page.click("#tab-selection")
        page.page.select_option("#filter-correct", "0")
        with page.page.expect_download() as samples:
            page.page.click("#selections article > .save")
        samples.value.save_as(tmp_path / "samples.csv")
        lines = (tmp_path / "samples.csv").read_text().splitlines()
        assert lines[0] == "sample,predicted,confidence,true,trust,kept,landmark"
        assert [line.split(",")[0] for line in lines[1:]] == ["4", "13", "22", "31", "40"]

    def test_a_link_brings_the_view_back(self, demo, visit):
        page = visit(demo, "sample=9", permissions=["clipboard-read", "clipboard-write"])
        page.page.click("#copy-link")
        page.page.wait_for_selector("#copied:not(:empty)")
        assert page.text("#copied") == "copied"
        assert page.page.evaluate("navigator.clipboard.readText()") == page.page.url

    def test_without_a_clipboard_the_link_is_shown(self, demo, visit):
        page = visit(demo, "sample=9")
        page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
        page.page.click("#copy-link")
        assert page.page.input_value("#copied input") == page.page.url


class TestOverview:
    """The tab to land on."""

    def test_it_is_the_first_and_says_how_far_to_trust(self, demo, visit):
        page = visit(demo)
        assert page.ask("state.view") == "overview"
        banner = page.text("#banner")
        for words in ("The surrogate check is passed", "96 %", "94 %", "empty explanations would reach 26 %"):
            assert words in banner
        page.page.click("#tab-sample")
        assert page.address()["sample"] == "0"

    def test_each_list_is_a_click_from_its_samples(self, demo, visit):
        page = visit(demo)
        lists = page.page.locator("#attention button")
        assert lists.all_inner_texts() == [
            "5 samples: the model is wrong",
            "7 samples: the surrogate disagrees",
            "3 samples: the explanation is empty: no cell has p > .5",
        ]
        expected = [[4, 13, 22, 31, 40], [5, 17, 29, 41, 53, 65, 77], [10, 50, 90]]
        for j, samples in enumerate(expected):
            page.page.click("#tab-overview")
            lists.nth(j).click()
            assert page.ask("shown()") == samples
            assert page.text("#sample-title") == f"Sample {samples[0]}"

    def test_a_row_per_class_opens_its_samples_and_its_exemplar(self, ward, visit):
        page = visit(ward)
        meta, packed = unpack(ward)
        cards = page.page.locator("#classes article")
        assert cards.count() == 4
        assert [text.split("\n")[0] for text in cards.all_inner_texts()] == ["early", "second", "third", "late"]
        first = meta["perClass"][0]
        assert f"cells kept: {round(100 * first['kept'])} %" in cards.nth(0).inner_text()
        assert cards.nth(0).locator(".bars > span").first.inner_text() == "pulse [1/min]"
        cards.nth(2).locator(".link").click()
        assert page.ask("shown()") == np.flatnonzero(packed["prediction"] == 2).tolist()
        page.page.click("#tab-overview")
        cards.nth(2).locator(".exemplar").click()
        assert page.text("#sample-title") == f"Sample bed-{meta['perClass'][2]['exemplar']}"

    def test_the_confusion_matrix_filters(self, demo, e, visit):
        page = visit(demo)
        table = np.zeros((4, 4), dtype=int)
        np.add.at(table, (e.series.y, e.prediction), 1)
        rows = [[int(v) for v in row.split("\t")[1:]] for row in page.text("#confusion tbody").splitlines()]
        assert rows == table.tolist()
        page.page.click("#confusion tbody tr:nth-child(1) td:nth-of-type(2) button")  # truly early, predicted second
        assert page.ask("shown()") == np.flatnonzero((e.series.y == 0) & (e.prediction == 1)).tolist()
        assert page.address()["class"] == "1"

    def test_without_labels_and_surrogate_nothing_is_claimed(self, tmp_path, visit):
        nothing = {"mask": None, "agreement": None, "divergence": None, "landmark": None, "embedding": None, "method": "ig"}
        page = visit(write_report(tmp_path / "report.html", make(**nothing)))
        assert "not checked" in page.text("#banner")
        assert page.page.locator("#confusion-box").is_hidden()
        assert "Nothing to list" in page.text("#attention")
        assert page.page.locator(".for-trust").is_hidden()


def checked(verdict="weak"):
    """What `Check.to_dict()` gives, with one weak finding; the last class is the default."""
    good = {"verdict": "trust", "advice": ""}
    alone = {**good, "name": "kept alone", "value": 0.97, "meaning": "the same class for 97.0% of the series"}
    without = {**good, "name": "without kept", "value": 0.11, "meaning": "the same class for 11.0% of the series"}
    doubt = {"name": "amplitude", "value": 0.9, "verdict": "weak", "meaning": "as the size of the values", "advice": "compare"}
    classes = [
        {"name": name, "n": 30, "verdict": "trust", "findings": [alone, without] if name != "late" else []}
        for name in ("early", "second", "third", "late")
    ]
    overall = {"name": "all series", "n": 200, "verdict": verdict, "findings": [alone, without, doubt]}
    return {"verdict": verdict, "default_class": "late", "overall": overall, "classes": classes}


class TestChecked:
    """What `timex check` found, and which explanations small noise changes most."""

    @pytest.fixture
    def page(self, visit, tmp_path, e):
        steady = np.linspace(0.3, 0.99, 120)[::-1]
        given = {"landmarks": make_landmarks((40, 30, 20, 8)), "check": checked(), "stability": steady, "projection": "pca"}
        return visit(write_report(tmp_path / "report.html", e, **given))

    def test_the_banner_says_what_hiding_cells_showed(self, page):
        banner = page.text("#banner")
        assert banner.startswith("The model confirms these explanations in part")
        for words in ("timex check on 200 series: weak.", "weak, amplitude: as the size of the values. To do: compare."):
            assert words in banner
        assert "Kept cells alone\n97 %" in banner
        page.page.click("#banner summary")
        assert page.page.locator("#banner td").first.inner_text() == "kept alone"
        page.screenshot("checked")

    def test_classes_have_their_own_values_and_the_default_is_named(self, page):
        cards = page.page.locator("#classes article").all_inner_texts()
        assert "kept cells alone: 97 %" in cards[0]
        assert "without them: 11 %" in cards[0]
        assert "default class: predicted for a blank series too" in cards[3]
        page.page.fill("#search", "90")  # empty, of the third class
        assert page.text("#trust").startswith("empty")
        page.page.fill("#search", "7")  # of the default class, trusted
        assert page.text("#trust").startswith("trusted")

    def test_an_empty_explanation_of_the_default_class_says_so(self, visit, tmp_path):
        e = make_demo()
        prediction = np.where(np.arange(120) == 10, 3, e.prediction)
        path = write_report(tmp_path / "report.html", dataclasses.replace(e, prediction=prediction), check=checked())
        page = visit(path, "sample=10")
        assert page.text("#trust") == "default class: predicted for a blank series too (empty)"
        assert page.page.locator("#trust .chip").get_attribute("class") == "chip default"

    def test_series_unlike_the_training_series_are_a_click_away(self, visit, tmp_path):
        e = dataclasses.replace(make_demo(), unfamiliar=np.isin(np.arange(120), [3, 60]))
        page = visit(write_report(tmp_path / "report.html", e))
        page.page.click("#attention button:has-text('unlike the training series')")
        assert page.ask("shown()") == [3, 60]

    def test_the_least_stable_are_a_click_away(self, page, visit, tmp_path):
        button = page.page.locator("#attention button").last
        assert "least stable under small noise (rank correlation from 0.30; 35 below 0.5)" in button.inner_text()
        button.click()
        assert page.ask("shown()") == list(range(110, 120))
        assert page.text("#sample-title") == "Sample 119"
        page.page.reload()
        page.page.wait_for_selector("html[data-ready]")
        assert page.ask("shown()") == list(range(110, 120))
        page.page.click("#reset")
        assert page.ask("shown().length") == 120


class TestSample:
    """What one explanation says of itself."""

    @pytest.mark.parametrize(
        ("sample", "kind", "words"),
        [(0, "trusted", "the surrogate agrees"), (5, "weak", "the surrogate disagrees"), (10, "empty", "no cell has p > .5")],
    )
    def test_the_trust_chip_is_in_words(self, ward, visit, sample, kind, words):
        page = visit(ward, f"sample=bed-{sample}")
        assert page.page.locator("#trust .chip").get_attribute("class") == f"chip {kind}"
        assert page.text("#trust") == f"{kind}: {words}"
        page.screenshot(f"sample-{kind}")

    def test_an_empty_explanation_gets_no_green_tick(self, ward, visit):
        page = visit(ward, "sample=bed-10")
        surrogate = page.page.locator("#verdict dd").nth(2)
        assert surrogate.inner_text().startswith("agrees, but sees no cell")
        assert surrogate.locator(".good").count() == 0
        assert "the strongest tenth of the cells" in page.text("#spans >> xpath=preceding-sibling::h3[1]")

    def test_no_colour_up_to_the_prior_and_strong_above_half(self, ward, visit):
        page = visit(ward, "sample=bed-0")
        none, below, weak, strong = (page.ask(f"colourOf(0, {level})") for level in (0, 38, 120, 140))  # of 254
        assert none == below == "rgb(255,255,255)"
        lightness = [sum(int(v) for v in re.findall(r"\d+", colour)) for colour in (weak, strong)]
        assert lightness[0] - lightness[1] > 60

    def test_class_colours_and_units(self, ward, visit):
        page = visit(ward, "sample=bed-3")
        dots = page.page.evaluate("[...document.querySelectorAll('#verdict .dot')].map((d) => d.style.background)")
        assert dots == ["rgb(204, 121, 167)"] * 2  # of the predicted and of the true class, as on the map
        assert page.ask("meta.clock.label") == "time in ms (25 steps per second)"
        page.page.mouse.move(*page.ask("cellAt(2, 7)"))
        assert page.text("#readout").startswith("spo2 [%] · 280 ms (step 8) · ")


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
    for tab in ("selection", "landmarks", "scores"):
        page.page.click(f"#tab-{tab}")
    page.click_at(page.ask("pointAt(2)"))
    page.page.mouse.move(*page.ask("pointAt(4)"))
    assert EVIL in page.text("#tip-text")
    assert (
        page.page.evaluate("document.querySelectorAll('img, b:not(.bars b, #attention b, #banner b), svg[onload]').length") == 0
    )


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
