"""What long work began with, kept beside its results: work goes on after a stop only with the same inputs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from timex.io.atomic import atomic_path

TOLERANCE = 1e-3
"""Relative difference of a model's answers up to which it counts as the same: GPUs round differently from run to run."""


def expect_facts(path: Path, work: str, facts: dict[str, Any]) -> None:
    """Refuse to go on if a fact differs from what the file holds; facts that it lacks are added.

    Args:
        path: A JSON file in the folder of the work.
        work: What the folder began, for the message.
        facts: Values that JSON can hold: hashes, settings by name, or lists of a model's answers.
    """
    now = json.loads(json.dumps(facts))
    before = _read(path)
    found = [text for name in now if name in before for text in _differences(name, before[name], now[name])]
    if found:
        raise ValueError(
            f"Expected the {work} that {path.parent} began, got another: {'; '.join(found)}. Give the same, or delete that "
            "folder to start again."
        )
    if set(now) - set(before):
        with atomic_path(path) as beside:
            beside.write_text(json.dumps({**before, **now}, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise ValueError(f"{path} is damaged: delete the folder {path.parent} to start again.")
    return facts


def _differences(name: str, before: Any, now: Any) -> Iterator[str]:
    """What changed in one fact, in words."""
    if isinstance(now, dict) and isinstance(before, dict):
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                yield f"{name}: {key} was {before.get(key)}, is {now.get(key)}"
    elif isinstance(now, list) and isinstance(before, list):
        if not _close(before, now):
            yield f"other {name}"
    elif before != now:
        short = isinstance(now, str) and len(now) < 40
        yield f"{name} was {before}, is {now}" if short else f"other {name}"


def _close(before: list[float], now: list[float]) -> bool:
    """Whether two lists of numbers are equal but for rounding."""
    scale = max((abs(v) for v in before if math.isfinite(v)), default=0.0)
    return len(before) == len(now) and all(
        a == b or abs(a - b) <= TOLERANCE * scale or (math.isnan(a) and math.isnan(b)) for a, b in zip(before, now, strict=True)
    )
