"""Commands as a user types them, and one small fitted explainer for all tests of the command line."""

import json
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from timex import Series
from timex.cli import app, main
from timex.data import LOADERS
from timex.data.synthetic import freqshapes

SIZES = (96, 32, 32)

MODEL = textwrap.dedent("""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Conv1d(2, 6, 5, padding=2)
            self.head = nn.Linear(6, 3)
        def forward(self, x):
            return self.head(torch.relu(self.body(x.transpose(1, 2))).mean(2))

    def net():
        with torch.random.fork_rng():
            torch.manual_seed(3)
            model = Net()
            with torch.no_grad():
                model.head.weight.mul_(20)
        return model
""")


def _invoke(*arguments):
    """What a command prints, with single spaces; it must succeed."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.fixture(scope="session")
def invoke():
    return _invoke


@pytest.fixture
def fails(monkeypatch, capsys):
    """Runs a command that must end with exit code 2, and returns the one line on standard error."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["timex", *(str(a) for a in arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        printed = capsys.readouterr().err
        assert "Traceback" not in printed
        return " ".join(printed.split())

    return run


@pytest.fixture(scope="session")
def freqshapes_folder(tmp_path_factory):
    """A folder with a reference model and an explainer of FreqShapes with few samples, after one epoch each."""
    whole = LOADERS["freqshapes"]
    LOADERS["freqshapes"] = lambda seed, fold: freqshapes(seed, fold, sizes=SIZES)
    folder = tmp_path_factory.mktemp("freqshapes")
    try:
        _invoke("train", "freqshapes", "--out", folder / "reference", "--epochs", 1)
        fit = ("fit", "--reference", folder / "reference", "--data", "freqshapes", "--epochs", 1)
        _invoke(*fit, "--out", folder / "explainer")
    finally:
        LOADERS["freqshapes"] = whole
    return folder


@pytest.fixture
def tiny(monkeypatch):
    """FreqShapes with few samples, under its own name."""
    monkeypatch.setitem(LOADERS, "freqshapes", lambda seed, fold: freqshapes(seed, fold, sizes=SIZES))


@pytest.fixture
def small(tiny, freqshapes_folder):
    """The folders of the small reference model and explainer, and the series that they explain."""
    return SimpleNamespace(
        reference=freqshapes_folder / "reference",
        explainer=freqshapes_folder / "explainer",
        test=freqshapes(0, 0, sizes=SIZES).test,
    )


@pytest.fixture(scope="session")
def series():
    """40 labelled series of 12 steps and 2 named channels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 12, 2)).astype("float32")
    ids = [f"case-{i}" for i in range(40)]
    return Series(x, y=np.arange(40) % 3, truth=rng.random(x.shape) < 0.2, channels=("left", "right"), ids=ids)


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """The current folder is empty but for my_net.py, with a factory net."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])  # the command adds the current folder
    (tmp_path / "my_net.py").write_text(MODEL)
    yield tmp_path
    sys.modules.pop("my_net", None)


@pytest.fixture(scope="session")
def page_facts():
    """Reads the facts that a report page embeds."""
    return lambda path: json.loads(path.read_text().split('id="meta">')[1].split("</script>")[0])
