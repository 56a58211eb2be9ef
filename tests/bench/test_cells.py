"""From tables to cells: every setting is part of a cell's key, and equal settings share a model and an explainer."""

import hashlib
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from timex import TimeXConfig
from timex.bench import TABLES, Grid
from timex.bench.cells import REVISIONS, cells_of
from timex.bench.measures import MEASURES
from timex.data import ORIGINS
from timex.data.battery import BATTERY, GUIDE
from timex.registry import DATASETS, EXPLAINERS, REFERENCES

ONE = Grid(folds=1)


def cell(method="timex", table="univariate", datasets=("freqshapes",), grid=ONE, archs=()):
    return cells_of([TABLES[table]], grid, datasets, [method], archs)[0]


def test_keys_are_readable_and_depend_on_every_setting():
    base = cell()
    assert base.key.startswith("freqshapes-transformer-timex-ground_truth-f0-")
    assert cell("timex:paper_no_ste").key.startswith("freqshapes-transformer-timex-paper_no_ste-ground_truth-f0-")
    others = [
        cell(grid=Grid(folds=1, seed=1)),
        cell(grid=Grid(folds=1, smoke=True)),
        cell("timex:blended"),
        cell("timex:paper"),
        cell("timex:paper_no_ste"),
        cell(archs=["transformer_residual"]),
        replace(base, config=base.config.replaced({"n_landmarks": 3})),
        replace(base, config=base.config.replaced({"evidence.free_cells": 5.0})),
        replace(base, reference=replace(base.reference, epochs=3)),
        replace(base, data="a digest"),
    ]
    assert len({c.key for c in [base, *others]}) == 1 + len(others)


def test_folds_and_measures_of_an_arm_share_a_hash():
    cells = cells_of([TABLES["univariate"], TABLES["landmarks-dtw"]], Grid(folds=3), ["freqshapes"], ["timex"])
    assert len(cells) == 6
    assert len({c.config_hash for c in cells}) == 1
    assert len({c.explainer_folder for c in cells}) == 3
    assert [c.config.seed for c in cells[:3]] == [0, 1, 2]


def test_arms_with_equal_settings_share_an_explainer_and_both_objectives_a_model():
    assert TimeXConfig.paper("freqshapes").loss.r == 0.5
    assert cell("timex:paper_r0.5").explainer_folder == cell("timex:paper").explainer_folder
    assert cell("timex:paper_r0.1").explainer_folder != cell("timex:paper").explainer_folder
    assert cell("timex:paper").explainer_folder != cell("timex").explainer_folder
    assert cell("ig").explainer_folder is None
    assert cell("ig").reference_folder == cell("timex").reference_folder == cell("timex:paper").reference_folder


def test_a_hash_is_that_of_all_settings():
    c = cell("random")
    identity = {"dataset": "freqshapes", "arch": "transformer", "seed": 0, "smoke": False, "data": None}
    model = {**identity, "train": asdict(c.reference)}

    def by_hand(value):
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]

    assert c.reference_folder == f"references/freqshapes-transformer-f0-{by_hand(model)}"
    assert c.config_hash == by_hand({"model": model, "method": "random", "config": {"seed": 0}, "arm": ""})


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("data/freqshapes", ["timex", "random", "reference", "explainer", "dtw"]),
        ("model/transformer", ["timex", "random", "reference", "explainer", "dtw"]),
        ("explainer/timex", ["timex", "explainer", "dtw"]),
        ("objective/evidence", ["timex", "explainer", "dtw"]),
        ("objective/paper", []),
        ("measure/ground_truth", ["timex", "random"]),
        ("data/lowvar", []),
    ],
)
def test_a_raised_revision_makes_other_cells(monkeypatch, name, moved):
    def names():
        own = cell()
        others = {"random": cell("random").key, "dtw": cell(table="landmarks-dtw").key}
        return {"timex": own.key, "reference": own.reference_folder, "explainer": own.explainer_folder, **others}

    before = names()
    monkeypatch.setitem(REVISIONS, name, 99)
    after = names()
    assert sorted(k for k in before if before[k] != after[k]) == sorted(moved)


