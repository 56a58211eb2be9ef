"""Tables, figures, a page and an export from a run directory; nothing is measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from timex.bench.render import LEGEND, Sheet, Terminal, latex, markdown, sheets
from timex.bench.store import Store
from timex.bench.summary import blocks
from timex.bench.tables import TABLES
from timex.io.atomic import atomic_path
from timex.registry import find

INTRODUCTION = """\
Written by `timex bench show`. Every table has our values beside the paper's, over the folds that its column names.

`TimeX (ours)` has the default settings of this package, `TimeX (paper's objective)` the paper's objective and settings.

On the synthetic sets the deciding cells are known, so explanations can be scored. How to read the scores:

- On FreqShapes and both SeqComb sets the deciding cells are also the largest. The amplitude control,
  |x - channel median|, sees no model and scores high there. A high score on these sets shows that an explainer finds
  large values. It does not show that the explainer follows the model.
- On LowVar the deciding cells are not the largest, and amplitude scores low. A high score there is evidence.
- ECG windows are cut around their R peak, so the position alone finds the deciding cells. The centre control sees
  neither model nor data.
- The battery (`heldout`) has data that no setting was tuned for. Its tables also show the gap: the share of the model's
  evidence in the highest cells less the share in the rest. The gap needs no ground truth.
- No table shows that an explanation is faithful to a model whose reasons are unknown. The occlusion table comes
  nearest."""
FORMATS: dict[str, Callable[[Sheet], Any]] = {"terminal": Terminal, "markdown": markdown, "latex": latex}


def _figures(folder: Path, name: str) -> list[Path]:
    """The drawn figures of a table: SVG, and PNG of runs that were drawn before figures were SVG."""
    drawn = sorted(folder.glob(f"{name}*.svg"))
    return drawn or sorted(folder.glob(f"{name}*.png"))


def tables(folder: Path, names: Sequence[str] = (), *, style: str = "terminal", **options: Any) -> Iterator[str | Terminal]:
    """The tables that have measured cells, in one of the `FORMATS`.

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
    """Write figures, an export or a page, each where a path is given, and yield the paths."""
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
    """A Markdown page with every table, the figures if they were drawn, and a list of what was not measured.

    Args:
        folder: The run directory; failed cells count as not measured.
        page: Where the page will lie; links to figures are relative to it.
        names: Which tables; all by default.
        figures: Where the figures lie.
    """
    results = [r for r in Store(folder).results() if r.error is None]
    where = sorted({(r.facts["device"], r.facts["torch"], r.facts["timex"]) for r in results})
    lines = ["# Results", "", INTRODUCTION, "", LEGEND, ""]
    lines += [f"Measured on {device}, torch {torch}, timex {version}.\n" for device, torch, version in where]
    missing, undrawn = [], []
    for name in names or TABLES:
        drawn = [] if figures is None else _figures(figures, name)
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
