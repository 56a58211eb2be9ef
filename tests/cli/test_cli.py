"""The command as a whole: help, version, colours, threads, devices, and how it reports mistakes."""

import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch
import typer

from timex.cli import app, main
from timex.cli.options import device_of


def python(*arguments, **environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")} | environment
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=kept, check=True).stdout


def test_help_reads_like_a_page(invoke):
    printed = invoke("--help")
    assert "New here? timex demo trains a small model" in printed
    assert "Exit codes: 0 done; 2 an input was wrong" in printed
    for name in ("fit", "explain", "evaluate", "report", "demo", "train", "data", "bench"):
        assert name in printed


def commands(group, path=""):
    """Every command of a group and its groups, with its name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


@pytest.mark.parametrize(("name", "command"), list(commands(typer.main.get_command(app))))
def test_every_option_has_a_help_text(name, command):
    assert command.help
    assert [option.name for option in command.params if not getattr(option, "help", None)] == []


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_no_torch(flag):
    code = f"""
import sys
from timex.cli import app
try:
    app(["{flag}"])
except SystemExit:
    print("imported", [m for m in ("torch", "pandas", "scipy", "matplotlib") if m in sys.modules])
"""
    assert "imported []" in python("-c", code)


def test_version_is_that_of_the_package():
    import timex

    assert python("-m", "timex", "--version").strip() == timex.__version__ == version("timex-explain")


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import timex

    with pytest.raises(AttributeError, match="module 'timex' has no attribute 'Explainer'"):
        _ = timex.Explainer
    assert {"TimeX", "load_dataset", "__version__"} <= set(dir(timex))


@pytest.mark.parametrize("settings", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_colour_in_a_pipe_or_with_no_color(settings):
    printed = python("-m", "timex", "--help", **settings)
    assert "New here?" in printed
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", printed)
    assert ("\x1b" in printed) == bool(settings)  # bold is no colour


def test_threads_option(invoke):
    before = torch.get_num_threads()
    torch.set_num_threads(1 if before > 1 else 2)
    invoke("--threads", 1, "data", "describe", "freqshapes")
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [0, -3, 100_000])
def test_a_senseless_number_of_threads(fails, threads):
    assert f"error: Expected --threads from 1 to {os.cpu_count()}, the number of CPU cores, got {threads}." in fails(
        "--threads", threads, "data", "list"
    )


def test_a_device_that_is_not_there(fails, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device_of(None) == "cpu"
    printed = fails("train", "freqshapes", "--out", tmp_path / "o", "--device", "cuda")
    assert printed == "error: Expected a CUDA device for --device cuda; torch finds 0 on this machine. Use --device cpu."
    with pytest.raises(ValueError, match="Expected device=cpu, device=cuda or device=cuda:NUMBER, got 'gpu'"):
        device_of("gpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert (device_of(None), device_of("cuda:1")) == ("cuda", "cuda:1")
    with pytest.raises(ValueError, match="device=cuda:2; torch finds 2"):
        device_of("cuda:2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "describe", "freqshape"], "did you mean freqshapes"),
        (["data", "describe", "[bold]"], "[bold]"),
        (["train", "freqshapes", "--out", "o", "--arch", "rnn"], "Unknown architecture 'rnn'; known: transformer, "),
        (["fit", "--data", "freqshapes", "--out", "o"], "either --model package.module:factory or --reference FOLDER"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "json"], "Expected --model as package.module:factory"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "no_such:net"], "No module named"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "json:nothing"], "module 'json' has no 'nothing'"),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "no.py:net"], "--model no.py:net: there is no file no.py in "),
        (["fit", "--data", "x.npz", "--out", "o", "--model", "no_such:net"], "give the file: --model path/to/file.py:factory"),
        (["explain", "--explainer", "nowhere", "--data", "x.npz", "--out", "e.npz"], "holds no explainer"),
        (["explain", "--explainer", "nowhere", "--data", "x.npz", "--out", "e.txt"], ".npz or .parquet or .csv"),
        (["evaluate", "--explainer", "nowhere", "--data", "x.npz", "--out", "e.txt"], "Expected --out to end in .json"),
        (["report", "nowhere"], "nowhere holds no explanations.npz: `timex explain --explainer nowhere"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, words, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in fails(*arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "error: the memory of this machine is exhausted: use fewer or shorter series."),
        (PermissionError(13, "Permission denied", "x.npz"), "error: [Errno 13] Permission denied: 'x.npz'"),
        (
            ValueError("say which with output= (an index), or pool=1."),
            "error: say which with --output (an index), or --pool 1.",
        ),
    ],
)
def test_messages_on_the_command_line(error, line, fails, monkeypatch):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("timex.data.load_dataset", broken)
    assert fails("data", "describe", "freqshapes") == line


def test_errors_in_the_users_code_keep_their_traceback(own_model, monkeypatch):
    (own_model / "my_net.py").write_text(
        "def net():\n    return None.layers\n\ndef late():\n    raise RuntimeError('no GPU')\n"
    )
    for factory, error in {"net": AttributeError, "late": RuntimeError}.items():
        monkeypatch.setattr("sys.argv", ["timex", "fit", "--data", "x.npz", "--out", "o", "--model", f"my_net:{factory}"])
        with pytest.raises(error, match=r"layers|no GPU"):
            main()
