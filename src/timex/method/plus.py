"""`TimeXPlus`: TimeX with the objective of TimeX++."""

from __future__ import annotations

from timex.method.explainer import TimeX
from timex.method.instance import PlusConfig


class TimeXPlus(TimeX):
    """TimeX whose masks keep the frozen model's answer to an in-distribution series: TimeX++ (Liu et al., 2024).

    A generator gives p, a conditioner makes a series from x and a sample of the mask, and the frozen model must answer it as it
    answers x. The series stays near x with its hidden cells filled, and near the training series in distribution.
    `InstanceObjective` has the equations. Landmarks stay, and so does the surrogate that places explanations beside them: both
    are fitted to the finished masks.

    Settings, fitting, explaining, saving and loading are those of `TimeX`.
    """

    name = "timex_plus"
    cost = "1"
    config_class = PlusConfig
    config: PlusConfig
