"""From cells to tasks: what trains together, what is there already, what is damaged and made again."""

import json

import numpy as np
import pytest

from timex.bench import TABLES, Grid, Store
from timex.bench.cells import cells_of
from timex.bench.plan import SECONDS, plan
from timex.bench.store import Result, Score
from timex.method.config import TimeXConfig
from timex.method.explainer import TimeX
from timex.reference import load_reference, save_reference
from timex.reference.base import initialised


def done(c):
    facts = {"finished": "2026-01-01", "device": "cpu", "torch": "2", "timex": "0"}
    return Result(cell=c.identity, key=c.key, config_hash=c.config_hash, scores={"auprc": Score(0.5)}, facts=facts)


def test_a_plan_trains_folds_together_and_everything_after_its_inputs(tmp_path):
    methods = ["timex:paper", "timex:paper_no_ste", "random", "amplitude"]
    cells = cells_of([TABLES["ablation-ste"]], Grid(folds=2), ["freqshapes"], methods)
    tasks = plan(cells, tmp_path)
    assert [t.kind for t in tasks[:3]] == ["reference", "fit", "fit"]  # straight-through and soft are two programs
    assert [len(t.outputs) for t in tasks[:3]] == [2, 2, 2]
    made = set()
    for task in tasks:
        assert set(task.inputs) <= made
        made |= set(task.outputs)
    assert sum(len(t.cells) for t in tasks if t.kind == "measure") == len(cells) == 8


def test_arms_that_differ_in_numbers_are_one_program(tmp_path):
    tasks = plan(cells_of([TABLES["r-sweep"]], Grid(folds=2)), tmp_path)
    assert [len(t.outputs) for t in tasks if t.kind == "fit"] == [10, 8]  # nine values of r, at most ten fits at once


def test_models_that_cannot_be_stacked_are_trained_one_by_one(tmp_path):
    tasks = plan(cells_of([TABLES["lstm"]], Grid(folds=3), ["freqshapes"], ["timex", "ig"]), tmp_path)
    fold = [("reference", 1), ("fit", 1), ("measure", 0), ("measure", 0)]
    assert [(t.kind, len(t.outputs)) for t in tasks] == fold * 3  # one fold is finished before the next
    assert [t.cells[0].fold for t in tasks] == [0] * 4 + [1] * 4 + [2] * 4


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    """A model and a TimeX as a run leaves them, for one cell."""
    root = tmp_path_factory.mktemp("run")
    (cell,) = cells_of([TABLES["univariate"]], Grid(folds=1, smoke=True), ["freqshapes"], ["timex"])
    model = initialised("transformer", {"n_channels": 1, "n_classes": 4, "n_steps": 12}, seed=0).eval()
    save_reference(model, root / cell.reference_folder)
    x = np.random.default_rng(0).normal(size=(20, 12, 1)).astype(np.float32)
    explainer = TimeX(model, config=TimeXConfig(epochs=1), device="cpu")
    explainer.fit(x, progress=False).save(root / cell.explainer_folder)
    (root / cell.explainer_folder / SECONDS).write_text(json.dumps({"fit_seconds": 1.0}))
    return root, cell


def kinds(cell, root):
    return [task.kind for task in plan([cell], root)]


@pytest.mark.filterwarnings("ignore:The model predicts class")
@pytest.mark.parametrize(
    ("which", "suffix", "left"),
    [
        ("reference", ".safetensors", ["reference", "fit", "measure"]),
        ("reference", ".json", ["reference", "fit", "measure"]),
        ("explainer", ".safetensors", ["fit", "measure"]),
        ("explainer", "explainer.json", ["fit", "measure"]),
        ("explainer", SECONDS, ["fit", "measure"]),
    ],
)
def test_a_damaged_model_or_explainer_is_made_again(run_directory, caplog, which, suffix, left):
    root, cell = run_directory
    assert kinds(cell, root) == ["measure"]
    folder = root / (cell.reference_folder if which == "reference" else cell.explainer_folder)
    (path,) = [p for p in folder.iterdir() if p.name.endswith(suffix)]
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2])
    assert kinds(cell, root) == left
    assert f"{folder} cannot be read and is made again" in caplog.text
    path.unlink()
    assert kinds(cell, root) == left
    path.write_bytes(before)
    assert kinds(cell, root) == ["measure"]


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_one_changed_byte_of_the_weights_is_noticed(run_directory):
    root, cell = run_directory
    for folder, left in ((cell.reference_folder, ["reference", "fit"]), (cell.explainer_folder, ["fit"])):
        (path,) = (root / folder).glob("*.safetensors")
        before = path.read_bytes()
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        assert kinds(cell, root) == [*left, "measure"]
        path.write_bytes(before)
    assert load_reference(root / cell.reference_folder).n_steps == 12


def test_a_plan_leaves_out_finished_cells(tmp_path):
    cells = cells_of([TABLES["univariate"]], Grid(folds=2), ["freqshapes"], ["timex", "random"])
    store = Store(tmp_path)
    for c in cells[:-1]:
        store.write(done(c))
    last = cells[-1]  # random on fold 1: no TimeX left to fit
    assert [(t.kind, len(t.cells)) for t in plan(cells, tmp_path)] == [("reference", 1), ("measure", 1)]
    store.write(done(last))
    assert plan(cells, tmp_path) == []
    torn = tmp_path / "cells" / f"{last.key}.json"
    torn.write_bytes(torn.read_bytes()[:40])
    assert [(t.kind, len(t.cells)) for t in plan(cells, tmp_path)] == [("reference", 1), ("measure", 1)]
