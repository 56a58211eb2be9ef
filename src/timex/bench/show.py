"""Everything that can be made of a run directory without computing: tables, figures, a page, an export to keep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from timex.bench.render import LEGEND, Sheet, Terminal, latex, markdown, sheets
from timex.bench.store import Store
from timex.bench.summary import blocks
from timex.bench.tables import TABLES
from timex.registry import find
from timex.types import atomic_path

INTRODUCTION = """\
Written by `timex bench show`. Every table has our numbers beside the paper's, over as many folds as it says.

What the synthetic tables can and cannot show: the cells that decide the class are known, so an explanation can be scored. But
on FreqShapes and both SeqComb sets the deciding cells are also the largest, so the amplitude control, |x - channel median|,
which sees no model at all, scores high there: read it beside every row. A high score on these sets shows that an explainer
finds large values; it does not show that the *model* is explained. On LowVar the deciding cells do not stick out, amplitude
says next to nothing, and a good score is evidence. ECG windows are cut around their R peak, so the place alone gives the
deciding cells away: read the centre control, which sees neither model nor data. No table shows that an explanation is
faithful to a model whose reasons nobody knows; the occlusion table comes nearest to that."""
FORMATS: dict[str, Callable[[Sheet], Any]] = {"terminal": Terminal, "markdown": markdown, "latex": latex}


def tables(folder: Path, names: Sequence[str] = (), *, style: str = "terminal", **options: Any) -> Iterator[str | Terminal]:
    """The tables that have anything to show, in one of the `FORMATS`.

    Args:
        folder: The run directory.
        names: Which; all by default.
        style: terminal, markdown or latex.
        options: As `render.sheets` takes them.
    """
    write = find(FORMATS, style, "format")
    results = list(Store(folder).results())
    for name in names:
        find(TABLES, name, "table")
    for name in names or TABLES:
        for table, own in sheets([name], results, **options):
            if style == "markdown":
                yield f"## {name}: {table.title}\n"
            yield from (write(s) for s in own)


def files(
    folder: Path,
    names: Sequence[str] = (),
    *,
    datasets: Sequence[str] = (),
    figures: Path | None = None,
    export: Path | None = None,
    page: Path | None = None,
) -> Iterator[Path]:
    """Write figures, an export or a page, those that are asked for, and say where."""
    if figures is not None:
        from timex.bench.figures import draw

        yield from draw(folder, figures, names, datasets)
    if export is not None:
        yield from Store(folder).export(export)
    if page is not None:
        with atomic_path(page) as beside:
            beside.write_text(page_text(folder, page, names, figures))
        yield page


def page_text(folder: Path, page: Path, names: Sequence[str] = (), figures: Path | None = None) -> str:
    """One Markdown page with every table, what was not measured, and the figures if they were drawn.

    Args:
        folder: The run directory; what failed in it was not measured.
        page: Where the page will lie, which figures are linked from.
        names: Which tables; all by default.
        figures: Where the figures lie.
    """
    results = [r for r in Store(folder).results() if r.error is None]
    where = sorted({(r.facts["device"], r.facts["torch"], r.facts["timex"]) for r in results})
    lines = ["# Results", "", INTRODUCTION, "", LEGEND, ""]
    lines += [f"Measured on {device}, torch {torch}, timex {version}.\n" for device, torch, version in where]
    missing, undrawn = [], []
    for name in names or TABLES:
        drawn = [] if figures is None else sorted(figures.glob(f"{name}*.png"))
        if not blocks(TABLES[name], results):
            missing.append(name)
            continue
        if not TABLES[name].metrics and not drawn:
            undrawn.append(name)
        lines += [f"## {TABLES[name].title}", "", f"`timex bench {name}`", ""] if TABLES[name].metrics or drawn else []
        for table, own in sheets([name], results):
            lines += [markdown(s) for s in own]
            absent = [d for d in table.datasets if not any(s.title.startswith(f"{d},") for s in own)]
            lines += [f"Data sets not measured: {', '.join(absent)}.\n"] if absent else []
        for path in drawn:
            which = path.stem.removeprefix(name).lstrip("-").replace("-", ", ")  # data set and model, where a table has several
            lines += [f"**{which}**\n"] if which else []
            lines += [f"![{which or TABLES[name].title}]({Path(os.path.relpath(path, page.parent)).as_posix()})\n"]
    if missing:
        lines += ["## Not measured", "", *(f"- `timex bench {name}`: {TABLES[name].title}" for name in missing), ""]
    if undrawn:
        lines += ["## Measured, not drawn here", "", *(f"- `timex bench {name}`: {TABLES[name].title}" for name in undrawn)]
    return "\n".join(lines).rstrip() + "\n"
