"""The page in a real browser, opened from disk: what a click shows, what is drawn, and that nothing else happens.

Needs Debian's chromium (`.ci/run` installs it) and the package playwright; without either the tests say so and are skipped.
Set TIMEX_SCREENSHOTS to a folder to keep the pictures that the tests take.
"""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest
from reading import unpack
from test_page import EVIL, make, make_landmarks
from typer.testing import CliRunner

from timex.cli import app
from timex.data import LOADERS
from timex.data.synthetic import freqshapes
from timex.report.page import write_report
from timex.types import Explanation

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

DESKTOP, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium():
    path = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo writes, from few samples and short trainings."""
    folder = tmp_path_factory.mktemp("demo")
    whole = LOADERS["freqshapes"]
    LOADERS["freqshapes"] = lambda seed, fold: freqshapes(seed, fold, sizes=(256, 32, 120))
    try:
        result = CliRunner().invoke(
            app, ["demo", "--out", str(folder), "--epochs", "10", "--reference-epochs", "40"], catch_exceptions=False
        )
    finally:
        LOADERS["freqshapes"] = whole
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output
    return folder


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
        assert {url.partition("#")[0] for url in self.requests} == {address}


@pytest.fixture
def visit(chromium):
    visitors = []

    def start(*arguments, **options):
        visitors.append(Visitor(chromium, *arguments, **options))
        return visitors[-1]

    yield start
    for visitor in visitors:
        visitor.leave()


class TestDemo:
    """The page that the demo writes, with TimeX and integrated gradients."""

    def test_a_click_on_a_point_shows_what_was_explained(self, demo, visit):
        page = visit(demo / "report.html")
        e = Explanation.load(demo / "explanations.npz")
        truth = np.load(demo / "data.npz")["truth"]
        i = 17
        page.click_at(page.ask(f"pointAt({i})"))
        chosen = page.ask("state.sample")  # points may lie on top of each other: the nearest is taken
        assert np.allclose(page.ask(f"pointAt({chosen})"), page.ask(f"pointAt({i})"), atol=12)
        page.page.fill("#search", str(i))
        assert page.text("#sample-title") == f"Sample {i}"
        c = e.prediction[i]
        assert f"{e.classes[c]} (confidence {e.probability[i, c]:.2f})" in page.text("#verdict")
        assert ("agrees with the model" if e.agreement[i] else "disagrees: treat with care") in page.text("#verdict")
        assert f"(landmark {e.landmark[i]})" in page.text("#verdict")
        for step in (0, 7, 49):
            page.page.mouse.move(*page.ask(f"cellAt(0, {step})"))
            words = page.text("#readout").split(" · ")
            assert words[1] == f"t = {step + 1}"
            assert float(words[2].removeprefix("value ")) == pytest.approx(e.x[i, step, 0], abs=2e-3)
            assert float(words[3].removeprefix("attribution ")) == pytest.approx(e.attribution[i, step, 0], abs=3e-3)
            assert words[4] == ("kept" if e.mask[i, step, 0] else "not kept")
            assert ("ground truth" in words) == truth[i, step, 0]

    def test_the_colours_drawn_are_those_of_the_data(self, demo, visit):
        page = visit(demo / "report.html", "sample=3")
        _, packed = unpack(demo / "report.html")
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
        page = visit(demo / "report.html")
        meta, packed = unpack(demo / "report.html")
        page.click_at(page.ask("landmarkAt(0)"))
        first = meta["landmarks"][0]
        assert page.text("#landmark-title") == f"Landmark {first['number']}, rank 1 of {len(meta['landmarks'])}"
        members = int((packed["landmark"] == first["number"]).sum())
        assert f"{first['count']} training explanations; {members} of the explanations" in page.text("#landmark-facts")
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
        page = visit(demo / "report.html")
        _, packed = unpack(demo / "report.html")
        classes, counts = np.unique(packed["prediction"], return_counts=True)
        c = int(classes[counts.argmax()])
        page.page.select_option("#filter-class", str(c))
        assert page.text("#shown") == f"{counts.max()} of 120 shown"
        page.page.select_option("#filter-correct", "0")
        wrong = np.flatnonzero((packed["prediction"] == c) & (packed["correct"] == 0)).tolist()
        assert page.ask("shown()") == wrong
        if wrong:
            page.page.keyboard.press("Tab")  # away from the list, which uses the arrows itself
            page.page.locator("#map").focus()
            page.page.keyboard.press("ArrowRight")
            following = next((i for i in wrong if i > 0), wrong[0])
            assert page.ask("state.sample") == following
        page.page.keyboard.press("Escape")
        assert page.text("#shown") == "120 of 120 shown"

    def test_a_lasso_keeps_what_lies_inside(self, demo, visit):
        page = visit(demo / "report.html")
        _, _packed = unpack(demo / "report.html")
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
        page = visit(demo / "report.html")
        assert page.page.locator("#methods button").all_inner_texts() == ["timex", "ig", "all"]
        page.page.keyboard.press("m")
        assert page.address()["method"] == "ig"
        assert "orange speaks for the class" in page.text("#series-key")
        page.page.keyboard.press("m")
        assert [lane["m"] for lane in page.ask("lanes()")] == [-1, 0, 1]
        page.screenshot("comparison")

    def test_scores_and_training(self, demo, visit):
        page = visit(demo / "report.html", "view=scores")
        rows = page.page.locator("#scores tbody tr td:first-child").all_inner_texts()
        assert rows[:2] == ["timex", "ig"]
        assert {"Training", "Validation"} <= set(page.page.locator("figcaption").all_inner_texts())
        page.screenshot("scores")

    def test_an_address_brings_the_view_back(self, demo, visit):
        first = visit(demo / "report.html", "sample=5&colour=correct&method=all")
        first.page.keyboard.press("+")
        again = visit(demo / "report.html", first.page.url.partition("#")[2])
        for field in ("sample", "colour", "method", "view", "filter"):
            assert again.ask(f"state.{field}") == first.ask(f"state.{field}")
        np.testing.assert_allclose(again.ask("pointAt(9)"), first.ask("pointAt(9)"), atol=2)
        assert again.page.input_value("#colour") == "correct"
        again.page.evaluate("location.hash = 'sample=7'")  # another address in the same window: nothing of the old one stays
        again.page.wait_for_function("timexReport.state.sample === 7")
        assert [again.ask(f"state.{field}") for field in ("colour", "method")] == ["prediction", 0]
        assert again.ask("state.zoom.k") == 1

    def test_an_address_of_nonsense_is_ignored(self, demo, visit):
        page = visit(
            demo / "report.html", "sample=zzz&colour=pink&method=no&class=abc&lasso=1,x&zoom=0,0&landmark=-4&view=%3Cb%3E"
        )
        assert page.ask("shown().length") == 120
        assert page.ask("state.view") == "sample"

    def test_keys_and_focus(self, demo, visit):
        page = visit(demo / "report.html")
        page.page.keyboard.press("/")
        assert page.page.evaluate("document.activeElement.id") == "search"
        page.page.keyboard.type("44")
        assert page.text("#sample-title") == "Sample 44"
        page.page.keyboard.press("Escape")
        page.page.keyboard.press("ArrowRight")
        assert page.text("#sample-title") == "Sample 45"
        page.page.keyboard.press("]")
        assert page.text("#landmark-title").endswith(f"rank 2 of {len(page.ask('meta.landmarks'))}")
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
        page = visit(demo / "report.html")
        nameless = page.page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, canvas[tabindex]")]
                .filter((e) => !e.hidden && !(e.innerText || e.getAttribute("aria-label") || e.labels?.length))
                .map((e) => e.outerHTML)"""
        )
        assert nameless == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize(("name", "viewport"), [("desktop", DESKTOP), ("phone", PHONE)])
    def test_light_and_dark_at_every_width(self, demo, visit, name, viewport, scheme):
        page = visit(demo / "report.html", viewport=viewport, color_scheme=scheme)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(int(v) for v in re.findall(r"\d+", background)) > 128) == (scheme == "light")
        page.screenshot(f"{name}-{scheme}")
        page.page.click("#tab-landmarks")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_names_are_shown_as_text(tmp_path, visit):
    names = (EVIL, "</script><script>alert(2)</script>", "<b>bold</b>")
    e = make(channels=names, classes=(EVIL, "<svg onload=alert(3)>"))
    path = write_report(
        tmp_path / "report.html",
        {EVIL: e, "</script>": make(channels=names, classes=e.classes)},
        landmarks=make_landmarks(),
        ids=[f"{EVIL}{i}" for i in range(len(e))],
        scores={EVIL: {"<i>x</i>": 1.0}},
        history=[{"epoch": 0, "loss": 1.0, "selected": True}],
        title=EVIL,
    )
    page = visit(path)
    assert page.text("h1") == EVIL
    assert page.text("#sample-title") == f"Sample {EVIL}0"
    assert EVIL in page.text("#verdict")
    assert any(name in page.text("#spans") for name in names)
    page.page.mouse.move(*page.ask("cellAt(1, 3)"))
    assert page.text("#readout").startswith(names[1])
    for tab in ("landmarks", "scores"):
        page.page.click(f"#tab-{tab}")
    page.click_at(page.ask("pointAt(2)"))
    page.page.mouse.move(*page.ask("pointAt(4)"))
    assert EVIL in page.text("#tip-text")
    assert page.page.evaluate("document.querySelectorAll('img, b:not(.bars b), svg[onload]').length") == 0


@pytest.mark.parametrize(("n", "t", "d"), [(1, 20, 1), (12, 5000, 2), (12, 100, 64)])
def test_every_shape_is_drawn(tmp_path, visit, n, t, d):
    e = make(n=n, t=t, d=d)
    page = visit(write_report(tmp_path / "report.html", e, landmarks=make_landmarks()))
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
