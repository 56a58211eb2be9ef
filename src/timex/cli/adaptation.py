"""Options that say how a model is called and read, for the commands that take a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

PANEL = "How the model is called and read"

Embedding = Annotated[
    str | None,
    typer.Option(
        help="Layer whose output is the embedding; by default the input of the last linear layer. See `timex inspect`.",
        rich_help_panel=PANEL,
    ),
]
EmbeddingOutput = Annotated[
    str | None, typer.Option(help="Index or key of that layer's output, if it returns several.", rich_help_panel=PANEL)
]
PoolAxis = Annotated[int | None, typer.Option("--pool", help="Axis of that output to average over.", rich_help_panel=PANEL)]
Layout = Annotated[
    Literal["BTD", "BDT"], typer.Option(help="BDT for a model that takes channels first.", rich_help_panel=PANEL)
]
Forward = Annotated[str | None, typer.Option(help="Keyword that the model takes series by.", rich_help_panel=PANEL)]
OutputPart = Annotated[
    str | None,
    typer.Option(
        "--output", help="Index, key or attribute of the model's output that holds the answer.", rich_help_panel=PANEL
    ),
]
TaskName = Annotated[
    Literal["classify", "binary", "multilabel", "regress", "forecast"],
    typer.Option("--task", help="What the answer means.", rich_help_panel=PANEL),
]
TargetIndex = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Label or number to explain: an index, or step,channel. For classes: one against all others, or class,other.",
        rich_help_panel=PANEL,
    ),
]


def keywords(**given: Any) -> dict[str, Any]:
    """Keywords of `timex.adapt` from options: whole numbers as such, those not given left out.

    >>> keywords(output="1", target="2,0", forward=None, task="forecast")
    {'output': 1, 'target': (2, 0), 'task': 'forecast'}
    """
    return {name: _value(name, value) for name, value in given.items() if value is not None}


def _value(name: str, value: Any) -> Any:
    if name == "target":
        try:
            index = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            raise ValueError(f"Expected --target as an index or step,channel, got {value!r}.") from None
        return index if len(index) > 1 else index[0]
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value
