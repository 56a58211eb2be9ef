"""Write beside, then rename: no reader ever sees half a file."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any


class atomic_path:
    """A temporary path beside `path`, renamed to it when the block ends well and removed when it does not.

    The file and its folder are flushed to the disk, so that a power failure leaves the old file or the new one.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        os.close(handle)
        self.beside = Path(name)
        return self.beside

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self.beside.unlink(missing_ok=True)  # there only if something failed

    def _commit(self) -> None:
        umask = os.umask(0)
        os.umask(umask)
        self.beside.chmod(0o666 & ~umask)  # mkstemp's private mode is not what a user expects of an output file
        _flush(self.beside)
        os.replace(self.beside, self.path)
        if os.name == "posix":  # Windows opens no folders
            _flush(self.path.parent)


def clear_leftovers(folder: Path, name: str) -> None:
    """Remove the temporary files that killed writes left in a folder, for written files whose names match the glob `name`."""
    for path in folder.glob(f".{name}.{'?' * 8}"):
        if re.fullmatch(r"[a-z0-9_]{8}", path.name[-8:]):  # what mkstemp adds
            path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
