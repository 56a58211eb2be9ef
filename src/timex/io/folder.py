"""A saved model or explainer: a folder with a JSON description and safetensors weights. Nothing is ever unpickled.

A save is one transaction. The weights' file is named by its hash, so that the old and the new one stand beside each other.
Replacing the description, which holds that hash, then switches from the old save to the new one. A reader therefore sees
either the old or the new, and refuses a file in which any bit has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load, save
from torch import Tensor

from timex.io.atomic import atomic_path

try:
    import fcntl
except ImportError:  # Windows: two writers at the same time are not kept apart there
    fcntl = None  # type: ignore[assignment]

FORMAT = 3
"""Raised when the layout of the folder changes."""
READ_ATTEMPTS = 10
"""A writer may replace the weights between reading the description and opening them; each attempt reads both again."""


def write_folder(folder: Path, kind: str, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Write weights and description. A failing write leaves what was saved before.

    Args:
        folder: Where to; other files in it stay.
        kind: "explainer" or "reference": how the files are called.
        description: Values that JSON can hold.
        tensors: The weights by name.
    """
    weights = save({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()})
    digest = hashlib.sha256(weights).hexdigest()
    text = _sealed({"format": FORMAT, "weights_sha256": digest, **description}, folder)
    current = _weights_path(folder, kind, digest)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_writer(folder):
        with atomic_path(current) as beside:
            beside.write_bytes(weights)
        with atomic_path(folder / f"{kind}.json") as beside:
            beside.write_text(text)
        for path in _weights_and_leftovers(folder, kind):
            if path != current:
                path.unlink(missing_ok=True)
    return folder


def read_folder(folder: Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and the weights of what was saved last.

    Raises:
        FileNotFoundError: If the folder holds nothing of this kind.
        ValueError: If a file is damaged or of another version; the message names it.
    """
    for _ in range(READ_ATTEMPTS):
        description = _read_description(folder, kind)
        digest = description.pop("weights_sha256")
        path = _weights_path(folder, kind, digest)
        try:
            weights = path.read_bytes()
        except FileNotFoundError:
            continue
        if hashlib.sha256(weights).hexdigest() != digest:
            raise ValueError(f"{path} is damaged: its SHA-256 is not the one that {kind}.json holds. Save it again.")
        try:
            return description, load(weights)
        except Exception as error:  # safetensors raises errors of its own
            raise ValueError(f"{path} holds no readable weights: {error}") from error
    raise FileNotFoundError(f"{folder} holds no {kind}: {path.name} is missing. {_WRITTEN_BY[kind]}")


@contextlib.contextmanager
def readable(folder: Path, kind: str) -> Iterator[None]:
    """Whatever is wrong with the content of a saved folder becomes a `ValueError` that names it."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except ValueError as error:
        raise ValueError(str(error) if str(folder) in str(error) else f"{folder}: {error}") from error
    except Exception as error:  # whoever wrote the folder chose what fails: KeyError, TypeError, RuntimeError, ...
        words = str(error).splitlines()[0] if str(error) else ""
        raise ValueError(f"{folder} holds no usable {kind} ({type(error).__name__}: {words}). Save it again.") from error


def grouped(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, without it."""
    return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}


_WRITTEN_BY = {
    "explainer": "TimeX.save and `timex fit` write one.",
    "reference": "save_reference and `timex train` write one.",
}


def _read_description(folder: Path, kind: str) -> dict[str, Any]:
    path = folder / f"{kind}.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no {kind}: {path.name} is missing. {_WRITTEN_BY[kind]}")
    try:
        description = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}. Save it again.") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f"{path} was not written by this version of timex: make the {kind} again.")
    seal, digest = description.pop("sha256", None), description.get("weights_sha256")
    if seal != _digest(description) or not re.fullmatch("[0-9a-f]{64}", str(digest)):
        raise ValueError(f"{path} is damaged or was changed by hand: its SHA-256 differs. Save it again.")
    return {name: value for name, value in description.items() if name != "format"}


def _sealed(description: dict[str, Any], folder: Path) -> str:
    """The description as JSON, with its own SHA-256."""
    try:
        plain = json.loads(json.dumps(description, default=_plain))
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected a description that JSON can hold, to save in {folder}: {error}.") from None
    return json.dumps({"sha256": _digest(plain), **plain}, indent=2) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r} is no text, number, list or dictionary")


def _digest(description: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _weights_path(folder: Path, kind: str, digest: str) -> Path:
    return folder / f"{kind}-{digest[:16]}.safetensors"


def _weights_and_leftovers(folder: Path, kind: str) -> Iterator[Path]:
    """Weights of all saves, and temporary files of killed ones."""
    for pattern in (f"{kind}-*.safetensors", f".{kind}-*.safetensors.*", f".{kind}.json.*"):
        yield from folder.glob(pattern)


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other process writes into the folder. The lock ends with the process, also with a killed one."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
