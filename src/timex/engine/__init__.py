"""K independent trainings run as one program."""

from timex.engine.checkpoint import Checkpoint, digest_of, surroundings
from timex.engine.noise import Noise, dropout, mix, normal_from_uniform, residual
from timex.engine.parallel import gathered, own_part, processes, wait
from timex.engine.program import Diverged, Fault, Member, Program, Progress, Schedule, Tensors, Trained
from timex.engine.stacking import stacked, stacking
from timex.engine.state import Keeper, State
from timex.engine.train import train

__all__ = [
    "Checkpoint",
    "Diverged",
    "Fault",
    "Keeper",
    "Member",
    "Noise",
    "Program",
    "Progress",
    "Schedule",
    "State",
    "Tensors",
    "Trained",
    "digest_of",
    "dropout",
    "gathered",
    "mix",
    "normal_from_uniform",
    "own_part",
    "processes",
    "residual",
    "stacked",
    "stacking",
    "surroundings",
    "train",
    "wait",
]
