"""A fit that is killed goes on from its checkpoints and ends as an undisturbed one; another fit is refused by name."""

import json
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from cases import CONFIG, PAPER_CONFIG, seeded, series
from torch import nn

from timex import TimeX, fit_many
from timex.engine import Checkpoint
from timex.engine.group import Group
from timex.explainers import CoRTX
from timex.reference import CNN

T, D, C = 17, 2, 4


class Killed(Exception):
    pass


def model(seed=1):
    return seeded(lambda: CNN(n_channels=D, n_classes=C, n_steps=T, width=8), T, D, seed)


def explainer(config=CONFIG, of=None):
    return TimeX(of or model(), config=config, device="cpu")


def learned(timex):
    fitted = timex.fitted
    arrays = {f"model.{name}": v.numpy() for name, v in fitted.model.state_dict().items()}
    history = [{name: v for name, v in row.items() if name != "seconds"} for row in fitted.history]
    return arrays | vars(fitted.landmarks), (history, fitted.quality, fitted.smoothing, fitted.fill)


def assert_equal(a, b):
    for name, value in a[0].items():
        np.testing.assert_array_equal(value, b[0][name], err_msg=name)
    assert a[1] == b[1]


def killed(monkeypatch, at, **how):
    """Fit until the `at`-th state is to be kept."""
    count, keep = [0], Checkpoint.stage

    def counting(self, *arguments):
        stage = keep(self, *arguments)
        kept = stage.keep

        def one(epoch, state):
            count[0] += 1
            if count[0] == at:
                raise Killed
            kept(epoch, state)

        stage.keep = one
        return stage

    timex = explainer(**how.pop("explainer", {}))
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "stage", counting)
        with pytest.raises(Killed):
            timex.fit(**how)


@pytest.mark.parametrize("config", [CONFIG.replaced({"epochs": 3}), PAPER_CONFIG], ids=["evidence", "paper"])
def test_a_killed_fit_goes_on(tmp_path, monkeypatch, config):
    """It is killed in the first training, between both (the first has ended), and in the second."""
    x = series(40, T, D)
    whole = explainer(config).fit(x, progress=False)
    for at in (2, 3, 2) if config.objective == "evidence" else (2, 1):
        killed(monkeypatch, at, x=x, progress=False, checkpoint=tmp_path, explainer={"config": config})
    resumed = explainer(config).fit(x, progress=False, checkpoint=tmp_path)
    assert_equal(learned(resumed), learned(whole))


@pytest.mark.slow
def test_a_foreign_model_and_a_black_box(tmp_path, monkeypatch):
    x = series(40, T, D)

    def answers(values):
        mean = values.mean((1, 2))
        return np.stack([mean, -mean], 1)

    foreign = nn.Sequential(nn.Flatten(), nn.Linear(T * D, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, C))
    monkeypatch.setattr("timex.reference.student.STEPS", 5)
    for name, of in (("foreign", foreign), ("black box", answers)):
        how = {"of": of}
        with pytest.warns(UserWarning, match="student|class") if of is answers else nullcontext():
            whole = explainer(**how).fit(x, progress=False)
            killed(monkeypatch, 2, x=x, progress=False, checkpoint=tmp_path / name, explainer=how)
            resumed = explainer(**how).fit(x, progress=False, checkpoint=tmp_path / name)
        assert_equal(learned(resumed), learned(whole))


def test_a_finished_fit_is_there_at_once(tmp_path, monkeypatch):
    x = series(40, T, D)
    whole = explainer().fit(x, progress=False, checkpoint=tmp_path)
    monkeypatch.setattr(Group, "step", lambda run: 1 / 0)
    assert_equal(learned(explainer().fit(x, progress=False, checkpoint=tmp_path)), learned(whole))


