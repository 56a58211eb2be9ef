"""From tables to cells to tasks: what is equal is shared, what differs is another cell."""

import hashlib
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from timex import TimeXConfig, load_dataset
from timex.bench.grid import LATER, REVISIONS, SMOKE_SIZES, Settings, cells_of, plan, shrunk
from timex.bench.measures import MEASURES
from timex.bench.store import Result, Score, Store
from timex.bench.tables import ARMS, TABLES
from timex.data import ORIGINS
from timex.method.config import PAPER
from timex.registry import DATASETS, EXPLAINERS, REFERENCES

ONE = Settings(folds=1)


def cell(methods="timex", table="univariate", datasets=("freqshapes",), settings=ONE):
    return cells_of([TABLES[table]], settings, datasets, [methods])[0]


def test_keys_are_readable_and_depend_on_every_setting():
    base = cell()
    assert base.key.startswith("freqshapes-transformer-timex-ground_truth-f0-")
    others = [
        cell(settings=replace(ONE, seed=1)),
        cell(settings=replace(ONE, smoke=True)),
        cell(settings=replace(ONE, preset="paper")),
        cell("timex:no_ste"),
        replace(base, config=replace(base.config, r=0.3)),
        replace(base, reference=replace(base.reference, epochs=3)),
    ]
    assert len({c.key for c in [base, *others]}) == 1 + len(others)


def test_folds_and_measures_of_an_arm_share_a_hash():
    cells = cells_of([TABLES["univariate"], TABLES["landmarks-dtw"]], Settings(folds=3), ["freqshapes"], ["timex"])
    assert len(cells) == 6
    assert len({c.config_hash for c in cells}) == 1
    assert len({c.explainer_folder for c in cells}) == 3
    assert [c.config.seed for c in cells[:3]] == [0, 1, 2]


def test_arms_that_name_the_same_settings_share_an_explainer():
    assert TimeXConfig().r == 0.15
    assert cell("timex:r0.15").explainer_folder == cell("timex").explainer_folder
    assert cell("timex:r0.1").explainer_folder != cell("timex").explainer_folder
    assert cell("ig").explainer_folder is None
    assert cell("ig").reference_folder == cell("timex").reference_folder


