"""Who may import whom (DESIGN.md section 2), and that `import timex` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import timex

ROOT = Path(timex.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

ORDER = (
    "settings",
    "conversions",
    "checks",
    "paper",
    "io.atomic",
    "io.limits",
    "io.labels",
    "io.arrays",
    "io.folder",
    "records",
    "io",
    "engine",
    "progress",
    "nn",
    "data",
    "metrics",
    "report",
    "reference",
    "explainers",
    "method",
    "",
    "registry",
    "trust",
    "testing",
    "scale",
    "bench",
    "cli",
    "__main__",
)
"""The rooms of the package, a file or a folder each; "" is `timex/__init__.py`. A file imports from its own room and from rooms
before it. The exceptions are shortcuts for users, which import when they are called: the words, figures and tables of an
`Explanation`, `Series.from_` and `Explainer.check`."""
SHORTCUTS = {
    "records.explanation": ("report.frame", "report.notebook", "report.plots", "report.spans"),
    "records.series": ("io.containers",),
    "explainers.base": ("trust.check",),
}
EXCEPTIONS = {(module, imported, True) for module, every in SHORTCUTS.items() for imported in every}
HEAVY = ("pandas", "matplotlib", "sklearn", "captum", "typer", "pyarrow", "rich", "scipy", "plotly", "jinja2")


def dotted(path):
    """`method/losses.py` -> `method.losses`; the package itself is the empty name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {dotted(path) for path in MODULES}


def room(module):
    """The entry of `ORDER` that a module belongs to: itself if it has one, else its folder."""
    return module if module in ORDER else module.split(".")[0]


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
    assert room(module) in ORDER, f"{module} has no place in ORDER: give its room one"
    for imported, lazily in imports_of(path):
        if (module, imported, lazily) not in EXCEPTIONS:
            before = ORDER.index(room(imported)) <= ORDER.index(room(module))
            assert before, f"{module} may not import timex.{imported}: ORDER has {room(imported)} after {room(module)}"


def test_every_room_exists():
    assert {room(dotted(path)) for path in MODULES} == set(ORDER)


@pytest.mark.parametrize(("module", "imported", "lazily"), sorted(EXCEPTIONS))
def test_exceptions_import_when_they_are_called(module, imported, lazily):
    assert (imported, lazily) in imports_of(ROOT / f"{module.replace('.', '/')}.py")


def test_the_registry_names_every_kind():
    names = {imported.split(".")[0] for imported, _ in imports_of(ROOT / "registry.py")}
    assert {"data", "explainers", "method", "metrics", "reference"} <= names


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
