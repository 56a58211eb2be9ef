"""Saving and loading a fitted TimeX."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import (
    CONFIG,
    OURS,
    quick,
    same_explanations,
    seeded,
    series,
    snapshot,
)

from timex import TimeX
from timex.io.folder import write_folder


def test_save_and_load(case, tmp_path):
    folder = case.explainer.save(tmp_path / "new" / "folder")
    loaded = TimeX.load(folder, case.model)
    same_explanations(loaded.explain(case.asked), case.explainer.explain(case.asked))
    assert loaded.config == case.explainer.config
    for name in ("vectors", "counts", "nearest", "similarity", "composition"):
        np.testing.assert_array_equal(getattr(loaded.landmarks, name), getattr(case.explainer.landmarks, name))
    assert loaded.history.equals(case.explainer.history)
    assert snapshot(case.model) == case.before
    assert not any(p.requires_grad for p in loaded.fitted.model.parameters())


def test_a_loaded_explainer_can_be_saved_again(mv, tmp_path):
    once = TimeX.load(mv.explainer.save(tmp_path / "a"), mv.model)
    twice = TimeX.load(once.save(tmp_path / "b"), mv.model)
    same_explanations(twice.explain(mv.asked), mv.explainer.explain(mv.asked))


def test_a_saved_folder_is_two_files_without_pickles(mv, tmp_path):
    mv.explainer.save(tmp_path)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".safetensors"]
    for path in tmp_path.iterdir():
        assert not path.read_bytes().startswith((b"PK", b"\x80"))  # a zip (torch.save) or a pickle
    assert json.loads((tmp_path / "explainer.json").read_text())["explainer"] == "timex"


def test_saving_over_a_folder_replaces_it(mv, tmp_path):
    other = mv.fresh(replace(CONFIG, seed=3, epochs=1, n_landmarks=4)).fit(mv.x, x_val=mv.x_val, progress=False)
    other.save(tmp_path)
    mv.explainer.save(tmp_path)
    same_explanations(TimeX.load(tmp_path, mv.model).explain(mv.asked), mv.explainer.explain(mv.asked))


def test_another_model_is_refused(mv, tmp_path):
    folder = mv.explainer.save(tmp_path)
    other = seeded(OURS["transformer_mv"][3], 14, 3, seed=2)
    with pytest.raises(ValueError, match=r"was fitted on another model \(weights differ\).*allow_other_model=True"):
        TimeX.load(folder, other)
    e = TimeX.load(folder, other, allow_other_model=True).explain(mv.asked)
    assert not np.allclose(
        e.attribution, mv.explainer.explain(mv.asked).attribution
    )  # the generator reads the model's gradient
    with torch.no_grad():
        np.testing.assert_array_equal(e.prediction, other.eval()(torch.as_tensor(mv.asked)).argmax(-1))  # y the model's


def test_the_hash_is_that_of_the_model_fitted_on(tmp_path):
    """A model trained on after the fit is another model."""
    explainer = quick().fit(series(30, 12, 2), progress=False)
    as_fitted = copy.deepcopy(explainer.model)
    with torch.no_grad():
        explainer.model.head[-1].bias.add_(1.0)
    folder = explainer.save(tmp_path)
    TimeX.load(folder, as_fitted)
    with pytest.raises(ValueError, match="another model"):
        TimeX.load(folder, explainer.model)


def test_no_folder_or_a_foreign_one(mv, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no explainer: explainer\.json is missing\. TimeX\.save"):
        TimeX.load(tmp_path / "nowhere", mv.model)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"explainer\.json is missing"):
        TimeX.load(tmp_path, mv.model)


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_a_missing_or_damaged_file(mv, tmp_path, suffix):
    mv.explainer.save(tmp_path)
    (file,) = tmp_path.glob(f"explainer*.{suffix}")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"{file.name} is damaged"):
        TimeX.load(tmp_path, mv.model)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=f"holds no explainer: {file.name} is missing"):
        TimeX.load(tmp_path, mv.model)


def test_another_explainer_is_refused(mv, tmp_path):
    write_folder(tmp_path, "explainer", {"explainer": "lime"}, {"weight": torch.zeros(2)})
    with pytest.raises(ValueError, match="holds an explainer of the kind 'lime'"):
        TimeX.load(tmp_path, mv.model)


@pytest.mark.parametrize("description", ["{}", "[1, 2]", '{"explainer": "timex", "format": 99}', '{"explainer": "lime"}'])
def test_json_of_something_else(mv, tmp_path, description):
    mv.explainer.save(tmp_path)
    (tmp_path / "explainer.json").write_text(description)
    with pytest.raises(ValueError, match="was not written by this version of timex"):
        TimeX.load(tmp_path, mv.model)


def test_names_units_and_scaling_survive(tmp_path):
    """x was scaled as (value - offset) / scale: explanations show values."""
    offset, scale = np.array([10.0, -3.0]), np.array([2.0, 0.5])
    names = {"channels": ("flow", "heat"), "units": ("l/s", ""), "classes": ("ok", "odd", "off")}
    explainer = quick(**names, scaling=(offset, scale)).fit(series(30, 12, 2), progress=False)
    x = series(4, 12, 2, seed=5)
    observed = np.ones(x.shape, dtype=bool)
    observed[1, 3] = False
    loaded = TimeX.load(explainer.save(tmp_path), explainer.model)
    for fitted in (explainer, loaded):
        e = fitted.explain(x)
        np.testing.assert_allclose(e.x, x * scale + offset, rtol=1e-5)
        assert e.x.dtype == np.float32
        assert e.channels == ("flow [l/s]", "heat")
        assert e.classes == names["classes"]
        assert fitted.explain(x, observed=observed).x[1, 3].tolist() == [0.0, 0.0]  # nothing measured, nothing shown
    assert (loaded.names.channels, loaded.names.units, loaded.names.classes) == tuple(names.values())
    plain = quick().fit(series(30, 12, 2), progress=False)
    np.testing.assert_array_equal(plain.explain(x).attribution, explainer.explain(x).attribution)  # for show only
    assert e.to_frame()["prediction"].isin(names["classes"]).all()


def test_names_that_do_not_fit():
    for names, words in {
        ("channels", ("flow",)): "Expected one name for each of 2 in channels, or none, got 1",
        ("classes", ("ok", "odd")): r"a name for each of the model's 3 classes, got 2 \(ok, odd\): name all",
    }.items():
        with pytest.raises(ValueError, match=words):
            quick(**dict([names])).fit(series(30, 12, 2), progress=False)
    with pytest.raises(ValueError, match="Expected channels= with units="):
        quick(units=("l/s", ""))


def test_a_forecast_has_no_classes_to_agree_on(caplog):
    """A forecast whose last hour is always the largest is no prediction of one class."""
    explainer = quick(config=replace(CONFIG, task="forecast"))
    with torch.no_grad():
        explainer.model.head[-1].bias[1] += 1000
    e = explainer.fit(series(30, 12, 2), progress=False).explain(series(4, 12, 2))
    assert e.agreement is None
    assert e.divergence is None
    assert "surrogate" not in caplog.text


def test_one_scale_for_all_channels(tmp_path):
    explainer = quick(scaling=(1.0, 2.0)).fit(series(30, 12, 2), progress=False)
    x = series(4, 12, 2, seed=5)
    np.testing.assert_allclose(TimeX.load(explainer.save(tmp_path), explainer.model).explain(x).x, x * 2 + 1, rtol=1e-5)
