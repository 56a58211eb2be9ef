"""A page in the browser, as the tests of this folder visit it."""

import os
from pathlib import Path
from urllib.parse import parse_qs

DESKTOP, WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 1920, "height": 1080}, {"width": 390, "height": 844}


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

    def draw_lasso(self, *corners):
        """Draw from the map's upper left corner through corners in shares of its width and height."""
        box = self.page.locator("#map").bounding_box()
        self.page.mouse.move(box["x"] + 4, box["y"] + 4)
        self.page.mouse.down()
        for x, y in corners:
            self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
        self.page.mouse.up()

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
