"""A group of trainings of equal shape: their stacked state, one step, one epoch.

Shapes: K members, P parameters of one member, N training samples, U data sets, B samples of a batch.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from timex.engine.noise import Noise, mix
from timex.engine.parallel import WHOLE, averaged, expect_equal, own_part, sharded
from timex.engine.program import Fault, Member, Program, Progress, Schedule, Tensors, Trained
from timex.engine.stacking import stacked
from timex.engine.state import History, Keeper, found_fault, restored, state_of
from timex.engine.torch_state import random_numbers

log = logging.getLogger(__name__)

MOVED = "The program moved its weights to other memory, where the optimiser does not update them."


class Group:
    """A group of members of equal shape, stacked on a leading axis and trained together."""

    def __init__(
        self,
        program: Program,
        members: Sequence[Member],
        schedule: Schedule,
        device: torch.device,
        capture: bool,
        compile: bool,
    ) -> None:
        self.program, self.schedule, self.device = program, schedule, device
        self.members = list(members)
        k = len(members)
        self.shapes = {name: p.shape for name, p in members[0].params.items()}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        rows = [torch.cat([p.detach().reshape(-1).float() for p in m.params.values()]) for m in members]
        self.flat = torch.stack(rows).to(device)  # (K, P)
        self.params = {name: view.requires_grad_() for name, view in self._views(self.flat).items()}
        self.frozen = _stack([m.frozen for m in members], device)
        self.hyper = _stack([{n: torch.tensor(float(v)) for n, v in m.hyper.items()} for m in members], device)
        self.data, self.source = _shared_data(members, device)
        self.val = _stack([m.val for m in members], device)
        self.n = next(iter(members[0].train.values())).shape[0]
        self.batch = min(schedule.batch_size, self.n)
        self.steps = -(-self.n // self.batch)
        self.part = own_part()
        if self.part.size > 1:
            self._check_shared()

        self.lr = torch.tensor([m.lr for m in members], device=device)
        self.weight_decay = torch.tensor([m.weight_decay for m in members], device=device)
        self.seeds = mix(torch.tensor([m.seed for m in members], device=device))
        self.moment_1, self.moment_2 = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.count = torch.zeros((), device=device, dtype=torch.int64)
        self.order = torch.zeros(k, self.steps * self.batch, device=device, dtype=torch.int64)
        self.skipped = torch.zeros(k, device=device, dtype=torch.int64)
        self.fault = torch.full((k,), -1, device=device, dtype=torch.int64)  # the first step whose loss was not finite
        self.totals: Tensors = {}

        self.best = self.flat.clone()
        self.best_value = torch.full((k,), math.inf, device=device)
        self.best_epoch = torch.full((k,), -1, device=device, dtype=torch.int64)
        self.waited = torch.zeros(k, device=device, dtype=torch.int64)
        self.plateau_waited = torch.zeros(k, device=device, dtype=torch.int64)
        self.plateau_best = torch.full((k,), math.inf, device=device)

        self._loss = self._stacked(program.loss, compile)
        self._criterion = self._stacked(program.criterion, compile=False)
        self.capture = capture and self.part.size == 1

    def _stacked(self, function: Callable[..., Tensors], compile: bool) -> Callable[..., Tensors]:
        """`function` for all members at once: its vmap for several, itself for a single one."""
        words = [0]
        part = self.part if function == self.program.loss else WHOLE  # every process validates on all series

        def member(params: Tensors, frozen: Tensors, batch: Tensors, hyper: Tensors, key: Tensor) -> Tensors:
            noise = Noise(key, 0 if compile else words[0], part)
            out = function(params, frozen, batch, hyper, noise)
            words[0] = noise.used  # the next step needs as many
            return out

        def single(params: Tensors, *arguments: Any) -> Tensors:
            out = member(params, *(torch.utils._pytree.tree_map(lambda v: v.squeeze(0), a) for a in arguments))
            return {name: value[None] for name, value in out.items()}

        if len(self.members) > 1:
            return stacked(member, compile)
        return torch.compile(single, dynamic=False) if compile else single

    def _views(self, flat: Tensor) -> Tensors:
        """A (K, P) buffer as named tensors that share its memory; a single member's have no leading axis."""
        lead = flat.shape[:1] if len(flat) > 1 else ()
        parts = flat.split(self.sizes, dim=1)
        return {name: part.view((*lead, *shape)) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    # ---------------------------------------------------------------------------------------------------- one step

    def step(self) -> None:
        """Gather a batch, forward, backward, clip, AdamW. No host synchronisation, only in-place updates of the state."""
        terms = self.terms(self.count)
        gradients = torch.autograd.grad(terms["loss"].sum(), list(self.params.values()), materialize_grads=True)
        with torch.no_grad():
            gradient = torch.cat([g.reshape(len(self.flat), -1) for g in gradients], dim=1)
            if self.part.size > 1:
                terms, gradient = self._averaged(terms, gradient)
            self.fault.copy_(torch.where((self.fault < 0) & ~terms["loss"].isfinite(), self.count, self.fault))
            self._adamw(gradient)
            for name, value in terms.items():
                self.totals[name] = self.totals[name].add_(value) if name in self.totals else value.clone()

    def terms(self, count: Tensor) -> Tensors:
        """The terms of every member's loss in the step `count` of the current epoch, (K,) each."""
        index = self.order[:, self.positions(count)]  # (K, B)
        index = index[:, self.part.rows(index.shape[1])]
        batch = {name: value[self.source, index] for name, value in self.data.items()}
        with sharded(self.part):
            return self._loss(self.params, self.frozen, batch, self.hyper, mix(self.seeds + count))

    def _check_shared(self) -> None:
        """Refuse what several processes cannot share."""
        if len(self.members) > 1:
            raise ValueError(f"Expected one training with several processes, got {len(self.members)}: fit them one by one.")
        if self.batch % self.part.size:
            raise ValueError(
                f"Expected batches that {self.part.size} processes can share evenly, got {self.batch} samples: choose a "
                "batch_size that is a multiple, or another number of processes."
            )

    def _averaged(self, terms: Tensors, gradient: Tensor) -> tuple[Tensors, Tensor]:
        """Terms and gradient averaged over the processes, in one message."""
        values = torch.stack([value.detach() for value in terms.values()], dim=1)  # (1, terms)
        both = averaged(torch.cat([values.to(gradient.dtype), gradient], dim=1), self.part)
        return dict(zip(terms, both[:, : len(terms)].unbind(1), strict=True)), both[:, len(terms) :]

    def positions(self, count: Tensor) -> Tensor:
        """The places in `order` of the samples of a step, (B,)."""
        return (count % self.steps) * self.batch + torch.arange(self.batch, device=self.device)

    def _adamw(self, gradient: Tensor) -> None:
        """Clip each member to its norm, then decoupled weight decay and Adam, as `torch.optim.AdamW` does.

        A member whose gradient is not finite keeps its weights this step, and the step is counted. A member whose loss was not
        finite keeps its weights for good.
        """
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        healthy = (self.fault < 0)[:, None]
        finite = norm.isfinite() & healthy
        self.skipped.add_((healthy & ~finite)[:, 0])
        gradient = torch.where(finite, gradient * (self.schedule.clip / (norm + 1e-6)).clamp(max=1.0), 0.0)
        self.count.add_(1)
        t = self.count.float()
        self.moment_1.lerp_(gradient, 0.1)
        self.moment_2.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale_1, scale_2 = 1.0 - 0.9**t, 1.0 - 0.999**t
        lr = (self.lr * self._rate(t))[:, None]
        update = (self.moment_1 / scale_1) / ((self.moment_2 / scale_2).sqrt() + 1e-8)
        self.flat.sub_(torch.where(finite, lr * (update + self.weight_decay[:, None] * self.flat), 0.0))

    def _rate(self, t: Tensor) -> Tensor:
        """Multiplier on the learning rate at step t, shared by the members."""
        rate = torch.ones_like(t)
        if self.schedule.warmup:
            rate = rate * (t / self.schedule.warmup).clamp(max=1.0)
        if self.schedule.decay:
            rate = rate * 0.5 * (1 + torch.cos(torch.pi * (t / (self.steps * self.schedule.epochs)).clamp(max=1.0)))
        return rate

    def _captured(self) -> Callable[[], None]:
        """The step as a CUDA graph, or as it is where it cannot be captured."""
        if not self.capture:
            return self.step
        state = [self.flat, self.moment_1, self.moment_2, self.count, self.skipped, self.fault]
        before = [s.detach().clone() for s in state]
        graph = torch.cuda.CUDAGraph()
        try:
            stream = torch.cuda.Stream(self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(3):  # lets libraries choose their kernels and the allocator its blocks before the capture
                    self.step()
            torch.cuda.current_stream(self.device).wait_stream(stream)
            with torch.cuda.graph(graph):
                self.step()
            replay: Callable[[], None] = graph.replay
        except RuntimeError as error:
            torch.cuda.synchronize(self.device)
            log.warning("the step could not be captured in a CUDA graph, plain steps are used: %s", error)
            replay = self.step
        with torch.no_grad():
            for s, b in zip(state, before, strict=True):
                s.copy_(b)
        return replay

    # --------------------------------------------------------------------------------------------------- all epochs

    def fit(self, on_epoch: Callable[[Progress], None] | None, keeper: Keeper | None = None) -> list[Trained]:
        """All epochs; one look at the device per epoch, to record it and to see whether every member has stopped."""
        faults: list[Fault | None] = [None] * len(self.members)
        with nullcontext() if self.program.stackable else random_numbers(self.members[0].seed, self.device):
            self._shuffle(0)
            step = self._captured()
            history = restored(self, None if keeper is None else keeper.last())
            expect_equal(history.epoch, "epoch of the checkpoints", self.part, self.device)
            while history.epoch < self.schedule.epochs and not history.done:
                started = time.perf_counter()
                if not self._epoch(step, history, keeper):
                    log.warning("stopped in epoch %d of %d: the best epoch so far is kept", history.epoch, self.schedule.epochs)
                    break
                faults = [fault or found_fault(self, k) for k, fault in enumerate(faults)]
                history = self._recorded(history, started, on_epoch)
                if keeper is not None and self.part.rank == 0:
                    keeper.keep(history.epoch, state_of(self, history))
        outcomes = (v.cpu().tolist() for v in (self.best_value, self.best_epoch, self.skipped))
        return [
            Trained({name: value.clone() for name, value in self._views(row[None]).items()}, value, epoch, rows, skipped, fault)
            for row, value, epoch, skipped, rows, fault in zip(self.best.cpu(), *outcomes, history.rows, faults, strict=True)
        ]

    def _epoch(self, step: Callable[[], None], history: History, keeper: Keeper | None) -> bool:
        """The steps of one epoch; False if the keeper ended the training, which needs an epoch to keep."""
        self._shuffle(history.epoch)
        for total in self.totals.values():
            total.zero_()
        may_stop = keeper is not None and any(math.isfinite(row["criterion"]) for rows in history.rows for row in rows)
        for _ in range(self.steps):
            if may_stop and keeper is not None and keeper.stopped():
                return False
            step()
            if self.device.type == "cpu" and bool((self.fault >= 0).all()):
                break  # on a GPU, reading this after every step would cost more than the frozen steps
        return True

    def _recorded(self, history: History, started: float, on_epoch: Callable[[Progress], None] | None) -> History:
        """Validate, add a row of figures for every member, and see whether all of them have stopped."""
        rate = self.lr * self._rate(self.count.float())  # of the last step, before validation cuts it
        scores = self._validate(history.epoch)
        means = {name: value / self.steps for name, value in self.totals.items()} | scores
        figures = torch.stack([*means.values(), rate, self.waited.float(), self.fault.float()]).cpu().tolist()
        seconds = time.perf_counter() - started
        for k, rows in enumerate(history.rows):
            row = {name: column[k] for name, column in zip([*means, "lr"], figures, strict=False)}
            rows.append({"epoch": history.epoch, **row, "seconds": seconds})
        patience = math.inf if self.schedule.patience is None else self.schedule.patience
        active = sum(waited < patience and fault < 0 for waited, fault in zip(*figures[-2:], strict=True))
        if on_epoch is not None:
            best = min(min(row["criterion"] for row in rows) for rows in history.rows)
            on_epoch(Progress(len(history.rows), history.epoch + 1, self.schedule.epochs, best, active))
        return History(history.rows, history.epoch + 1, active == 0)

    def _shuffle(self, epoch: int) -> None:
        """Each member's own order of its samples; the last batch is filled up from the start of the order."""
        keys = mix(self.seeds + ~torch.tensor(epoch, device=self.device))[:, None]
        order = mix(keys + torch.arange(self.n, device=self.device)).argsort(dim=1)
        filled = torch.arange(self.steps * self.batch, device=self.device) % self.n
        self.order.copy_(order[:, filled])

    @torch.no_grad()
    def _validate(self, epoch: int) -> Tensors:
        """Score the members, keep the weights of those that improved, adapt learning rates. Stays on the device."""
        scores = self._criterion(self.params, self.frozen, self.val, self.hyper, mix(self.seeds))
        if self.part.size > 1:  # so that all processes select the same epoch
            scores = {name: averaged(value.clone(), self.part) for name, value in scores.items()}
        if any(self.params[name].data_ptr() != view.data_ptr() for name, view in self._views(self.flat).items()):
            raise RuntimeError(MOVED)
        value = scores["criterion"]
        patience = self.schedule.patience or self.schedule.epochs + 1
        improved = (value < self.best_value) & (self.waited < patience)
        self.best.copy_(torch.where(improved[:, None], self.flat, self.best))
        self.best_value.copy_(torch.where(improved, value, self.best_value))
        self.best_epoch.masked_fill_(improved, epoch)
        stopped = self.waited >= patience
        self.waited.copy_(torch.where(stopped, self.waited, torch.where(improved, 0, self.waited + 1)))
        if self.schedule.plateau_factor < 1.0 and epoch >= self.schedule.plateau_start:
            # It looks at nothing before its start: a lucky epoch among the first, noisy ones must not cut the rate at once.
            better = value < self.plateau_best
            self.plateau_best.copy_(torch.where(better, value, self.plateau_best))
            self.plateau_waited.copy_(torch.where(better, 0, self.plateau_waited + 1))
            cut = self.plateau_waited > self.schedule.plateau_patience
            self.lr.mul_(torch.where(cut, self.schedule.plateau_factor, 1.0))
            self.plateau_waited.masked_fill_(cut, 0)
        return scores


def _shared_data(members: Sequence[Member], device: torch.device) -> tuple[Tensors, Tensor]:
    """The distinct training data (U, N, ...), and which of them each member reads (K, 1): seeds on one fold share a copy."""
    distinct = {id(m.train): m.train for m in members}  # the members keep these objects, so that ids stay unique
    place = {key: i for i, key in enumerate(distinct)}
    source = torch.tensor([[place[id(m.train)]] for m in members], device=device)
    return _stack(list(distinct.values()), device), source


def _stack(rows: Sequence[Tensors], device: torch.device) -> Tensors:
    if len(rows) == 1:  # a view, since the data may be larger than memory
        return {name: value[None].to(device) for name, value in rows[0].items()}
    return {name: torch.stack([row[name] for row in rows]).to(device) for name in rows[0]}
