"""The file of the page: the template with style sheets, scripts and data in their places.

The sources lie in the folder `page`. The scripts share one scope: they are joined in the order of `SCRIPTS`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from timex.report.embed import Arrays, encode

FOLDER = Path(__file__).parent / "page"
STYLES = ("base", "panels", "overview", "layout")
SCRIPTS = (
    *("data", "dom", "pen", "state", "theme", "lanes", "map", "density", "pointer"),
    *("overview", "sample", "series", "zoom", "average", "selection", "landmark", "scores", "chart", "actions", "start"),
)


def filled(meta: Mapping[str, Any], early: Arrays, series: Arrays) -> str:
    """The page: template, style sheets, scripts, facts and arrays.

    Every array has a separate data block. Those of the map come before the script, which draws it while the browser still
    reads the series.
    """
    css = "".join((FOLDER / f"{name}.css").read_text(encoding="utf-8") for name in STYLES)
    parts = "\n".join((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}}})();\n'
    # Only these scripts and styles may run, and nothing may be fetched.
    policy = f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(css)}; base-uri 'none'; form-action 'none'"
    places = {
        "title": html.escape(meta["title"]),
        "policy": policy,
        "css": css,
        "early": f'<script type="application/json" id="meta">{_json(meta)}</script>\n{_blocks(early)}',
        "script": script,
        "series": _blocks(series),
    }
    template = (FOLDER / "page.html").read_text(encoding="utf-8")
    # One pass: inserted text is never searched for placeholders.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: places[match[1]], template)


def _blocks(arrays: Arrays) -> str:
    return "\n".join(f'<script type="text/plain" id="array-{name}">{encode(a)}</script>' for name, a in arrays.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """JSON without the characters that could end its script block."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: Any) -> Any:
    """Mappings, lists and numbers as JSON types; a number that is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value if value is None else str(value)
