"""A training that is stopped and goes on ends as an undisturbed one, bit for bit; a loss that is not finite ends it."""

import math
from dataclasses import replace

import pytest
import torch
from test_engine import Linear, member
from torch import nn

from timex.engine import Checkpoint, Fault, Schedule, train

SCHEDULE = Schedule(epochs=7, batch_size=8, warmup=3, decay=True, plateau_factor=0.5, plateau_patience=0, plateau_start=1)


class Foreign(Linear):
    """Its dropout draws from torch's global generator."""

    stackable = False

    def loss(self, params, frozen, batch, hyper, noise):
        x = nn.functional.dropout(batch["x"], 0.4)
        return {"loss": nn.functional.cross_entropy(self.logits(params, x), batch["y"])}


class Killed(Exception):
    pass


def killed_after(epoch):
    def report(progress):
        if progress.epoch == epoch:
            raise Killed

    return report


def without_seconds(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


@pytest.mark.parametrize("program", [Linear(rate=0.3), Foreign()], ids=["ours", "foreign"])
def test_a_resumed_training_is_bit_equal(tmp_path, program):
    m = member(seed=3)
    (whole,) = train(program, [m], SCHEDULE)
    for epoch in (2, 5):  # killed after the row of this epoch, before its state was kept
        with pytest.raises(Killed):
            train(program, [m], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a"), on_epoch=killed_after(epoch))
    torch.manual_seed(99)  # another process
    (resumed,) = train(program, [m], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a"))
    for name, value in whole.params.items():
        assert torch.equal(value, resumed.params[name])
    assert without_seconds(resumed.history) == without_seconds(whole.history)
    assert (resumed.epoch, resumed.criterion) == (whole.epoch, whole.criterion)


def test_a_finished_training_is_not_trained_again(tmp_path):
    schedule = Schedule(epochs=40, patience=2, batch_size=8)
    (first,) = train(Linear(), [member(seed=0, lr=0.5)], schedule, keeper=Checkpoint(tmp_path).stage("a"))
    assert len(first.history) < 40  # patience ended it
    reports = []
    (again,) = train(
        Linear(), [member(seed=0, lr=0.5)], schedule, keeper=Checkpoint(tmp_path).stage("a"), on_epoch=reports.append
    )
    assert reports == []
    assert again.history == first.history
    assert torch.equal(again.params["weight"], first.params["weight"])


def test_the_last_two_states_are_kept(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    (tmp_path / ".a-000001-0.safetensors.tmp").write_bytes(b"of a killed writer")
    train(Linear(), [member(seed=0)], SCHEDULE, keeper=checkpoint.stage("a"))
    train(Linear(), [member(seed=0)], SCHEDULE, keeper=checkpoint.stage("b"))
    names = sorted(path.name[:8] for path in tmp_path.iterdir())
    assert names == ["a-000006", "a-000007", "b-000006", "b-000007"]
    assert checkpoint.holds == ["a: 7 epochs", "b: 7 epochs"]


def test_a_damaged_state_gives_way_to_the_one_before(tmp_path, caplog):
    (whole,) = train(Linear(), [member(seed=0)], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a"))
    last = max(tmp_path.iterdir())
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    (again,) = train(Linear(), [member(seed=0)], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a"))
    assert f"{last} is damaged, the checkpoint before it is used" in caplog.text
    assert torch.equal(again.params["weight"], whole.params["weight"])


def test_states_of_another_start_are_not_used(tmp_path):
    train(Linear(), [member(seed=0)], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a", "one"))
    with pytest.raises(Killed):
        train(Linear(), [member(seed=0)], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a", "two"), on_epoch=killed_after(2))
    assert [path.name[:8] for path in tmp_path.iterdir()] == ["a-000001"]


def test_a_full_disk_does_not_end_the_training(tmp_path, caplog, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("timex.engine.checkpoint.atomic_path", full)
    (done,) = train(Linear(), [member(seed=0)], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a"))
    assert len(done.history) == 7
    assert len(caplog.messages) == 1
    assert "No space left on device): training goes on without" in caplog.text


def test_a_training_is_stopped_with_its_best_epoch(tmp_path, caplog):
    asked = []

    def stop():
        asked.append(True)
        return len(asked) > 4

    schedule = Schedule(epochs=7, batch_size=8)  # 3 steps each
    (partial,) = train(Linear(), [member(seed=0)], schedule, keeper=Checkpoint(tmp_path, stop=stop).stage("a"))
    assert len(partial.history) == 2  # never asked in the first epoch
    assert partial.epoch == min(range(2), key=lambda e: partial.history[e]["criterion"])
    assert caplog.messages == ["stopped in epoch 2 of 7: the best epoch so far is kept"]
    (whole,) = train(Linear(), [member(seed=0)], schedule)
    (resumed,) = train(Linear(), [member(seed=0)], schedule, keeper=Checkpoint(tmp_path).stage("a"))
    assert torch.equal(whole.params["weight"], resumed.params["weight"])


def test_several_members_have_no_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="Expected a single training with checkpoints, got 2"):
        train(Linear(), [member(seed=0), member(seed=1)], SCHEDULE, keeper=Checkpoint(tmp_path).stage("a"))


# ------------------------------------------------------------------------------------------------------------- faults


class Terms(Linear):
    """Two terms; x = 7 breaks the second."""

    def loss(self, params, frozen, batch, hyper, noise):
        fit = super().loss(params, frozen, batch, hyper, noise)["loss"]
        size = torch.where((batch["x"] == 7).any(), math.inf, 1.0) * params["weight"].square().sum()
        return {"loss": fit + size, "fit": fit, "size": size}


def broken(m, **changes):
    x = m.train["x"].clone()
    x[4] = 7
    return replace(m, train={**m.train, "x": x}, **changes)


def test_a_loss_that_is_not_finite_ends_the_training(caplog):
    m = broken(member(seed=0), places=list(range(100, 200)))
    (stopped,) = train(Terms(), [m], Schedule(epochs=5, batch_size=8))
    fault = stopped.fault
    assert (fault.epoch, fault.terms) == (0, {"size": math.inf})
    assert 104 in fault.samples
    assert len(fault.samples) == 8
    assert len(stopped.history) == 1
    assert caplog.messages == [f"training stopped: {fault}. The best weights before it are kept"]
    assert str(fault).startswith(f"in batch {fault.batch} of epoch 0 the loss term size became inf, on the training samples ")
    assert stopped.params["weight"].isfinite().all()


def test_the_weights_before_a_fault_are_kept():
    """With one batch an epoch, a fault in the third leaves the weights after two."""

    class Late(Linear):
        def loss(self, params, frozen, batch, hyper, noise):
            loss = super().loss(params, frozen, batch, hyper, noise)["loss"]
            return {"loss": torch.where((params["bias"] - bias).abs().max() < 1e-6, math.nan, loss)}

    m = replace(member(seed=0), val=member(seed=0).train)
    two = Schedule(epochs=2, batch_size=64)
    (before,) = train(Linear(), [m], two)
    assert before.epoch == 1
    bias = before.params["bias"]
    (stopped,) = train(Late(), [m], Schedule(epochs=9, batch_size=64))
    assert (stopped.fault.epoch, stopped.fault.batch) == (2, 0)
    assert set(stopped.fault.terms) == {"loss"}
    assert torch.equal(stopped.params["weight"], before.params["weight"])


def test_other_members_go_on_after_a_fault(caplog):
    bad, good = broken(member(seed=0)), member(seed=1)
    stopped, whole = train(Terms(), [bad, good], Schedule(epochs=3, batch_size=8))
    (alone,) = train(Terms(), [good], Schedule(epochs=3, batch_size=8))
    (bad_alone,) = train(Terms(), [bad], Schedule(epochs=3, batch_size=8))
    torch.testing.assert_close(whole.params["weight"], alone.params["weight"])
    torch.testing.assert_close(stopped.params["weight"], bad_alone.params["weight"])
    assert whole.fault is None
    assert stopped.fault == bad_alone.fault
    assert "member 0: training stopped: in batch" in caplog.text


def test_a_fault_is_described():
    fault = Fault(2, 1, {"a": math.nan, "b": math.inf}, tuple(range(12)))
    expected = "the loss term a became nan and b became inf, on the training samples 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert str(fault) == f"in batch 1 of epoch 2 {expected}"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("capture", [True, False])
def test_on_a_gpu(tmp_path, capture):
    m, options = member(seed=3), {"device": "cuda", "capture": capture}
    for i, program in enumerate((Linear(rate=0.3), Foreign())):
        (whole,) = train(program, [m], SCHEDULE, **options)
        with pytest.raises(Killed):
            train(program, [m], SCHEDULE, keeper=Checkpoint(tmp_path).stage(f"p{i}"), on_epoch=killed_after(4), **options)
        (resumed,) = train(program, [m], SCHEDULE, keeper=Checkpoint(tmp_path).stage(f"p{i}"), **options)
        assert torch.equal(whole.params["weight"], resumed.params["weight"])
    (stopped,) = train(Terms(), [broken(m)], SCHEDULE, **options)
    (on_cpu,) = train(Terms(), [broken(m)], SCHEDULE)
    assert stopped.fault == on_cpu.fault
    torch.testing.assert_close(stopped.params["weight"], on_cpu.params["weight"])
