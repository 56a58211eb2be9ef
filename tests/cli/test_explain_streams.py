"""`timex explain` in parts: the result does not depend on chunks or kills, and every row is there once."""

import json
import signal

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest
from typer.testing import CliRunner

from timex import Explanation, TimeX, load_reference
from timex.cli import app
from timex.cli.streaming import begun, parts_of
from timex.io import parquet_source, sources
from timex.io.explanations import read_explanation
from timex.io.files import write_series
from timex.io.parts import Parts


@pytest.fixture
def parted(small, tmp_path, monkeypatch):
    """The small explainer, its 32 series in files, and chunks of 5 of them."""
    monkeypatch.setattr(sources, "CHUNK_CELLS", 250)
    monkeypatch.setattr(parquet_source, "CHUNK_CELLS", 250)
    small.data = tmp_path / "windows.parquet"
    small.folder = tmp_path
    write_series(small.data, small.test)
    write_series(tmp_path / "windows.npz", small.test)
    small.whole = TimeX.load(small.explainer, load_reference(small.explainer / "reference"), device="cpu").explain(small.test)
    return small


def command(small, data, *more):
    return ("explain", "--explainer", small.explainer, "--data", data, *more)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def assert_whole(found: Explanation, whole: Explanation):
    assert found.series.ids == tuple(str(i) for i in range(len(whole)))
    for name in ("x", "times", "observed", "y", "truth"):
        np.testing.assert_array_equal(getattr(found.series, name), getattr(whole.series, name))
    for name in ("prediction", "mask", "landmark", "agreement"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    for name in ("attribution", "probability", "divergence"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=2e-6)


@pytest.mark.parametrize("data", ["windows.parquet", "windows.npz"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_parts_become_one_file(parted, invoke, data, suffix):
    out = parted.folder / f"e.{suffix}"
    printed = invoke(*command(parted, parted.folder / data, "--out", out))
    assert "32 explanations" in printed
    assert "... and 27 more" in printed
    assert f"agree on {parted.whole.agreement.mean():.1%}" in printed
    assert_whole(read_explanation(out), parted.whole)
    assert sorted(p.name for p in parted.folder.iterdir()) == sorted([out.name, "windows.npz", "windows.parquet"])


def test_npz_keeps_everything_in_memory(parted, invoke):
    invoke(*command(parted, parted.data, "--out", parted.folder / "e.npz"))
    e = Explanation.load(parted.folder / "e.npz")
    assert_whole(e, parted.whole)
    np.testing.assert_allclose(e.embedding, parted.whole.embedding, atol=1e-5)


def test_a_folder_of_parts(parted, invoke):
    out = parted.folder / "parts"
    invoke(*command(parted, parted.data, "--out", out))
    assert sorted(p.name for p in out.iterdir()) == ["explain.json", *(f"part-{i:06d}.parquet" for i in range(7))]
    table = pyarrow.dataset.dataset(sorted(map(str, out.glob("*.parquet")))).to_table().to_pandas()
    assert table.groupby("sample", observed=True).size().tolist() == [50] * 32
    np.testing.assert_allclose(table["attribution"], parted.whole.attribution.ravel(), atol=2e-6)


def test_lines_of_json(parted):
    lines = run(*command(parted, parted.data, "--json")).stdout.splitlines()
    assert [json.loads(line)["sample"] for line in lines] == [str(i) for i in range(32)]
    unnamed = run(*command(parted, "freqshapes", "--json", "--out", parted.folder / "e.parquet")).stdout.splitlines()
    assert [json.loads(line)["sample"] for line in unnamed] == list(range(32))


def killed_after(n, monkeypatch):
    """Interrupt the command after n parts were written."""
    whole, written = Parts.write, []

    def write(self, chunk, *rest):
        if len(written) == n:
            raise KeyboardInterrupt
        whole(self, chunk, *rest)
        written.append(chunk.number)

    monkeypatch.setattr(Parts, "write", write)
    return written


def test_a_stopped_run_goes_on(parted, monkeypatch, caplog):
    out = parted.folder / "e.parquet"
    go = command(parted, parted.folder / "windows.npz", "--out", out, "--json")
    with monkeypatch.context() as patch:
        first = killed_after(3, patch)
        stopped = run(*go)
        assert stopped.exit_code == 130
        assert "e.parquet.parts: 3 of 7 parts. Run the same command with --resume to go on" in caplog.text
        assert not out.exists()
    with monkeypatch.context() as patch:
        second = killed_after(99, patch)
        lines = run(*go, "--resume").stdout.splitlines()
    assert (first, second) == ([0, 1, 2], [3, 4, 5, 6])
    assert [json.loads(line)["sample"] for line in lines] == list(range(32))  # those of the first run too
    assert_whole(read_explanation(out), parted.whole)


def test_without_resume_the_parts_are_replaced(parted, monkeypatch, caplog):
    go = command(parted, parted.data, "--out", parted.folder / "e.parquet")
    for again in (False, True):
        with monkeypatch.context() as patch:
            assert killed_after(2, patch) == []
            run(*go)
        assert ("the 2 parts in" in caplog.text) == again


@pytest.mark.parametrize("name", ["e.parquet", "e.npz", "e"])
def test_a_second_writer_is_refused(parted, invoke, fails, name):
    out = parted.folder / name
    go = command(parted, parted.data, "--out", out)
    with begun(out, parts_of(out), {}, False):
        assert f"Another process is writing {out}" in fails(*go)
        invoke(*command(parted, parted.data, "--out", parted.folder / f"other-{name}"))
    invoke(*go)
    assert not list(parted.folder.rglob("*.lock"))


@pytest.mark.parametrize("resume", [[], ["--resume"]])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "npz"])
def test_temporary_files_of_killed_runs_are_removed(parted, invoke, suffix, resume):
    """Those of a run that was killed while it wrote a part, the facts, or --out itself; not those of other files."""
    out = parted.folder / f"e[1].{suffix}"  # brackets mean something else in a pattern
    parts = parted.folder / f"{out.name}.parts"
    parts.mkdir()
    for path in (
        parts / ".part-000000.parquet.abcd_123",
        parts / ".explain.json.abcd_123",
        parted.folder / f".{out.name}.12345678",
    ):
        path.write_text("half")
    others = [f".{out.name}.notes", f".{out.name}.old.12345678", f".e1.{suffix}.12345678"]
    for name in others:
        (parted.folder / name).write_text("a file of somebody else")
    invoke(*command(parted, parted.data, "--out", out, *resume))
    left = {*others, out.name, "windows.npz", "windows.parquet"}
    if suffix == "npz":
        left.add(parts.name)  # nothing is written in parts
    assert {path.name for path in parted.folder.iterdir()} == left


def test_a_missing_part_is_named(parted, invoke):
    out = parted.folder / "out"
    invoke(*command(parted, parted.data, "--out", out))
    for number in (2, 4):
        Parts(out).path(number).unlink()
    with pytest.raises(
        ValueError, match=r"the parts of 7 chunks in .*, but 2 are missing, part 2 first: explain again with --resume"
    ):
        Parts(out).join(parted.folder / "e.parquet", 7)
    invoke(*command(parted, parted.data, "--out", out, "--resume"))
    Parts(out).join(parted.folder / "e.parquet", 7)
    assert_whole(read_explanation(parted.folder / "e.parquet"), parted.whole)


def test_other_data_or_settings_are_refused(parted, monkeypatch, fails):
    go = command(parted, parted.data, "--out", parted.folder / "e.parquet")
    with monkeypatch.context() as patch:
        killed_after(1, patch)
        run(*go)
    message = fails(*go, "--resume", "--method", "saliency")
    assert "Expected the explanations that" in message
    assert "settings: method was timex, is saliency" in message
    write_series(parted.data, parted.test.take(slice(0, 31)))
    assert "data: bytes was" in fails(*go, "--resume")


@pytest.mark.parametrize("method", ["saliency", "random"])
def test_another_method_in_parts(parted, invoke, method):
    invoke(*command(parted, parted.data, "--method", method, "--out", parted.folder / "parts.csv"))
    invoke(*command(parted, parted.data, "--method", method, "--out", parted.folder / "whole.npz"))
    parts, whole = read_explanation(parted.folder / "parts.csv"), Explanation.load(parted.folder / "whole.npz")
    np.testing.assert_allclose(parts.attribution, whole.attribution, rtol=1e-5, atol=1e-8)


def test_a_folder_of_files(parted, invoke, fails):
    folder = parted.folder / "shards"
    names = [str(i) for i in range(32)]
    for i in range(4):
        part = parted.test.take(slice(8 * i, 8 * i + 8))
        write_series(folder / f"{i}.parquet", part._unchecked(ids=tuple(names[8 * i : 8 * i + 8])))
    invoke(*command(parted, folder, "--out", parted.folder / "e.parquet"))
    assert_whole(read_explanation(parted.folder / "e.parquet"), parted.whole)
    write_series(folder / "3.parquet", parted.test.take(slice(0, 8)))  # its names are 0 to 7 again
    message = fails(*command(parted, folder, "--out", parted.folder / "e.parquet"))
    assert "Give every sample a name of its own, or write a folder" in message
    (folder / "empty").mkdir()
    assert "found none" in fails(*command(parted, folder / "empty"))


def test_series_that_are_all_too_short(parted, fails):
    table = pd.read_parquet(parted.data)
    table[table["time"] < 40].to_parquet(parted.data, index=False)
    assert "Expected series of 50 steps as in fit, got 39" in fails(*command(parted, parted.data))


def test_short_samples_among_long_ones(parted, invoke):
    """A chunk of short samples is padded as the whole file would be."""
    table = pd.read_parquet(parted.data)
    sample = table["sample"].astype(int)
    table[(sample < 8) | (table["time"] < 40)].to_parquet(parted.data, index=False)
    invoke(*command(parted, parted.data, "--out", parted.folder / "e.parquet"))
    e = read_explanation(parted.folder / "e.parquet")
    assert e.observed.sum(1)[:, 0].tolist() == [50] * 8 + [39] * 24
    np.testing.assert_allclose(e.attribution[:8], parted.whole.attribution[:8], atol=2e-6)


@pytest.mark.slow
def test_a_killed_process_loses_no_row(parted, tmp_path):
    """SIGKILL at moments spread over the whole run; a part is whole or not there."""
    import os
    import subprocess
    import sys
    import time

    out = tmp_path / "out"
    program = "from timex.io import parquet_source; parquet_source.CHUNK_CELLS = 100\nfrom timex.cli import main; main()"
    arguments = [str(a) for a in command(parted, parted.data, "--out", out, "--resume")]
    kills = 0
    for n in (2, 9, 99):
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.DEVNULL)
        while process.poll() is None and len(Parts(out).done) < n:
            time.sleep(0.001)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 1
    assert process.returncode == 0
    assert Parts(out).done == list(range(16))
    Parts(out).join(tmp_path / "e.parquet", 16)
    assert_whole(read_explanation(tmp_path / "e.parquet"), parted.whole)
