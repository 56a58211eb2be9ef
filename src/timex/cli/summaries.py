"""What `timex explain` prints of every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from timex.cli.console import console
from timex.io.rounding import rounded

if TYPE_CHECKING:
    from timex import Explanation

SHOWN = 5
"""Samples in the printed table."""


def summary(explanation: Explanation, i: int, first: int = 0) -> dict[str, Any]:
    """The class, the trust and the most important spans of sample `i`; `first` is the index of the first sample in its file."""
    from timex.report.spans import important_spans

    def named(c: int) -> str | int:
        return explanation.classes[c] if explanation.classes else c

    series, c = explanation.series, int(explanation.prediction[i])
    facts: dict[str, Any] = {"sample": series.ids[i] if series.ids else first + i}
    if explanation.numbers is None:
        facts |= {"class": named(c), "confidence": rounded(explanation.probability[i, c])}
        if explanation.contrast is not None:
            facts["contrast"] = named(int(explanation.contrast[i]))
    else:
        facts["numbers"] = rounded(explanation.numbers[i].tolist(), 6)
    if series.y is not None:
        facts["label"] = named(int(series.y[i]))
    if explanation.agreement is not None and explanation.divergence is not None and explanation.landmark is not None:
        facts |= {
            "agreement": bool(explanation.agreement[i]),
            "divergence": rounded(explanation.divergence[i]),
            "landmark": int(explanation.landmark[i]),
        }
    if explanation.unfamiliar is not None:
        facts["unfamiliar"] = bool(explanation.unfamiliar[i])
    if explanation.mask is not None:
        facts["kept"] = rounded(explanation.mask[i].mean())
    spans = [span._asdict() | {"weight": rounded(span.weight)} for span in important_spans(explanation, i)]
    return facts | {"spans": spans}


def print_summaries(explanation: Explanation, n: int | None = None) -> None:
    """A table of the first samples of n, of which these are the first."""
    n = len(explanation) if n is None else n
    labelled, trusted = explanation.series.y is not None, explanation.agreement is not None
    against = ["contrast"] if explanation.contrast is not None else []
    answer = ["class", *against, "confidence"] if explanation.numbers is None else ["numbers"]
    columns = ["sample", *(["label"] if labelled else []), *answer, *(["surrogate"] if trusted else [])]
    table = Table(*columns, "most important spans")
    for i in range(min(SHOWN, len(explanation))):
        table.add_row(*_row(summary(explanation, i)))
    console.print(table)
    if n > SHOWN:
        console.print(f"... and {n - SHOWN:,} more: --json prints all, `timex report` shows them.")


def _row(facts: dict[str, Any]) -> list[str]:
    """The cells of one sample's row."""
    from timex.report.spans import Span

    row = [escape(str(facts[name])) for name in ("sample", "label", "class", "contrast") if name in facts]
    if "numbers" in facts:
        row.append(", ".join(f"{v:.4g}" for v in facts["numbers"]))
    else:
        row.append(f"{facts['confidence']:.2f}")
    if "agreement" in facts:
        row.append("agrees" if facts["agreement"] else "[yellow]disagrees[/]")
    spans = "\n".join(str(Span(**span)) for span in facts["spans"]) or "none: all cells have the same score"
    if facts.get("kept") == 0:
        spans = f"no cell kept (p > .5); highest:\n{spans}"
    return [*row, escape(spans)]
