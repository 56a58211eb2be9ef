"""Real data: a download is checked, cut into windows once, and kept as one file in the cache folder.

An `Origin` describes where a data set comes from and how to read it. `prepare` reads it into the cache. A `Prepared` is the
loader that makes train, validation and test parts of a fold from the cached file. Reading the cache needs numpy alone.

Shapes: N samples, T time steps, D channels, S strata, G groups.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from timex.io.arrays import read_arrays, write_arrays
from timex.records import Dataset, Series

Arrays = dict[str, NDArray[Any]]
Ints = NDArray[np.int64]
T = TypeVar("T")

FORMAT = 1
"""Of the cached files. A file of another format is built again."""
N_FOLDS = 5
MAX_VAL = 5000
"""Validation samples at most: a reference model is validated on all of them at once, every epoch."""


def cache_folder() -> Path:
    """The folder of prepared data: `TIMEX_DATA`, or `timex` in the user's cache folder."""
    chosen = os.environ.get("TIMEX_DATA")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "timex"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a data set comes from, and how its files become the arrays of the cache.

    Attributes:
        name: Name of the cached file.
        title: The data set in a few words.
        page: Its web page.
        needs: What to download from there.
        find: Returns the files to read under a source folder (or the source itself, if a file), or raises an error that
            names the missing ones.
        build: Returns arrays for the cache and facts about them (counts, shapes), or raises an error that names the bad file.
    """

    name: str
    title: str
    page: str
    needs: str
    find: Callable[[Path], list[Path]]
    build: Callable[[list[Path]], tuple[Arrays, dict[str, Any]]]

    @property
    def path(self) -> Path:
        """The cached file."""
        return cache_folder() / f"{self.name}.npz"

    @property
    def download(self) -> str:
        """What to do before the first use, as part of an error message."""
        return f"download {self.needs} from {self.page}, then run `timex data prepare {self.name} --source FOLDER`"

    def facts(self) -> dict[str, Any] | None:
        """Facts about the cached file, without reading its arrays; None where there is no file."""
        if not self.path.is_file():
            return None
        arrays = read_arrays(self.path, ["facts"])
        try:
            facts: dict[str, Any] = json.loads(str(arrays["facts"]))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{self.path} is no prepared data ({error!r}): {self.download}.") from None
        return facts

    def read(self) -> Arrays:
        """The cached arrays. Without a cached file, the error names the commands that make one."""
        facts = self.facts()
        if facts is None:
            raise FileNotFoundError(f"{self.title} is not prepared ({self.path} does not exist): {self.download}.")
        if facts["format"] != FORMAT:
            raise ValueError(f"{self.path} was written by another version of timex: {self.download}.")
        return {name: array for name, array in read_arrays(self.path).items() if name != "facts"}


def prepare(origin: Origin, source: str | Path, force: bool = False) -> tuple[dict[str, Any], bool]:
    """Read a download into the cache, unless the cache was made from the same files.

    Args:
        origin: The data set.
        source: The downloaded folder or file.
        force: Build again also from the same files.

    Returns:
        The facts of the cached file, and whether it was built now.
    """
    source = Path(source)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist: {origin.download}.")
    files = origin.find(source)
    digest = digest_of(files)
    if not force and (there := _facts_if_whole(origin)) and (there["format"], there["digest"]) == (FORMAT, digest):
        return there, False
    arrays, facts = origin.build(files)
    facts = {"format": FORMAT, "digest": digest, **facts}
    write_arrays(origin.path, {"facts": np.array(json.dumps(facts)), **arrays})
    return facts, True


def _facts_if_whole(origin: Origin) -> dict[str, Any] | None:
    """The facts of the cached file; None where there is none or it is damaged, so that it is built again."""
    try:
        return origin.facts()
    except ValueError:
        return None


def read_compact(path: Path, title: str, names: Iterable[str]) -> Arrays:
    """The arrays of a data set packed into one .npz file, all of which must be there."""
    needed = set(names)
    arrays = read_arrays(path, needed)
    if missing := needed - set(arrays):
        raise ValueError(f"{path} is no compact {title} file: it lacks {', '.join(sorted(missing))}.")
    return arrays


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 over the names and the contents of files."""
    total = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            total.update(f"{path.name}:{hashlib.file_digest(file, 'sha256').hexdigest()};".encode())
    return total.hexdigest()


def found(source: Path, *patterns: str) -> list[Path]:
    """Files under a source that match the first pattern with a match, sorted; the source itself, if it is a file."""
    if source.is_file():
        return [source]
    for pattern in patterns:
        if matches := sorted(p for p in source.rglob(pattern) if p.is_file()):
            return matches
    return []


def progress(items: Sequence[T], label: str) -> Iterable[T]:
    """The items, with a bar and the remaining time on standard error."""
    from rich.console import Console
    from rich.progress import track

    return track(items, description=label, console=Console(stderr=True), transient=True)


# --------------------------------------------------------------------------------------------------- from cache to folds


Make = Callable[[Arrays, str, int, int], Dataset]
"""From the cached arrays, the name, the fold and the seed to the data set."""


