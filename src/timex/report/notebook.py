"""What a notebook shows of explanations and of a fitted explainer: a line of text, and a piece of HTML without a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from timex.records import Explanation
from timex.report.overview import EMPTY, TRUSTED, UNCHECKED, WEAK, kept_share, summary, trust_of
from timex.report.samples import class_name, numbers_in_words, sample_name
from timex.report.svg import sample_svg

SAMPLES = 3
"""Samples drawn."""
CLASSES = 12
"""Classes in the table."""
TRUST = {EMPTY: "empty: no cell kept", WEAK: "weak: the surrogate disagrees", TRUSTED: "trusted: the surrogate agrees"}


def text_of(e: Explanation) -> str:
    """One line: how many explanations, of what shape, by which method, and how far to trust them."""
    n, t, d = e.x.shape
    facts = [f"{n} x {t} x {d}", *([e.method] if e.method else []), *_facts(e)]
    return f"Explanation({', '.join(facts)})"


def _facts(e: Explanation) -> list[str]:
    """Accuracy, agreement and kept share in words, where they are known."""
    if len(e) == 0:
        return []
    known = summary(e)
    words = {"accuracy": "model right {:.0%}", "agreement": "surrogate agrees {:.0%}", "kept": "cells kept {:.0%}"}
    return [text.format(known[name]) for name, text in words.items() if known[name] is not None]


def explanation_html(e: Explanation) -> str:
    """A heading, a table of the classes, and the first samples as figures that fold."""
    n, t, d = e.x.shape
    head = f"<b>{n:,} {'explanation' if n == 1 else 'explanations'}</b>"
    by = f" by {escape(e.method)}" if e.method else ""
    facts = " · ".join([f"{t:,} steps × {d} {'channel' if d == 1 else 'channels'}", *_facts(e)])
    table = _class_table(e) if e.numbers is None and n > 1 else ""
    figures = "".join(_sample(e, i) for i in range(min(SAMPLES, n)))
    more = f"<div>… and {n - SAMPLES:,} more: <code>e[i]</code>, <code>e.plot(i)</code></div>" if n > SAMPLES else ""
    return _box(f"<div>{head}{by} · {facts}</div>{table}{figures}{more}")


def explainer_html(name: str, facts: Mapping[str, Any], landmarks: Sequence[tuple[str, int]] = ()) -> str:
    """An explainer's facts as a table, and its most used landmarks with their sizes as bars."""
    rows = "".join(f"<tr>{_cell(key, 'th')}{_cell(value)}</tr>" for key, value in facts.items())
    largest = max((size for _, size in landmarks), default=1) or 1
    bars = "".join(
        f"<tr>{_cell(words)}{_cell(f'{size:,}')}<td style='{LEFT}'><div style='background:#e25508;height:8px;"
        f"width:{max(2, round(160 * size / largest))}px'></div></td></tr>"
        for words, size in landmarks
    )
    shown = f"<div>Largest landmarks, by training explanations</div><table style='{TABLE}'>{bars}</table>" if bars else ""
    return _box(f"<div><b>{escape(name)}</b></div><table style='{TABLE}'>{rows}</table>{shown}")


TABLE = "color:inherit;border-collapse:collapse;margin:6px 0;font-size:12px"
LEFT = "text-align:left;padding:1px 10px 1px 0"


def _box(content: str) -> str:
    return f"<div style='font:13px/1.5 system-ui,sans-serif;max-width:900px'>{content}</div>"


def _cell(value: Any, tag: str = "td") -> str:
    return f"<{tag} style='{LEFT}'>{escape(str(value))}</{tag}>"


def _class_table(e: Explanation) -> str:
    """A row per explained class, in the order of the classes: samples and shares."""
    kept = None if e.mask is None else kept_share(e)
    right = None if e.series.y is None else e.probability.argmax(axis=1) == e.series.y
    shares = {"model right": right, "surrogate agrees": e.agreement, "cells kept": kept}
    known = {name: v for name, v in shares.items() if v is not None}
    head = "".join(_cell(name, "th") for name in ("class", "samples", *known))
    rows = []
    for c in np.unique(e.prediction)[:CLASSES]:
        members = e.prediction == c
        means = [f"{v[members].mean():.0%}" for v in known.values()]
        cells = (class_name(e, int(c)), f"{members.sum():,}", *means)
        rows.append(f"<tr>{''.join(map(_cell, cells))}</tr>")
    return f"<table style='{TABLE}'><tr>{head}</tr>{''.join(rows)}</table>"


def _sample(e: Explanation, i: int) -> str:
    """One sample: its class and trust in words, and its figure below, open for the first."""
    words = f"Sample {sample_name(e, i)}: {answer(e, i)}"
    trust = trust_of(e)
    if trust is not None and trust[i] != UNCHECKED:
        words += f" · {TRUST[int(trust[i])]}"
    return f"<details{' open' if i == 0 else ''}><summary>{escape(words)}</summary>{sample_svg(e, i)}</details>"


def answer(e: Explanation, i: int) -> str:
    """What the model says of sample `i`, and the true class if it is known."""
    if e.numbers is not None:
        return numbers_in_words(e.numbers[i])
    c = int(e.prediction[i])
    words = f"{class_name(e, c)} ({e.probability[i, c]:.2f})"
    return words if e.series.y is None else f"{words}, true: {class_name(e, int(e.series.y[i]))}"
