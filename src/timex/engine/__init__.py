"""K independent trainings run as one program."""

from timex.engine.noise import Noise, dropout, mix, normal_from_uniform, residual
from timex.engine.program import Diverged, Member, Program, Progress, Schedule, Tensors, Trained
from timex.engine.stacking import stacked, stacking
from timex.engine.train import train

__all__ = [
    "Diverged",
    "Member",
    "Noise",
    "Program",
    "Progress",
    "Schedule",
    "Tensors",
    "Trained",
    "dropout",
    "mix",
    "normal_from_uniform",
    "residual",
    "stacked",
    "stacking",
    "train",
]
