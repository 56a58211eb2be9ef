"""The page in a real browser: the tabs that say how far to trust, Overview and Sample."""

import dataclasses
import re

import numpy as np
import pytest
from making import checked, make, make_demo, make_landmarks
from reading import unpack

from timex.report.page import write_report

pytestmark = pytest.mark.slow


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
        tops = page.page.evaluate("[...document.querySelectorAll('#banner .facts > div')].map((tile) => tile.offsetTop)")
        assert len(tops) == 5
        assert len(set(tops)) == 1  # one row
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
        page.page.click("#tab-overview")
        words = "3 samples: the explanation is empty: no cell has p > .5 (1 of the default class, which needs no cell)"
        assert words in page.text("#attention")

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

    def test_cells_against_the_class_are_purple(self, visit, tmp_path):
        against = np.diff(make_demo().series.truth.astype(int), axis=1, prepend=0) == 1  # the first known cell of each
        e = make_demo(direction=np.where(against, -1, 1))
        page = visit(write_report(tmp_path / "report.html", e), "sample=0")
        assert "Direction\n83 % of them speak for the class" in page.text("#verdict")  # 5 of 6 cells
        first = int(against[0, :, 0].argmax())
        (lane,) = page.ask("lanes()")
        box = page.page.locator("#series").bounding_box()
        top = box["y"] + lane["box"]["y"] + 12.5
        for step, words in ((first, "against the class"), (first + 1, "for the class")):
            x, y = page.ask(f"cellAt(0, {step})")
            page.page.mouse.move(x, y)
            assert words in page.text("#readout").split(" · ")
            page.page.mouse.move(2, 2)
            red, _, blue = page.pixel("series", x, top)
            assert (blue > red) == (step == first)
        assert page.text("#scale").split() == ["attribution", "-1", "1"]
        scale = page.page.locator("#scale-colours").bounding_box()
        (against_red, _, against_blue), (for_red, _, for_blue) = (
            page.pixel("scale-colours", scale["x"] + share * scale["width"], scale["y"] + 5) for share in (0.1, 0.9)
        )
        assert against_blue > against_red
        assert for_red > for_blue
        page.screenshot("direction")

    def test_class_colours_and_units(self, ward, visit):
        page = visit(ward, "sample=bed-3")
        dots = page.page.evaluate("[...document.querySelectorAll('#verdict .dot')].map((d) => d.style.background)")
        assert dots == ["rgb(204, 121, 167)"] * 2  # of the predicted and of the true class, as on the map
        assert page.ask("meta.clock.label") == "time in ms (25 steps per second)"
        page.page.mouse.move(*page.ask("cellAt(2, 7)"))
        assert page.text("#readout").startswith("spo2 [%] · 280 ms (step 8) · ")
