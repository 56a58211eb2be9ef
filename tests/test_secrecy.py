"""No socket is opened at run time, nothing is unpickled or evaluated, and every artefact names the model it explains."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import timex
from timex.io.files import write_series

SOURCES = sorted(Path(timex.__file__).parent.rglob("*.py"))
FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "socket", "urllib", "http", "requests"}
ALONE = """
import socket, sys

class Refused(socket.socket):
    def __init__(self, *arguments, **options):
        print("SOCKET", arguments, file=sys.stderr)
        raise OSError("no sockets here")

def refused(*arguments, **options):
    print("LOOKUP", arguments[:2], file=sys.stderr)
    raise OSError("no sockets here")

socket.socket, socket.create_connection, socket.getaddrinfo = Refused, refused, refused
sys.argv = ["timex", *sys.argv[1:]]
from timex.cli import main
main()
"""


def run(folder, *arguments):
    """A command in a process of its own, in which every socket fails."""
    done = subprocess.run([sys.executable, "-c", ALONE, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "SOCKET" not in done.stderr
    assert "LOOKUP" not in done.stderr
    return done.stdout


@pytest.mark.slow
def test_no_command_opens_a_socket(tmp_path):
    run(tmp_path, "train", "freqshapes", "--arch", "cnn", "--epochs", 1, "--out", "m")
    run(tmp_path, "fit", "--reference", "m", "--data", "freqshapes", "--epochs", 1, "--out", "e")
    run(tmp_path, "explain", "--explainer", "e", "--data", "freqshapes", "--out", "e/explanations.npz")
    run(tmp_path, "report", "e")
    write_series(tmp_path / "few.npz", timex.load_dataset("freqshapes").test.take(slice(0, 24)))
    run(tmp_path, "evaluate", "--explainer", "e", "--data", "few.npz", "--out", "scores.json")
    run(tmp_path, "check", "e", "--data", "few.npz", "--out", "check.json")
    run(tmp_path, "compare", "e", "--data", "few.npz", "--methods", "saliency", "--out", "compare.json")
    run(tmp_path, "export", "e", "--format", "torch")
    assert {path.name for path in tmp_path.glob("*.json")} == {"scores.json", "check.json", "compare.json"}
    assert (tmp_path / "e/explainer.pt2").is_file()
    fitted = json.loads((tmp_path / "e/explainer.json").read_text())
    reference = json.loads((tmp_path / "m/reference.json").read_text())
    explanation = timex.Explanation.load(tmp_path / "e/explanations.npz")
    assert fitted["reference_hash"] == reference["hash"] == explanation.model_hash


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SOURCES[0].parent)))
def test_nothing_is_unpickled_evaluated_or_fetched(path):
    """No import of a module that does it, no call of eval or exec, no shell, no torch.load, no numpy with pickles."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in FORBIDDEN]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [str(node.module)] if str(node.module).split(".")[0] in FORBIDDEN else []
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            found += [called] if called in ("eval", "exec", "os.system", "torch.load", "pd.read_pickle", "np.load") else []
            found += [
                f"{k.arg}=True" for k in node.keywords if k.arg in ("allow_pickle", "shell") and ast.unparse(k.value) == "True"
            ]
    assert found == []
