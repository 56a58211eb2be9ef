"""The store: what is written is read, whole or not at all."""

import json
import math
from dataclasses import asdict, replace

import pytest

from timex.bench.grid import Settings, cells_of
from timex.bench.store import Result, Score, Store
from timex.bench.tables import TABLES


def result(fold=0, *, value=0.5, error=None, **cell):
    identity = {"dataset": "d", "arch": "a", "method": "m", "arm": "", "measure": "x", "fold": fold, "seed": 0, "smoke": False}
    identity |= cell
    config = {"reference": {"epochs": 3}, "explainer": {"r": 0.2, "seed": fold}}
    scores = {} if error else {"auprc": Score(value, 4, 1.25), "nan": Score(float("nan"), 0)}
    facts = {"finished": "2026-01-01", "device": "cpu", "config": config, "explain_seconds": float("nan")}
    return Result(cell=identity, key=f"key-f{fold}", config_hash="hash", scores=scores, error=error, facts=facts)


def test_score_of_samples():
    assert Score.of([1.0, 2.0, float("nan")]) == Score(1.5, 2, 5.0)
    assert Score.of([True, False, True, True]) == Score(0.75, 4, 3.0)
    empty = Score.of([float("nan")])
    assert math.isnan(empty.value)
    assert empty.n == 0


def test_what_is_written_is_read(tmp_path):
    store = Store(tmp_path)
    store.write(result(0))
    read = store.read("key-f0")
    assert read.scores["auprc"] == Score(0.5, 4, 1.25)
    assert math.isnan(read.scores["nan"].value)
    assert read.cell["fold"] == 0
    assert store.done("key-f0")
    assert not store.done("key-f1")
    json.loads((tmp_path / "cells" / "key-f0.json").read_text(), parse_constant=pytest.fail)  # NaN is no JSON


def test_a_failure_is_kept_but_is_not_done_and_replaces_nothing(tmp_path):
    store = Store(tmp_path)
    store.write(result(0, error="ValueError: no"))
    assert store.read("key-f0").error == "ValueError: no"
    assert not store.done("key-f0")
    store.write(result(0))
    store.write(result(0, error="later"))
    assert store.done("key-f0")


def test_half_a_file_is_no_cell(tmp_path):
    store = Store(tmp_path)
    store.write(result(0))
    (tmp_path / "cells" / ".key-f1.json.abcd").write_text('{"cell": {"fo')  # what a killed process leaves
    assert [r.key for r in store.results()] == ["key-f0"]


def test_cells_of_before_say_by_their_settings_which_model_they_explain():
    cell = cells_of([TABLES["lstm"]], Settings(folds=2, seed=3, smoke=True), ["seqcomb_mv"], ["random"])[1]
    config = json.loads(json.dumps({"reference": asdict(cell.reference), "explainer": None}))
    old = Result(cell=cell.identity, key=cell.key, config_hash=cell.config_hash, facts={"config": config})
    assert old.reference == cell.reference_folder
    assert replace(old, facts={"reference": "elsewhere", "config": config}).reference == "elsewhere"
    assert replace(old, facts={}).reference is None


def test_rows_have_one_metric_each(tmp_path):
    store = Store(tmp_path)
    store.write(result(0))
    store.write(result(1, error="ValueError: no"))
    rows = store.rows()
    assert rows[["fold", "metric", "n"]].fillna("-").to_numpy().tolist() == [[0, "auprc", 4], [0, "nan", 0], [1, "-", 0]]
    assert {"config_hash", "device", "value", "sum_squares", "error"} <= set(rows)


def test_an_export_reads_like_the_original(tmp_path):
    store = Store(tmp_path / "run")
    store.write(result(0, value=1 / 3))
    store.write(result(1, dataset="e"))
    store.write(result(2, dataset="e", error="FileNotFoundError: /home/me"))  # what failed is nothing to keep
    written = store.export(tmp_path / "kept")
    assert [p.name for p in written] == ["d.jsonl", "e.jsonl", "configs.json"]
    kept = list(Store(tmp_path / "kept").results())
    assert [r.key for r in kept] == ["key-f0", "key-f1"]
    assert kept[0].scores["auprc"].value == pytest.approx(1 / 3, abs=1e-6)
    assert json.loads(written[-1].read_text()) == {
        "hash": {"reference": {"epochs": 3}, "explainer": {"r": 0.2}}
    }  # no fold's seed
    assert [r.reference for r in kept] == [r.reference for r in store.results() if r.error is None]
    before = [p.read_bytes() for p in written]
    Store(tmp_path / "kept").export(tmp_path / "kept")
    assert [p.read_bytes() for p in written] == before


def test_a_run_directory_takes_no_export(tmp_path):
    store = Store(tmp_path)
    store.write(result(0))
    with pytest.raises(ValueError, match="is a run directory, where every cell would then be twice: export to another folder"):
        store.export(tmp_path)
    assert len(list(store.results())) == 1
    assert not store.exported
