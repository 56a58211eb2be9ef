"""Output paths, checked before long work starts, and small JSON files."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timex.io.atomic import atomic_path

log = logging.getLogger(__name__)


def check_folder(folder: Path) -> None:
    """Refuse an output folder that cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Expected a folder for --out, got the file {folder}.")
    _try_to_write(folder)


def check_file(file: Path, *suffixes: str, option: str = "--out") -> None:
    """Refuse an output file that cannot be written, or that has none of the suffixes."""
    if file.suffix not in suffixes:
        raise ValueError(f"Expected {option} to end in {' or '.join(suffixes)}, got {file.name!r}.")
    if file.is_dir():
        raise ValueError(f"Expected a file for {option}, got the folder {file}.")
    _try_to_write(file.parent)


def _try_to_write(folder: Path) -> None:
    """Write a temporary file to `folder`, or to the nearest parent that exists; nothing is left behind."""
    absolute = folder.absolute()
    nearest = next(path for path in (absolute, *absolute.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise ValueError(f"Cannot write to {folder}: {error.strerror}. Choose another --out.") from None


def keep(out: Path, write: Callable[[Path], Any]) -> Path:
    """Call `write(out)`; if that fails, as on a full disk, write to a temporary folder instead.

    Returns:
        The folder that was written.
    """
    try:
        write(out)
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="timex-"))
        write(elsewhere)
        log.warning("cannot write to %s (%s): the result is kept in %s", out, error.strerror, elsewhere)
        return elsewhere
    return out


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or a `ValueError` that names the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no readable JSON file: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"Expected a JSON object in {path}, got {type(value).__name__}.")
    return value


def write_json(value: Any, path: Path) -> None:
    """Write a JSON file; a failing write leaves what was there before."""
    with atomic_path(path) as beside:
        beside.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
