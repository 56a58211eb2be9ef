"""Runs the notebooks of the documentation and writes their outputs.

Run python docs/site/notebooks.py, with TIMEX_TEST_DATA naming the folder of real data. It needs no Jupyter: cells are executed
in order in one namespace. What they print, the figures and the last expression of each become outputs as a notebook keeps them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
DPI = 72


def executed(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of every code cell. An error of a cell is raised, with the number of the cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            try:
                cell = {**cell, "execution_count": number, "outputs": _outputs("".join(cell["source"]), names, number)}
            except Exception as error:
                raise RuntimeError(f"cell {number} failed: {error}") from error
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What one cell prints and shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": shown(value)})
    return outputs


def shown(value: Any) -> dict[str, Any]:
    """A value in the forms a notebook shows: a picture, HTML, or text."""
    if isinstance(value, Figure):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=DPI)
        return {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": "<Figure>"}
    forms: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        forms["text/html"] = value._repr_html_().splitlines(keepends=True)
    return forms


def run(path: Path) -> dict[str, Any]:
    """A notebook's file, executed."""
    return executed(json.loads(path.read_text()))


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.ipynb")):
        if len(sys.argv) == 1 or file.stem in sys.argv[1:]:
            file.write_text(json.dumps(run(file), indent=1, ensure_ascii=False) + "\n")
            print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")
