"""`timex explain --engine ray` on a real local cluster: the same parts, also if a worker is killed in the middle."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from timex import Series
from timex.explainers import Amplitude
from timex.io import parquet_source, sources
from timex.io.explanations import read_explanation
from timex.io.files import open_series, write_series
from timex.io.parts import Parts
from timex.reference.base import initialised
from timex.scale.job import Job

ray = pytest.importorskip("ray", reason="ray is not installed")
from timex.scale.ray import explain_on_ray  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _as_fast_as_others(monkeypatch):
    """Ray's workers are nice by default: they wait for minutes on a busy machine."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """96 series of 20 steps in a folder of three .parquet files, in chunks of 5."""
    monkeypatch.setattr(sources, "CHUNK_CELLS", 100)
    monkeypatch.setattr(parquet_source, "CHUNK_CELLS", 100)
    x = np.random.default_rng(0).normal(size=(96, 20, 1)).astype("float32")
    for i in range(3):
        part = slice(32 * i, 32 * i + 32)
        write_series(tmp_path / "windows" / f"{i}.parquet", Series(x[part], ids=[f"s{j}" for j in range(96)[part]]))
    return tmp_path, x


def test_a_worker_killed_in_the_middle(files):
    folder, x = files
    sources_ = [open_series(path) for path in sorted((folder / "windows").iterdir())]
    parts = Parts(folder / "out")

    def explainer():
        """Makes an explainer whose process dies once, in the fourth chunk that it explains."""
        model = initialised("cnn", {"n_channels": 1, "n_classes": 2, "n_steps": 20, "width": 4}, 0).eval()
        asked = []

        class Fatal(Amplitude):
            def _explain(self, batch):
                asked.append(len(batch.x))
                if len(asked) == 4 and not (mark := Path(folder / "died")).exists():
                    mark.write_text(str(os.getpid()))
                    os.kill(os.getpid(), signal.SIGKILL)
                return super()._explain(batch)

        return Fatal(model, device="cpu")

    job = Job(open=explainer, source=sources.ManySources(sources_), n_steps=20, parts=parts)
    explain_on_ray(job, actors=2)
    assert (folder / "died").exists()
    assert not ray.is_initialized()
    assert parts.done == list(range(21))
    parts.join(folder / "e.parquet", 21)
    e = read_explanation(folder / "e.parquet")
    assert e.series.ids == tuple(f"s{j}" for j in range(96))
    np.testing.assert_array_equal(e.x, x)
    np.testing.assert_allclose(e.attribution, np.abs(x - np.sort(x, axis=1)[:, 9:10]), rtol=1e-6)


def test_the_command(small, tmp_path, invoke, fails, monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_CELLS", 250)
    monkeypatch.setattr(parquet_source, "CHUNK_CELLS", 250)
    write_series(tmp_path / "w.parquet", small.test)
    go = ("explain", "--explainer", small.explainer, "--data", tmp_path / "w.parquet")
    assert "--out as a .parquet or .csv file or a folder with --engine ray" in fails(*go, "--engine", "ray")
    printed = invoke(*go, "--engine", "ray", "--out", tmp_path / "ray.parquet")
    assert "32 explanations" in printed
    invoke(*go, "--out", tmp_path / "here.parquet")
    a, b = (read_explanation(tmp_path / name) for name in ("ray.parquet", "here.parquet"))
    assert a.series.ids == b.series.ids
    np.testing.assert_array_equal(a.prediction, b.prediction)
    np.testing.assert_allclose(a.attribution, b.attribution, atol=2e-6)


def test_an_error_on_a_worker_is_one_message(files):
    folder, _ = files

    def explainer():
        raise ValueError("Expected something else.")

    job = Job(open=explainer, source=open_series(folder / "windows" / "0.parquet"), n_steps=20, parts=Parts(folder / "out"))
    with pytest.raises(Exception, match="Expected something else"):
        explain_on_ray(job, actors=1)
    assert not ray.is_initialized()
