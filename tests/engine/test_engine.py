"""The engine against plain torch: same optimiser, same selection, and members that do not disturb each other."""

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call

from timex.engine import Member, Schedule, dropout, train

D, C, N, N_VAL = 3, 4, 23, 9


class Linear:
    """A linear classifier with dropout on its input: the smallest program that uses everything."""

    stackable = True

    def __init__(self, rate=0.0):
        self.module = nn.Linear(D, C)
        self.rate = rate

    def logits(self, params, x):
        return functional_call(self.module, params, (x,))

    def loss(self, params, frozen, batch, hyper, noise):
        x = dropout(batch["x"], self.rate, noise)
        return {"loss": hyper["weight"] * nn.functional.cross_entropy(self.logits(params, x), batch["y"])}

    def criterion(self, params, frozen, val, hyper, noise):
        return {"criterion": nn.functional.cross_entropy(self.logits(params, val["x"]), val["y"])}


def member(seed, lr=0.05, weight=1.0, weight_decay=0.1, data_seed=None):
    g = torch.Generator().manual_seed(seed if data_seed is None else data_seed)

    def part(n):
        return {"x": torch.randn(n, D, generator=g), "y": torch.randint(C, (n,), generator=g)}

    params = {"weight": torch.randn(C, D, generator=g), "bias": torch.zeros(C)}
    return Member(
        params=params,
        frozen={},
        train=part(N),
        val=part(N_VAL),
        hyper={"weight": weight},
        lr=lr,
        weight_decay=weight_decay,
        seed=seed,
    )


def assert_same(a, b, tolerance=1e-5):
    for name, value in a.params.items():
        torch.testing.assert_close(value, b.params[name], rtol=tolerance, atol=tolerance)
    assert a.epoch == b.epoch


def test_full_batch_training_equals_torchs_adamw_with_clipping():
    m = member(seed=1, lr=0.1)
    module = nn.Linear(D, C)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(m.params[name])
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.1)
    values, states = [], []
    for _ in range(12):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(m.train["x"]), m.train["y"]).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.2)
        optimiser.step()
        values.append(nn.functional.cross_entropy(module(m.val["x"]), m.val["y"]).item())
        states.append({n: p.detach().clone() for n, p in module.named_parameters()})
    (ours,) = train(Linear(), [m], Schedule(epochs=12, batch_size=N, clip=0.2))
    best = min(range(12), key=values.__getitem__)
    assert ours.epoch == best
    assert ours.criterion == pytest.approx(values[best], abs=1e-5)
    assert [row["criterion"] for row in ours.history] == pytest.approx(values, abs=1e-5)
    for name, value in states[best].items():
        torch.testing.assert_close(ours.params[name], value, rtol=1e-5, atol=1e-5)


def test_a_member_alone_equals_the_same_member_among_five():
    members = [member(seed=s, lr=0.02 * (s + 1), weight=1 + s / 3) for s in range(5)]
    schedule = Schedule(epochs=7, batch_size=8, patience=3, plateau_factor=0.1, plateau_patience=1, plateau_start=2)
    together = train(Linear(rate=0.3), members, schedule)
    for m, among in zip(members, together, strict=True):
        (alone,) = train(Linear(rate=0.3), [m], schedule)
        assert_same(alone, among)


def test_members_of_other_shapes_train_in_groups_and_keep_their_order():
    small = member(seed=3)
    odd = Member(**{**vars(small), "train": {k: v[:11] for k, v in small.train.items()}})
    results = train(Linear(), [odd, small, odd], Schedule(epochs=3, batch_size=4))
    (alone,) = train(Linear(), [small], Schedule(epochs=3, batch_size=4))
    assert_same(results[1], alone)
    assert_same(results[0], results[2])


def test_splitting_a_group_changes_nothing():
    members = [member(seed=s) for s in range(3)]
    schedule = Schedule(epochs=3, batch_size=8)
    for a, b in zip(train(Linear(), members, schedule), train(Linear(), members, schedule, max_members=2), strict=True):
        assert_same(a, b)


def test_seeds_on_the_same_data_share_it_but_not_their_order():
    first, second = member(seed=0, data_seed=9), member(seed=1, data_seed=9)
    shared = Member(**{**vars(second), "train": first.train, "val": first.val, "params": first.params})
    a, b = train(Linear(), [first, shared], Schedule(epochs=1, batch_size=8))
    assert not torch.allclose(a.params["weight"], b.params["weight"])


