"""Models of other packages are fitted and explained in a few lines; docs/models.md has the same fits as a table."""

import re
from pathlib import Path

import numpy as np
import pytest
from table import SHORT, SHORT_CONFIG, SHORT_STUDENT, auprc
from user_models import CASES, case

from timex import TimeX

CHANCE = 8 / (48 * 3)
"""Share of the cells that decide: the AUPRC of random scores."""
MOST_LINES = 4


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", CASES)
def test_deciding_cells_are_found(name, monkeypatch):
    if CASES[name].package is not None:
        pytest.importorskip(CASES[name].package)
    monkeypatch.setattr("timex.reference.student.STEPS", SHORT_STUDENT)
    one = case(name, **SHORT)
    assert one.lines <= MOST_LINES
    explainer = TimeX(one.model, config=SHORT_CONFIG, **one.how).fit(one.train, progress=False)
    explanation = explainer.explain(one.test)
    assert explanation.attribution.shape == one.test.shape
    assert np.isfinite(explanation.attribution).all()
    assert auprc(explanation) > 4 * CHANCE


def test_the_documentation_has_a_row_of_every_model():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [2-9] \| [0-9.]+ \|", page, flags=re.MULTILINE)
    assert rows == list(CASES)
