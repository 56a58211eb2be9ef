"""The store: what is written is read, whole or not at all."""

import json
import math
from dataclasses import replace

import pytest

from timex.bench.store import CONFIGS, Result, Score, Store


def result(fold=0, *, value=0.5, error=None, **cell):
    identity = {"dataset": "d", "arch": "a", "method": "m", "arm": "", "measure": "x", "fold": fold, "seed": 0, "smoke": False}
    identity |= cell
    config = {"reference": {"epochs": 3}, "explainer": {"r": 0.2, "seed": fold}}
    scores = {} if error else {"auprc": Score(value, 4, 1.25), "nan": Score(float("nan"), 0)}
    facts = {"finished": "2026-01-01", "device": "cpu", "torch": "2", "timex": "0", "config": config}
    facts["explain_seconds"] = float("nan")
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


@pytest.mark.parametrize(
    "torn", ["", '{"cell": {"fo', "[]", '{"cell": {}, "key": "k", "config_hash": "h", "scores": {}}', "\xff"]
)
def test_a_torn_cell_is_named_and_counts_as_not_measured(tmp_path, caplog, torn):
    store = Store(tmp_path)
    store.write(result(0))
    path = tmp_path / "cells" / "key-f1.json"
    path.write_bytes(torn.encode("latin-1"))
    assert [r.key for r in store.results()] == ["key-f0"]
    assert not store.done("key-f1")
    assert f"{path} holds no cell that can be read, and counts as not measured" in caplog.text
    store.write(result(1))
    assert store.done("key-f1")


def test_a_torn_line_of_an_export_is_named(tmp_path, caplog):
    store = Store(tmp_path / "run")
    for fold in range(3):
        store.write(result(fold))
    path, configs = store.export(tmp_path / "kept")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:30], lines[2]]))
    kept = Store(tmp_path / "kept")
    assert [r.cell["fold"] for r in kept.results()] == [0, 2]
    assert f"{path}, line 2 holds no cell that can be read" in caplog.text
    configs.write_text("{")
    assert [r.facts["config"] for r in kept.results()] == [None, None]
    assert f"{CONFIGS} cannot be read" in caplog.text


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a\\b", "..", ""])
def test_names_that_are_paths_are_refused(tmp_path, name):
    store = Store(tmp_path / "run")
    store.write(result(0, dataset=name))
    with pytest.raises(ValueError, match="Expected a name that is no path"):
        store.export(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    with pytest.raises(ValueError, match="Expected a name that is no path"):
        store.write(replace(result(0), key="../outside"))
    assert sorted(p.name for p in tmp_path.rglob("*.json*")) == ["key-f0.json"]


def test_the_model_is_its_recipe_and_its_weights():
    own = replace(result(), facts={"reference": "references/a", "weights": "123"})
    assert own.model == "references/a:123"
    assert replace(own, facts={"reference": "references/a"}).model == "references/a"
    assert replace(own, facts={}).model is None


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
    before = [p.read_bytes() for p in written]
    Store(tmp_path / "kept").export(tmp_path / "kept")
    assert [p.read_bytes() for p in written] == before


def test_exports_of_several_runs_stand_beside_each_other(tmp_path):
    """The later of two cells of one identity stays, whichever was exported last; cells of other data sets stay."""
    first, second, kept = Store(tmp_path / "first"), Store(tmp_path / "second"), tmp_path / "kept"
    first.write(result(0))
    first.write(replace(result(1, dataset="e"), config_hash="other"))
    newer = replace(result(0, value=0.75), key="new-f0", config_hash="new")
    newer = replace(newer, facts={**newer.facts, "finished": "2026-02-01", "config": {"reference": {"epochs": 9}}})
    second.write(newer)
    for order in ((first, second), (second, first)):
        for store in order:
            store.export(kept)
        found = {r.key: r for r in Store(kept).results()}
        assert sorted(found) == ["key-f1", "new-f0"]
        assert found["new-f0"].scores["auprc"].value == 0.75
        assert found["new-f0"].facts["config"] == {"reference": {"epochs": 9}}
        assert found["key-f1"].facts["config"]["explainer"] == {"r": 0.2}
        assert set(json.loads((kept / CONFIGS).read_text())) == {"new", "other"}


def test_a_run_directory_takes_no_export(tmp_path):
    store = Store(tmp_path)
    store.write(result(0))
    with pytest.raises(
        ValueError, match="is a run directory, which would then hold every cell twice: export to another folder"
    ):
        store.export(tmp_path)
    assert len(list(store.results())) == 1
    assert not store.exported
