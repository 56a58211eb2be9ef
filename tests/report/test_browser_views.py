"""The page in a real browser: time, the map's layers, selections, files, and ten tasks of a user."""

from xml.etree import ElementTree

import numpy as np
import pytest
from reading import unpack

pytestmark = pytest.mark.slow


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
        page.draw_lasso((0.5, 0.01), (0.5, 0.99), (0.01, 0.99))
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


class Clicks:
    """Counts what a user does on the page."""

    def __init__(self, page):
        self.page, self.made = page, 0

    def __call__(self, place):
        self.page.page.locator(place).click()
        self.made += 1

    def choose(self, place, value):
        self.page.page.select_option(place, value)
        self.made += 1


class TestTasks:
    """The questions of docs/tasks.md: the answer is on the page after at most three clicks."""

    @pytest.fixture
    def page(self, ward, visit):
        return visit(ward)

    @pytest.fixture
    def click(self, page):
        click = Clicks(page)
        yield click
        assert click.made <= 3

    def test_can_i_trust_them(self, page, click):
        assert "The surrogate check is passed" in page.text("#banner")

    def test_which_sensor_matters_most_for_a_class(self, page, click):
        second = page.page.locator("#classes article").nth(1)
        assert second.locator(".bars > span").first.inner_text() == "pulse [1/min]"

    def test_which_explanations_not_to_trust(self, page, click):
        click("#attention button:has-text('surrogate disagrees')")
        assert page.ask("shown()") == [5, 17, 29, 41, 53, 65, 77]

    def test_where_is_the_model_wrong_and_what_did_it_look_at(self, page, click):
        click("#confusion tbody tr:nth-child(1) td:nth-of-type(2) button")
        assert page.text("#spans").startswith("1")
        assert "pulse" in page.text("#spans")

    def test_when_in_this_sample(self, page, click):
        click("#search")
        page.page.keyboard.type("bed-3")
        assert "ms (step" in page.text("#spans")

    def test_what_does_a_typical_explanation_look_like(self, page, click):
        click("#classes article:nth-of-type(3) .exemplar")
        assert page.text("#trust") == "trusted: the surrogate agrees"

    def test_what_do_these_points_have_in_common(self, page, click):
        click("#lasso")
        page.draw_lasso((0.99, 0.01), (0.99, 0.6), (0.01, 0.6))
        click.made += 1
        assert "per sample" in page.text("#selections")

    def test_what_differs_between_two_selections(self, page, click):
        click("#tab-selection")
        click("#selection-keep")
        click("#legend button >> nth=2")
        assert "predicted third" in page.text("#selection-change")

    def test_which_landmark_is_the_largest(self, page, click):
        click("#tab-landmarks")
        assert "(1 of 4 by size)" in page.text("#landmark-title")

    def test_which_samples_go_into_a_spreadsheet(self, page, click):
        click("#tab-selection")
        click.choose("#filter-trust", "1")
        with page.page.expect_download() as table:
            click("#selections article > .save")
        assert table.value.suggested_filename == "selection-1.csv"
