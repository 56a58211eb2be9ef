"""`timex report`: the interactive page of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timex.cli.console import console
from timex.cli.files import check_file, read_json
from timex.progress import counting_bar

if TYPE_CHECKING:
    from timex.method.landmarks import Landmarks


def report(
    folder: Annotated[Path, typer.Argument(help="What `timex demo`, or `timex fit` and `timex explain`, wrote.")],
    out: Annotated[Path | None, typer.Option(help="The page to write; by default report.html in the folder.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page; by default the folder's name.")] = None,
) -> None:
    """Write explanations, landmarks and scores as one interactive page that opens from disk, without a network.

    The folder holds explanations.npz. These are shown too, where they exist: explanations-METHOD.npz to compare with, the
    explainer (in the folder or its explainer/) for landmarks and training, scores.json, check.json and stability.json
    (`timex check --out` and `--stability` write them), and occlusion.json.
    """
    page = out or folder / "report.html"
    with counting_bar("writing the page"):
        write_page(folder, page, title or folder.resolve().name)
    console.print(f"Written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser.")


def write_page(folder: Path, page: Path, title: str) -> None:
    """The interactive page of the explanations and scores in `folder`."""
    from timex.records import Explanation
    from timex.report.page import write_report

    if not (folder / "explanations.npz").is_file():
        raise FileNotFoundError(
            f"{folder} holds no explanations.npz: `timex explain --explainer {folder} --data FILE --out "
            f"{folder / 'explanations.npz'}` writes one."
        )
    check_file(page, ".html", ".htm")
    first = Explanation.load(folder / "explanations.npz")
    others = {p.stem.removeprefix("explanations-"): Explanation.load(p) for p in sorted(folder.glob("explanations-*.npz"))}
    landmarks, description = fitted_in(folder)
    tables = {
        name: read_json(p) for name in ("scores", "occlusion", "check", "stability") if (p := folder / f"{name}.json").is_file()
    }
    write_report(
        page,
        {first.method or "explanation": first, **others},
        landmarks=landmarks if first.embedding is not None else None,
        scores=tables.get("scores"),
        occlusion={m: {float(q): v for q, v in curve.items()} for m, curve in tables.get("occlusion", {}).items()},
        check=tables.get("check"),
        stability=tables.get("stability", {}).get("values"),
        history=description.get("history"),
        prior=_prior(description.get("config", {})),
        title=title,
    )


def _prior(config: dict[str, Any]) -> float | None:
    """The prior probability that a cell is kept, which the paper's objective has and the evidence objective has not."""
    return config.get("loss", {}).get("r") if config.get("objective") == "paper" else None


def fitted_in(folder: Path) -> tuple[Landmarks | None, dict[str, Any]]:
    """Landmarks and description of the explainer in the folder or its explainer/; neither needs the explained model."""
    from timex.io.folder import grouped, read_folder
    from timex.method.landmarks import Landmarks

    for place in (folder, folder / "explainer"):
        if (place / "explainer.json").is_file():
            description, tensors = read_folder(place, "explainer")
            arrays = {name: value.numpy() for name, value in grouped(tensors, "landmarks.").items()}
            return Landmarks(**arrays), description
    return None, {}
