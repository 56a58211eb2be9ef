"""Training by two processes that share every batch: equal to one process with the same batches, but for rounding."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from timex import Series
from timex.engine import Noise, gathered
from timex.engine.parallel import WHOLE, Part, averaged, expect_equal, processes
from timex.io.files import write_series


def test_rows_of_a_part():
    assert [Part(rank, 3).rows(9) for rank in range(3)] == [slice(0, 3), slice(3, 6), slice(6, 9)]


def test_each_part_draws_its_rows_of_the_numbers_of_the_whole_batch():
    key = torch.tensor(5)
    for pool in (0, 1000):
        whole, parts = Noise(key, pool), [Noise(key, pool, Part(rank, 2)) for rank in range(2)]
        for shape in ((6, 5), (6,), (6, 3, 2)):
            rows = torch.cat([part.uniform(shape[0] // 2, *shape[1:]) for part in parts])
            assert torch.equal(rows, whole.uniform(*shape))
        assert torch.equal(torch.cat([part.keep((3, 4), 0.3) for part in parts]), whole.keep((6, 4), 0.3))
        drawn = whole.uniform(4, 2)
        assert all(torch.equal(part.of_all().uniform(4, 2), drawn) for part in parts)
        assert len({whole.used, *(part.used for part in parts)}) == 1


def test_one_process_gathers_nothing(monkeypatch):
    x = torch.ones(3, 2)
    assert gathered(x) is x
    assert averaged(x, WHOLE) is x
    expect_equal(1, "epoch", WHOLE, torch.device("cpu"))
    monkeypatch.setenv("WORLD_SIZE", "1")
    with processes("cpu") as device:
        assert device == "cpu"


SHARED = """
import sys, torch, torch.distributed as dist
from timex.engine import gathered, own_part, processes
from timex.engine.parallel import WHOLE, averaged, expect_equal, sharded
from timex.method import losses
with processes("cpu"):
    part = own_part()
    torch.manual_seed(0)
    z, weight = torch.randn(8, 5), torch.randn(5, 3, requires_grad=True)

    def loss(rows):
        with sharded(WHOLE if rows == slice(None) else part):
            z_e = gathered(z[rows] @ weight)
            return losses.mbc(gathered(z[rows]), z_e) + losses.label_consistency(gathered(z[rows]), z_e) + z_e.square().mean()

    (whole,) = torch.autograd.grad(loss(slice(None)), weight)
    value = loss(part.rows(8))
    (own,) = torch.autograd.grad(value, weight)
    assert not torch.allclose(own, whole, rtol=1e-3)
    torch.testing.assert_close(averaged(own.clone(), part), whole)
    torch.testing.assert_close(value, loss(slice(None)))
    with sharded(part):
        assert gathered(torch.tensor([part.rank == 0])).tolist() == [True, False]
    expect_equal(3, "epoch", part, torch.device("cpu"))
    try:
        expect_equal(part.rank, "epoch", part, torch.device("cpu"))
    except RuntimeError as error:
        assert "got 0 to 1" in str(error)
    else:
        sys.exit("not noticed")
"""


def torchrun(*arguments, cwd=None):
    """Run with two processes on this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, env=environment, cwd=cwd)


@pytest.mark.slow
def test_gradients_of_terms_over_pairs(tmp_path):
    (tmp_path / "shared.py").write_text(SHARED)
    done = torchrun(tmp_path / "shared.py")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path):
    """A small reference model and 64 series with gaps, at irregular times."""
    from timex.reference import save_reference
    from timex.reference.base import initialised

    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 12, 2)).astype("float32")
    x[rng.random(x.shape) < 0.1] = np.nan
    write_series(tmp_path / "train.npz", Series.with_gaps(x[:48]))
    write_series(tmp_path / "val.npz", Series.with_gaps(x[48:]))
    config = {"n_channels": 2, "n_classes": 3, "n_steps": 12, "d_hidden": 16}
    model = initialised("transformer", config, 0).eval()
    with torch.no_grad():
        model.head[-1].weight.mul_(20)  # predictions that differ
    save_reference(model, tmp_path / "reference")
    return tmp_path


def weights(folder):
    (path,) = folder.glob("*.safetensors")
    return load_file(path)


OBJECTIVES = {
    "default": [],
    "paper": ["--set", "objective=paper", "--set", "loss.consistency=mbc", "--set", "loss.label=pairwise"],
    "contrast": ["--set", "objective=paper", "--set", "loss.consistency=simclr", "--set", "loss.connectivity=published"],
}


def fitted(folder, objective, *settings):
    """The floating-point weights of a fit by one process, and of the same fit by two."""
    names = ("--reference", "reference", "--data", "train.npz", "--val", "val.npz", "--device", "cpu")
    fit = ("-m", "timex", "fit", *names, *settings, *OBJECTIVES[objective])
    done = torchrun(*fit, "--out", "two", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Written to two") == 1
    assert not (folder / "two.checkpoint").exists()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    alone = subprocess.run([sys.executable, *fit, "--out", "one"], cwd=folder, capture_output=True, text=True, env=environment)
    assert alone.returncode == 0, alone.stderr
    one, two = weights(folder / "one"), weights(folder / "two")
    assert one.keys() == two.keys()
    return [{name: value for name, value in found.items() if value.is_floating_point()} for found in (one, two)]


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_fit_by_two_processes(folder, objective):
    one, two = fitted(folder, objective, "--epochs", "2", "--set", "batch_size=16")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=2e-3, atol=2e-4, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_step_by_two_processes(folder, objective):
    """But for biases of attention keys: softmax ignores them, and AdamW scales the rounding errors of their gradients up."""
    one_step = ("--epochs", "1", "--set", "batch_size=48", "--set", "training.scheduler=none")
    one, two = fitted(folder, objective, *one_step)
    for name, value in one.items():
        if not name.endswith("k_proj.bias"):
            torch.testing.assert_close(two[name], value, rtol=1e-6, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
def test_what_two_processes_cannot_share(folder):
    names = ("--reference", "reference", "--data", "train.npz", "--device", "cpu", "--epochs", "1", "--out", "two")
    odd = torchrun("-m", "timex", "fit", *names, "--set", "batch_size=15", cwd=folder)
    assert odd.returncode != 0
    assert "Expected batches that 2 processes can share evenly, got 15 samples" in " ".join(odd.stderr.split())
