"""The pictures of the documentation, made from what `timex demo` wrote.

Run python docs/site/pictures.py demo. `FIGURES` are those of the gallery; a test makes them all. The animated picture of the
page needs chromium and playwright.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from timex import Explanation
from timex.cli.report import fitted_in
from timex.report import plots

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).resolve().parents[1] / "images"
TYPICAL = "sample=68&view=sample"
SCENES = (  # the address of a view of the page, and what to press there
    ("view=overview", ()),
    ("view=overview", ("#attention button >> nth=0",)),
    (TYPICAL, ("#series-in",)),
    ("view=selection&class=0", ("#selection-keep", "#legend button >> nth=3")),
    ("view=landmarks", ("#density",)),
    ("view=scores", ()),
)
WIDTH, HEIGHT, SHRINK, SECONDS = 1440, 900, 0.66, 2.2
PHONE = {"width": 390, "height": 844}


def explained(folder: Path) -> Figure:
    """One explanation, and what its parts mean."""
    e = Explanation.load(folder / "explanations.npz")
    figure = e.plot(int(e.summary()["typical"].iloc[0]))
    figure.set_size_inches(9.6, 4.9)
    top, bottom = figure.axes[0], figure.axes[1]
    said = {"fontsize": 9, "color": "#0066a1", "ha": "center", "arrowprops": {"arrowstyle": "->", "color": "#0066a1"}}
    kept = e.mask[int(e.summary()["typical"].iloc[0])].any(axis=1).nonzero()[0]  # type: ignore[index]
    middle, share = float(kept.mean()) + 1, (float(kept.mean()) + 1) / e.x.shape[1]
    side = 0.22 if share > 0.5 else 0.78
    for text, ax, end, place in (
        ("cells known to decide\n(synthetic data only)", top, (middle, 0.96), (side, 0.80)),
        ("colour: p of every cell, orange\nfor the class, purple against it", top, (middle, 0.45), (side, 0.48)),
        ("cells kept: p > .5", top, (middle, 0.06), (side, 0.14)),
        ("a sensor that decides nothing here", bottom, (side * e.x.shape[1], 0.30), (side, 0.85)),
    ):
        box = {"boxstyle": "round", "fc": "white", "ec": "#0066a1", "lw": 0.6}
        ax.annotate(text, end, place, ax.get_xaxis_transform(), "axes fraction", va="center", bbox=box, zorder=9, **said)
    return figure


def explanation(folder: Path) -> Figure:
    """`e.plot(i)`: one explanation."""
    e = Explanation.load(folder / "explanations.npz")
    return e.plot(int(e.summary()["typical"].iloc[-1]))


def comparison(folder: Path) -> Figure:
    """`plots.plot_comparison`: methods on the same samples."""
    both = {"TimeX": Explanation.load(folder / "explanations.npz"), "IG": Explanation.load(folder / "explanations-ig.npz")}
    return plots.plot_comparison(both, both["TimeX"].summary()["typical"].tolist()[:3])


def landmarks(folder: Path) -> Figure:
    """`plots.plot_landmarks`: the map, and what lies nearest to each landmark."""
    found, _ = fitted_in(folder)
    assert found is not None  # the demo writes them
    return plots.plot_landmarks(Explanation.load(folder / "explanations.npz"), found, n=3, n_nearest=2)


def training(folder: Path) -> Figure:
    """`plots.plot_history`: a fit, epoch by epoch."""
    return plots.plot_history(pd.DataFrame(fitted_in(folder)[1]["history"]))


FIGURES: dict[str, Callable[[Path], Figure]] = {
    "explained": explained,
    "explanation": explanation,
    "comparison": comparison,
    "landmarks": landmarks,
    "training": training,
}


def draw(folder: Path, out: Path) -> None:
    """Every figure as SVG; the same figures give the same files."""
    with matplotlib.rc_context({"svg.hashsalt": "timex"}):
        for name, figure in FIGURES.items():
            figure(folder).savefig(out / f"{name}.svg", dpi=110, metadata={"Date": None})


def view(browser: Browser, page: Path, address: str, presses: Sequence[str] = (), **options: Any) -> Image.Image:
    """A screenshot of the page at an address, after some clicks."""
    tab = browser.new_page(**({"viewport": {"width": WIDTH, "height": HEIGHT}} | options))
    tab.goto(f"{page.resolve().as_uri()}#{address}")
    tab.wait_for_selector("html[data-ready]")
    for place in presses:
        tab.click(place)
    tab.wait_for_timeout(300)
    picture = Image.open(BytesIO(tab.screenshot())).convert("RGB")
    tab.close()
    return picture


def film(page: Path, out: Path) -> None:
    """The page as an animated picture; its first view, a dark one and one on a phone as still pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        shots = [view(browser, page, address, presses) for address, presses in SCENES]
        stills = {
            "page": shots[0],
            "page-dark": view(browser, page, TYPICAL, color_scheme="dark"),
            "page-phone": view(browser, page, TYPICAL, viewport=PHONE),
        }
        browser.close()
    size = (round(WIDTH * SHRINK), round(HEIGHT * SHRINK))
    frames = [shot.resize(size, Image.Resampling.LANCZOS) for shot in shots]
    duration = int(1000 * SECONDS)
    frames[0].save(out / "page.webp", save_all=True, append_images=frames[1:], quality=55, method=6, duration=duration, loop=0)
    for name, shot in stills.items():
        shot.save(out / f"{name}.png", optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), IMAGES)
    film(Path(sys.argv[1]) / "report.html", IMAGES)