def test_another_fit_is_refused_and_the_difference_named(tmp_path, monkeypatch):
    x = series(40, T, D)
    killed(monkeypatch, 2, x=x, progress=False, checkpoint=tmp_path)
    other = CONFIG.replaced({"lr": 0.5, "evidence.free_cells": 0.5})
    expected = f"Expected the fit that {tmp_path} began, got another: "
    free = CONFIG.evidence.free_cells
    cases = (
        (explainer(other), x, {}, f"settings: evidence.free_cells was {free}, is 0.5; settings: lr was {CONFIG.lr}, is 0.5"),
        (explainer(), x + 1, {}, "other training series"),
        (explainer(), x, {"y": np.arange(40) % C}, "other training labels"),
        (explainer(), x, {"x_val": x}, "other validation series"),
        (explainer(of=model(seed=2)), x, {}, "other weights of the model; other answers of the model"),
    )
    for timex, data, more, words in cases:
        with pytest.raises(ValueError) as error:
            timex.fit(data, progress=False, checkpoint=tmp_path, **more)
        assert str(error.value).startswith(expected + words), error.value
        assert "Give the same, or delete that folder to start again." in str(error.value)
        assert timex.fitted_ is None
    explainer().fit(x, progress=False, checkpoint=tmp_path)


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_a_function_that_answers_otherwise_is_another_model(tmp_path, monkeypatch):
    x = series(40, T, D)
    monkeypatch.setattr("timex.reference.student.STEPS", 5)
    monkeypatch.setattr("timex.reference.student.FAITHFUL", 0)

    def answers(sign):
        return lambda values: np.stack([sign * values.mean((1, 2)), 0 * values[:, 0, 0]], 1)

    explainer(of=answers(1)).fit(x, progress=False, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="got another: other answers of the model"):
        explainer(of=answers(-1)).fit(x, progress=False, checkpoint=tmp_path)


def test_a_damaged_description(tmp_path):
    (tmp_path / "fit.json").write_text("[")
    with pytest.raises(ValueError, match=r"fit\.json is damaged: delete the folder .* to start again"):
        explainer().fit(series(40, T, D), progress=False, checkpoint=tmp_path)


def test_a_stop_leaves_a_usable_explainer(tmp_path):
    """Each of the two trainings ends after an epoch; the whole fit can still be resumed."""
    x = series(40, T, D)
    config = CONFIG.replaced({"epochs": 6})
    partial = explainer(config).fit(x, progress=False, checkpoint=Checkpoint(tmp_path, stop=lambda: True))
    assert [row["part"] for row in partial.fitted.history] == ["generator", "surrogate"]
    assert np.isfinite(partial.explain(x).attribution).all()
    resumed = explainer(config).fit(x, progress=False, checkpoint=tmp_path)
    assert_equal(learned(resumed), learned(explainer(config).fit(x, progress=False)))


def test_methods_and_groups_without_checkpoints(tmp_path):
    x = series(40, T, D)
    with pytest.raises(ValueError, match="CoRTX keeps no checkpoints: leave out checkpoint="):
        CoRTX(model(), device="cpu").fit(x, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="Expected one explainer with checkpoint=, got 2"):
        fit_many([explainer(), explainer()], [(x, None, None)] * 2, progress=False, checkpoint=Checkpoint(tmp_path))


@pytest.mark.filterwarnings("ignore:The model predicts class")
def test_a_broken_sample_is_named(caplog):
    """The training stops at the step in which a series of 1e30 makes a term infinite, and names the series."""
    x = series(40, T, D)
    x[7] *= 1e30
    config = CONFIG.replaced({"epochs": 3, "batch_size": 8})
    timex = explainer(config)
    with suppress(RuntimeError):
        timex.fit(x, x_val=series(10, T, D, seed=1), progress=False)
    assert "training stopped: in batch" in caplog.text
    samples = caplog.text.split("on the training samples ")[1].split(". The best weights")[0]
    assert 7 in map(int, samples.split(", "))


@pytest.mark.slow
def test_fits_that_are_killed_end_bit_equal(tmp_path):
    """SIGKILL at 20 random moments; benchmarks/kills.py does it for trainings too, and more often."""
    script = Path(__file__).parents[2] / "benchmarks" / "kills.py"
    subprocess.run([sys.executable, script, "--what", "fit", "--kills", "20", "--out", tmp_path / "kills.json"], check=True)
    (row,) = json.loads((tmp_path / "kills.json").read_text())["rows"]
    assert row["kills"] >= 20
    assert row["finished"] == row["equal"] >= 1