def test_every_sample_is_seen_every_epoch():
    seen = []

    class Recorder(Linear):
        stackable = False

        def loss(self, params, frozen, batch, hyper, noise):
            seen.append(batch["y"].clone())
            return super().loss(params, frozen, batch, hyper, noise)

    m = member(seed=0)
    m = Member(**{**vars(m), "train": {"x": m.train["x"], "y": torch.arange(N) % C}})
    ids = {"x": torch.randn(N, D), "y": torch.arange(N)}

    class Ids(Recorder):
        def loss(self, params, frozen, batch, hyper, noise):
            seen.append(batch["y"].clone())
            return {"loss": params["weight"].square().sum()}

        def criterion(self, params, frozen, val, hyper, noise):
            return {"criterion": params["weight"].square().sum()}

    train(Ids(), [Member(**{**vars(m), "train": ids})], Schedule(epochs=2, batch_size=5))
    assert len(seen) == 2 * math.ceil(N / 5)
    first, second = torch.cat(seen[:5]), torch.cat(seen[5:])
    assert set(first.tolist()) == set(range(N))
    assert set(second.tolist()) == set(range(N))
    assert first.tolist() != second.tolist()
    assert all(len(batch) == 5 for batch in seen)  # one static shape: the last batch is filled up


def test_a_batch_larger_than_the_data_takes_all_of_it():
    (result,) = train(Linear(), [member(seed=0)], Schedule(epochs=2, batch_size=1000))
    assert len(result.history) == 2


def test_patience_stops_and_keeps_the_best():
    m = member(seed=0, lr=5.0)  # so fast that it soon gets worse
    (result,) = train(Linear(), [m], Schedule(epochs=50, batch_size=8, patience=3))
    values = [row["criterion"] for row in result.history]
    assert len(values) == result.epoch + 1 + 3
    assert result.criterion == pytest.approx(min(values))


def test_a_member_that_stopped_does_not_improve_while_others_go_on():
    stopping, going = member(seed=0, lr=5.0), member(seed=1, lr=1e-4)
    schedule = Schedule(epochs=30, batch_size=8, patience=2)
    together = train(Linear(), [stopping, going], schedule)
    (alone,) = train(Linear(), [stopping], schedule)
    assert_same(together[0], alone)
    assert len(together[0].history) > len(alone.history)


def test_plateau_cuts_the_learning_rate_of_the_stalled_member_only():
    stalled, moving = member(seed=0, lr=5.0), member(seed=1, lr=1e-3)
    schedule = Schedule(epochs=12, batch_size=8, plateau_factor=0.1, plateau_patience=2, plateau_start=0)
    a, b = train(Linear(), [stalled, moving], schedule)
    values, rates = ([row[name] for row in a.history] for name in ("criterion", "lr"))
    stalled_at = next(i for i in range(1, 12) if values[i] > min(values[:i]))
    assert rates[stalled_at + 2] == 5.0  # the third without progress, after which it is cut: an epoch shows the rate it used
    assert rates[stalled_at + 3] == pytest.approx(0.5)
    assert b.history[-1]["lr"] == pytest.approx(1e-3)


class Scripted(Linear):
    """A program whose validation values are given, one for every epoch."""

    def __init__(self, values):
        super().__init__()
        self.values = iter(values)

    def criterion(self, params, frozen, val, hyper, noise):
        return {"criterion": torch.tensor(next(self.values))}


@pytest.mark.parametrize(
    ("values", "cut"),
    [
        ([1.0, 3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0], 7),  # the epochs before the start do not count
        ([1.0, 3.0, 3.0, 3.0, 3.0, 2.5, 2.4, 2.3, 2.4, 2.4], 9),  # nor does their best value
    ],
)
def test_plateau_counts_from_its_start(values, cut):
    schedule = Schedule(epochs=10, batch_size=8, plateau_factor=0.1, plateau_patience=1, plateau_start=5)
    (run,) = train(Scripted(values), [member(seed=0, lr=1e-3)], schedule)
    rates = [row["lr"] for row in run.history]
    assert rates == pytest.approx([1e-3] * (cut + 1) + [1e-4] * (9 - cut))


