"""Checkpoints of a fit: the state after every epoch, in a folder, so that a killed fit goes on where it was.

    DIR/fit.json                             the data, model and settings that the fit began with
    DIR/generator-000012-HASH.safetensors    the state of one training after 12 epochs; the last two are kept

Each file is written beside and renamed, and its name holds the hash of its content. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from timex.engine.state import State
from timex.io.atomic import atomic_path
from timex.io.facts import expect_facts

log = logging.getLogger(__name__)

KEPT = 2
"""Checkpoints of a training that stay: the last one, and the one before it in case the last is damaged."""


class Checkpoint:
    """A folder in which a fit keeps its state after every epoch.

    Args:
        folder: Where to; missing folders are made. A state that is there already is gone on from.
        stop: Asked after every step. Once it gives True, training ends with the best epoch so far.

    Example:
        >>> import tempfile
        >>> checkpoint = Checkpoint(tempfile.mkdtemp())
        >>> checkpoint.expect(settings={"lr": 0.1}, model="a")
        >>> checkpoint.expect(settings={"lr": 0.2}, model="a")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: Expected the fit that ... began, got another: settings: lr was 0.1, is 0.2. Give the same, or ...
    """

    def __init__(self, folder: str | Path, *, stop: Callable[[], bool] | None = None) -> None:
        self.folder = Path(folder)
        self.stop = stop or (lambda: False)

    def expect(self, **facts: Any) -> None:
        """Refuse to go on if a fact about the fit differs from what the folder holds; facts that it lacks are added.

        Args:
            facts: Values that JSON can hold: hashes, settings by name, or lists of a model's answers.
        """
        expect_facts(self.folder / "fit.json", "fit", facts)

    def stage(self, name: str, given: str = "") -> Stage:
        """The checkpoints of one training of the fit.

        Args:
            name: What is trained.
            given: A hash of what an earlier training gave this one; states that were given something else are not used.
        """
        return Stage(self, name, given)

    @property
    def holds(self) -> list[str]:
        """How far each training has come, in words."""
        paths = _by_stage(self.folder)
        return [f"{name}: {epoch} epochs" for name, epoch in ((name, max(map(_epoch, files))) for name, files in paths.items())]

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Stage:
    """The checkpoints of one training (`timex.engine.Keeper`)."""

    def __init__(self, checkpoint: Checkpoint, name: str, given: str) -> None:
        self.checkpoint, self.name, self.given = checkpoint, name, given
        self._failed = False

    def last(self) -> State | None:
        """The last state that is whole, or None at the start."""
        for path in sorted(self._files(), key=_epoch, reverse=True):
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest()[:16] != path.stem.rsplit("-", 1)[1]:
                log.warning("%s is damaged, the checkpoint before it is used", path)
                continue
            notes = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            if notes["given"] != self.given:
                log.info("%s begins again: what it starts from has changed", self.name)
                return None
            facts = json.loads(notes["facts"])
            log.info("%s: going on after epoch %d", self.name, _epoch(path))
            return State(load(data), facts)
        return None

    def keep(self, epoch: int, state: State) -> None:
        """Write a state, and remove all but the last two. A full disk does not end the training."""
        notes = {"given": self.given, "facts": json.dumps(state.facts)}
        data = save(state.tensors, notes)
        path = self._path(epoch, hashlib.sha256(data).hexdigest()[:16])
        try:
            with atomic_path(path) as beside:
                beside.write_bytes(data)
            old = sorted((file for file in self._files() if _epoch(file) <= epoch and file != path), key=_epoch)
            later = [file for file in self._files() if _epoch(file) > epoch]  # of a training that was given something else
            for file in [*old[: 1 - KEPT], *later, *self._folder.glob(f".{self.name}-*")]:
                file.unlink(missing_ok=True)
        except OSError as error:
            if not self._failed:
                log.warning("cannot write the checkpoint %s (%s): training goes on without", path, error.strerror)
            self._failed = True

    def stopped(self) -> bool:
        """Whether the training shall end with its best epoch so far."""
        return self.checkpoint.stop()

    @property
    def _folder(self) -> Path:
        return self.checkpoint.folder

    def _path(self, epoch: int, digest: str) -> Path:
        return self._folder / f"{self.name}-{epoch:06d}-{digest}.safetensors"

    def _files(self) -> list[Path]:
        return _by_stage(self._folder).get(self.name, [])


def surroundings(device: torch.device | str) -> dict[str, Any]:
    """What decides the bits of a result beside data, model and settings."""
    return {"device": torch.device(device).type, "torch": torch.__version__, "processor": platform.machine()}


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """A hash of named tensors."""
    return hashlib.sha256(save({name: v.detach().cpu().contiguous().clone() for name, v in tensors.items()})).hexdigest()


def _by_stage(folder: Path) -> dict[str, list[Path]]:
    """The files of checkpoints by the name of the training."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        if match := re.fullmatch(r"(.+)-\d{6}-[0-9a-f]{16}", path.stem):
            found.setdefault(match[1], []).append(path)
    return found


def _epoch(path: Path) -> int:
    return int(path.stem.rsplit("-", 2)[1])
