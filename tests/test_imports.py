"""Who may import whom (DESIGN.md section 2), and that `import timex` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import timex

ROOT = Path(timex.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

ALLOWED = {
    "types": {"engine"},
    "engine": {"types"},
    "masking": {"types", "engine"},
    "paper": {"types", "engine"},
    "progress": {"engine"},
    "method.losses": set(),
    "data": {"types"},
    "metrics": {"types"},
    "report": {"types"},
    "reference": {"types", "engine", "masking", "method.losses", "data", "metrics", "paper", "progress"},
    "method": {"types", "engine", "masking", "reference", "progress"},
    "baselines": {"types", "engine", "masking", "progress", "reference"},
}
UPPER = {"", "registry", "bench", "cli", "__main__"}  # at the top of the pile: they may import anything, cli only __main__
HEAVY = ("pandas", "matplotlib", "sklearn", "captum", "typer", "pyarrow", "rich", "scipy", "plotly", "jinja2")


def dotted(path):
    """`method/losses.py` -> `method.losses`; the package itself is the empty name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {dotted(path) for path in MODULES}


def group(module):
    """The entry of `ALLOWED` a module belongs to: itself if it has one, else its top folder."""
    return module if module in ALLOWED else module.split(".")[0]


class Imports(ast.NodeVisitor):
    """Modules of timex that a file imports, and whether inside a function; those for type checkers are left out."""

    def __init__(self, source, package):
        self.package = package.split(".") if package else []
        self.found = []
        self.depth = 0
        self.visit(ast.parse(source))

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node):
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.split(".")[0] == "timex":
                self.add(alias.name.removeprefix("timex").removeprefix("."))

    def visit_ImportFrom(self, node):
        if node.level:
            base = self.package[: len(self.package) - (node.level - 1)]
            name = ".".join([*base, *([node.module] if node.module else [])])
        elif (node.module or "").split(".")[0] == "timex":
            name = node.module.removeprefix("timex").removeprefix(".")
        else:
            return
        for alias in node.names:  # `from timex import engine` imports the module engine, not the package
            inner = f"{name}.{alias.name}".removeprefix(".")
            self.add(inner if inner in KNOWN else name)

    def add(self, name):
        self.found.append((name, self.depth > 0))


def imports_of(path):
    module = dotted(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return Imports(path.read_text(), package).found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: dotted(path) or "timex")
def test_imports_point_up_the_list(path):
    module = dotted(path)
    own = group(module)
    assert own in ALLOWED or own in UPPER, f"{module} has no place in DESIGN.md's list: give it one in ALLOWED"
    for imported, lazily in imports_of(path):
        assert group(imported) != "cli" or own == "__main__", f"{module} imports cli, which only the command itself may"
        if own in UPPER:
            continue
        if own == "types" and imported == "report.plots":
            assert lazily, "types may import report inside a function only"
            continue
        same = group(imported) == own or (imported == "method.losses" and own == "method")
        assert same or group(imported) in ALLOWED[own], f"{module} may not import timex.{imported}"


def test_types_draws_lazily():
    assert ("report.plots", True) in imports_of(ROOT / "types.py")


def test_registry_does_not_know_the_command_line():
    names = {imported.split(".")[0] for imported, _ in imports_of(ROOT / "registry.py")}
    assert {"baselines", "data", "method", "metrics", "reference"} <= names


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import timex.cli", "", [("cli", False)]),
        ("from timex import engine, TimeX", "", [("engine", False), ("", False)]),
        ("from timex.method import losses", "reference", [("method.losses", False)]),
        ("def f():\n    from timex.report.plots import a", "", [("report.plots", True)]),
        ("from ..engine import Noise", "method", [("engine", False)]),
        ("from . import losses", "method", [("method.losses", False)]),
        ("if TYPE_CHECKING:\n    from timex.cli import a\nimport torch", "", []),
    ],
)
def test_the_reader_of_imports_itself(source, package, expected):
    assert Imports(source, package).found == expected


def test_import_is_light():
    code = f"import sys, timex; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_registry_is_light_too():
    """The registry names everything without importing what only some of it needs."""
    code = f"import sys, timex.registry; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
