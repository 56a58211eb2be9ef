"""The page of results: whole, and what the command writes."""

from pathlib import Path

from test_summary import made

from timex.bench import TABLES, Store, show

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_in_the_repository_is_what_the_command_writes():
    """`timex bench show RUN --export docs/results/bench --figures docs/results/figures --page docs/results.md`."""
    results = DOCS / "results"
    assert (DOCS / "results.md").read_text() == show.page_text(
        results / "bench", DOCS / "results.md", figures=results / "figures"
    )


def test_the_page_says_what_was_not_measured(tmp_path):
    for result in [*made("timex", [0.9]), *made("ig", [0.5]), *made("ig", [0.0], measure="panel", dataset="seqcomb_uv")]:
        Store(tmp_path).write(result)
    (page,) = show.files(tmp_path, page=tmp_path / "page.md")
    text = page.read_text()
    assert "- not measured: \\|IG\\|, Dynamask" in text
    assert "Data sets not measured: seqcomb_uv." in text
    left = text.split("## Not measured\n\n")[1].split("\n\n## Measured, not drawn here\n\n")
    listed = [{line.split("`")[1].split()[-1] for line in part.splitlines()} for part in left]
    assert listed == [set(TABLES) - {"univariate", "explanations"}, {"explanations"}]
