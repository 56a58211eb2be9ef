"""Tables for the terminal, Markdown and LaTeX, our values beside the paper's."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from timex.bench.across import RIVAL, Comparison, Group, across
from timex.bench.experiments import Table
from timex.bench.names import method_name, metric_name
from timex.bench.recipes import TIMEX
from timex.bench.store import Result
from timex.bench.summary import Block, Difference, Row, Stat, blocks, verdict
from timex.bench.tables import TABLES

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

Format = Literal["terminal", "markdown", "latex"]
Mark = Literal["", "best", "second"]

POOLED = re.compile(r" \([.\d]+\)")
MARKDOWN = 120
"""Characters in a line of Markdown, tables excepted."""
BETWEEN = 3
"""Characters between two columns in the terminal."""
LEGEND = """\
Mean ± standard error over folds (in brackets: over the pooled samples, as the paper has it). **Best** and _second best_
explainer; controls see no model and do not compete."""


@dataclass(frozen=True)
class Text:
    """A cell of a table: its words and its mark."""

    words: str
    mark: Mark = ""


@dataclass(frozen=True)
class Sheet:
    """A block as text, the same for every format."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Text]]
    notes: Sequence[str]


def sheet(block: Block, per_fold: bool = False) -> Sheet:
    """A block as text, with a line for every fold of every method if `per_fold`."""
    timed = any(not math.isnan(r.explain_seconds) for r in block.rows) and "explain_seconds" not in block.metrics
    has_paper = {m: any(m in r.paper for r in block.rows) for m in block.metrics}
    header = ["method"]
    for metric in block.metrics:
        header += [metric_name(metric), *(["paper"] if has_paper[metric] else [])]
    header += ["folds", *(["fit, s", "explain, s"] if timed else [])]
    rows = []
    for r in block.rows:
        rows.append(_row(block, r, has_paper, timed))
        if per_fold:
            rows += _fold_rows(block, r, has_paper, len(header))
    return Sheet(block.title, header, rows, _notes(block))


def group_sheet(group: Group) -> Sheet:
    """Means over a group of data sets as text."""
    header = ["method", *(metric_name(m) for m in group.metrics), "sets", "fit, s", "explain, s"]
    rows = []
    for row in group.rows:
        seconds = [_number(v, "fit_seconds") for v in (row.fit_seconds, row.explain_seconds)]
        values = [_number(row.values[m], m) for m in group.metrics]
        rows.append([Text(words) for words in (method_name(row.label), *values, str(row.sets), *seconds)])
    return Sheet(group.title, header, rows, [_compared(c) for c in group.comparisons])


def _compared(c: Comparison) -> str:
    names = " − ".join(method_name(label) for label in (TIMEX, RIVAL))
    mean = _number(c.difference, c.metric)
    text = f"{metric_name(c.metric)}: {names} = {mean} in the mean, above on {c.ahead} of {c.sets} sets"
    return text if math.isnan(c.ratio) else f"{text}, smallest ratio {c.ratio:.2f} ({c.where})"


def _row(block: Block, row: Row, has_paper: Mapping[str, bool], timed: bool) -> list[Text]:
    texts = [Text(method_name(row.label))]
    for metric in block.metrics:
        ranking = block.ranking(metric)
        mark: Mark = "best" if ranking[:1] == [row.label] else "second" if ranking[1:2] == [row.label] else ""
        texts.append(Text(_value(row.stats.get(metric), metric), mark))
        if has_paper[metric]:
            texts.append(Text(_number(row.paper.get(metric, math.nan), metric)))
    counts = {len(s.folds) for s in row.stats.values()} or {0}
    failed = f", {len(row.errors)} failed" if row.errors else ""
    texts.append(Text(f"{max(counts)}{failed}"))
    if timed:
        texts += [Text(_number(v, "fit_seconds")) for v in (row.fit_seconds, row.explain_seconds)]
    return texts


def _fold_rows(block: Block, row: Row, has_paper: Mapping[str, bool], width: int) -> list[list[Text]]:
    rows = []
    for fold in sorted({k for s in row.stats.values() for k in s.folds}):
        texts = [Text(f"- fold {fold}")]
        for metric in block.metrics:
            score = row.stats[metric].folds.get(fold) if metric in row.stats else None
            texts += [Text("-" if score is None else _number(score.value, metric)), *([Text("")] if has_paper[metric] else [])]
        rows.append(texts + [Text("")] * (width - len(texts)))
    return rows


def _notes(block: Block) -> list[str]:
    notes = []
    if block.missing:
        missing = f"not measured: {_listed(block.missing)}"
        ranked = {label for metric in block.metrics for label in block.ranking(metric)}
        among = _listed(r.label for r in block.rows if r.label in ranked)
        notes.append(f"{missing}; best and second best are those among {among}" if among else missing)
    for own, metric in product([r.label for r in block.rows if r.label.startswith("timex")], block.metrics):
        compared = block.against_best(metric, own)
        if compared is not None:
            names = [method_name(label) for label in (own, compared[0])]
            notes.append(f"{metric_name(metric)}: {' − '.join(names)} = {_difference(compared[1], metric)}")
    for claim, d in block.claims:
        value = "" if d is None else f" ({_difference(d, claim.better[1])})"
        notes.append(f"claim: {claim.text}: {verdict(claim, d)}{value}")
    if block.outdated:
        notes.append(f"measured before settings, recipes or code were changed: {_listed(block.outdated)}")
    if block.residual:
        notes.append("the models have residuals around self-attention; the paper's have none")
    if block.weak:
        notes.append(f"the model of fold {', '.join(map(str, block.weak))} stayed more than .02 under the paper's F1")
    if block.mixed:
        folds = ", ".join(map(str, block.mixed))
        notes.append(
            f"fold {folds}: not all rows are known to explain the same model; differences are taken between rows that do"
        )
    timed: dict[str, list[str]] = {}
    for row in block.rows:
        if not math.isnan(row.explain_seconds):
            timed.setdefault(row.device, []).append(row.label)
    if len(timed) > 1:
        where = "; ".join(f"{_listed(labels)} on {device}" for device, labels in timed.items())
        notes.append(f"seconds that cannot be compared: {where}")
    errors: dict[str, list[str]] = {}
    for row in block.rows:
        for fold, error in row.errors.items():
            errors.setdefault(error, []).append(f"{method_name(row.label)} fold {fold}")
    notes += [f"failed: {', '.join(who)}: {error}" for error, who in errors.items()]
    return notes


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(map(method_name, labels))


