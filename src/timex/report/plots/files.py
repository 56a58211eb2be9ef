"""Figures to files."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from timex.io.atomic import atomic_path

FORMATS = ("pdf", "png", "svg")


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PDF, PNG or SVG, by its suffix; a failing write leaves no half file."""
    target = Path(path)
    kind = target.suffix[1:].lower()
    if kind not in FORMATS:
        raise ValueError(f"Expected a file name that ends in one of {', '.join(FORMATS)}, got {target.name!r}: add the suffix.")
    with atomic_path(target) as beside:
        figure.savefig(beside, format=kind, dpi=200)
    return target
