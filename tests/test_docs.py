"""The documentation, executed: python blocks and commands run, links and images resolve, the site builds without a warning.

The blocks of a page share one namespace and run in a temporary folder. `GIVEN` defines what the examples of some pages assume.
Long examples run small (`SMALLER`) here, and as written in the slow tests. The `timex` commands of a page run one after another
in a folder that holds the files and the model that they name (`given_files`), on few samples and for one epoch.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from timex import Dataset, Series
from timex.cli import app
from timex.data.synthetic import freqshapes
from timex.io.files import write_series
from timex.registry import DATASETS, EXPLAINERS, METRICS
from timex.trust.compare import CONTROLS as MODEL_FREE

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE = sorted(DOCS.rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *SITE]
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
LONGEST_LINE = 120
COMMAND = typer.main.get_command(app)

GIVEN = {
    "README.md": """
import torch
from torch import nn
from timex import TimeXConfig, load_dataset
data = load_dataset("freqshapes")
x_train, x_val, x_test = data.train.x[:200], data.val.x, torch.as_tensor(data.test.x[:60])
model = nn.Sequential(nn.Flatten(), nn.Linear(50, 8), nn.Tanh(), nn.Linear(8, 3))
""",
    "files.md": """
import numpy as np, torch
from timex import Explanation, Series
from timex.io.files import write_series
rng = np.random.default_rng(0)
x, y = rng.normal(size=(6, 5, 2)).astype("float32"), np.arange(6) % 2
series = Series(x, y=y, channels=("hr", "spo2"), classes=("sick", "well"))
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(10, 2))
for name in ("windows.parquet", "train.csv", "test.csv"):
    write_series(name, series)
explained = {"prediction": y, "probability": np.eye(2, dtype=np.float32)[y], "mask": x > 0}
explanation = Explanation(series=series, attribution=rng.random(x.shape, dtype=np.float32), **explained)
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
Explanation(series=test, attribution=p, **explained).save("ecg-explanations.npz")
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
    "trust.md": """
import numpy as np
from timex import Series, TimeX, TimeXConfig
from timex.reference import CNN
rng = np.random.default_rng(0)
train, held_out = (Series(rng.normal(size=(n, 16, 2))) for n in (60, 40))
model = CNN(n_channels=2, n_classes=3, n_steps=16, width=4)
explainer = TimeX(model, config=TimeXConfig(epochs=1, n_landmarks=5)).fit(train, progress=False)
""",
    "tasks.md": """
import numpy as np
from timex import Series, TimeX, TimeXConfig
from timex.explainers import IntegratedGradients
from timex.reference import CNN
held_out = Series(np.random.default_rng(0).normal(size=(60, 16, 2)), y=np.arange(60) % 3, classes=("A", "B", "C"))
model = CNN(n_channels=2, n_classes=3, n_steps=16, width=4)
e = TimeX(model, config=TimeXConfig(epochs=1, n_landmarks=5)).fit(held_out, progress=False).explain(held_out)
""",
    "report.md": """
import numpy as np
from timex import Series, TimeX, TimeXConfig
from timex.explainers import IntegratedGradients
from timex.reference import CNN
rng = np.random.default_rng(0)
x = Series(rng.normal(size=(60, 16, 2)), y=np.arange(60) % 3, truth=rng.random((60, 16, 2)) > .8)
model = CNN(n_channels=2, n_classes=3, n_steps=16, width=4)
explainer = TimeX(model, config=TimeXConfig(epochs=1, n_landmarks=5)).fit(x, progress=False)
e, ig = explainer.explain(x), IntegratedGradients(model).explain(x)
""",
}
"""What the examples of a page assume."""