def test_warmup_and_cosine_decay():
    m = member(seed=0)
    (slow,) = train(Linear(), [m], Schedule(epochs=1, batch_size=N, warmup=100))
    (fast,) = train(Linear(), [m], Schedule(epochs=1, batch_size=N))
    moved = (slow.params["weight"] - m.params["weight"]) / (fast.params["weight"] - m.params["weight"])
    torch.testing.assert_close(moved, torch.full_like(moved, 0.01), rtol=1e-2, atol=1e-4)
    (ended,) = train(Linear(), [m], Schedule(epochs=1, batch_size=N, decay=True))
    torch.testing.assert_close(ended.params["weight"], m.params["weight"])  # the only step is the last: rate 0
    schedule = Schedule(epochs=4, batch_size=N, warmup=2, decay=True)
    (both,) = train(Linear(), [m], schedule)  # history shows what was used
    shares = [row["lr"] / m.lr for row in both.history]
    assert shares == pytest.approx([0.5 * (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2, 0.0], abs=1e-6)


def test_other_devices_keep_their_random_numbers(monkeypatch):
    """`torch.manual_seed` would reseed every GPU, of which only the one used is put back afterwards."""
    monkeypatch.setattr(torch, "manual_seed", lambda seed: pytest.fail("reseeds every device"))
    monkeypatch.setattr(Linear, "stackable", False)
    program, before = Linear(), torch.get_rng_state()
    train(program, [member(seed=0)], Schedule(epochs=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_of_a_training_that_diverged_are_not_handed_out():
    m = member(seed=0)
    bad = {**m.val, "x": m.val["x"] * math.nan}
    lost, healthy = train(Linear(), [Member(**{**vars(m), "val": bad}), m], Schedule(epochs=2, batch_size=8))
    with pytest.raises(RuntimeError, match="No epoch gave a finite validation value: lower the learning rate"):
        lost.selected()
    assert healthy.selected() is healthy.params


def test_weights_moved_out_of_the_optimisers_reach_are_an_error():
    """Recurrent layers do so on a GPU, if they are let: such a training would end where it began, and say nothing."""

    class Mover(Linear):
        def logits(self, params, x):
            with torch.no_grad():
                params["weight"].set_(params["weight"].clone())
            return super().logits(params, x)

    with pytest.raises(RuntimeError, match="moved its weights"):
        train(Mover(), [member(seed=0)], Schedule(epochs=1))


def test_a_gradient_that_is_not_finite_is_skipped_and_counted(caplog):
    """The loss is finite: a square root has no slope at 0, where the one sample with x = 7 puts it."""

    class Rooted(Linear):
        def loss(self, params, frozen, batch, hyper, noise):
            at_zero = (batch["x"] == 7).any() * params["bias"].sum().abs()
            root = torch.where((batch["x"] == 7).any(), at_zero - at_zero.detach(), at_zero + 1).sqrt()
            return {"loss": super().loss(params, frozen, batch, hyper, noise)["loss"] + root}

    m = member(seed=0)
    bad = {"x": m.train["x"].clone(), "y": m.train["y"]}
    bad["x"][4] = 7
    broken, healthy = train(Rooted(), [Member(**{**vars(m), "train": bad}), m], Schedule(epochs=1, batch_size=8))
    assert broken.skipped_steps == 1
    assert healthy.skipped_steps == 0
    assert caplog.messages == ["member 0: 1 steps were skipped, their gradient was not finite"]
    assert broken.params["weight"].isfinite().all()


def test_progress_is_reported_every_epoch():
    reports = []
    train(Linear(), [member(seed=0), member(seed=1)], Schedule(epochs=3), on_epoch=reports.append)
    assert [(r.members, r.epoch, r.epochs, r.active) for r in reports] == [(2, e, 3, 2) for e in (1, 2, 3)]


def test_schedule_errors():
    with pytest.raises(ValueError, match="batch_size >= 2"):
        Schedule(batch_size=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself
def test_compiled_steps_equal_plain_ones():
    members = [member(seed=s) for s in range(3)]
    schedule = Schedule(epochs=2, batch_size=8)
    compiled = train(Linear(rate=0.2), members, schedule, compile=True)
    for a, b in zip(compiled, train(Linear(rate=0.2), members, schedule), strict=True):
        assert_same(a, b, tolerance=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_steps_equal_plain_ones():
    members = [member(seed=s) for s in range(3)]
    schedule = Schedule(epochs=4, batch_size=8)
    captured = train(Linear(rate=0.2), members, schedule, device="cuda")
    plain = train(Linear(rate=0.2), members, schedule, device="cuda", capture=False)
    cpu = train(Linear(rate=0.2), members, schedule)
    for a, b, c in zip(captured, plain, cpu, strict=True):
        assert_same(a, b)
        assert_same(a, c, tolerance=1e-4)
