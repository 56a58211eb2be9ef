"""`timex inspect`: the layers of a model, and which one to take as the embedding."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from timex.cli.adaptation import Forward, Layout, OutputPart, TargetIndex, TaskName, keywords
from timex.cli.console import console
from timex.cli.options import MaxBytes

FEW = 8
"""Series that the model is run on."""


def inspect(
    model: Annotated[
        str, typer.Argument(help="package.module:factory or file.py:factory that returns the trained torch module.")
    ],
    data: Annotated[str, typer.Option(help="Series for the model: a file, or the name of a data set.")],
    layout: Layout = "BTD",
    forward: Forward = None,
    output: OutputPart = None,
    task: TaskName = "classify",
    target: TargetIndex = None,
    max_bytes: MaxBytes = None,
) -> None:
    """List a model's layers with the shapes of their outputs, and say which embedding a fit takes.

    The embedding is the vector that enters the model's final decision. A layer with a number under Z can be named as
    `--embedding` as it is; the others need `--pool` or `--embedding-output`.
    """
    from timex.cli.inputs import training_series
    from timex.cli.models import call_factory
    from timex.reference.adapt import adapt
    from timex.reference.wrapped import Wrapped

    series = training_series(data, None, 0, max_bytes)[0].take(slice(0, FEW))
    how = keywords(layout=layout, forward=forward, output=output, task=task, target=target)
    adapted = adapt(call_factory(model), series, **how)
    if not isinstance(adapted, Wrapped):
        console.print(f"{escape(type(adapted).__name__)}: explained as it is; it has no layer to name.")
        return
    x = series.tensors()
    table = Table("layer", "class", "output", "Z")
    for row in adapted.layers(x["x"], x.get("times"), x.get("observed")):
        table.add_row(escape(row.name), row.kind, escape(row.shape), "" if row.width is None else str(row.width))
    console.print(table)
    console.print(
        f"The answer has {adapted.n_classes} {'numbers' if adapted.numbers else 'classes'}. Without --embedding a fit takes "
        f"{escape(str(adapted.tap))}, Z = {adapted.embedding_size}."
    )