def by_hand(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def test_what_was_never_revised_is_hashed_as_it_always_was():
    """Cells and models of before there were revisions and digests stay valid."""
    c = cell("random")
    model = {"dataset": "freqshapes", "arch": "transformer", "seed": 0, "smoke": False, "train": asdict(c.reference)}
    assert c.reference_folder == f"references/freqshapes-transformer-f0-{by_hand(model)}"
    assert c.config_hash == by_hand({"model": model, "method": "random", "config": {"seed": 0}, "arm": ""})


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("data/freqshapes", ["timex", "random", "reference", "explainer", "dtw"]),
        ("model/transformer", ["timex", "random", "reference", "explainer", "dtw"]),
        ("explainer/timex", ["timex", "explainer", "dtw"]),
        ("explainer/timex/freqshapes", ["timex", "explainer", "dtw"]),
        ("explainer/timex/lowvar", []),
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
    monkeypatch.setitem(REVISIONS, name, 1)
    after = names()
    assert sorted(k for k in before if before[k] != after[k]) == sorted(moved)
    monkeypatch.setitem(REVISIONS, name, 0)
    assert names() == before


@pytest.mark.parametrize(("name", "value"), [("landmark_spread", 0.1), ("resolution", 3), ("judged", "draw")])
def test_a_setting_that_came_later_leaves_earlier_cells_their_names(monkeypatch, name, value):
    own, other = (replace(cell(), config=replace(cell().config, **{name: v})) for v in (LATER[name], value))
    keys = own.key, other.key
    assert keys[0] == cell().key != keys[1]
    monkeypatch.delitem(LATER, name)
    before, after = (replace(own, config=c) for c in (own.config, other.config))  # keys are remembered by the cell
    assert before.key != keys[0]
    assert after.key == keys[1]


def test_revisions_are_of_things_that_exist():
    known = {"data": {*DATASETS, *ORIGINS}, "model": {*REFERENCES, "forecaster"}, "explainer": EXPLAINERS, "measure": MEASURES}
    for name in REVISIONS:
        kind, own, *dataset = name.split("/")
        assert own in known[kind], name
        assert set(dataset) <= set(DATASETS), name


def prepared(folder, digest):
    np.savez(folder / "epilepsy.npz", facts=np.array(json.dumps({"format": 1, "digest": digest})))


def test_real_data_is_part_of_a_cell_made_data_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("TIMEX_DATA", str(tmp_path))
    real, made = (cell("random", datasets=(name,)) for name in ("epilepsy", "freqshapes"))
    prepared(tmp_path, "one")
    one = cell("random", datasets=("epilepsy",))
    other_view = cell("random", datasets=("epilepsy_by_recording",))
    prepared(tmp_path, "two")
    two = cell("random", datasets=("epilepsy",))
    assert [c.data for c in (real, one, two, other_view)] == [None, "one", "two", "one"]
    assert len({c.key for c in (real, one, two)}) == len({c.reference_folder for c in (real, one, two)}) == 3
    assert cell("random").key == made.key


def test_names_nobody_registered_are_refused_before_any_work():
    with pytest.raises(ValueError, match="Unknown explainer 'lime'; known: timex"):
        cell("lime")
    with pytest.raises(ValueError, match="Unknown data set of a transformer 'nowhere'; known: freqshapes"):
        cell("random", datasets=("nowhere",))
    with pytest.raises(ValueError, match="Unknown data set of a forecaster 'freqshapes'; known: ett"):
        cell("timex:forecast", table="forecasting")


def test_what_several_tables_ask_for_is_there_once():
    twice = cells_of([TABLES["univariate"], TABLES["iou"]], ONE)
    assert len({c.key for c in twice}) == len(twice) == len(TABLES["univariate"].datasets) * len(TABLES["univariate"].methods)


def test_the_papers_settings_are_rows_of_their_own():
    own = cell(settings=replace(ONE, preset="paper"))
    assert own.experiment.label == "timex:paper"
    assert own.config == PAPER["freqshapes"]
    arm = cell("timex:no_ste", settings=replace(ONE, preset="paper"))
    assert arm.experiment.label == "timex:paper_no_ste"
    assert arm.config == replace(PAPER["freqshapes"], mask="soft")
    with pytest.raises(ValueError, match=r"known for freqshapes, .*, not for equalshapes"):
        cell(datasets=("equalshapes",), settings=replace(ONE, preset="paper"))


def test_unknown_arms_say_which_are_known():
    with pytest.raises(ValueError, match=f"Unknown arm 'nothing' of TimeX; known: {next(iter(ARMS))}"):
        cell("timex:nothing")
    with pytest.raises(ValueError, match=r"Expected random alone or random:absolute, got random:r0\.1"):
        cell("random:r0.1")
    with pytest.raises(ValueError, match="Expected at least one fold, got 0"):
        Settings(folds=0)


def test_large_data_sets_take_as_many_steps_not_epochs():
    assert cell(datasets=("ecg",)).config.epochs == 3
    assert cell(datasets=("ecg",)).reference.epochs == 8
    assert cell().config.epochs == TimeXConfig().epochs


def test_smoke_is_small():
    data = shrunk(load_dataset("freqshapes"))
    assert tuple(len(p) for p in (data.train, data.val, data.test)) == SMOKE_SIZES
    few = cell(settings=replace(ONE, smoke=True))
    assert few.config.epochs == few.reference.epochs == 2
    assert few.reference.attempts == 1
    again = shrunk(data)
    np.testing.assert_array_equal(again.train.x, data.train.x)
    whole = load_dataset("freqshapes")
    by_class = replace(whole, test=whole.test.take(np.argsort(whole.test.y)))
    assert np.bincount(shrunk(by_class).test.y).tolist() == [SMOKE_SIZES[2] // 4] * 4


def done(c):
    return Result(cell=c.identity, key=c.key, config_hash=c.config_hash, scores={"auprc": Score(0.5)})


def test_a_plan_trains_folds_together_and_everything_after_what_it_needs(tmp_path):
    cells = cells_of([TABLES["ablation-ste"]], Settings(folds=2), ["freqshapes"])
    tasks = plan(cells, tmp_path)
    assert [t.kind for t in tasks[:3]] == ["reference", "fit", "fit"]  # straight-through and soft are two programs
    assert [len(t.outputs) for t in tasks[:3]] == [2, 2, 2]
    made = set()
    for task in tasks:
        assert set(task.inputs) <= made
        made |= set(task.outputs)
    assert sum(len(t.cells) for t in tasks if t.kind == "measure") == len(cells) == 8


def test_arms_that_differ_in_numbers_are_one_program(tmp_path):
    tasks = plan(cells_of([TABLES["r-sweep"]], Settings(folds=2)), tmp_path)
    assert [len(t.outputs) for t in tasks if t.kind == "fit"] == [10, 10, 2]  # at most ten at once


def test_models_that_cannot_be_stacked_are_trained_one_by_one(tmp_path):
    tasks = plan(cells_of([TABLES["lstm"]], Settings(folds=3), ["freqshapes"], ["timex", "ig"]), tmp_path)
    fold = [("reference", 1), ("fit", 1), ("measure", 0), ("measure", 0)]
    assert [(t.kind, len(t.outputs)) for t in tasks] == fold * 3  # one is finished before the next
    assert [t.cells[0].fold for t in tasks] == [0] * 4 + [1] * 4 + [2] * 4


def test_a_plan_leaves_out_what_is_there(tmp_path):
    cells = cells_of([TABLES["univariate"]], Settings(folds=2), ["freqshapes"], ["timex", "random"])
    store = Store(tmp_path)
    for c in cells[:-1]:
        store.write(done(c))
    last = cells[-1]  # random on fold 1: no TimeX left to fit
    assert [(t.kind, len(t.cells)) for t in plan(cells, tmp_path)] == [("reference", 1), ("measure", 1)]
    folder = tmp_path / last.reference_folder
    folder.mkdir(parents=True)
    (folder / "reference.json").write_text("{}")
    assert [t.kind for t in plan(cells, tmp_path)] == ["measure"]
    store.write(done(last))
    assert plan(cells, tmp_path) == []
