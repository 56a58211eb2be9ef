"""The state of a run after an epoch, by which a killed training goes on, and the step at which a loss stopped being finite.

Shapes: K members, P parameters of one member, B samples of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from timex.engine.program import Fault, Tensors

if TYPE_CHECKING:
    from timex.engine.group import Group

BUFFERS = (
    *("flat", "moment_1", "moment_2", "count", "lr", "skipped", "fault"),
    *("best", "best_value", "best_epoch", "waited", "plateau_waited", "plateau_best"),
)
"""The tensors of a run that a step or a validation changes."""
RANDOM, RANDOM_CUDA = "random", "random_cuda"
"""The states of torch's generators, from which layers that we did not write draw."""


class State(NamedTuple):
    """The state of a run after an epoch: tensors on the CPU, and values that JSON can hold."""

    tensors: Tensors
    facts: dict[str, Any]


class Keeper(Protocol):
    """Keeps the state of one run, and may ask it to stop."""

    def last(self) -> State | None:
        """The state kept last, or None at the start."""

    def keep(self, epoch: int, state: State) -> None:
        """Keep the state after an epoch."""

    def stopped(self) -> bool:
        """Asked after every step: whether the training shall end with its best epoch so far."""


class History(NamedTuple):
    """Where a run stands: its rows of figures by member, the next epoch, and whether the training has ended."""

    rows: list[list[dict[str, float]]]
    epoch: int
    done: bool


def state_of(run: Group, history: History) -> State:
    """The state after the last row of the history."""
    tensors = {name: getattr(run, name).detach().cpu() for name in BUFFERS}
    if not run.program.stackable:
        tensors[RANDOM] = torch.get_rng_state()
        if run.device.type == "cuda":
            tensors[RANDOM_CUDA] = torch.cuda.get_rng_state(run.device)
    return State(tensors, history._asdict())


@torch.no_grad()
def restored(run: Group, state: State | None) -> History:
    """Put a run into a state, or leave it at the start."""
    if state is None:
        return History([[] for _ in run.members], 0, False)
    for name in BUFFERS:
        getattr(run, name).copy_(state.tensors[name])
    if RANDOM in state.tensors:
        torch.set_rng_state(state.tensors[RANDOM])
    if RANDOM_CUDA in state.tensors:
        torch.cuda.set_rng_state(state.tensors[RANDOM_CUDA], run.device)
    return History(**state.facts)


def found_fault(run: Group, k: int) -> Fault | None:
    """The step of this epoch at which the loss of member k stopped being finite, or None.

    The member's weights have been frozen since then, so its terms at that step can be computed again. A loss may take
    gradients itself, so gradients stay enabled.
    """
    if (step := int(run.fault[k])) < 0:
        return None
    terms = run.terms(run.fault[k])
    values = {name: float(value[k].detach()) for name, value in terms.items()}
    broken = {name: value for name, value in values.items() if not _finite(value)}
    inner = {name: value for name, value in broken.items() if name != "loss"}
    samples = run.order[k, run.positions(run.fault[k])].tolist()
    places = run.members[k].places
    return Fault(
        epoch=step // run.steps,
        batch=step % run.steps,
        terms=inner or broken or {"loss": float("nan")},  # a foreign layer with random numbers may give others now
        samples=tuple(samples if places is None else _at(places, samples)),
    )


def _finite(value: float) -> bool:
    return value - value == 0


def _at(places: Sequence[int] | Tensor, samples: list[int]) -> list[int]:
    return [int(places[i]) for i in samples]
