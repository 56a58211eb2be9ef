"""The browser, and two pages to visit in it. Without Chromium or playwright the tests say so and are skipped."""

import dataclasses
import shutil

import pytest
from making import make_demo, make_landmarks
from visitor import Visitor

from timex.report.page import write_report


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
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


@pytest.fixture
def visit(chromium):
    visitors = []

    def start(*arguments, **options):
        visitors.append(Visitor(chromium, *arguments, **options))
        return visitors[-1]

    yield start
    for visitor in visitors:
        visitor.leave()
