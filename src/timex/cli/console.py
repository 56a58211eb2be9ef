"""What the command prints: one console for tables, one line for an error, options in place of Python arguments."""

from __future__ import annotations

import logging
import os
import re
import sys

from rich.console import Console
from rich.markup import escape

# A pipe has no width. Without a width given here, tables in a pipe or a file would be cut at 80 columns.
console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160)

OPTIONS = {
    name: f"--{name}"
    for name in (
        "embedding",
        "output",
        "pool",
        "layout",
        "forward",
        "task",
        "target",
        "contrast",
        "smoothing",
        "train",
        "device",
    )
} | {
    "embedding_output": "--embedding-output",
    "x_val": "--val",
    "max_bytes": "--max-bytes",
}
"""The command-line options of Python arguments that messages of the library name."""

ONLY_IN_PYTHON = {
    "pass allow_other_model=True": "load it in Python with TimeX.load(..., allow_other_model=True)",
    "pass observed= with False there": "leave them empty in the file (NaN in .npz)",
}
"""Advice of the library that no option follows, and how the command line words it."""


def as_options(message: str) -> str:
    """The message with command-line options in place of Python arguments.

    >>> as_options("Expected pool= or x_val=, with smoothing=0 for none.")
    'Expected --pool or --val, with --smoothing 0 for none.'
    """
    for advice, words in ONLY_IN_PYTHON.items():
        message = message.replace(advice, words)
    pattern = rf"\b({'|'.join(OPTIONS)})=(['\w]?)"
    return re.sub(pattern, lambda found: f"{OPTIONS[found[1]]} {found[2]}".rstrip(), message)


class MessageFormatter(logging.Formatter):
    """Log records as bare messages that name options."""

    def format(self, record: logging.LogRecord) -> str:
        """The message of a record."""
        return as_options(super().format(record))


def print_error(error: BaseException) -> None:
    """One line on standard error."""
    message = as_options(str(error)) or "the memory of this machine is exhausted: use fewer or shorter series."
    # Escaped: the console would take brackets in the message for markup.
    Console(stderr=True).print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)


def print_if_weak(passed: bool | None, attempts: int) -> None:
    """A warning if the explained model failed the check against the paper's F1."""
    if passed is False:
        console.print(
            f"[yellow]weak model[/]: its F1 on the check data is more than .02 below the paper's after {attempts} seeds. "
            "Explanations of a weak model mean little."
        )
