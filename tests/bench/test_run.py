"""Whole runs on the smoke grid: resumed, killed, on Ray, with plugins, with failures."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from timex import load_dataset
from timex.bench import TABLES, Grid, Store, run, show
from timex.bench.cells import cells_of
from timex.bench.plan import plan
from timex.bench.recipes import REFERENCE, shrunk
from timex.bench.run import Shipment, load_plugins
from timex.bench.work import Outcome, failed, work
from timex.cli import app
from timex.data.battery import FINAL, GUIDE
from timex.explainers import Random
from timex.reference.evidence import WIDTHS
from timex.registry import DATASETS, EXPLAINERS

SMOKE = Grid(folds=2, smoke=True)
METHODS = "ig,ig:absolute,timex,timex:blended,random,amplitude"
GRID = ["univariate", "--datasets", "freqshapes", "--methods", METHODS, "--folds", "2", "--smoke"]
HERE = Path(__file__).parent


@pytest.fixture
def plugin(monkeypatch):
    """The plugin next to this file, gone again after the test."""
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(HERE)
    with mock.patch.dict(EXPLAINERS), mock.patch.dict(DATASETS):
        sys.modules.pop("plugin_for_tests", None)
        yield "plugin_for_tests"


def scores(folder):
    return {r.key: r.scores for r in Store(folder).results() if r.error is None}


def small(out, plugin, **options):
    options = {"datasets": ["freqshapes"], "methods": ["slope", "broken", "random"], **options}
    return run(["univariate"], out, SMOKE, device="cpu", plugins=[plugin], **options)


def test_a_failing_explainer_leaves_the_others_alone_and_is_tried_again(tmp_path, plugin, monkeypatch):
    monkeypatch.setenv("SLOPE_CALLS", str(tmp_path / "calls"))
    lines = []
    first = small(tmp_path, plugin, say=lines.append)
    assert (first.wanted, first.before, first.finished, first.left) == (6, 0, 4, 0)
    assert set(first.failed.values()) == {"ZeroDivisionError: broken on purpose"}
    assert lines[0].startswith("[1/7] freqshapes: train 2 transformers: ")
    failed = [r for r in Store(tmp_path).results() if r.error]
    assert [r.cell["fold"] for r in failed] == [0, 1]
    assert "plugin_for_tests.py" in failed[0].facts["trace"]
    before = scores(tmp_path)
    references = {p: p.stat().st_mtime_ns for p in tmp_path.glob("references/*/*")}
    second = small(tmp_path, plugin)
    assert (second.before, second.finished, len(second.failed)) == (4, 0, 2)
    assert scores(tmp_path) == before
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("references/*/*")} == references
    calls = (tmp_path / "calls").read_text().splitlines()  # once a fold, not again, with the fold's seed and smoke's steps
    assert calls == [f"called with SlopeConfig(steps=3, seed={k})" for k in range(2)]


def test_data_that_is_not_prepared_is_a_failed_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("TIMEX_DATA", str(tmp_path / "none"))
    one = Grid(folds=1, smoke=True)
    done = run(["univariate"], tmp_path, one, datasets=["epilepsy"], methods=["random"], device="cpu")
    assert ["is not prepared" in error for error in done.failed.values()] == [True]


def test_unknown_names_stop_a_run_before_it_trains(tmp_path):
    for wrong in ({"methods": ["random", "shap"]}, {"methods": ["random"], "datasets": ["freqshapes", "nowhere"]}):
        with pytest.raises(ValueError, match="Unknown"):
            run(["univariate"], tmp_path, SMOKE, device="cpu", **wrong)
    assert not list(tmp_path.iterdir())


def test_a_worker_with_other_data_is_refused(tmp_path):
    (cell,) = cells_of([TABLES["univariate"]], Grid(folds=1, smoke=True), ["freqshapes"], ["random"])
    (task, _) = plan([replace(cell, data="a digest")], tmp_path)
    assert "Expected freqshapes prepared from the files that this run was planned with" in work(task, tmp_path, "cpu").error


def test_a_torn_cell_stops_no_run_and_is_measured_again(tmp_path, plugin, caplog):
    small(tmp_path, plugin, methods=["slope", "random"])
    before = scores(tmp_path)
    (torn, *_) = sorted((tmp_path / "cells").glob("*slope*"))
    torn.write_bytes(torn.read_bytes()[:50])
    (list_, *_) = [t for t in show.tables(tmp_path, ["univariate"], style="markdown") if "|" in t]
    assert "| slope | " in list_  # the other fold
    assert f"{torn} holds no cell that can be read" in caplog.text
    again = small(tmp_path, plugin, methods=["slope", "random"])
    assert (again.before, again.finished) == (3, 1)
    assert scores(tmp_path) == before


def test_a_data_set_of_ones_own_and_the_table_of_it(tmp_path, plugin):
    small(tmp_path, plugin, datasets=["upside_down"], methods=["slope", "amplitude"])
    (text,) = [t for t in show.tables(tmp_path, ["univariate"], style="markdown", datasets=["upside_down"]) if "|" in t]
    assert "| slope | " in text
    assert "| amplitude (control) | 1.000 ± .000" in text  # spikes are as large upside down


def test_a_plugin_that_is_none(tmp_path):
    with pytest.raises(ValueError, match=r"Cannot import the plugin my_plugin: .* Give the name of a module, without \.py"):
        load_plugins(["my_plugin"])


def test_explainers_are_fitted_on_series_with_labels_and_times(tmp_path, monkeypatch):
    given = []

    class Curious(Random):
        needs_fit = True

        def _fit(self, train, val, progress):
            given.append((train, val))
            return SimpleNamespace(shape=train.shape[1:])

    monkeypatch.setitem(EXPLAINERS, "curious", Curious)
    done = run(["irregular"], tmp_path, Grid(folds=1, smoke=True), methods=["curious"], device="cpu")
    assert not done.failed
    data = shrunk(load_dataset("seqcomb_mv_irregular"))
    for series, expected in zip(given[0], (data.train, data.val), strict=True):
        assert not series.regular
        for name in ("x", "times", "observed", "y"):
            np.testing.assert_array_equal(getattr(series, name), getattr(expected, name))


@pytest.mark.slow
def test_every_explainer_runs_by_its_registry_line_alone(tmp_path):
    methods = [name for name, explainer in EXPLAINERS.items() if explainer.only_for != "attention"]  # the set's model is a CNN
    one = Grid(folds=1, smoke=True)
    done = run(["heldout"], tmp_path, one, datasets=["heldout_levels"], methods=methods, device="cpu")
    assert (done.finished, done.failed) == (len(methods), {})


def test_timex_is_fitted_without_labels(tmp_path, monkeypatch):
    given = []

    def looked_at(explainers, data, **options):
        given.extend(data)
        raise RuntimeError("seen")

    monkeypatch.setattr("timex.bench.work.fit_many", looked_at)
    run(["univariate"], tmp_path, SMOKE, datasets=["freqshapes"], methods=["timex"], device="cpu")
    assert [(train.y, y) for train, y, _ in given] == [(None, None)] * 2


def test_an_unknown_engine_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Expected the engine local or ray, got 'dask'"):
        run(["univariate"], tmp_path, SMOKE, datasets=["freqshapes"], methods=["random"], device="cpu", engine="dask")


def test_an_export_is_no_place_to_go_on(tmp_path, plugin):
    small(tmp_path / "run", plugin, methods=["random"])
    Store(tmp_path / "run").export(tmp_path / "kept")
    with pytest.raises(ValueError, match="holds exported cells, which can be shown but not continued"):
        small(tmp_path / "kept", plugin, methods=["random"])


def test_no_time_no_work(tmp_path):
    done = run(["univariate"], tmp_path, SMOKE, datasets=["freqshapes"], methods=["random"], device="cpu", time_limit=-1)
    assert (done.finished, done.left) == (0, 2)
    assert not (tmp_path / "references").exists()


class FakeRay(ModuleType):
    """Ray on two cores, whose tasks take ten seconds each; remembers what it was given, and fails trainings if told to."""

    def __init__(self, clock, broken=False):
        super().__init__("ray")
        self.clock, self.broken, self.begun = clock, broken, []

    def init(self, **options):
        pass

    def shutdown(self):
        pass

    def cluster_resources(self):
        return {"CPU": 2.0}

    def remote(self, function):
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self.begin))

    def begin(self, task, given, device, folder, plugins, upstream):
        self.begun.append((task, upstream))
        return len(self.begun) - 1

    def wait(self, futures):
        self.clock[0] += 10
        return futures[:1], futures[1:]

    def get(self, future):
        task, upstream = self.begun[future]
        if self.broken and task.kind == "reference":
            raise OSError("worker died")
        return Shipment(failed(task, "cpu", upstream[0]) if upstream else Outcome(), {})


def on_fake_ray(monkeypatch, tmp_path, broken=False, **options):
    clock = [0.0]
    ray = FakeRay(clock, broken)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(sys.modules["timex.bench.run"], "time", SimpleNamespace(monotonic=lambda: clock[0]))
    methods = {"datasets": ["freqshapes"], "methods": ["random", "amplitude", "ig"], "device": "cpu", "engine": "ray"}
    lines = []
    done = run(["univariate"], tmp_path, SMOKE, **methods, say=lines.append, **options)
    return ray.begun, lines, done


def test_at_the_time_limit_ray_finishes_what_it_began_and_begins_nothing(tmp_path, monkeypatch):
    """A training until 10 s, two cells from there, another one from 20 s; all are waited for, none begins after 25 s."""
    begun, lines, _ = on_fake_ray(monkeypatch, tmp_path, time_limit=25)
    assert [task.kind for task, _ in begun] == ["reference", "measure", "measure", "measure"]
    assert len(lines) == 4
    begun, lines, _ = on_fake_ray(monkeypatch, tmp_path)
    assert len(begun) == len(lines) == 7  # without a limit all of it


def test_cells_that_wait_for_a_worker_that_died_name_its_error(tmp_path, monkeypatch):
    begun, _, done = on_fake_ray(monkeypatch, tmp_path, broken=True)
    assert [upstream for _, upstream in begun] == [[], *[["OSError: worker died"]] * 6]
    assert set(done.failed.values()) == {"OSError: worker died"}


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_a_fold_that_diverges_costs_the_others_nothing(tmp_path, monkeypatch):
    def one_of_two(explainers, data, **options):
        explainers[0].fit(data[0][0], x_val=data[0][2], progress=False)
        raise RuntimeError("diverged: 1")

    options = {"datasets": ["freqshapes"], "methods": ["timex"], "device": "cpu"}
    monkeypatch.setattr("timex.bench.work.fit_many", one_of_two)
    first = run(["univariate"], tmp_path, SMOKE, **options)
    assert len(first.failed) == 2
    (kept,) = tmp_path.glob("explainers/*/explainer.json")
    written = kept.stat().st_mtime_ns
    monkeypatch.undo()
    assert run(["univariate"], tmp_path, SMOKE, **options).finished == 2
    assert kept.stat().st_mtime_ns == written  # not fitted again


def test_timex_is_fitted_once_for_every_table(tmp_path, caplog):
    options = {"datasets": ["freqshapes"], "methods": ["timex"], "device": "cpu"}
    tables = ["univariate", "landmarks-dtw", "landmarks-clusters", "runtime", "explanations", "landmark-figure"]
    with pytest.warns(UserWarning, match="The model predicts class"):
        run(tables[:1], tmp_path, SMOKE, **options)
    done = run(tables, tmp_path, SMOKE, **options)
    assert not done.failed
    assert (done.wanted, done.before, done.finished) == (10, 2, 8)
    kept = {r.cell["measure"]: r for r in Store(tmp_path).results()}
    assert len(list(tmp_path.glob("explainers/*"))) == 2
    truth = kept["ground_truth"]
    assert {"auprc", "aup", "aur", "iou", "auprc_trapezoid", "aup_rank", "aur_rank", "agreement", "gap"} == set(truth.scores)
    assert {"device", "torch", "python", "timex", "fit_seconds", "explain_seconds", "train_seconds"} <= set(truth.facts)
    assert (tmp_path / truth.facts["reference"] / "reference.json").is_file()
    assert len(truth.facts["code"]) == len(truth.facts["weights"]) == 10
    assert truth.facts["fill"] in ("mean", "shift")  # chosen by the fit, where its settings leave the choice
    assert truth.facts["smoothing"] in WIDTHS
    assert kept["runtime"].scores["fit_seconds"].value == truth.facts["fit_seconds"] > 0
    drawn = [p.name for p in show.files(tmp_path, datasets=["freqshapes"], figures=tmp_path / "figures")]
    panels = [f"{name}-freqshapes-transformer-smoke.svg" for name in ("explanations", "architectures-figure")]
    assert set(drawn) == {"landmarks-dtw.svg", "landmark-figure.svg", *panels}  # both figures of panels share their cells
    page, *_ = show.files(tmp_path, page=tmp_path / "results.md")
    assert "# Results" in page.read_text()
    list(show.files(tmp_path, export=tmp_path / "kept"))
    drawn = [p.name for p in show.files(tmp_path / "kept", datasets=["freqshapes"], figures=tmp_path / "again")]
    assert drawn == ["landmarks-dtw.svg"]  # an export has no explanations to draw
    assert "landmark-figure is not drawn" in caplog.text


def test_the_command(tmp_path, monkeypatch, plugin):
    line = [
        "bench",
        "univariate",
        "--datasets",
        "freqshapes",
        "--folds",
        "1",
        "--smoke",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
    ]
    ended = CliRunner().invoke(app, [*line, "--plugin", plugin, "--methods", "slope,random", "--per-fold"])
    assert ended.exit_code == 0, ended.output
    assert "2 cells: 0 were there, 2 finished now, 0 failed, 0 left" in ended.output
    assert "random (control)" in ended.output
    assert "freqshapes, transformer, smoke" in ended.output
    ended = CliRunner().invoke(app, [*line, "--plugin", plugin, "--methods", "broken"])
    assert ended.exit_code == 1
    assert "ZeroDivisionError: broken on purpose" in ended.output
    shown = CliRunner().invoke(app, ["bench", "show", str(tmp_path), "--format", "latex", "--export", str(tmp_path / "kept")])
    assert shown.exit_code == 0
    assert r"\begin{tabular}" in shown.output
    assert CliRunner().invoke(app, ["bench", "show", str(tmp_path / "kept")]).exit_code == 0
    missing = CliRunner().invoke(app, ["bench", "show", str(tmp_path / "nowhere")])
    assert "holds no results" in str(missing.exception)
    unknown = CliRunner().invoke(app, ["bench", "nothing", "--out", str(tmp_path)])
    assert "Unknown table 'nothing'; known: univariate" in str(unknown.exception)
    assert CliRunner().invoke(app, ["bench", "list"]).output.count("ablation-") == 4


def test_the_halves_of_the_battery_have_names(tmp_path):
    line = ["bench", "heldout", "--methods", "amplitude", "--folds", "1", "--smoke", "--device", "cpu", "--out", str(tmp_path)]
    ended = CliRunner().invoke(app, [*line, "--datasets", "guide,heldout_tempos", "--time-limit", "-1"])
    assert ended.exit_code == 0, ended.output
    assert f"{len(GUIDE) + 1} cells: 0 were there" in ended.output
    ended = CliRunner().invoke(app, [*line, "--datasets", "heldout_tempos,heldout_gaps"])
    assert ended.exit_code == 0, ended.output
    assert "heldout_tempos, cnn, smoke" in ended.output
    assert f"The half of the last run, 2 of {len(FINAL)} sets" in ended.output


def test_smoke_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = ["bench", "univariate", "--datasets", "freqshapes", "--methods", "random", "--folds", "1", "--device", "cpu"]
    CliRunner().invoke(app, [*line, "--smoke", "--time-limit", "60"])
    ended = CliRunner().invoke(app, [*line, "--time-limit", "-1"])
    assert ended.exit_code == 0
    assert "1 left. Kept in runs/bench\nTime limit reached. Run the same command to continue." in ended.output
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["smoke"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_every_table_runs_small(tmp_path):
    """All but forecasting, which needs its data, on FreqShapes."""
    for name, table in TABLES.items():
        if name == "forecasting":
            continue
        methods = [m for m in table.methods if m.partition(":")[0] in (REFERENCE, *EXPLAINERS)]
        done = run([name], tmp_path, Grid(folds=1, smoke=True), datasets=["freqshapes"], methods=methods, device="cpu")
        assert not done.failed, name
        assert done.left == 0
    drawn = [path.stem for path in show.files(tmp_path, datasets=["freqshapes"], figures=tmp_path / "figures")]
    maps = {"r-sweep-freqshapes-transformer-smoke", "landmark-figure", "landmark-figure-paper"}
    assert {*maps, "landmarks-dtw", "architectures-figure-freqshapes-lstm-smoke"} <= set(drawn)


# ------------------------------------------------------------------------------------------------- killed and resumed


def command(out, *more):
    return [
        sys.executable,
        "-c",
        "from timex.cli import main; main()",
        "bench",
        *GRID,
        "--device",
        "cpu",
        "--out",
        str(out),
        *more,
    ]


def table_of(out):
    """The final table in words, without seconds, which are never the same."""
    rows = Store(out).rows()
    return rows[["dataset", "arch", "method", "arm", "fold", "metric", "value", "n", "sum_squares"]].to_csv()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    subprocess.run(command(out), check=True, capture_output=True, env=environment())
    return table_of(out), len(list((out / "cells").glob("*.json")))


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", [(), ("--engine", "ray")], ids=["local", "ray"])
def test_killed_at_random_moments_and_resumed(tmp_path, undisturbed, engine):
    expected, total = undisturbed
    if engine:
        pytest.importorskip("ray")
    finished: dict[Path, bytes] = {}
    killed = 0
    for share in (0.1, 0.3, 0.6):  # of the cells, however fast the machine is
        process = subprocess.Popen(
            command(tmp_path, *engine), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and len(list((tmp_path / "cells").glob("*.json"))) < share * total:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        now = {path: path.read_bytes() for path in (tmp_path / "cells").glob("*.json")}
        for content in now.values():
            json.loads(content)  # whole
        assert finished.items() <= now.items()  # neither lost nor measured again
        finished = now
    assert killed >= 2  # the last may have been at its end already
    subprocess.run(command(tmp_path, *engine), check=True, capture_output=True, env=environment(), timeout=200)
    assert finished.items() <= {path: path.read_bytes() for path in (tmp_path / "cells").glob("*.json")}.items()
    assert table_of(tmp_path) == expected
