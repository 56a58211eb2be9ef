"""The table of docs/methods.md, written from the explainers' class attributes and docstrings: python docs/site/methods.py."""

import inspect
import re
from pathlib import Path
from typing import Any

from timex.explainers.base import Explainer
from timex.registry import EXPLAINERS

PAGE = Path(__file__).parents[1] / "methods.md"
COLUMNS = ("name", "class", "what it is", "fit", "gradients", "signed", "any class", "numbers", "models", "calls")


def methods_table() -> str:
    """A row for every registered explainer."""
    rows = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for name, explainer in EXPLAINERS.items():
        rows.append(f"| {' | '.join((f'`{name}`', f'`{explainer.__name__}`', what(explainer), *facts(explainer)))} |")
    return "\n".join(rows)


def what(explainer: type[Explainer[Any]]) -> str:
    """The first paragraph of the docstring, without a full stop."""
    return inspect.cleandoc(explainer.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|").removesuffix(".")


def facts(explainer: type[Explainer[Any]]) -> tuple[str, ...]:
    """What the class attributes say."""
    cost = f"`{explainer.cost}`" if explainer.cost else "?"
    yes = (explainer.needs_fit, explainer.needs_gradients, explainer.signed, explainer.takes_target)
    return (*("yes" if value else "no" for value in yes), explainer.numbers, explainer.only_for or "all", cost)


def updated(text: str) -> str:
    """The page with the table as the code has it."""
    pattern = r"(<!-- methods: .*-->\n)(?:.*\n)*?(<!-- end of methods -->)"
    return re.sub(pattern, lambda match: f"{match[1]}\n{methods_table()}\n\n{match[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
