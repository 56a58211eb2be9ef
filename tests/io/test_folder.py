"""A save is one transaction: killed, interrupted, damaged or beside another writer, a folder is whole or refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from timex.io.folder import grouped, read_folder, write_folder


def tensors(value=0.0):
    return {"a": torch.arange(6.0).reshape(2, 3) + value, "b.weight": torch.full((4,), value)}


def test_round_trip(tmp_path):
    description = {"name": "x", "rates": [0.1, float("inf")], "names": ("p", "q"), "n": {"deep": None}}
    read, weights = read_folder(write_folder(tmp_path / "new" / "one", "explainer", description, tensors()), "explainer")
    assert read == {"name": "x", "rates": [0.1, float("inf")], "names": ["p", "q"], "n": {"deep": None}}
    assert weights.keys() == tensors().keys()
    assert torch.equal(weights["a"], tensors()["a"])
    assert grouped(weights, "b.").keys() == {"weight"}


def test_two_kinds_and_other_files_share_a_folder(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    for value in (1.0, 2.0):
        write_folder(tmp_path, "explainer", {"value": value}, tensors(value))
        write_folder(tmp_path, "reference", {"value": -value}, tensors(-value))
    for kind, value in {"explainer": 2.0, "reference": -2.0}.items():
        description, weights = read_folder(tmp_path, kind)
        assert description == {"value": value}
        assert torch.equal(weights["a"], tensors(value)["a"])
    names = sorted(p.name.partition("-")[0] for p in tmp_path.iterdir())
    assert names == ["explainer", "explainer.json", "reference", "reference.json", "report.html"]  # no old weights


def test_numpy_scalars_are_saved_and_other_objects_change_nothing(tmp_path):
    write_folder(tmp_path, "explainer", {"rate": np.float64(0.5), "n": np.int64(3)}, tensors())
    assert read_folder(tmp_path, "explainer")[0] == {"rate": 0.5, "n": 3}
    with pytest.raises(ValueError, match=r"Expected a description that JSON can hold, .*: set .* is no text, number"):
        write_folder(tmp_path, "explainer", {"rate": {1, 2}}, tensors(1))
    assert torch.equal(read_folder(tmp_path, "explainer")[1]["a"], tensors()["a"])


def test_every_flipped_bit_is_refused(tmp_path):
    """Of the weights, and of all that the description says; a flip in its white space changes nothing."""
    write_folder(tmp_path, "explainer", {"rate": 0.25, "names": ["p", "q"]}, tensors())
    expected = read_folder(tmp_path, "explainer")
    for path in list(tmp_path.iterdir()):
        whole = path.read_bytes()
        for bit in range(0, 8 * len(whole), 3):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(bytes(data))
            if path.suffix == ".json":
                try:
                    got = read_folder(tmp_path, "explainer")
                except ValueError:
                    continue
                assert got[0] == expected[0]
                assert torch.equal(got[1]["a"], expected[1]["a"])
            else:
                with pytest.raises(ValueError, match=rf"{path.name} is damaged: its SHA-256 is not the one"):
                    read_folder(tmp_path, "explainer")
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", r"explainer\.json is damaged"),
        (b"\xff\xfe{", r"explainer\.json is damaged"),
        (b"[" * 100_000, r"explainer\.json is damaged"),
        (b"[1, 2]", r"explainer\.json was not written by this version"),
        (b'{"format": 2}', r"explainer\.json was not written by this version"),
        (b'{"format": 3, "weights_sha256": "../../secret"}', r"explainer\.json is damaged or was changed by hand"),
    ],
)
def test_hostile_descriptions(tmp_path, text, words):
    (tmp_path / "explainer.json").write_bytes(text)
    with pytest.raises(ValueError, match=words):
        read_folder(tmp_path, "explainer")


def test_a_sealed_path_outside_the_folder_is_refused(tmp_path):
    from timex.io.folder import _digest

    description = {"format": 3, "weights_sha256": "../" * 8}
    (tmp_path / "explainer.json").write_text(json.dumps({**description, "sha256": _digest(description)}))
    with pytest.raises(ValueError, match="was changed by hand"):
        read_folder(tmp_path, "explainer")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no explainer: explainer\.json is missing\. TimeX\.save and"):
        read_folder(tmp_path, "explainer")
    write_folder(tmp_path, "reference", {}, tensors())
    (weights,) = tmp_path.glob("*.safetensors")
    weights.unlink()
    with pytest.raises(FileNotFoundError, match=rf"holds no reference: {weights.name} is missing\. save_reference and"):
        read_folder(tmp_path, "reference")


def test_weights_of_another_save_are_refused(tmp_path):
    write_folder(tmp_path, "explainer", {}, tensors())
    (path,) = tmp_path.glob("*.safetensors")
    save_file({**load_file(path), "a": torch.zeros(2, 3)}, path)
    with pytest.raises(ValueError, match=r"is damaged: its SHA-256"):
        read_folder(tmp_path, "explainer")


KILLED = """
import os, sys, torch
from pathlib import Path
from timex.io import folder
calls = 0
def replace(*paths, _replace=os.replace):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os._exit(9)
    _replace(*paths)
os.replace = replace
folder.write_folder(Path(sys.argv[1]), "explainer", {"value": 1}, {"a": torch.ones(3)})
"""


@pytest.mark.parametrize("step", [1, 2])
def test_a_killed_save_leaves_the_old_one_and_the_next_one_cleans_up(tmp_path, step):
    """The process dies before it renames the weights, or between the weights and the description."""
    write_folder(tmp_path, "explainer", {"value": 0}, tensors())
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(step)])
    assert done.returncode == 9
    description, weights = read_folder(tmp_path, "explainer")
    assert description == {"value": 0}
    assert torch.equal(weights["a"], tensors()["a"])
    assert len(os.listdir(tmp_path)) > 2  # what the dead process left
    write_folder(tmp_path, "explainer", {"value": 2}, tensors(2))
    assert len(os.listdir(tmp_path)) == 2


def test_a_failing_save_leaves_the_old_one(tmp_path, monkeypatch):
    write_folder(tmp_path, "explainer", {"value": 0}, tensors())
    before = sorted(os.listdir(tmp_path))

    def full(*paths):
        raise OSError("disk full")

    monkeypatch.setattr("timex.io.atomic.os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_folder(tmp_path, "explainer", {"value": 1}, tensors(1))
    assert sorted(os.listdir(tmp_path)) == before
    assert read_folder(tmp_path, "explainer")[0] == {"value": 0}


def test_readers_beside_two_writers_never_see_a_mix(tmp_path):
    write_folder(tmp_path, "explainer", {"value": 0.0}, tensors())
    stop, failures = threading.Event(), []

    def write(first):
        value = first
        while not stop.is_set():
            write_folder(tmp_path, "explainer", {"value": float(value)}, tensors(value))
            value += 2

    writers = [threading.Thread(target=write, args=(first,)) for first in (1, 2)]
    for writer in writers:
        writer.start()
    seen = set()
    try:
        while len(seen) < 20:  # the writers write for as long as this takes
            description, weights = read_folder(tmp_path, "explainer")
            seen.add(description["value"])
            if not torch.equal(weights["a"], tensors(description["value"])["a"]):
                failures.append(description["value"])
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert failures == []
    assert len(os.listdir(tmp_path)) == 2
