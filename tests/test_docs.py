"""The documentation, executed: python blocks run, commands parse, links and images resolve.

The blocks of a page share one namespace and run in a temporary folder. `GIVEN` has the data that the examples of some pages
take for granted. Long examples run small (`SMALLER`) here, and as written in the slow tests.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
import typer
from typer.testing import CliRunner

from timex import TimeXConfig
from timex.cli import app
from timex.registry import DATASETS, EXPLAINERS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = typer.main.get_command(app)

GIVEN = {
    "files.md": """
import numpy as np
from timex.data.files import Series, write_series
rng = np.random.default_rng(0)
x, y = rng.normal(size=(6, 5, 2)).astype("float32"), np.arange(6) % 2
for name in ("windows.parquet", "train.csv", "test.csv"):
    write_series(name, Series.of(x, y=y, channels=("hr", "spo2"), classes=("sick", "well")))
""",
    "ecg.md": """
import json
import numpy as np
from timex import Explanation, load_dataset
rng = np.random.default_rng(0)
symbol = np.array(list("NNNLR") * 10)
np.savez(
    "ecg.npz",
    facts=json.dumps({"format": 1}),
    record=["100"], gain=[200.0], zero=[1024],
    delta=np.diff(rng.integers(900, 1100, 20000), prepend=0).astype(np.int16),
    sample=200 + 360 * np.arange(50), of_record=np.zeros(50, dtype=int), symbol=symbol.astype("S1"),
    qrs=np.where((symbol != "N")[:, None], [160, 210], -1),
)
test = load_dataset("ecg").test
p = rng.random(test.x.shape, dtype=np.float32)
explained = {"prediction": test.y, "probability": np.eye(2, dtype=np.float32)[test.y], "mask": p > .5}
Explanation(test.x, p, **explained).save("ecg-explanations.npz")
""",
    "metrics.md": """
import numpy as np, torch
from types import SimpleNamespace
rng = np.random.default_rng(0)
e = SimpleNamespace(attribution=rng.random((6, 5, 2)))
x, model = rng.normal(size=(6, 5, 2)).astype("float32"), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(10, 3))
truth, observed, fold = rng.random((6, 5, 2)) > .5, np.ones((6, 5, 2), dtype=bool), np.arange(6) % 2
y, probability = np.arange(6) % 3, rng.dirichlet(np.ones(3), size=6)
""",
}
"""What the examples of a page take as given."""

QUICK = [("epochs=4", "epochs=1"), ("epochs=10", "epochs=1"), (".x[:2000]", ".x[:200]")]
SMALLER: dict[str, list[tuple[str, str]]] = {
    "README.md": QUICK,
    "quickstart.md": QUICK,
    "data.md": [("in range(3)", "in range(1)"), ("in range(25)", "in range(1)"), ("width = [], 64", "width = [], 8")],
}
"""What to replace in pages whose examples take longer than a few seconds."""


class Block(NamedTuple):
    """A fenced block: its page, the line of its first line of code, the words after the fence, the code."""

    page: Path
    line: int
    words: list[str]
    code: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in one of these languages."""
    text = page.read_text()
    found = []
    for match in re.finditer(r"^```(.*)\n((?:.*\n)*?)^```$", text, re.MULTILINE):
        words = match[1].split()
        if words and words[0] in languages:
            found.append(Block(page, text[: match.start(2)].count("\n") + 1, words[1:], match[2]))
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*\n(?:.*\n)*?^```$", "", page.read_text(), flags=re.MULTILINE)


def run_page(page: Path, replacements: list[tuple[str, str]]) -> None:
    """Run the python blocks of a page one after another; a failure names the page and the line."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(GIVEN.get(page.name, ""), namespace)
    code = [(b, b.code) for b in blocks(page, "python") if "no-run" not in b.words]
    for old, new in replacements:
        assert any(old in text for _, text in code), f"{page.name} has no {old!r} to replace by {new!r}: mend SMALLER"
        code = [(b, text.replace(old, new)) for b, text in code]
    for block, text in code:
        exec(compile("\n" * (block.line - 1) + text, str(page), "exec"), namespace)


def with_python(pages: list[Path]) -> list[Path]:
    return [page for page in pages if blocks(page, "python")]


@pytest.fixture
def quiet(tmp_path, monkeypatch):
    """A temporary folder, a fixed seed for models with random weights, and the one warning that such models earn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIMEX_DATA", str(tmp_path))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    registries = (mock.patch.dict(registry) for registry in (EXPLAINERS, DATASETS))  # pages add to them
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), next(registries), next(registries):
        warnings.filterwarnings("ignore", message=r"The model predicts class \d+ for all")
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", with_python(PAGES), ids=lambda p: p.name)
def test_python_blocks_run(page, quiet):
    run_page(page, SMALLER.get(page.name, []))


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if p.name in SMALLER], ids=lambda p: p.name)
def test_long_examples_run_as_written(page, quiet):
    run_page(page, [])


def test_blocks_that_are_not_run_are_few():
    left_out = [f"{b.page.name}:{b.line}" for page in PAGES for b in blocks(page, "python") if "no-run" in b.words]
    assert left_out == []


# ------------------------------------------------------------------------------------------------------------ commands


def command_lines() -> list[tuple[str, list[str]]]:
    """Every `timex ...` line of the bash and console blocks, split into words, without prompts and comments."""
    found = []
    for page in PAGES:
        for block in blocks(page, "bash", "console"):
            for number, line in enumerate(block.code.replace("\\\n", " ").splitlines(), block.line):
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words and Path(words[0]).name == "timex":
                    found.append((f"{page.name}:{number}", words[1:]))
    return found


def resolve(words: list[str]) -> tuple[list[str], Any, list[str]]:
    """The names of the subcommand at the start of `words`, the subcommand, and what is left for it."""
    path: list[str] = []
    command: Any = COMMAND
    while hasattr(command, "commands"):
        assert words, f"timex {' '.join(path)} needs a subcommand"
        with command.make_context("timex", list(words), resilient_parsing=True) as context:
            name, found, words = command.resolve_command(context, list(words))  # an error if there is no such command
        path, command = [*path, name], found
    return path, command, words


@pytest.mark.parametrize(("place", "words"), command_lines(), ids=[place for place, _ in command_lines()])
def test_commands_parse(place, words):
    path, command, rest = resolve(words)
    command.make_context("timex", list(rest), resilient_parsing=False).close()  # unknown options, missing values: an error
    assert CliRunner().invoke(app, [*path, "--help"]).exit_code == 0


def test_every_subcommand_is_in_the_readme():
    shown = {" ".join(resolve(words)[0]) for place, words in command_lines() if place.startswith("README")}
    known = set()
    for name, command in COMMAND.commands.items():
        known |= {f"{name} {n}" for n in command.commands} if hasattr(command, "commands") else {name}
    assert known - shown == set()


# ---------------------------------------------------------------------------------------------------- links and images


def anchors(page: Path) -> set[str]:
    """The anchors GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_images_resolve(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "index.md"
    assert {p.name for p in index.parent.glob("*.md")} - {"index.md"} <= set(re.findall(r"\]\(([^)\s]+)\)", index.read_text()))


def test_config_table_is_the_config():
    section = prose(ROOT / "docs" / "method.md").split("## Settings")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    listed = {name: ast.literal_eval(value.strip().strip("`")) for name, value in rows}
    assert listed == {f.name: f.default for f in fields(TimeXConfig)}
