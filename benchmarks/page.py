"""How fast the page is in a real browser: first paint, everything unpacked, and the answer to a click.

    python benchmarks/page.py [--explanations 5000] [--steps 200] [--channels 4]

Needs Chromium and the package playwright (the extra `dev`). Times are medians over --repeats visits, in milliseconds: first
paint is the browser's own first-contentful-paint, map the moment the map of all explanations is drawn, click the time from a
click on a point until the next frame after its explanation was drawn.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from common import parser, write

from timex.method.landmarks import Landmarks
from timex.records import Explanation, Series
from timex.report.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CLICK = """(i) => new Promise((done) => {
    const [x, y] = timexReport.pointAt(i), map = document.getElementById("map");
    const event = (kind) => new PointerEvent(kind, { clientX: x, clientY: y, pointerId: 1, bubbles: true });
    map.setPointerCapture = () => {};  // a pointer made by hand cannot be captured
    const started = performance.now();
    map.dispatchEvent(event("pointerdown"));
    map.dispatchEvent(event("pointerup"));
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""


def made_up(n: int, t: int, d: int) -> tuple[dict[str, Explanation], Landmarks]:
    """Explanations of noise with a bump by two methods, and landmarks."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, t, d)).astype(np.float32)
    start = rng.integers(0, t - t // 10, n)[:, None]
    bump = (np.arange(t) >= start) & (np.arange(t) < start + t // 10)  # (n, t)
    p = np.clip(0.7 * bump[..., None] + rng.normal(0.1, 0.05, size=x.shape), 0, 1).astype(np.float32)
    z = rng.normal(size=(n, 32)).astype(np.float32)
    vectors = rng.normal(size=(50, 32)).astype(np.float32)
    landmark = (z @ vectors.T).argmax(axis=1)
    counts = np.bincount(landmark, minlength=50)
    timex = Explanation(
        series=Series(x, y=np.arange(n) % 4, truth=np.repeat(bump[..., None], d, axis=2)),
        attribution=p,
        prediction=np.arange(n) % 4,
        probability=np.full((n, 4), 0.25, dtype=np.float32),
        method="timex",
        mask=p > 0.5,
        embedding=z,
        landmark=landmark,
    )
    ig = replace(timex, attribution=x * p, signed=True, method="ig", mask=None, embedding=None, landmark=None)
    nearest, similarity = np.zeros((50, 1), dtype=np.int64), np.ones((50, 1), dtype=np.float32)
    return {"timex": timex, "ig": ig}, Landmarks(vectors, counts, nearest, similarity, np.tile(counts[:, None] // 4, 4))


def visit(browser: Browser, path: Path, clicks: int) -> dict[str, float]:
    """One visit: milliseconds until first paint, map and everything unpacked, and until clicks are answered."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)

    def entry(name: str) -> float:
        return page.evaluate(f"performance.getEntriesByName('{name}')[0].startTime")

    times = {"first paint": entry("first-contentful-paint"), "map": entry("timex-map"), "ready": entry("timex-ready")}
    n = page.evaluate("timexReport.meta.count")
    answers = [page.evaluate(CLICK, int(i)) for i in np.linspace(0, n - 1, clicks)]
    page.close()
    return {**times, "click, median": statistics.median(answers), "click, slowest": max(answers)}


def main(argv: Sequence[str] | None = None) -> None:
    from playwright.sync_api import sync_playwright

    options = parser(__doc__)
    options.add_argument("--explanations", type=int, default=5000)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--channels", type=int, default=4)
    options.add_argument("--repeats", type=int, default=5)
    arguments = options.parse_args(argv)
    if arguments.smoke:
        arguments.explanations, arguments.steps, arguments.repeats = 60, 20, 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        explanations, landmarks = made_up(arguments.explanations, arguments.steps, arguments.channels)
        began = time.perf_counter()
        path = write_report(Path(folder) / "report.html", explanations, landmarks=landmarks, prior=0.15, projection="pca")
        written = time.perf_counter() - began
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        visits = [visit(browser, path, clicks=20) for _ in range(arguments.repeats)]
        browser.close()
        size = path.stat().st_size / 1e6
        embedded = json.loads(path.read_text().split('id="meta">')[1].split("</script>")[0])["count"]
    medians = {name: round(statistics.median(v[name] for v in visits), 1) for name in visits[0]}
    shape = {"explanations": len(explanations["timex"]), "steps": arguments.steps, "channels": arguments.channels}
    write({**shape, "embedded": embedded, "MB": round(size, 1), "write_s": round(written, 1), "ms": medians}, arguments)


if __name__ == "__main__":
    main()
