"""The tables are the paper's: every number it has is found, and every name in them exists."""

import pytest

from timex.bench.grid import Settings, cells_of
from timex.bench.measures import MEASURES
from timex.bench.tables import CENTRE, CONTROLS, TABLES
from timex.paper import _tables

ISSUE = [
    "univariate",
    "multivariate",
    "ecg",
    "ablation-ste",
    "ablation-simclr",
    "ablation-losses",
    "iou",
    "occlusion",
    "runtime",
    "classification",
    "lstm",
    "cnn",
    "irregular",
    "forecasting",
    "landmarks-dtw",
    "landmarks-clusters",
    "r-sweep",
    "explanations",
    "landmark-figure",
    "architectures-figure",
]


def test_every_table_and_figure_of_the_paper_is_there():
    assert list(TABLES) == ISSUE


@pytest.mark.parametrize("name", TABLES)
def test_names_in_a_table_exist(name):
    table = TABLES[name]
    assert table.measure in MEASURES
    assert cells_of([table], Settings(folds=1))  # arms are known


@pytest.mark.parametrize("name", [n for n, t in TABLES.items() if t.measure == "ground_truth" and n != "r-sweep"])
def test_controls_are_in_every_ground_truth_table(name):
    assert set(CONTROLS) <= set(TABLES[name].methods)


def test_every_number_of_the_paper_stands_beside_one_of_ours():
    asked = set()
    for table in TABLES.values():
        for e in table.experiments():
            for metric in table.metrics:
                if table.where is not None and table.paper(e, metric) is not None:
                    asked.add(table.where(e, metric))
    published = {
        (name, row, column)
        for name, t in _tables().items()
        for row, values in t["rows"].items()
        for column, v in zip(t["columns"], values, strict=True)
        if v is not None
    }
    left = {cell for cell in published - asked if not cell[1].endswith("timex++")}
    assert {name for name, _, _ in left} <= {"later/timex_plus_plus"}  # another method's paper


def test_the_sign_of_ig_has_no_number_in_the_paper():
    table = TABLES["univariate"]
    signed, absolute = (e for e in table.experiments(["freqshapes"], ["ig", "ig:absolute"]))
    assert table.paper(signed, "auprc") == 0.7516
    assert table.paper(absolute, "auprc") is None


def test_the_papers_ablation_numbers_stand_beside_timex_alone():
    table = TABLES["ablation-ste"]
    rows = {e.label: table.paper(e, "auprc") for e in table.experiments(["freqshapes"], [*table.methods, "ig"])}
    assert rows == {"timex": 0.8324, "timex:no_ste": 0.6695, "random": None, "amplitude": None, "ig": None}


def test_an_arm_of_another_table_has_no_number_of_the_papers_timex():
    table = TABLES["univariate"]
    (arm,) = table.experiments(["freqshapes"], ["timex:no_ste"])
    assert table.paper(arm, "auprc") is None


def test_position_is_a_control_of_the_ecg_table_alone():
    assert [name for name, table in TABLES.items() if CENTRE in table.methods] == ["ecg"]
