"""Series in chunks: a file is read piece by piece, so that memory does not grow with its length.

The cut into chunks follows from the file alone. So a chunk means the same after a stop, and on another machine.

Shapes: N samples, T time steps, D channels; layout (N, T, D) everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from timex.records import Series

CHUNK_CELLS = 2**18
"""Cells of a chunk, about: a chunk and its explanations take some 100 MB as a table."""
ENDS = 2**20
"""Bytes at each end of a file that its fingerprint covers."""


class Chunk(NamedTuple):
    """Neighbouring samples of a source.

    Attributes:
        number: The place of the chunk, from 0.
        start: Its first row in a table, or its first sample in arrays.
        stop: The row or sample after its last.
        first: The index of its first sample in the source.
        samples: Number of samples.
    """

    number: int
    start: int
    stop: int
    first: int
    samples: int


class Source(Protocol):
    """Series in chunks."""

    @property
    def chunks(self) -> Sequence[Chunk]:
        """All chunks, in order."""

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Series]]:
        """The series of some chunks, which are in order."""


class SeriesSource:
    """Series that are in memory anyway, in chunks."""

    def __init__(self, series: Series) -> None:
        self.series = series
        self.chunks = even_chunks(*series.shape)

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Series]]:
        """The series of some chunks."""
        for chunk in chunks:
            yield chunk, self.series.take(slice(chunk.start, chunk.stop))


class ManySources:
    """Several sources one after another; chunks and samples are counted through all of them."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        chunks: list[Chunk] = []
        self.places: list[tuple[int, Chunk]] = []
        for i, source in enumerate(sources):
            n = 0 if not chunks else chunks[-1].first + chunks[-1].samples
            for chunk in source.chunks:
                self.places.append((i, chunk))
                chunks.append(chunk._replace(number=len(chunks), first=n + chunk.first))
        self.chunks = tuple(chunks)

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Series]]:
        """The series of some chunks; the chunks of one source are read in one go."""
        for i, group in groupby(chunks, key=lambda chunk: self.places[chunk.number][0]):
            wanted = list(group)
            inner = [self.places[chunk.number][1] for chunk in wanted]
            for chunk, (_, series) in zip(wanted, self.sources[i].read(inner), strict=True):
                yield chunk, series


def even_chunks(n: int, t: int, d: int) -> tuple[Chunk, ...]:
    """N samples of T x D cells in chunks of about `CHUNK_CELLS` cells.

    >>> [tuple(chunk) for chunk in even_chunks(5, 2**17, 1)]
    [(0, 0, 2, 0, 2), (1, 2, 4, 2, 2), (2, 4, 5, 4, 1)]
    """
    size = max(1, CHUNK_CELLS // (t * d))
    starts = range(0, n, size)
    return tuple(Chunk(i, a, min(a + size, n), a, min(size, n - a)) for i, a in enumerate(starts))


def named_by_place(series: Series, first: int) -> Series:
    """The series with the index in the source as the name of samples that have none; `first` is that of the first."""
    return series if series.ids else replace(series, ids=tuple(str(i) for i in range(first, first + len(series))))


def with_steps(series: Series, n_steps: int) -> Series:
    """Shorter series padded to T steps at time zero that hold nothing. Longer series stay as they are."""
    missing = n_steps - series.shape[1]
    if missing <= 0:
        return series
    more = ((0, 0), (0, missing))
    return replace(
        series,
        x=np.pad(series.x, (*more, (0, 0))),
        times=np.pad(series.times, more),
        observed=np.pad(series.observed, (*more, (0, 0))),
        truth=None if series.truth is None else np.pad(series.truth, (*more, (0, 0))),
    )


def fingerprint(path: Path) -> dict[str, Any]:
    """What tells a file from a changed one without reading all of it: its size, and a hash of both its ends."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(ENDS))
        file.seek(max(0, size - ENDS))
        digest.update(file.read())
    return {"bytes": size, "sha256 of both ends": digest.hexdigest()}