def _difference(d: Difference, metric: str) -> str:
    signed = _number(d.mean, metric)
    interval = f"[{_number(d.low, metric)}, {_number(d.high, metric)}]"
    p = "p < 0.001" if d.p < 0.001 else f"p = {d.p:.2g}"  # five folds give no more digits
    return f"{signed if signed.startswith('-') else '+' + signed} {interval}, {p}, paired over {d.folds} folds"


def _value(stat: Stat | None, metric: str) -> str:
    if stat is None or math.isnan(stat.mean):
        return "-"
    text = _number(stat.mean, metric)
    if not math.isnan(stat.se_folds):
        text += f" ± {_number(stat.se_folds, metric)}"
    return text if math.isnan(stat.se_pooled) else f"{text} ({_number(stat.se_pooled, metric)})"


def _number(value: float, metric: str) -> str:
    """.832 for scores, 12.3 for seconds and distances."""
    if math.isnan(value):
        return "-"
    if metric.endswith("seconds") or abs(value) >= 10:
        return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


# ------------------------------------------------------------------------------------------------------------- formats


def markdown(s: Sheet) -> str:
    """A sheet as Markdown."""
    marks: dict[Mark, Callable[[str], str]] = {"": str, "best": lambda t: f"**{t}**", "second": lambda t: f"_{t}_"}
    lines = [f"**{s.title}**", "", _line(s.header), _line(["---"] * len(s.header))]
    lines += [_line([marks[t.mark](t.words.replace("|", "\\|")) for t in row]) for row in s.rows]
    notes = [_wrapped(f"- {note.replace('|', chr(92) + '|')}") for note in s.notes]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _wrapped(note: str) -> str:
    return textwrap.fill(note, MARKDOWN, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def latex(s: Sheet) -> str:
    """A sheet as a LaTeX table for booktabs."""
    marks: dict[Mark, Callable[[str], str]] = {
        "": str,
        "best": lambda t: rf"\textbf{{{t}}}",
        "second": lambda t: rf"\underline{{{t}}}",
    }
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'c' * (len(s.header) - 1)}}}",
        r"\toprule",
        " & ".join(_tex(h) for h in s.header) + r" \\",
        r"\midrule",
        *(" & ".join(marks[t.mark](_tex(t.words)) for t in row) + r" \\" for row in s.rows),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{_tex(s.title)}. {' '.join(_tex(note) + '.' for note in s.notes)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    for plain, safe in {
        "\\": r"\textbackslash ",
        "_": r"\_",
        "%": r"\%",
        "&": r"\&",
        "#": r"\#",
        "|": r"$|$",
        "±": r"$\pm$",
    }.items():
        text = text.replace(plain, safe)
    return text


@dataclass(frozen=True)
class Terminal:
    """A sheet for the terminal, without pooled errors; columns beyond the width follow below."""

    sheet: Sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.box import SIMPLE
        from rich.table import Table as RichTable
        from rich.text import Text as RichText

        styles = {"": "", "best": "bold green", "second": "underline"}
        for part in self.parts(options.max_width):
            table = RichTable(title=self.sheet.title, title_justify="left", box=SIMPLE)
            for k in part:
                table.add_column(self.sheet.header[k], no_wrap=True)
            for row in self.sheet.rows:
                table.add_row(*(RichText(POOLED.sub("", row[k].words), style=styles[row[k].mark]) for k in part))
            yield table
        yield from (RichText(f"  {note}") for note in self.sheet.notes)

    def parts(self, width: int) -> list[list[int]]:
        """The columns of each part: the methods first, and every score together with the paper's."""
        cells = [[name, *(POOLED.sub("", row[k].words) for row in self.sheet.rows)] for k, name in enumerate(self.sheet.header)]
        widths = [max(map(len, column)) + BETWEEN for column in cells]
        parts = [[0]]
        for k in range(1, len(cells)):
            together = widths[k : k + 1 + (self.sheet.header[k + 1 : k + 2] == ["paper"])]
            taken = sum(widths[j] for j in parts[-1])
            if self.sheet.header[k] != "paper" and taken + sum(together) >= width and len(parts[-1]) > 1:
                parts.append([0])
            parts[-1].append(k)
        return parts


def sheets(
    names: Iterable[str],
    results: Sequence[Result],
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    per_fold: bool = False,
    every: bool = False,
) -> list[tuple[Table, list[Sheet]]]:
    """The tables that have measured cells, as text."""
    found = []
    for name in names:
        table = TABLES[name]
        measured = [b for b in blocks(table, results, datasets, methods, every) if b.metrics]
        if measured:
            means = [group_sheet(group) for group in across(table, measured)]
            found.append((table, [*(sheet(b, per_fold) for b in measured), *means]))
    return found
