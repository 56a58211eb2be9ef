"""How much memory a file may ask for. A damaged or hostile file of a few kilobytes can describe gigabytes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

RATIO = 200
"""Bytes of memory for each byte of the file."""
FLOOR = 2**28
"""Bytes that any file may ask for."""
CELL = 8
"""Bytes for each cell (sample, step, channel): the value, whether it is observed, the truth, and a temporary copy."""


class Limit(NamedTuple):
    """The bytes of memory that one file may ask for."""

    file_size: int
    max_bytes: int

    @classmethod
    def of(cls, path: Path, max_bytes: int | None = None) -> Limit:
        """The limit for a file: `max_bytes`, or else 200 times its size and at least 256 MiB."""
        size = path.stat().st_size
        return cls(size, max(FLOOR, RATIO * size) if max_bytes is None else max_bytes)

    def check(self, n_bytes: int, content: str) -> None:
        """Refuse `content` if it needs more bytes than allowed."""
        if n_bytes > self.max_bytes:
            raise ValueError(
                f"Expected a file of {_readable(self.file_size)} to need at most {_readable(self.max_bytes)} of memory, got "
                f"{content}, which need {_readable(n_bytes)}: check the file, or pass max_bytes={n_bytes} to allow it."
            )

    def check_cells(self, n_samples: int, n_steps: int, n_channels: int) -> None:
        """Refuse dense arrays of shape (N, T, D) that need more bytes than allowed."""
        content = f"{n_samples} samples x {n_steps} steps x {n_channels} channels"
        self.check(CELL * n_samples * n_steps * n_channels, content)


def _readable(n_bytes: int) -> str:
    """A number of bytes with its unit.

    >>> _readable(8_900_000_000)
    '8.9 GB'
    """
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
