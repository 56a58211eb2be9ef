"""`timex demo`, as a user sees it first."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_demo(invoke, tmp_path):
    output = invoke("demo", "--out", tmp_path)
    assert "reference model: F1" in output
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["reference"]["f1"] >= 0.95
    assert scores["timex"]["auprc"] >= 0.75
    assert scores["timex"]["auprc"] > max(scores[name]["auprc"] for name in ("gradients", "ig", "amplitude", "random"))
    pictures = {p.name for p in tmp_path.glob("*.png")}
    assert pictures == {"explanation.png"}
    verdict = json.loads((tmp_path / "check.json").read_text())["verdict"]
    assert f"check on 200 series: {verdict}" in output
    assert f"Open {tmp_path}/report.html in a browser" in " ".join(output.split())
    assert all(f"timex {command}" in output for command in ("check", "explain", "inspect"))  # what to try next
    assert (tmp_path / "report.html").stat().st_size < 2_000_000
    figures = gallery_of(tmp_path)
    shown = set(re.findall(r"\(images/(\w+)\.svg\)", (DOCS / "gallery.md").read_text()))
    assert shown == set(figures) == {p.stem for p in tmp_path.glob("*.svg")}
    explain = ("explain", "--explainer", tmp_path / "explainer", "--data", "lowvar", "--out", tmp_path / "e.npz")
    assert "agree" in invoke(*explain)


def gallery_of(folder):
    """The figures of the documentation's gallery, by name, as `docs/site/pictures.py` draws them."""
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "site" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    pictures.draw(folder, folder)
    return pictures.FIGURES