QUICK = [("epochs=4", "epochs=1"), ("epochs=10", "epochs=1")]
SMALLER: dict[str, list[tuple[str, str]]] = {
    "README.md": [("TimeX(model)", "TimeX(model, config=TimeXConfig(epochs=1))")],
    "quickstart.md": [*QUICK, ("slice(2000)", "slice(200)")],
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
        assert any(old in text for _, text in code), f"{page.name} has no {old!r} to replace by {new!r}: correct SMALLER"
        code = [(b, text.replace(old, new)) for b, text in code]
    for block, text in code:
        exec(compile("\n" * (block.line - 1) + text, str(page), "exec"), namespace)


def path_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_python(pages: list[Path]) -> list[Path]:
    return [page for page in pages if blocks(page, "python")]


@pytest.fixture
def quiet(tmp_path, monkeypatch):
    """A temporary folder, a fixed seed for models with random weights, and the one warning that such models earn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIMEX_DATA", str(tmp_path))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        for registry in (DATASETS, EXPLAINERS, METRICS):  # pages add to them
            stack.enter_context(mock.patch.dict(registry))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(warnings.catch_warnings())
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


def test_only_calls_of_other_packages_are_not_run():
    left_out = [b for page in PAGES for b in blocks(page, "python") if "no-run" in b.words]
    others = ("import shap", "from TSInterpret", "from tint")  # not among our dependencies
    assert [f"{b.page.name}:{b.line}" for b in left_out if not b.code.startswith(others)] == []


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


def beats():
    """A few windows of the shape of the ECG's, with a bump in the middle that is up or down."""
    rng = np.random.default_rng(0)
    truth = np.zeros((36, 360, 1), dtype=bool)
    truth[:, 170:190] = True
    y = np.arange(36) % 2
    x = rng.normal(scale=0.2, size=truth.shape) + truth * (2 * y - 1)[:, None, None]
    whole = Series(x, y=y, truth=truth, channels=("MLII",), classes=("normal", "abnormal"))
    return Dataset("ecg", *(whole.take(slice(start, start + 12)) for start in (0, 12, 24)))


EXTRA = {
    "demo": ["--epochs", "1", "--reference-epochs", "1"],
    "train": ["--epochs", "1"],
    "fit": ["--epochs", "1"],
    **{name: [] for name in ("explain", "evaluate", "report", "data list", "data describe", "bench list")},
}
"""Commands that are run, and what is added to make them quick; others are only parsed."""

MODEL = """
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU())
        self.encoder = nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.encoder(self.features(x.transpose(1, 2)).mean(-1)))

def load():
    import torch
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Model()
"""


def given_files():
    """What the commands of the pages name: a package with a model, and files of series, like those of FreqShapes."""
    Path("mypackage").mkdir()
    Path("mypackage/models.py").write_text(MODEL)
    data = freqshapes(0, 0, sizes=(40, 16, 24))
    named = replace(data.test, ids=tuple(f"window {i}" for i in range(24)))
    parts = {"train.npz": data.train, "val.npz": data.val, "windows.npz": named, "windows.parquet": named}
    for name, part in parts.items():
        write_series(name, part)


@pytest.mark.parametrize("page", sorted({place.split(":")[0] for place, _ in command_lines()}))
def test_commands_run(page, quiet, monkeypatch):
    monkeypatch.setitem(DATASETS, "freqshapes", lambda seed, fold: freqshapes(seed, fold, sizes=(64, 24, 24)))
    monkeypatch.setitem(DATASETS, "ecg", lambda seed, fold: beats())  # the download is not part of the tests
    monkeypatch.setattr("sys.path", [*sys.path])  # where --model puts the folder
    given_files()
    for place, words in command_lines():
        path = " ".join(resolve(words)[0])
        if place.startswith(f"{page}:") and path in EXTRA:
            result = CliRunner().invoke(app, [*words, *EXTRA[path]], catch_exceptions=False)
            assert result.exit_code == 0, f"{place}: {result.output}"
    for name in [m for m in sys.modules if m.split(".")[0] == "mypackage"]:
        del sys.modules[name]  # the next page has a folder of its own


def test_other_commands_name_what_exists():
    """`make` targets and scripts, which a test cannot run inside a test."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in PAGES:
        text = page.read_text()
        shown = [line for b in blocks(page, "bash", "console") for line in b.code.splitlines()] + re.findall(
            r"`([^`\n]+)`", text
        )
        for line in shown:
            if made := re.match(r"(?:\$ )?make ([\w-]+)", line):
                assert made[1] in targets, f"{page.name}: make {made[1]}"
            if script := re.match(r"(?:\$ )?python (benchmarks/\w+\.py)", line):
                assert (ROOT / script[1]).is_file(), f"{page.name}: {script[1]}"


def test_every_subcommand_is_shown_on_some_page():
    shown = {" ".join(resolve(words)[0]) for _, words in command_lines()}
    known = set()
    for name, command in COMMAND.commands.items():
        known |= {f"{name} {n}" for n in command.commands} if hasattr(command, "commands") else {name}
    assert known - shown == set()


# ---------------------------------------------------------------------------------------------------- links and images


def anchors(page: Path) -> set[str]:
    """The anchors GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=path_of)
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


def linked(index: Path) -> set[Path]:
    """The pages that an index links to."""
    return {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)\s#]+\.md)\)", index.read_text())}


