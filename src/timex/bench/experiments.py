"""What a table is made of: experiments, the paper's claims, and where the paper's own numbers are.

A method is written `name` or `name:arm`: `timex:blended` is TimeX with the setting of that arm swapped (`recipes.SWAPS`),
`timex:paper` is TimeX with the paper's objective, and `ig:absolute` is integrated gradients without their sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from timex.bench.recipes import PAPER, TIMEX, in_paper, split_arm
from timex.paper import published

CONTROLS = ("random", "amplitude")
"""Explainers that see no model: their scores show how much the data alone give away."""
CENTRE = "centre"
"""A control for windows that are cut around the deciding cells; it sees neither model nor data."""
RESIDUAL = "_residual"
"""Suffix of an architecture with residuals around self-attention, which the paper's models do not have."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One thing to measure on every fold.

    Attributes:
        dataset: A key of `DATASETS`.
        arch: The architecture of the model that is explained.
        method: A key of `EXPLAINERS`, or `REFERENCE` for the model itself.
        arm: A variant of the method: an arm of TimeX, `absolute` for signed attributions; empty for none.
        measure: A key of `timex.bench.measures.MEASURES`.
    """

    dataset: str
    arch: str = "transformer"
    method: str
    arm: str = ""
    measure: str

    @property
    def label(self) -> str:
        """The method as it is written in tables and on the command line."""
        return f"{self.method}:{self.arm}" if self.arm else self.method

    @property
    def swap(self) -> str:
        """What the arm swaps, whichever the objective; empty for nothing."""
        return split_arm(self.arm)[1]

    @property
    def published_arch(self) -> str:
        """The architecture of the paper's tables that this one belongs to."""
        return self.arch.removesuffix(RESIDUAL)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something the paper says, to be held against our folds: one value is better than another.

    Attributes:
        text: The claim.
        better: Method and metric said to be better.
        worse: Method and metric it is compared with.
        higher: Whether the better value is the higher one; None if the claim is that there is no difference.
    """

    text: str
    better: tuple[str, str]
    worse: tuple[str, str]
    higher: bool | None = True


Where = Callable[[Experiment, str], tuple[str, str, str]]
"""Where the paper has the value of an experiment's metric: its table, row and column in paper.json."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table or figure.

    Attributes:
        title: What it shows.
        measure: How it is measured.
        datasets: The data sets.
        methods: The methods, as `name` or `name:arm`.
        metrics: The metrics shown.
        archs: The architectures of the models explained.
        arch_of: The architecture on single data sets, instead of `archs`.
        groups: Groups of data sets, by a title; each gets a block of means over its sets.
        where: Where the paper's numbers are.
        claims: What the paper concludes from it, checked on every data set and architecture.
        needs: What must be at hand beyond this package.
        folds: Folds at most; a figure draws one.
    """

    title: str
    measure: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    archs: tuple[str, ...] = ("transformer",)
    arch_of: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    where: Where | None = None
    claims: tuple[Claim, ...] = ()
    needs: str = ""
    folds: int | None = None

    def experiments(
        self, datasets: Sequence[str] = (), methods: Sequence[str] = (), archs: Sequence[str] = ()
    ) -> Iterator[Experiment]:
        """Everything to measure, with other data sets, methods or architectures if given."""
        for dataset in datasets or self.datasets:
            for arch in archs or self.archs_on(dataset):
                for label in methods or self.labels(dataset):
                    method, _, arm = label.partition(":")
                    yield Experiment(dataset=dataset, arch=arch, method=method, arm=arm, measure=self.measure)

    def archs_on(self, dataset: str) -> tuple[str, ...]:
        """The architectures of the models explained on a data set."""
        return (self.arch_of[dataset],) if dataset in self.arch_of else self.archs

    def labels(self, dataset: str) -> list[str]:
        """The methods on a data set: the paper's objective only where the paper has settings for it."""
        return [label for label in self.methods if in_paper(dataset) or not label.startswith(f"{TIMEX}:{PAPER}")]

    @property
    def compares_arms(self) -> bool:
        """Whether the table sets variants of TimeX against each other, not methods."""
        return self.only_timex and any(swaps(label) for label in self.methods)

    @property
    def only_timex(self) -> bool:
        """Whether TimeX and controls are the only methods."""
        return all(label.partition(":")[0] == TIMEX or label in CONTROLS for label in self.methods)

    def shown_archs(self, dataset: str) -> Iterator[str]:
        """The architectures whose cells on a data set belong in the table: its own, and their forms with residuals."""
        for arch in self.archs_on(dataset):
            yield from (arch, f"{arch}{RESIDUAL}")

    def paper(self, experiment: Experiment, metric: str) -> float | None:
        """The paper's value, or None where it has none: a method or an arm that is no row of this table has none."""
        if self.where is None or experiment.arm == "absolute" or experiment.label not in self.methods:
            return None
        table, row, column = self.where(experiment, metric)
        return published(table, row).get(column)


def swaps(label: str) -> bool:
    """Whether a method is TimeX with a setting swapped."""
    method, _, arm = label.partition(":")
    return method == TIMEX and split_arm(arm)[1] != ""