def test_revisions_are_of_known_components():
    known = {"data": {*DATASETS, *ORIGINS}, "model": {*REFERENCES, "forecaster"}, "explainer": EXPLAINERS, "measure": MEASURES}
    known["objective"] = {"evidence", "paper"}
    for name in REVISIONS:
        kind, own = name.split("/")
        assert own in known[kind], name


def prepared(folder, digest):
    np.savez(folder / "epilepsy.npz", facts=np.array(json.dumps({"format": 1, "digest": digest})))


def test_the_files_of_real_data_are_part_of_a_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("TIMEX_DATA", str(tmp_path))
    real, synthetic = (cell("random", datasets=(name,)) for name in ("epilepsy", "freqshapes"))
    prepared(tmp_path, "one")
    one = cell("random", datasets=("epilepsy",))
    other_view = cell("random", datasets=("epilepsy_by_recording",))
    prepared(tmp_path, "two")
    two = cell("random", datasets=("epilepsy",))
    assert [c.data for c in (real, one, two, other_view)] == [None, "one", "two", "one"]
    assert len({c.key for c in (real, one, two)}) == len({c.reference_folder for c in (real, one, two)}) == 3
    assert cell("random").key == synthetic.key


def test_unknown_names_are_refused_before_any_work():
    with pytest.raises(ValueError, match="Unknown explainer 'shap'; known: timex"):
        cell("shap")
    with pytest.raises(ValueError, match="Unknown data set of a transformer 'nowhere'; known: freqshapes"):
        cell("random", datasets=("nowhere",))
    with pytest.raises(ValueError, match="Unknown data set of a forecaster 'freqshapes'; known: ett"):
        cell("timex:forecast", table="forecasting")
    with pytest.raises(ValueError, match="Unknown architecture 'gru'; known: transformer"):
        cell("random", archs=["gru"])
    with pytest.raises(ValueError, match="Expected folds >= 1, got 0"):
        Grid(folds=0)


def test_a_data_set_that_is_called_like_a_path_is_refused(monkeypatch):
    monkeypatch.setitem(DATASETS, "../elsewhere", DATASETS["freqshapes"])
    with pytest.raises(ValueError, match=r"Expected a name that is no path, .*, got '\.\./elsewhere'"):
        cell("random", datasets=("../elsewhere",))


def test_cells_of_several_tables_are_there_once():
    methods = ["ig", "timex", "random"]
    twice = cells_of([TABLES["univariate"], TABLES["iou"]], ONE, methods=methods)
    assert len({c.key for c in twice}) == len(twice) == len(TABLES["univariate"].datasets) * len(methods)


def test_a_data_set_that_the_paper_lacks_has_no_row_for_its_objective():
    labels = [c.experiment.label for c in cells_of([TABLES["landmarks-dtw"]], ONE, ["equalshapes"])]
    assert labels == ["timex"]
    labels = [c.experiment.label for c in cells_of([TABLES["univariate"]], ONE, ["heldout_runs"])]
    assert [label for label in labels if label.startswith("timex")] == ["timex"]
    assert [c.experiment.label for c in cells_of([TABLES["landmarks-dtw"]], ONE)] == ["timex", "timex:paper"]


def test_every_set_of_the_battery_has_the_model_it_names():
    archs = {c.experiment.dataset: c.experiment.arch for c in cells_of([TABLES["heldout"]], ONE)}
    assert archs == {name: recipe.arch for name, recipe in BATTERY.items()}
    (other,) = cells_of([TABLES["heldout"]], ONE, ["heldout_runs"], ["ig"], ["cnn"])
    assert other.experiment.arch == "cnn"


def test_the_battery_and_its_ablation_share_cells():
    ablation = {c.key for c in cells_of([TABLES["ablation-evidence"]], ONE)}
    shared = ablation & {c.key for c in cells_of([TABLES["heldout"]], ONE)}
    assert len(shared) == 3 * len(GUIDE)  # timex and two controls
