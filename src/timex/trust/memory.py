"""How much memory some work takes beyond what was held before it."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

MEGABYTE = 2**20
EVERY = 0.002
"""Seconds between two looks at the memory of the process."""
STATM = Path("/proc/self/statm")


class Peak:
    """The most memory held inside a `with` block beyond what was held at its start, in megabytes.

    On a GPU torch counts its tensors. On a CPU the memory of the process is looked at every few milliseconds, which Linux
    offers; elsewhere the value is NaN. Memory that comes and goes between two looks is not seen.

    Example:
        >>> with Peak("cpu") as peak:
        ...     held = torch.ones(8 * 2**20)
        >>> peak.megabytes > 25 or sys.platform != "linux"
        True
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.megabytes = float("nan")
        self._done = threading.Event()
        self._largest = 0

    def __enter__(self) -> Self:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self._before = torch.cuda.memory_allocated(self.device)
        elif STATM.exists():
            _return_free_memory()
            self._before = self._largest = resident()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.device.type == "cuda":
            self.megabytes = (torch.cuda.max_memory_allocated(self.device) - self._before) / MEGABYTE
        elif STATM.exists():
            self._done.set()
            self._thread.join()
            self.megabytes = (max(self._largest, resident()) - self._before) / MEGABYTE

    def _watch(self) -> None:
        while not self._done.wait(EVERY):
            self._largest = max(self._largest, resident())


def resident() -> int:
    """Bytes of memory that the process holds."""
    import resource

    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def _return_free_memory() -> None:
    """Give memory that was freed back to the system, so that work that takes it again counts."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
