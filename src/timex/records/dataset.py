"""A data set in its three parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from timex.records.series import Baseline, Series


@dataclass(frozen=True)
class Dataset:
    """A data set in three parts; channel and class names are those of the training part."""

    name: str
    train: Series
    val: Series
    test: Series
    fold: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for part_name in ("train", "val", "test"):
            part: Series = getattr(self, part_name)
            if part.shape[1:] != self.train.shape[1:]:
                raise ValueError(
                    f"Expected every part to have (T, D) = {self.train.shape[1:]}, got {part.shape[1:]} in {part_name}."
                )
            if len(part.labels) and part.labels.max() >= len(self.classes):
                raise ValueError(
                    f"Expected labels 0..{len(self.classes) - 1} for the classes {self.classes}, got {part.labels.max()} "
                    f"in {part_name}: name every class or renumber the labels."
                )

    @property
    def channels(self) -> tuple[str, ...]:
        """Channel names."""
        return self.train.channels

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in the order of the labels."""
        return self.train.classes

    @cached_property
    def baseline(self) -> Baseline:
        """Mean and standard deviation per (time, channel) cell of the training part."""
        return self.train.baseline()

    @classmethod
    def named(
        cls,
        name: str,
        train: Series,
        val: Series,
        test: Series,
        channels: Sequence[str],
        classes: Sequence[str],
        fold: int = 0,
        seed: int = 0,
    ) -> Dataset:
        """A data set whose parts all get these channel and class names."""
        train, val, test = (replace(s, channels=tuple(channels), classes=tuple(classes)) for s in (train, val, test))
        return cls(name, train, val, test, fold, seed)
