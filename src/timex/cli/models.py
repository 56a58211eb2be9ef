"""Where the explained model comes from: a factory named on the command line, or a reference model's folder."""

from __future__ import annotations

import importlib
import logging
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from timex.cli.files import read_json, write_json
from timex.cli.options import device_of
from timex.io.folder import read_folder
from timex.method.explainer import TimeX
from timex.reference import load_reference

log = logging.getLogger(__name__)

SOURCE = "model.json"
REFERENCE = "reference"
"""Folder of the reference model beside the explainer, and what `timex.io.folder` calls its kind."""


@dataclass(frozen=True)
class Source:
    """The origin of an explainer's model, kept beside the explainer in model.json.

    Attributes:
        model: The factory, package.module:factory; None for the reference model in the folder `reference`.
    """

    model: str | None = None

    def write(self, folder: Path) -> None:
        """Keep it in an explainer's folder."""
        write_json(asdict(self), folder / SOURCE)

    @classmethod
    def read(cls, folder: Path) -> Source:
        """What `write` kept in an explainer's folder."""
        path = folder / SOURCE
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} holds no explainer of `timex fit`: {SOURCE} is missing. Give --model for one that TimeX.save wrote."
            )
        values = read_json(path)
        if not (set(values) == {"model"} and isinstance(values["model"], str | None)):
            raise ValueError(f"Expected model in {path}, got {values}: fit the explainer again.")
        return cls(**values)


def load_model(factory: str | None, reference: Path | None) -> Any:
    """The model that `timex fit` explains."""
    if (factory is None) == (reference is None):
        raise ValueError("Expected either --model package.module:factory or --reference FOLDER.")
    return load_reference(reference) if factory is None else call_factory(factory)  # type: ignore[arg-type]


def call_factory(name: str) -> Any:
    """The model that package.module:factory or file.py:factory returns; modules in the current folder are found too."""
    module_name, _, factory = name.rpartition(":")
    if not module_name or not factory:
        raise ValueError(f"Expected --model as package.module:factory or file.py:factory, got {name!r}.")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = module_of_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"--model {name}: {error}. Run the command in the folder that holds the module, or give the file: "
            "--model path/to/file.py:factory."
        ) from None
    if not hasattr(module, factory):
        raise ValueError(f"--model {name}: module {module_name!r} has no {factory!r}.")
    return getattr(module, factory)()  # errors in the user's code keep their traceback


def module_of_file(path: Path) -> ModuleType:
    """The module that a Python file holds; modules beside the file are found too."""
    if not path.is_file():
        raise ImportError(f"there is no file {path} in {Path.cwd()}")
    if str(path.resolve().parent) not in sys.path:
        sys.path.insert(0, str(path.resolve().parent))
    return importlib.import_module(path.stem)


def open_explainer(folder: Path, model: str | None, trust: bool, device: str | None) -> TimeX:
    """A saved explainer with its model.

    Code runs only if the user names it with --model, or allows the name in the folder with --trust-model.
    """
    saved = (folder / SOURCE).is_file()
    source = Source(model) if model is not None and not saved else Source.read(folder)
    device = device_of(device)
    if model is None and source.model is None:
        module: Any = load_reference(folder / REFERENCE)
    elif model is None and not trust:
        raise ValueError(
            f"The explainer in {folder} explains {source.model}, which is code outside this program: allow it with "
            f"--model {source.model}, or with --trust-model, which runs whatever the folder names."
        )
    else:
        if model is None:
            log.warning("running %s, which %s names as its model", source.model, folder)
        module = call_factory(model or str(source.model))
    return TimeX.load(folder, module, device=device)


def reference_facts(folder: Path) -> dict[str, Any]:
    """What is known of the reference model in an explainer's folder; empty for other models."""
    place = folder / REFERENCE
    return read_folder(place, REFERENCE)[0] if (place / "reference.json").is_file() else {}
