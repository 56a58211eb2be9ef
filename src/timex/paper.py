"""The paper's published numbers, read from paper.json, to print beside ours."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def _tables() -> dict[str, dict[str, dict[str, list[float | None]]]]:
    return json.loads((files("timex") / "paper.json").read_text())


def published(table: str, row: str) -> dict[str, float]:
    """The cells of one row of a published table by column; empty where the paper has none.

    >>> published("classification", "freqshapes")["f1"]
    0.9716
    >>> published("classification", "my own data")
    {}
    """
    entry = _tables().get(table)
    if entry is None or row not in entry["rows"]:
        return {}
    return {column: v for column, v in zip(entry["columns"], entry["rows"][row], strict=True) if v is not None}
