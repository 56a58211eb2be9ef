"""The notebooks of the documentation run, and show what they showed."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
NEEDS = {"ecg": "mitbih_lead0.npz", "forecast": "ETTh1.csv.gz"}
"""Real data that a notebook reads."""


def runner():
    """The module `docs/site/notebooks.py`."""
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "site" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(notebook):
    """What every code cell gives: the kinds of its outputs."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[sorted(output.get("data", {"text": ""})) for output in cell["outputs"]] for cell in cells]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_committed(path, monkeypatch):
    data = Path(os.environ.get("TIMEX_TEST_DATA", DOCS.parents[1] / "shared" / "data"))
    if path.stem in NEEDS and not (data / NEEDS[path.stem]).is_file():
        pytest.skip(f"no {NEEDS[path.stem]} in {data}")
    monkeypatch.setenv("TIMEX_TEST_DATA", str(data))
    assert outputs(runner().run(path)) == outputs(json.loads(path.read_text()))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_executed_small_and_listed(path):
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    assert path.stat().st_size < 120_000
    assert f"(notebooks/{path.name})" in (DOCS / "notebooks.md").read_text()


def test_a_failing_cell_is_named():
    cell = {"cell_type": "code", "source": ["1 / 0\n"], "outputs": [], "execution_count": None}
    with pytest.raises(RuntimeError, match="cell 2 failed: division by zero"):
        runner().executed({"cells": [{**cell, "source": ["x = 1\n", "x"]}, cell]})


def test_prints_and_the_last_expression_are_outputs():
    cell = {"cell_type": "code", "source": ["x = 2\n", "print(x)\n", "x + 1"], "outputs": [], "execution_count": None}
    (done,) = runner().executed({"cells": [cell]})["cells"]
    assert [output["output_type"] for output in done["outputs"]] == ["stream", "execute_result"]
    assert done["outputs"][1]["data"] == {"text/plain": ["3"]}
