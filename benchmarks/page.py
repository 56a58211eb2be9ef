"""How fast the page is in a real browser: first paint, everything unpacked, and the answer to a click.

    python benchmarks/page.py [--explanations 5000] [--steps 200] [--channels 4]

Needs Chromium and the package playwright (the extra `dev`). Times are medians over --repeats visits, in milliseconds: first
paint is the browser's own first-contentful-paint, map the moment the map of all explanations is drawn, click the time from a
click on a point until the next frame after its explanation was drawn.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from timex.method.landmarks import Landmarks
from timex.report.page import write_report
from timex.types import Explanation

CLICK = """(i) => new Promise((done) => {
    const [x, y] = timexReport.pointAt(i), map = document.getElementById("map");
    const event = (kind) => new PointerEvent(kind, { clientX: x, clientY: y, pointerId: 1, bubbles: true });
    map.setPointerCapture = () => {};  // a pointer made by hand cannot be captured
    const started = performance.now();
    map.dispatchEvent(event("pointerdown"));
    map.dispatchEvent(event("pointerup"));
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""


def made_up(n: int, t: int, d: int) -> dict:
    """Explanations of noise with a bump, by two methods."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, t, d)).astype(np.float32)
    start = rng.integers(0, t - t // 10, n)[:, None]
    bump = (np.arange(t) >= start) & (np.arange(t) < start + t // 10)  # (n, t)
    p = np.clip(0.7 * bump[..., None] + rng.normal(0.1, 0.05, size=x.shape), 0, 1).astype(np.float32)
    z = rng.normal(size=(n, 32)).astype(np.float32)
    vectors = rng.normal(size=(50, 32)).astype(np.float32)
    landmark = (z @ vectors.T).argmax(axis=1)
    counts = np.bincount(landmark, minlength=50)
    common = {"x": x, "prediction": np.arange(n) % 4, "probability": np.full((n, 4), 0.25, dtype=np.float32)}
    timex = Explanation(attribution=p, mask=p > 0.5, embedding=z, landmark=landmark, method="timex", **common)
    ig = Explanation(attribution=(x * p).astype(np.float32), signed=True, method="ig", **common)
    landmarks = Landmarks(
        vectors, counts, np.zeros((50, 1), int), np.ones((50, 1), np.float32), np.tile(counts[:, None] // 4, 4)
    )
    truth = np.broadcast_to(bump[..., None], x.shape)
    return {"explanations": {"timex": timex, "ig": ig}, "landmarks": landmarks, "truth": truth, "y": np.arange(n) % 4}


def visit(browser, path: Path, clicks: int) -> dict[str, float]:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)

    def entry(name):
        return page.evaluate(f"performance.getEntriesByName('{name}')[0].startTime")

    times = {"first paint": entry("first-contentful-paint"), "map": entry("timex-map"), "ready": entry("timex-ready")}
    n = page.evaluate("timexReport.meta.count")
    answers = [page.evaluate(CLICK, int(i)) for i in np.linspace(0, n - 1, clicks)]
    page.close()
    return {**times, "click, median": statistics.median(answers), "click, slowest": max(answers)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explanations", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        began = time.perf_counter()
        path = write_report(
            Path(folder) / "report.html", **made_up(options.explanations, options.steps, options.channels), projection="pca"
        )
        written = time.perf_counter() - began
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        visits = [visit(browser, path, clicks=20) for _ in range(options.repeats)]
        browser.close()
        size = path.stat().st_size / 1e6
        embedded = json.loads(path.read_text().split('id="meta">')[1].split("</script>")[0])["count"]
    shape = f"{options.steps} x {options.channels}"
    print(f"{embedded:,} of {options.explanations:,} explanations of {shape}: {size:.1f} MB, written in {written:.1f} s")
    for name in visits[0]:
        print(f"{name:>16} {statistics.median(v[name] for v in visits):7.0f} ms")


if __name__ == "__main__":
    main()
