"""The tables of settings in docs/method.md, written from the code: python docs/site/settings.py."""

import json
import re
from pathlib import Path
from typing import Any

from timex.method.config import TimeXConfig
from timex.method.presets import PAPER, ROWS

PAGE = Path(__file__).parents[1] / "method.md"


def settings_table() -> str:
    """Every setting: its name, default, allowed values and meaning."""
    rows = ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for name, values, default, meaning, scalar in TimeXConfig.rows():
        kind = f"{values}; scalar" if scalar else values
        rows.append(f"| `{name}` | {_code(default)} | {kind} | {meaning} |")
    return "\n".join(rows)


def paper_table() -> str:
    """What the paper's settings change, for all data sets and then for each."""
    default = TimeXConfig().flat()
    shared = {name: v for name, v in PAPER.flat().items() if v != default[name]}
    rows = ["| data set | settings |", "|---|---|", f"| all | {_assignments(shared)} |"]
    rows += [f"| `{name}` | {_assignments(values) or 'as all'} |" for name, values in ROWS.items()]
    return "\n".join(rows)


def updated(text: str) -> str:
    """The page with both tables as the code has them."""
    for name, table in (("settings", settings_table()), ("paper settings", paper_table())):
        pattern = rf"(<!-- {name}: .*-->\n)(?:.*\n)*?(<!-- end of {name} -->)"
        text = re.sub(pattern, lambda match, table=table: f"{match[1]}\n{table}\n\n{match[2]}", text)
    return text


def _code(value: Any) -> str:
    return f"`{json.dumps(value) if isinstance(value, str) else value}`"


def _assignments(values: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={json.dumps(v) if isinstance(v, str) else v}`" for name, v in values.items())


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