def test_every_page_is_in_an_index():
    indices = {DOCS / "index.md", DOCS / "decisions" / "index.md"}
    assert set(SITE) - set.union(*(linked(index) for index in indices)) == {DOCS / "index.md"}


def test_every_page_is_on_the_site():
    nav = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1], re.MULTILINE))
    assert nav == {str(page.relative_to(DOCS)) for page in SITE} - {f"decisions/{page.name}" for page in DECISIONS}


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs (the extra docs) is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    reference = (tmp_path / "api.html").read_text()
    for name in ("timex.TimeX.explain", "timex.Explanation.plot", "timex.report.page.write_report"):
        assert f'id="{name}"' in reference
    assert "&gt;&gt;&gt; " in reference  # doctests are shown as code


def test_pictures_are_small():
    assert {p.name for p in (ROOT / "docs" / "images").iterdir() if p.stat().st_size > 300_000} == set()


# ------------------------------------------------------------------------------------------------- pages and the code


def test_settings_tables_are_the_settings():
    namespace: dict[str, Any] = {"__name__": "settings", "__file__": str(DOCS / "site" / "settings.py")}
    exec((DOCS / "site" / "settings.py").read_text(), namespace)
    page = (DOCS / "method.md").read_text()
    assert namespace["updated"](page) == page, "run python docs/site/settings.py"
    assert "| `loss.lam_con` | `2.0` | float >= 0; scalar | " in page


def test_the_table_of_methods_is_that_of_the_code():
    namespace: dict[str, Any] = {"__name__": "methods", "__file__": str(DOCS / "site" / "methods.py")}
    exec((DOCS / "site" / "methods.py").read_text(), namespace)
    page = (DOCS / "methods.md").read_text()
    assert namespace["updated"](page) == page, "run python docs/site/methods.py"
    assert "| `ig` | `IntegratedGradients` | " in page


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in (*MODEL_FREE, "centre")])
def test_every_method_names_its_source(name):
    first = (EXPLAINERS[name].__doc__ or "").split("\n\n")[0]
    assert re.search(r"\(.*\b(19|20)\d\d\b", first), "the first sentence of the docstring cites the paper"


def defined(file: Path) -> set[str]:
    """Functions and classes of a Python or JavaScript file."""
    if file.suffix == ".js":
        return set(re.findall(r"^(?:async )?function (\w+)", file.read_text(), re.MULTILINE))
    nodes = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def test_every_hop_of_the_walk_exists():
    hops = re.findall(r"^\| \d+ \|.*\| `([\w/.]+)` \| `(\w+)` \|$", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert len(hops) > 30
    package = ROOT / "src" / "timex"
    assert [(file, name) for file, name in hops if name not in defined(package / file)] == []


def test_every_room_is_described():
    rooms = set(re.findall(r"^\| `([\w.]+)/?` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE))
    folders = {path.name for path in (ROOT / "src" / "timex").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= rooms


def message_templates() -> list[str]:
    """Every text in the package, with "..." in the place of values."""
    found = []
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(v.value if isinstance(v, ast.Constant) else "..." for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_explained_error_messages_exist():
    section = (DOCS / "your-own-model.md").read_text().split("## What errors mean")[1].split("\n## ")[0]
    messages = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[1:]
    templates = message_templates()
    assert len(messages) >= 10
    assert [m for m in messages if not any(m in template for template in templates)] == []


# ------------------------------------------------------------------------------------------------------ form of the pages


def long_lines(page: Path) -> list[str]:
    """Lines of more than 120 characters outside tables, images and output; the target of a link does not count."""
    code = [line for b in blocks(page, "python", "bash", "console") for line in b.code.splitlines()]
    text = [re.sub(r"\]\([^)]*\)", "]", line) for line in prose(page).splitlines() if not line.startswith(("|", "!["))]
    return [line for line in text + code if len(line) > LONGEST_LINE]


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_lines_are_short(page):
    if page.name == "results.md" and page.parent == DOCS:
        pytest.skip("written by timex bench show")
    assert long_lines(page) == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda p: p.name)
def test_decisions_have_one_form(page):
    text = page.read_text()
    number, title = re.match(r"# (\d{3})\. (.+)\n\nDecided 2\d{3}-\d\d-\d\d", text).groups()  # type: ignore[union-attr]
    assert page.name.startswith(f"{number}-")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Choice", "Evidence", "Consequence"]
    assert f"- [{number}]({page.name}) {title}\n" in (DOCS / "decisions" / "index.md").read_text()