@dataclass(frozen=True)
class Prepared:
    """The loader of a prepared data set.

    Attributes:
        name: The registry key.
        origin: The data that has to be prepared first.
        make: Makes a fold from its arrays.
        shape: (T, D).
        n_classes: C.
        note: How this data set differs from those of the same origin.
        truth: Whether it is known which cells decide the class.
    """

    name: str
    origin: Origin
    make: Make
    shape: tuple[int, int]
    n_classes: int
    note: str
    truth: bool = False

    def __call__(self, seed: int = 0, fold: int = 0) -> Dataset:
        """Fold `fold` of five; the seed shuffles what is in which fold."""
        if fold >= N_FOLDS:
            raise ValueError(f"Expected a fold 0..{N_FOLDS - 1} of {self.name}, got {fold}: real data has {N_FOLDS} folds.")
        return self.make(self.origin.read(), self.name, fold, seed)


def split_samples(stratum: Ints, fold: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Samples of train, validation and test: a fifth for test, a tenth (at most `MAX_VAL`) for validation.

    Every class is spread evenly over the folds; patients and recordings are ignored. All folds have the same sizes, so that
    they can train as one program. Up to four remaining samples are in every training part.

    Args:
        stratum: Class of every sample, (N,).
        fold: 0..4.
        seed: Seed of the shuffle.
    """
    rng = np.random.default_rng([seed, N_FOLDS])
    order = rng.permutation(len(stratum))
    order = order[np.argsort(stratum[order], kind="stable")]
    number = np.full(len(stratum), -1)
    dealt = order[: len(order) // N_FOLDS * N_FOLDS]
    number[dealt] = np.arange(len(dealt)) % N_FOLDS
    test = np.flatnonzero(number == fold)
    others = rng.permutation(np.flatnonzero(number == (fold + 1) % N_FOLDS))
    val = np.sort(others[: min(len(stratum) // 10, MAX_VAL)])
    train = np.setdiff1d(np.arange(len(stratum)), np.concatenate([val, test]))
    return train, val, test


def split_groups(stratum: Ints, group: Ints, fold: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Samples of train, validation and test so that no group (patient, recording) is in two of them.

    Groups are assigned one by one, those with most of a rare stratum first, each to the fold that balances the strata best.

    Args:
        stratum: Class of every sample, (N,).
        group: Group of every sample, (N,).
        fold: 0..4; validation is the next one (at most `MAX_VAL` samples of it).
        seed: Seed of the order among equal groups.
    """
    rng = np.random.default_rng([seed, N_FOLDS])
    strata, s = np.unique(stratum, return_inverse=True)
    groups, g = np.unique(group, return_inverse=True)
    if len(groups) < N_FOLDS:
        raise ValueError(f"Expected at least {N_FOLDS} groups to split without a leak, got {len(groups)}: prepare more data.")
    share = np.zeros((len(groups), len(strata)))
    np.add.at(share, (g, s), 1)
    share /= share.sum(axis=0)  # (G, S) the part of every stratum that a group has
    share = np.column_stack([share, share.mean(axis=1)])  # keeps two rare strata out of the same fold
    filled = np.zeros((N_FOLDS, share.shape[1]))
    number = np.empty(len(groups), dtype=np.int64)
    order = rng.permutation(len(groups))
    for i in order[np.argsort(-share[order].max(axis=1), kind="stable")]:
        number[i] = np.argmin(filled @ share[i])  # adds least to the sum of squares over the folds
        filled[number[i]] += share[i]
    of_sample = number[g]
    test = np.flatnonzero(of_sample == fold)
    held = np.flatnonzero(of_sample == (fold + 1) % N_FOLDS)
    val = np.sort(rng.permutation(held)[:MAX_VAL])
    train = np.setdiff1d(np.arange(len(stratum)), np.concatenate([held, test]))
    return train, val, test


def make_dataset(
    name: str,
    index: tuple[Ints, Ints, Ints],
    windows: Callable[[Ints], tuple[NDArray[Any], NDArray[Any] | None]],
    y: Ints,
    channels: Sequence[str],
    classes: Sequence[str],
    fold: int,
    seed: int,
    sampling_rate: float | None = None,
) -> Dataset:
    """The data set of regularly sampled windows.

    Args:
        name: Name of the data set.
        index: Samples of train, validation and test.
        windows: Returns x (n, T, D) and truth (n, T, D) or None of some samples, so that no other windows are in memory.
        y: Labels of all samples, (N,).
        channels: Channel names.
        classes: Class names.
        fold: Number of the split.
        seed: Seed of the split.
        sampling_rate: Steps per second, if known.
    """

    def part(i: Ints) -> Series:
        x, truth = windows(i)
        return Series(x, y=y[i], truth=truth, sampling_rate=sampling_rate)

    train, val, test = (part(i) for i in index)
    return Dataset.named(name, train, val, test, tuple(channels), tuple(classes), fold=fold, seed=seed)


def counts(labels: Iterable[Any]) -> dict[str, int]:
    """How often every label occurs, in types that JSON holds."""
    names, numbers = np.unique(np.asarray(list(labels)), return_counts=True)
    return {str(n): int(c) for n, c in zip(names, numbers, strict=True)}


def summary(facts: Mapping[str, Any]) -> str:
    """The facts of a cached file in one line, without format and digest."""
    shown = {k: v for k, v in facts.items() if k not in ("format", "digest")}
    return "; ".join(f"{k.replace('_', ' ')}: {_text(v)}" for k, v in shown.items())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items())
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)
