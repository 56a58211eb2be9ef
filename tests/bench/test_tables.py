"""The tables are the paper's: every number it has is found, and every name in them exists."""

import pytest

from timex.bench import TABLES, Grid
from timex.bench.cells import cells_of
from timex.bench.experiments import CENTRE, CONTROLS
from timex.bench.measures import MEASURES
from timex.bench.tables import BOTH
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
    "heldout",
    "ablation-evidence",
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
    assert cells_of([table], Grid(folds=1))  # arms are known


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


def test_every_table_with_timex_has_our_default_and_the_papers_objective():
    arms = {"r-sweep": ("timex:paper_r0.5",), "forecasting": ("timex:forecast", "timex:paper")}
    arms |= {name: ("timex:paper",) for name in TABLES if name.startswith("ablation-")}
    arms |= dict.fromkeys(("heldout", "ablation-evidence"), ("timex",))
    for name, table in TABLES.items():
        if any(label.startswith("timex") for label in table.methods):
            assert set(arms.get(name, BOTH)) <= set(table.methods), name


def test_tables_that_compare_methods_have_our_gradients():
    compared = {name for name, table in TABLES.items() if "ig" in table.methods or "dynamask" in table.methods}
    assert compared == {name for name, table in TABLES.items() if "gradients" in table.methods}


def test_the_papers_ablations_are_run_on_the_papers_objective():
    table = TABLES["ablation-losses"]
    assert table.methods == ("timex:paper", "timex:paper_mbc_only", "timex:paper_lc_only", *CONTROLS)
    assert [(c.better[0], c.worse[0]) for c in table.claims] == [
        ("timex:paper", "timex:paper_mbc_only"),
        ("timex:paper", "timex:paper_lc_only"),
    ]


def test_the_papers_ablation_numbers_stand_beside_timex_alone():
    table = TABLES["ablation-ste"]
    rows = {e.label: table.paper(e, "auprc") for e in table.experiments(["freqshapes"], [*table.methods, "ig"])}
    assert rows == {
        "timex:paper": 0.8324,
        "timex:paper_no_ste": 0.6695,
        "random": None,
        "amplitude": None,
        "ig": None,
    }


def test_models_with_residuals_stand_beside_the_same_numbers():
    table = TABLES["univariate"]
    shown = list(table.shown_archs("freqshapes"))
    assert shown == ["transformer", "transformer_residual"]
    (plain, residual) = (e for arch in shown for e in table.experiments(["freqshapes"], ["timex:paper"], [arch]))
    assert table.paper(plain, "auprc") == table.paper(residual, "auprc") == 0.8324


def test_an_arm_of_another_table_has_no_number_of_the_papers_timex():
    (arm,) = TABLES["univariate"].experiments(["freqshapes"], ["timex:blended"])
    assert TABLES["univariate"].paper(arm, "auprc") is None
    (hidden,) = TABLES["occlusion"].experiments(["boiler"], ["timex:as_occluded"])
    assert TABLES["occlusion"].paper(hidden, "0.9") is None


def test_position_is_a_control_of_the_ecg_table_alone():
    assert [name for name, table in TABLES.items() if CENTRE in table.methods] == ["ecg"]
