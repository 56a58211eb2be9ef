"""Descriptions that somebody changed and sealed again: loading works or is refused by name, soon and in little memory."""

from __future__ import annotations

import copy
import json
import time

import numpy as np
import pytest
import torch
from torch import nn

from timex import TimeX, TimeXConfig
from timex.io.folder import _digest
from timex.reference.base import initialised, load_reference, save_reference

T, D, C = 12, 2, 3
VALUES = [None, -1, 0, 1, 2**31, 2**70, 1e308, float("nan"), "", "abc", [], [1], {}, {"a": 1}, True, [[1, 2], [3]], "DELETE"]
PAPER = TimeXConfig.paper("freqshapes").replaced({"epochs": 1, "batch_size": 16})
CASES = {
    "transformer": TimeXConfig(epochs=1, batch_size=16),
    "cnn": TimeXConfig(epochs=1, batch_size=16),
    "lstm": PAPER.replaced({"mask.hide": "value"}),
    "foreign": TimeXConfig(epochs=1, batch_size=16),
    "black box": TimeXConfig(epochs=1, batch_size=16),
}
SECONDS = 20
"""A load that is slower than this hangs; none takes more than two seconds."""


def model_of(name):
    if name == "foreign":
        return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 6), nn.Tanh(), nn.Linear(6, C))
    if name == "black box":
        return lambda x: np.stack([x.mean((1, 2)), x.max((1, 2)), -x.min((1, 2))], axis=1)
    return initialised(name, {"n_channels": D, "n_classes": C, "n_steps": T}, 0).eval()


@pytest.fixture(params=CASES)
def saved(request, tmp_path, monkeypatch):
    """A folder with an explainer and, for our own models, the reference; and how to load and use both."""
    monkeypatch.setattr("timex.reference.student.STEPS", 5)
    model = model_of(request.param)
    x = np.random.default_rng(0).normal(size=(40, T, D)).astype(np.float32)
    TimeX(model, config=CASES[request.param], device="cpu").fit(x, progress=False).save(tmp_path)

    loads = {"explainer": (lambda: TimeX.load(tmp_path, model, device="cpu"), lambda explainer: explainer.explain(x[:2]))}
    if request.param in ("transformer", "cnn", "lstm"):
        save_reference(model, tmp_path, dataset="made", scores={"val": {"f1": 0.5}})
        loads["reference"] = (lambda: load_reference(tmp_path), lambda model: model(torch.as_tensor(x[:2])))
    return tmp_path, loads


def places(value, place=()):
    """The paths to all values of a description, two entries of each list."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*place, key)
        yield from places(inner, (*place, key))


def changed(description, place, value):
    new = copy.deepcopy(description)
    inner = new
    for key in place[:-1]:
        inner = inner[key]
    if value == "DELETE":
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return {"sha256": _digest(new), **new}


def attack(folder, kind, load, use, seeds):
    path = folder / f"{kind}.json"
    whole = json.loads(path.read_text())
    whole.pop("sha256")
    every = [place for place in places(whole) if place not in (("format",), ("weights_sha256",)) and place[:1] != ("history",)]
    every += [("history",)] if "history" in whole else []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        place, value = every[rng.integers(len(every))], VALUES[rng.integers(len(VALUES))]
        path.write_text(json.dumps(changed(whole, place, value)))
        started, loaded = time.process_time(), None
        try:
            loaded = load()
            use(loaded)
        except (ValueError, OSError) as error:
            if loaded is None and str(folder) not in str(error):
                raise AssertionError(f"{place} = {value!r}: no folder in {error}") from error
        except Exception as error:
            raise AssertionError(f"{place} = {value!r}: {type(error).__name__}: {error}") from error
        assert time.process_time() - started < SECONDS, (place, value)
    path.write_text(json.dumps({"sha256": _digest(whole), **whole}))
    use(load())


@pytest.mark.filterwarnings("ignore")
def test_changed_descriptions(saved):
    folder, loads = saved
    for kind, (load, use) in loads.items():
        attack(folder, kind, load, use, range(30))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_changed_descriptions(saved):
    folder, loads = saved
    for kind, (load, use) in loads.items():
        attack(folder, kind, load, use, range(1000, 1400))


def test_settings_that_ask_for_too_much_are_refused_before_memory_is_taken(tmp_path):
    model = model_of("transformer")
    save_reference(model, tmp_path)
    description = json.loads((tmp_path / "reference.json").read_text())
    description.pop("sha256")
    for name, value, words in (
        ("n_layers", 10**9, "Expected n_layers of at most the"),
        ("d_hidden", 2**31, "Expected weights of the sizes that the saved settings give, got encoder"),
        ("n_classes", 10**9, "Expected weights of the sizes that the saved settings give, got head"),
    ):
        (tmp_path / "reference.json").write_text(json.dumps(changed(description, ("config", name), value)))
        with pytest.raises(ValueError, match=words) as caught:
            load_reference(tmp_path)
        assert str(tmp_path) in str(caught.value)
