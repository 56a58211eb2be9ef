"""TimeX as a user meets it: fit, explain, save, load, and what it says to input it cannot use.

Shapes differ from case to case, so that swapped axes fail. References have random weights: nothing here needs a good model.
"""

import copy
import json
import logging
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d
from torch import nn
from torch.nn import functional as F

from timex import TimeX, TimeXConfig, engine, fit_many
from timex.method.config import PAPER
from timex.method.explainer import _Trust
from timex.reference import CNN, LSTM, Transformer
from timex.types import check_series

N, N_VAL = 48, 10
# masks that keep some after two epochs; fits that short fail, and would all be tried again
CONFIG = TimeXConfig(epochs=2, batch_size=16, n_landmarks=6, r=0.5, lam_model=0.3, judged="draw")


def series(n, t, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def spread(model, x):
    """Shift and scale the last layer so that the logits of these series have mean 0 and deviation 1: all classes occur."""
    last = model.head[-1] if isinstance(model.head, nn.Sequential) else model.head
    with torch.no_grad():
        logits = copy.deepcopy(model).eval()(torch.as_tensor(x))
        mean, std = logits.mean(0), logits.std(0)
        last.weight /= std[:, None]
        last.bias.sub_(mean).div_(std)
    return model


def seeded(make, t, d, seed=1, x=None):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return spread(make(), series(200, t, d, seed=99) if x is None else x)


# ---------------------------------------------------------------------------------------- modules as users write them


class Attentive(nn.Module):
    def __init__(self, d=3, c=3):
        super().__init__()
        self.embed = nn.Linear(d, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True), 1)
        self.head = nn.Linear(8, c)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(dim=1))


class Convolutional(nn.Module):
    """Channels first inside, with batch norm and dropout."""

    def __init__(self, d=2, c=4):
        super().__init__()
        self.conv = nn.Conv1d(d, 9, 3, padding=1)
        self.norm = nn.BatchNorm1d(9)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(9, c)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x.transpose(1, 2))).relu()).mean(dim=2))


class Recurrent(nn.Module):
    def __init__(self, d=3, c=3):
        super().__init__()
        self.gru = nn.GRU(d, 6, batch_first=True)
        self.head = nn.Linear(6, c)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


OURS = {
    "transformer_uv": (16, 1, 2, lambda: Transformer(1, 2, 16, d_hidden=8)),
    "transformer_mv": (14, 3, 4, lambda: Transformer(3, 4, 14, d_hidden=8, n_layers=2)),
    "cnn": (17, 2, 4, lambda: CNN(2, 4, 17, width=8)),
    "lstm": (12, 3, 5, lambda: LSTM(3, 5, 12, hidden=4, n_layers=1)),
}
FOREIGN = {
    "attentive": (13, 3, 3, Attentive, "encoder"),
    "convolutional": (15, 2, 4, Convolutional, "conv"),
    "recurrent": (11, 3, 3, Recurrent, "gru"),
}


@dataclass
class Case:
    """A model of random weights, a copy of it in evaluation mode, data, and an explainer fitted to the model on them."""

    model: nn.Module
    clean: nn.Module
    x: np.ndarray
    x_val: np.ndarray
    embedding: str | None
    explainer: TimeX
    before: dict

    def fresh(self, config=CONFIG, **options):
        return TimeX(self.model, self.embedding, config, **options)

    @property
    def asked(self):
        return self.x[:20]


def snapshot(model):
    """Everything about a module that a fit could change."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "bytes": {name: value.numpy().tobytes() for name, value in model.state_dict().items()},
        "mode": {name: layer.training for name, layer in model.named_modules()},
        "gradient": {name: (p.requires_grad, p.grad) for name, p in model.named_parameters()},
        "hooks": {name: [list(getattr(layer, h).values()) for h in hooks] for name, layer in model.named_modules()},
        "names": sorted(vars(model)),
    }


def never(module, inputs, output):
    raise AssertionError("a hook of the user's model was called")


def make_case(name):
    t, d, _, make, *embedding = {**OURS, **FOREIGN}[name]
    model = seeded(make, t, d)
    clean = copy.deepcopy(model).eval()
    model.train()  # as users may hand it in: parts in either mode, parts without gradient
    model.head.eval()
    next(model.parameters()).requires_grad_(False)
    model.head.register_forward_hook(never)  # the user's hooks belong to the user's object
    before = snapshot(model)
    x, x_val = series(N, t, d), series(N_VAL, t, d, seed=1)
    explainer = TimeX(model, *embedding, config=CONFIG).fit(x, x_val=x_val, progress=False)
    return Case(model, clean, x, x_val, embedding[0] if embedding else None, explainer, before)


@pytest.fixture(scope="module", params=[*OURS, *FOREIGN])
def case(request):
    return make_case(request.param)


@pytest.fixture(scope="module")
def mv():
    return make_case("transformer_mv")


def quick(t=12, d=2, c=3, config=CONFIG, **options):
    """An unfitted explainer of a small CNN."""
    return TimeX(seeded(lambda: CNN(d, c, t, width=6), t, d), config=config, **options)


def same_explanations(a, b):
    for name in ("x", "attribution", "mask", "prediction", "probability", "embedding", "landmark", "agreement", "divergence"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


# --------------------------------------------------------------------------------------------------- what comes out


def test_explanation_is_what_it_says(case):
    e = case.explainer.explain(case.asked)
    model = case.explainer.model
    with torch.no_grad():
        logits = case.clean(torch.as_tensor(case.asked))
        # The surrogate, by hand: what is not explained is replaced by the training mean of its cell.
        masked = np.where(e.attribution > 0.5, case.asked, case.x.mean(0))
        z_e = model.encoder.encode(torch.as_tensor(masked))
        logits_e = model.predictor(z_e)
        cosine = F.cosine_similarity(z_e[:, None], model.landmarks[None], dim=-1)
    assert e.attribution.shape == e.mask.shape == case.asked.shape
    assert e.attribution.dtype == np.float32
    assert e.attribution.min() >= 0
    assert e.attribution.max() <= 1
    np.testing.assert_array_equal(e.mask, e.attribution > 0.5)
    assert 0 < e.mask.mean() < 1
    np.testing.assert_array_equal(e.prediction, logits.argmax(-1))
    assert len(np.unique(e.prediction)) > 1
    np.testing.assert_allclose(e.probability, logits.softmax(-1), atol=1e-5)
    np.testing.assert_allclose(e.embedding, z_e, atol=1e-5)
    np.testing.assert_array_equal(e.landmark, cosine.argmax(-1))
    np.testing.assert_array_equal(e.agreement, logits_e.argmax(-1) == logits.argmax(-1))
    np.testing.assert_allclose(e.divergence, divergence(logits.softmax(-1).numpy(), logits_e.softmax(-1).numpy()), atol=1e-5)
    np.testing.assert_array_equal(e.x, case.asked)
    assert (e.method, e.signed, e.observed, e.times) == ("timex", False, None, None)


def divergence(p, q):
    """Jensen-Shannon by its definition, in double precision."""
    p, q = p.astype(np.float64), q.astype(np.float64)
    m = (p + q) / 2
    return 0.5 * (p * np.log(p / m)).sum(-1) + 0.5 * (q * np.log(q / m)).sum(-1)


def test_explain_is_deterministic(case):
    same_explanations(case.explainer.explain(case.asked), case.explainer.explain(case.asked))


@pytest.mark.parametrize("chunk", [1, 7, 20])
def test_the_chunk_does_not_matter(case, chunk):
    whole, parts = case.explainer.explain(case.asked), case.explainer.explain(case.asked, chunk=chunk)
    np.testing.assert_allclose(parts.attribution, whole.attribution, atol=1e-6)
    for name in ("probability", "embedding", "divergence"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-5, err_msg=name)


def test_the_seed_decides(case):
    e = case.explainer.explain(case.asked)
    same_explanations(case.fresh().fit(case.x, x_val=case.x_val, progress=False).explain(case.asked), e)
    other = case.fresh(replace(CONFIG, seed=1)).fit(case.x, x_val=case.x_val, progress=False).explain(case.asked)
    assert not np.allclose(other.attribution, e.attribution, atol=1e-3)
    np.testing.assert_array_equal(other.prediction, e.prediction)  # the model's, whatever the explainer


def test_the_seed_decides_the_start():
    """With training that moves nothing, the generator keeps the weights it started with."""
    x, config = series(20, 12, 2), replace(CONFIG, epochs=1, lr=1e-12)
    weights = [
        quick(config=replace(config, seed=seed)).fit(x, x_val=x, progress=False).model.generator.out.weight
        for seed in (0, 0, 1)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2], atol=1e-3)


def test_the_model_is_left_as_it_was(case):
    case.explainer.explain(case.asked)
    assert snapshot(case.model) == case.before


def test_the_global_random_state_is_left_as_it_was(case, tmp_path):
    before = torch.get_rng_state()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002 - it is the global state that is looked at
    explainer = case.fresh(replace(CONFIG, epochs=1, encoder_init="scratch")).fit(case.x, progress=False)
    explainer.explain(case.asked)
    TimeX.load(explainer.save(tmp_path), case.model)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


def test_explainers_do_not_depend_on_the_global_random_state(mv):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)
        again = mv.fresh().fit(mv.x, x_val=mv.x_val, progress=False)
    same_explanations(again.explain(mv.asked), mv.explainer.explain(mv.asked))


def test_later_training_of_the_model_does_not_reach_the_explainer():
    explainer = quick().fit(series(30, 12, 2), progress=False)
    e = explainer.explain(series(5, 12, 2))
    with torch.no_grad():
        for p in explainer._module.parameters():
            p.add_(1.0)
    same_explanations(explainer.explain(series(5, 12, 2)), e)


def test_history_has_a_row_per_epoch_and_one_selected(case):
    history = case.explainer.history
    assert history["epoch"].tolist() == [0, 1]
    assert history["selected"].sum() == 1
    assert history["criterion"].idxmin() == history["selected"].idxmax()
    terms = [
        "loss",
        "mbc",
        "landmarks",
        "lc",
        "l_m",
        "l_con",
        "criterion",
        "val_mbc",
        "val_lc",
        "val_agreement",
        "lr",
        "seconds",
    ]
    assert np.isfinite(history[terms].to_numpy()).all()


def test_the_selected_epoch_is_the_one_kept():
    """A learning rate far too large: the last epoch is not the best, and must not be what is kept."""
    config = replace(CONFIG, epochs=6, lr=1.0, scheduler="none", lam_e=0.0)
    x, x_val = series(40, 12, 2), series(20, 12, 2, seed=1)
    long = quick(config=config).fit(x, x_val=x_val, progress=False)
    best = int(long.history["selected"].idxmax())
    assert best < 5
    short = quick(config=replace(config, epochs=best + 1)).fit(x, x_val=x_val, progress=False)
    same_explanations(short.explain(x), long.explain(x))


def test_attribute_follows_captum(mv):
    inputs = torch.as_tensor(mv.asked).double().requires_grad_()
    out = mv.explainer.attribute(inputs, 1, baselines=0.0, target=torch.zeros(20, dtype=torch.long), n_steps=7)
    assert isinstance(out, torch.Tensor)
    assert (out.shape, out.dtype, out.device, out.requires_grad) == (inputs.shape, torch.float64, inputs.device, False)
    np.testing.assert_allclose(out.numpy(), mv.explainer.explain(mv.asked).attribution, atol=1e-6)


def test_tensors_lists_and_views_are_as_good_as_arrays(mv):
    expected = mv.explainer.explain(mv.asked)
    frozen = mv.asked.copy()
    frozen.flags.writeable = False
    for x in (
        torch.as_tensor(mv.asked),
        mv.asked.astype(np.float64),
        mv.asked.tolist(),
        frozen,
        np.flip(np.flip(mv.asked, 1).copy(), 1),
    ):
        same_explanations(mv.explainer.explain(x), expected)
    half = torch.as_tensor(mv.asked).bfloat16()
    same_explanations(mv.explainer.explain(half), mv.explainer.explain(half.float()))
    frozen = mv.x[::-1]  # a view with a negative stride
    frozen.flags.writeable = False
    assert np.isfinite(mv.fresh(replace(CONFIG, epochs=1)).fit(frozen, progress=False).explain(frozen).attribution).all()


def test_landmarks_survey_the_training_explanations(mv):
    e, found = mv.explainer.explain(mv.x), mv.explainer.landmarks
    np.testing.assert_array_equal(found.counts, np.bincount(e.landmark, minlength=6))
    assert found.composition.sum() == N
    for landmark in range(6):
        np.testing.assert_array_equal(
            found.composition[landmark], np.bincount(e.prediction[e.landmark == landmark], minlength=4)
        )


def test_nearest_are_indices_of_the_series_handed_in(mv):
    """Also where a tenth of them was set apart to validate on."""
    explainer = mv.fresh().fit(mv.x, progress=False)
    found, z = explainer.landmarks, torch.as_tensor(explainer.explain(mv.x).embedding)
    similarity = F.cosine_similarity(torch.as_tensor(found.vectors)[:, None], z[None], dim=-1).numpy()
    assert found.counts.sum() == N - 5
    np.testing.assert_allclose(np.take_along_axis(similarity, found.nearest, axis=1), found.similarity, atol=1e-5)


def test_labels_start_the_landmarks():
    """With training that does not move them, landmarks are embeddings of samples taken from the classes of y in turn."""
    x, y = series(40, 12, 2), np.array([0] * 38 + [1] * 2)
    explainer = quick(config=replace(CONFIG, lr=1e-9, n_landmarks=4)).fit(x, y, x_val=x, progress=False)
    with torch.no_grad():
        z = explainer._module.eval().encode(torch.as_tensor(x))
    exact = "donot_use_mm_for_euclid_dist"  # products lose the digits that tell a distance from 0
    nearest = torch.cdist(torch.as_tensor(explainer.landmarks.vectors), z, compute_mode=exact)
    assert float(nearest.min(dim=1).values.max()) < 1e-5
    assert sorted(y[nearest.argmin(dim=1)].tolist()) == [0, 0, 1, 1]


# -------------------------------------------------------------------------------------------------------- save and load


def test_save_and_load(case, tmp_path):
    folder = case.explainer.save(tmp_path / "new" / "folder")
    loaded = TimeX.load(folder, case.model)
    same_explanations(loaded.explain(case.asked), case.explainer.explain(case.asked))
    assert loaded.config == case.explainer.config
    for name in ("vectors", "counts", "nearest", "similarity", "composition"):
        np.testing.assert_array_equal(getattr(loaded.landmarks, name), getattr(case.explainer.landmarks, name))
    assert loaded.history.equals(case.explainer.history)
    assert snapshot(case.model) == case.before
    assert not any(p.requires_grad for p in loaded.model.parameters())


def test_a_loaded_explainer_can_be_saved_again(mv, tmp_path):
    once = TimeX.load(mv.explainer.save(tmp_path / "a"), mv.model)
    twice = TimeX.load(once.save(tmp_path / "b"), mv.model)
    same_explanations(twice.explain(mv.asked), mv.explainer.explain(mv.asked))


def test_a_saved_folder_is_two_files_without_pickles(mv, tmp_path):
    mv.explainer.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["explainer.json", "explainer.safetensors"]
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
    np.testing.assert_array_equal(e.attribution, mv.explainer.explain(mv.asked).attribution)  # p is the explainer's
    with torch.no_grad():
        np.testing.assert_array_equal(e.prediction, other.eval()(torch.as_tensor(mv.asked)).argmax(-1))  # y the model's


def test_the_hash_is_that_of_the_model_fitted_on(tmp_path):
    """A model trained on after the fit is another model."""
    explainer = quick().fit(series(30, 12, 2), progress=False)
    as_fitted = copy.deepcopy(explainer._module)
    with torch.no_grad():
        explainer._module.head[-1].bias.add_(1.0)
    folder = explainer.save(tmp_path)
    TimeX.load(folder, as_fitted)
    with pytest.raises(ValueError, match="another model"):
        TimeX.load(folder, explainer._module)


def test_no_folder_or_a_foreign_one(mv, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no explainer: explainer\.json is missing\. TimeX\.save"):
        TimeX.load(tmp_path / "nowhere", mv.model)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"explainer\.json is missing"):
        TimeX.load(tmp_path, mv.model)


def test_a_missing_file(mv, tmp_path):
    mv.explainer.save(tmp_path)
    (tmp_path / "explainer.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"explainer\.safetensors is missing"):
        TimeX.load(tmp_path, mv.model)


@pytest.mark.parametrize("name", ["explainer.json", "explainer.safetensors"])
def test_a_corrupt_file(mv, tmp_path, name):
    mv.explainer.save(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="holds no readable explainer"):
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
    loaded = TimeX.load(explainer.save(tmp_path), explainer._module)
    for fitted in (explainer, loaded):
        e = fitted.explain(x)
        np.testing.assert_allclose(e.x, x * scale + offset, rtol=1e-5)
        assert e.x.dtype == np.float32
        assert e.channels == ("flow [l/s]", "heat")
        assert e.classes == names["classes"]
        assert fitted.explain(x, observed=observed).x[1, 3].tolist() == [0.0, 0.0]  # nothing measured, nothing shown
    assert (loaded.channels, loaded.units, loaded.classes) == tuple(names.values())
    plain = quick().fit(series(30, 12, 2), progress=False)
    np.testing.assert_array_equal(plain.explain(x).attribution, explainer.explain(x).attribution)  # for show only
    assert e.to_frame()["prediction"].isin(names["classes"]).all()


def test_names_that_do_not_fit():
    for names, words in {
        ("channels", ("flow",)): "Expected channels for each of the 2 channels of x, got 1",
        ("classes", ("ok", "odd")): r"a name for each of the 3 classes the model tells apart, got 2 \(ok, odd\): name all",
    }.items():
        with pytest.raises(ValueError, match=words):
            quick(**dict([names])).fit(series(30, 12, 2), progress=False)
    with pytest.raises(ValueError, match="Expected channels= with units="):
        quick(units=("l/s", ""))


def test_a_forecast_has_no_classes_to_agree_on(caplog):
    """Nor does a forecast whose last hour is always the largest predict one class."""
    explainer = quick(config=replace(CONFIG, label="mse"))
    with torch.no_grad():
        explainer._module.head[-1].bias[1] += 1000
    e = explainer.fit(series(30, 12, 2), progress=False).explain(series(4, 12, 2))
    assert e.agreement is None
    assert e.divergence is None
    assert "surrogate" not in caplog.text


def test_one_scale_for_all_channels(tmp_path):
    explainer = quick(scaling=(1.0, 2.0)).fit(series(30, 12, 2), progress=False)
    x = series(4, 12, 2, seed=5)
    np.testing.assert_allclose(TimeX.load(explainer.save(tmp_path), explainer._module).explain(x).x, x * 2 + 1, rtol=1e-5)


# ------------------------------------------------------------------------------------------------------- foreign modules


def test_foreign_modules_need_an_embedding():
    with pytest.raises(
        ValueError, match=r"which layer of Attentive gives the embedding, with embedding=.*embed, encoder, head"
    ):
        TimeX(Attentive())


def test_wrong_layer_names_give_near_misses():
    with pytest.raises(ValueError, match=r"no layer 'encodr'\. Did you mean 'encoder'"):
        TimeX(Attentive(), "encodr", CONFIG).fit(series(10, 13, 3), progress=False)


def test_something_that_is_no_module():
    with pytest.raises(ValueError, match=r"Expected a torch\.nn\.Module, got function"):
        TimeX(series, "encoder")


def test_pool_and_output_choose_the_embedding(tmp_path):
    model = seeded(Recurrent, 11, 3)
    x = series(30, 11, 3)

    def last(states):
        return states[:, -1]

    explainer = TimeX(model, "gru", CONFIG, pool=last, output=0).fit(x, progress=False)
    e = explainer.explain(x)
    loaded = TimeX.load(explainer.save(tmp_path), model, pool=last, output=0)
    same_explanations(loaded.explain(x), e)
    assert not np.allclose(e.embedding, TimeX(model, "gru", CONFIG).fit(x, progress=False).explain(x).embedding, atol=1e-4)


def test_another_pooling_than_fitted_with_is_refused(tmp_path):
    """Also where the mean series is the same at every step, at which all poolings are alike."""
    model = seeded(Convolutional, 15, 2)
    x = series(30, 15, 2)
    x = np.concatenate([x, -x])
    explainer = TimeX(model, "norm", CONFIG, pool=lambda h: h.amax(2)).fit(x, progress=False)
    folder = explainer.save(tmp_path)
    with pytest.raises(ValueError, match=r"Layer 'norm' does not give the embedding .* pass the pool= and output= of the fit"):
        TimeX.load(folder, model)
    with pytest.raises(ValueError, match="pass the pool= and output= of the fit"):
        TimeX.load(folder, model, pool=lambda h: h.flatten(1))
    same_explanations(TimeX.load(folder, model, pool=lambda h: h.amax(2)).explain(x), explainer.explain(x))
    TimeX.load(folder, model, allow_other_model=True)


def test_our_models_take_no_layer():
    for option in ({"embedding": "head"}, {"pool": 1}, {"output": 0}):
        with pytest.raises(ValueError, match="CNN has its own embedding: leave out embedding=, pool= and output="):
            quick(**option)


class Flat(nn.Module):
    """(B, T, 2) to 3 classes, each step on its own."""

    def __init__(self, layer=nn.Linear):
        super().__init__()
        self.body = layer(2, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.body(x).mean(1))


class Stateful(Flat):
    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        assert state == {"version": 1}


class InPlace(Flat):
    def forward(self, x):
        x -= 5.0
        return super().forward(x)


@pytest.mark.parametrize(
    "layer", ["weight_norm", "spectral_norm", "parametrizations.weight_norm", "parametrizations.spectral_norm"]
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated", "ignore:.*spectral_norm.*is deprecated")
def test_models_with_normalised_weights_after_training(layer, tmp_path):
    """The old ones keep the weight they made last, with its history, which torch does not copy."""
    normalise = nn.utils
    for part in layer.split("."):
        normalise = getattr(normalise, part)
    x, model = series(30, 10, 2), seeded(Flat, 10, 2)
    model.body = normalise(model.body)
    model(torch.as_tensor(x)).sum().backward()
    model.eval()
    explainer = TimeX(model, "body", CONFIG).fit(x, progress=False)
    e = explainer.explain(x)
    np.testing.assert_allclose(e.probability, model(torch.as_tensor(x)).softmax(-1).detach(), atol=1e-6)
    same_explanations(TimeX.load(explainer.save(tmp_path), model).explain(x), e)


def test_a_model_with_a_state_of_its_own(tmp_path):
    model, x = seeded(Stateful, 10, 2), series(30, 10, 2)
    explainer = TimeX(model, "body", CONFIG).fit(x, progress=False)
    same_explanations(TimeX.load(explainer.save(tmp_path), model).explain(x), explainer.explain(x))


def test_a_model_that_writes_to_its_input():
    model, x = seeded(InPlace, 10, 2), series(30, 10, 2)
    before = x.copy()
    e = TimeX(model, "body", CONFIG).fit(x, progress=False).explain(x)
    np.testing.assert_array_equal(x, before)
    with torch.no_grad():
        np.testing.assert_allclose(e.probability, model(torch.as_tensor(before)).softmax(-1), atol=1e-6)


def test_models_that_cannot_be_used():
    x = series(30, 10, 2)
    with pytest.raises(ValueError, match=r"body\.weight has no values yet: run the model once"):
        TimeX(Flat(lambda a, b: nn.LazyLinear(b)), "body")
    with pytest.raises(ValueError, match=r"fails on x of shape \(2, 10, 2\).*dtype.*model\.float\(\)"):
        TimeX(Flat().double(), "body").fit(x, progress=False)
    with pytest.raises(ValueError, match=r"fails on x of shape \(2, 2, 10\), as \(B, T, D\).*Check the order of the axes"):
        TimeX(Flat(), "body").fit(x.transpose(0, 2, 1), progress=False)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_model_is_refused():
    with pytest.raises(ValueError, match=r"Expected a plain torch\.nn\.Module, got one of torch\.jit"):
        TimeX(torch.jit.trace(Flat().eval(), torch.zeros(2, 10, 2)), "body")


def test_probabilities_instead_of_logits_warn_where_the_user_called():
    class Normalised(Flat):
        def forward(self, x):
            return super().forward(x).softmax(-1)

    with pytest.warns(UserWarning, match="seems to return probabilities .* without its last softmax") as caught:
        TimeX(seeded(Normalised, 10, 2), "body", CONFIG).fit(series(30, 10, 2), progress=False)
    assert caught[0].filename == __file__


def test_a_model_with_nan_outputs_is_refused():
    explainer = quick()
    with torch.no_grad():
        explainer._module.head[-1].bias[0] = torch.nan
    with pytest.raises(ValueError, match="The model gives NaN or inf on some samples"):
        explainer.fit(series(20, 12, 2), progress=False)


# ------------------------------------------------------------------------------------------------------------- bad input


def test_nan_is_refused_with_its_place(mv):
    x = mv.x.copy()
    x[3, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"got nan at sample 3, step 2, channel 1 .* pass observed="):
        mv.fresh().fit(x, progress=False)
    with pytest.raises(ValueError, match="got nan at sample 3, step 2, channel 1"):
        mv.explainer.explain(x)


@pytest.mark.parametrize(("t", "d"), [(13, 3), (14, 2), (3, 14)])
def test_another_shape_than_the_models(mv, t, d):
    with pytest.raises(ValueError, match=rf"Expected x of shape \(N, 14, 3\), got \(9, {t}, {d}\): the model's own T and D"):
        mv.explainer.explain(series(9, t, d))
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 14, 3\)"):
        mv.fresh().fit(series(9, t, d), progress=False)


def test_foreign_models_hold_to_the_shape_fitted_on():
    explainer = TimeX(seeded(Recurrent, 11, 3), "gru", replace(CONFIG, epochs=1)).fit(series(20, 11, 3), progress=False)
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, 11, 3\), got \(4, 12, 3\)"):
        explainer.explain(series(4, 12, 3))


def test_wrong_rank(mv):
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, T, D\), got \(14, 3\): add the batch axis"):
        mv.explainer.explain(mv.x[0])
    with pytest.raises(ValueError, match=r"Expected x of shape \(N, T, D\), got \(48, 14\)"):
        mv.fresh().fit(mv.x[:, :, 0], progress=False)


@pytest.mark.parametrize("n", [4, 10])
def test_fewer_samples_than_a_batch(n):
    explainer = quick(config=replace(CONFIG, batch_size=64)).fit(series(n, 12, 2), progress=False)
    assert np.isfinite(explainer.explain(series(n, 12, 2)).attribution).all()
    assert len(explainer.landmarks) == 6  # more landmarks than samples: some start alike


def test_too_few_samples_to_split():
    with pytest.raises(ValueError, match="Expected at least 4 samples to fit and validate on, got 3: pass more, or x_val="):
        quick().fit(series(3, 12, 2), progress=False)


def test_one_sample_can_be_explained(mv):
    assert mv.explainer.explain(mv.x[:1]).attribution.shape == (1, 14, 3)


def test_a_single_predicted_class_warns():
    explainer = quick()
    with torch.no_grad():
        explainer._module.head[-1].bias[1] += 1000
    with pytest.warns(UserWarning, match="predicts class 1 for all 27 training samples: there is no difference") as caught:
        explainer.fit(series(30, 12, 2), progress=False)
    assert caught[0].filename == __file__  # the user's line, not one of ours
    assert np.isfinite(explainer.explain(series(5, 12, 2)).attribution).all()


def test_constant_channels():
    x = series(40, 12, 2)
    x[:, :, 1] = 2.5
    for fill in ("mean", "draw"):
        explainer = quick(config=replace(CONFIG, fill=fill)).fit(x, progress=False)
        e = explainer.explain(x)
        assert np.isfinite(e.attribution).all()
        assert np.isfinite(explainer.history["criterion"]).all()


def test_without_validation_data_a_tenth_is_set_apart_and_said_so(caplog):
    x = series(40, 12, 2)
    with caplog.at_level(logging.INFO, logger="timex"):
        explainer = quick().fit(x, progress=False)
    assert "no x_val given: 4 of 40 samples are set apart to select the best epoch" in caplog.messages
    assert explainer.landmarks.counts.sum() == 36
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="timex"):
        quick().fit(x, x_val=x[:9], progress=False)
    assert not any("set apart" in message for message in caplog.messages)


def test_validation_data_of_another_shape(mv):
    with pytest.raises(ValueError, match=r"Expected x_val with \(T, D\) = \(14, 3\), got \(14, 2\)"):
        mv.fresh().fit(mv.x, x_val=series(8, 14, 2), progress=False)


def test_labels_of_another_length(mv):
    with pytest.raises(ValueError, match=r"Expected one label per sample, shape \(48,\), got \(47,\)"):
        mv.fresh().fit(mv.x, np.zeros(47, dtype=int), progress=False)


def test_a_target_is_refused(mv):
    with pytest.raises(ValueError, match="explains the class the model predicts and takes no target"):
        mv.explainer.explain(mv.asked, target=np.zeros(20, dtype=int))


def test_before_fit(mv, tmp_path):
    explainer = mv.fresh()
    for call in (lambda: explainer.explain(mv.asked), lambda: explainer.landmarks, lambda: explainer.save(tmp_path)):
        with pytest.raises(RuntimeError, match="has not been fitted"):
            call()
    assert len(explainer.history) == 0
    assert list(tmp_path.iterdir()) == []


def test_an_exploding_fit_says_so(mv):
    """A scale of 1e30 overflows: no epoch has a finite validation value."""
    explainer = quick()
    with pytest.raises((RuntimeError, ValueError), match="finite"):
        explainer.fit(series(20, 12, 2) * np.float32(1e30), progress=False)


# ------------------------------------------------------------------------------------------------- irregular and missing


@dataclass
class Irregular:
    x: np.ndarray
    times: np.ndarray
    observed: np.ndarray
    explainer: TimeX


@pytest.fixture(scope="module")
def irregular():
    t, d = 14, 3
    rng = np.random.default_rng(0)
    x, observed = series(N, t, d), rng.random((N, t, d)) > 0.15
    observed[::2, -4:] = False  # every other sample is shorter
    times = np.cumsum(rng.uniform(0.5, 1.5, size=(N, t)), axis=1).astype(np.float32)
    times[::2, -4:] = 0
    model = seeded(lambda: Transformer(d, 3, t, d_hidden=8), t, d)
    explainer = TimeX(model, config=CONFIG).fit(np.where(observed, x, np.nan), times=times, observed=observed, progress=False)
    return Irregular(x, times, observed, explainer)


def test_unobserved_cells_get_no_attribution(irregular):
    e = irregular.explainer.explain(irregular.x, times=irregular.times, observed=irregular.observed)
    assert (e.attribution[~irregular.observed] == 0).all()
    assert not e.mask[~irregular.observed].any()
    assert (e.attribution[irregular.observed] > 0).all()
    assert (e.x[~irregular.observed] == 0).all()
    np.testing.assert_array_equal(e.observed, irregular.observed)
    np.testing.assert_array_equal(e.times, irregular.times)
    assert np.isfinite(e.attribution).all()


def test_what_stands_in_unobserved_cells_does_not_matter(irregular):
    options = {"times": irregular.times, "observed": irregular.observed}
    a, b = (irregular.explainer.explain(np.where(irregular.observed, irregular.x, v), **options) for v in (np.nan, 1e9))
    same_explanations(a, b)


def test_unobserved_cells_do_not_matter_to_the_fit_either(irregular):
    options = {"times": irregular.times, "observed": irregular.observed, "progress": False}
    other = TimeX(irregular.explainer._module, config=CONFIG).fit(np.where(irregular.observed, irregular.x, -77.0), **options)
    explained = {"times": irregular.times, "observed": irregular.observed}
    same_explanations(other.explain(irregular.x, **explained), irregular.explainer.explain(irregular.x, **explained))


def test_the_times_of_the_padding_do_not_matter(irregular):
    times = irregular.times.copy()
    times[::2, -4:] = 123.0
    a, b = (irregular.explainer.explain(irregular.x, times=t, observed=irregular.observed) for t in (irregular.times, times))
    same_explanations(a, b)


def test_the_share_kept_is_of_the_cells_that_exist(irregular):
    explainer = TimeX(irregular.explainer._module, config=replace(CONFIG, epochs=1))
    where = {"times": irregular.times, "observed": irregular.observed, "progress": False}
    val = {"x_val": irregular.x, "times_val": irregular.times, "observed_val": irregular.observed}
    explainer.fit(irregular.x, **where, **val)
    e = explainer.explain(irregular.x, times=irregular.times, observed=irregular.observed)
    assert explainer.history["val_kept"][0] == pytest.approx(e.attribution[irregular.observed].mean(), abs=1e-4)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([4.0, 3.0, 2.0, 1.0], r"got 3 after 4 at sample 0, step 1: sort the steps by time"),
        ([7.0, 7.0, 7.0, 7.0], r"got 7 after 7 at sample 0, step 1"),
        ([1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3], r"count from the start of the series \(times are kept in 32 bits"),
    ],
)
def test_times_that_do_not_increase_are_refused(mv, times, words):
    with pytest.raises(ValueError, match=words):
        check_series(series(3, 4, 2), times)


def test_only_measured_steps_have_an_order():
    observed = np.array([[True, False, True, False]])
    _, times, _ = check_series(series(1, 4, 2), [1.0, 9.0, 2.0, 0.0], observed)
    assert times.tolist() == [[1.0, 9.0, 2.0, 0.0]]
    with pytest.raises(ValueError, match="got 2 after 3 at sample 0, step 2"):
        check_series(series(1, 4, 2), [3.0, 9.0, 2.0, 0.0], observed)


def test_the_times_matter(irregular):
    a, b = (irregular.explainer.explain(irregular.x, times=irregular.times * s, observed=irregular.observed) for s in (1, 2))
    assert not np.allclose(a.attribution, b.attribution, atol=1e-3)


def test_whole_steps_may_be_marked_as_unobserved(irregular):
    """Observed of shape (N, T) says the same as the same for every channel."""
    observed = np.ones((6, 14, 3), dtype=bool)
    observed[:, -5:] = False
    times = irregular.times[:6]
    a, b = (irregular.explainer.explain(irregular.x[:6], times=times, observed=o) for o in (observed[:, :, 0], observed))
    same_explanations(a, b)
    assert (a.attribution[:, -5:] == 0).all()


def test_irregular_chunks(irregular):
    options = {"times": irregular.times, "observed": irregular.observed}
    whole, parts = (irregular.explainer.explain(irregular.x, **options, chunk=chunk) for chunk in (None, 5))
    np.testing.assert_allclose(parts.attribution, whole.attribution, atol=1e-6)


def test_regular_data_given_as_irregular_is_the_same(mv):
    times = np.tile(np.arange(1, 15), (20, 1))
    e = mv.explainer.explain(mv.asked, times=times, observed=np.ones(mv.asked.shape, dtype=bool))
    np.testing.assert_array_equal(e.attribution, mv.explainer.explain(mv.asked).attribution)


def test_irregular_data_on_models_without_times():
    """CNN and LSTM see zeros in the place of missing cells; validation data may be irregular too."""
    x = series(30, 12, 2)
    observed = np.random.default_rng(0).random(x.shape) > 0.2
    for make in (lambda: CNN(2, 3, 12, width=6), lambda: LSTM(2, 3, 12, hidden=3, n_layers=1)):
        explainer = TimeX(seeded(make, 12, 2), config=CONFIG)
        explainer.fit(x, observed=observed, x_val=x[:8], observed_val=observed[:8], progress=False)
        e = explainer.explain(x, observed=observed)
        assert (e.attribution[~observed] == 0).all()
        assert np.isfinite(e.attribution).all()


# --------------------------------------------------------------------------------------------------- many at once


def arms():
    """Explainers that differ in numbers (train together), in structure (apart) and in architecture (apart), interleaved."""
    t, d = 12, 2
    models = {
        "cnn": seeded(lambda: CNN(d, 3, t, width=6), t, d),
        "cnn_wide": seeded(lambda: CNN(d, 3, t, width=7), t, d),
        "transformer": seeded(lambda: Transformer(d, 3, t, d_hidden=8), t, d),
        "transformer_undropped": seeded(lambda: Transformer(d, 3, t, d_hidden=8, dropout=0.0), t, d),
        "lstm": seeded(lambda: LSTM(d, 3, t, hidden=3, n_layers=1), t, d),
    }
    return [
        (models["cnn"], CONFIG),
        (models["transformer"], CONFIG),
        (models["cnn"], replace(CONFIG, r=0.2, lr=3e-3, seed=1)),
        (models["lstm"], CONFIG),
        (models["cnn"], replace(CONFIG, fill="draw")),
        (models["cnn"], replace(CONFIG, shown=1.0)),
        (models["transformer_undropped"], CONFIG),
        (models["cnn"], replace(CONFIG, select="consistency", lam_e=3.0)),
        (models["cnn"], replace(CONFIG, generator_dropout=0.4)),
        (models["cnn"], replace(CONFIG, generator_layers=1, n_landmarks=4)),
        (models["cnn"], replace(CONFIG, warmup=3)),
        (models["cnn_wide"], CONFIG),
        (
            models["cnn"],
            replace(CONFIG, tau=0.5, landmark_spread=0.3, lam_lc=2.0, lam_con=0.5, weight_decay=0.1, encoder_init="scratch"),
        ),
    ]


def test_fit_many_equals_each_alone(monkeypatch):
    x = series(40, 12, 2)
    data = [(x + 0.1 * i, np.arange(40) % 3, series(9, 12, 2, seed=i)) for i in range(13)]
    many = [TimeX(model, config=config) for model, config in arms()]
    sizes = []
    from timex import engine

    train = engine.train
    monkeypatch.setattr(
        engine, "train", lambda program, members, *a, **k: sizes.append(len(members)) or train(program, members, *a, **k)
    )
    fitted = fit_many(many, data, progress=False)
    assert all(a is b for a, b in zip(fitted, many, strict=True))
    assert sizes == [3, *[1] * 10]  # the three CNNs that differ in numbers alone run as one program
    for i, ((model, config), (x_i, y, x_val)) in enumerate(zip(arms(), data, strict=True)):
        alone = TimeX(model, config=config).fit(x_i, y, x_val=x_val, progress=False)
        a, b = alone.explain(x_i), fitted[i].explain(x_i)
        np.testing.assert_allclose(b.attribution, a.attribution, atol=1e-4, err_msg=str(i))
        np.testing.assert_allclose(b.divergence, a.divergence, atol=1e-4, err_msg=str(i))
        assert fitted[i].config == config


def spied_members(monkeypatch):
    """The members of every later run of the engine, in a list that fills."""
    members, train = [], engine.train
    monkeypatch.setattr(engine, "train", lambda p, m, *a, **k: members.extend(m) or train(p, m, *a, **k))
    return members


def test_everything_hidden_is_by_the_means_of_ones_own_training_series(monkeypatch):
    """Two explainers may share their validation series, but not what replaces its cells."""
    members = spied_members(monkeypatch)
    x, x_val = series(20, 12, 2), series(9, 12, 2, seed=1)
    many = [quick(), quick()]
    many[1]._module = many[0]._module
    fit_many(many, [(x, None, x_val), (x + 3, None, x_val)], progress=False)
    for member, source in zip(members, (x, x + 3), strict=True):
        hidden = torch.as_tensor(source).mean(0).expand(9, -1, -1)
        with torch.no_grad():
            torch.testing.assert_close(member.val["blank"], many[0]._module.eval()(hidden), rtol=1e-4, atol=1e-4)


def test_everything_hidden_is_as_the_masking_hides_it(monkeypatch):
    members = spied_members(monkeypatch)
    model, x = seeded(OURS["transformer_uv"][3], 16, 1).eval(), series(20, 16, 1)
    mean, nothing = torch.as_tensor(x).mean(0).expand(20, -1, -1), torch.zeros(20, 16)
    seen = {"value": (mean, None), "attention": (torch.as_tensor(x), nothing), "both": (mean, nothing)}
    for masking, (hidden, attended) in seen.items():
        TimeX(model, config=replace(CONFIG, epochs=1, masking=masking)).fit(x, x_val=x, progress=False)
        with torch.no_grad():
            torch.testing.assert_close(members[-1].train["blank"], model(hidden, mask=attended), rtol=1e-4, atol=1e-5)


def test_one_that_diverges_costs_the_others_nothing():
    x = series(30, 12, 2)
    many = [quick(), quick(config=replace(CONFIG, lr=1e30)), quick(config=replace(CONFIG, seed=1))]
    with pytest.raises(
        RuntimeError, match=r"No epoch gave a finite validation value.* for explainer 1 of 3; the others are fitted"
    ):
        fit_many(many, [(x, None, x[:9])] * 3, progress=False)
    assert many[1].model is None
    for config, explainer in ((CONFIG, many[0]), (replace(CONFIG, seed=1), many[2])):
        alone = quick(config=config).fit(x, x_val=x[:9], progress=False)
        np.testing.assert_allclose(explainer.explain(x).attribution, alone.explain(x).attribution, atol=1e-5)


def test_fit_many_asks_for_data_for_each():
    with pytest.raises(ValueError, match="Expected data for each of 2 explainers, got 1"):
        fit_many([quick(), quick()], [(series(20, 12, 2), None, None)], progress=False)


# ----------------------------------------------------------------------------------------------------------- ablations


SWITCHES = [
    {"mask": "soft"},
    {"consistency": "simclr"},
    {"consistency": "none"},
    {"consistency": "mbc_normalised"},
    {"label": "pairwise"},
    {"label": "batch"},
    {"label": "none"},
    {"encoder_init": "scratch"},
    {"landmark_spread": 0.1},
    {"resolution": 2},
    {"masking": "attention"},
    {"masking": "both"},
    {"masking": "auto"},
    {"fill": "draw"},
    {"connectivity": "equation"},
    {"select": "consistency"},
    {"scheduler": "plateau"},
    {"scheduler": "none", "warmup": 2, "patience": 1},
    {"shown": 0.0},
    {"shown": 1.0},
    {"generator_layers": 2, "generator_hidden": 5, "generator_dropout": 0.0},
]


@pytest.fixture(scope="module")
def one_epoch(mv):
    """The history without any switch."""
    return mv.fresh(replace(CONFIG, epochs=1)).fit(mv.x, x_val=mv.x_val, progress=False).history


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()))
def test_every_switch_runs_and_does_something(mv, one_epoch, switch):
    explainer = mv.fresh(replace(CONFIG, epochs=1, **switch)).fit(mv.x, x_val=mv.x_val, progress=False)
    history = explainer.history
    losses = ["loss", "mbc", "landmarks", "lc", "l_m", "l_con", "criterion", "val_mbc", "val_lc"]
    assert len(history) == 1
    assert np.isfinite(history[losses].to_numpy()).all()
    assert np.isfinite(explainer.explain(mv.asked).attribution).all()
    if switch == {"consistency": "none"}:
        assert history["mbc"].item() == 0
    elif switch == {"label": "none"}:
        assert history["lc"].item() == 0
    else:
        assert history["mbc"].item() > 0
        assert history["lc"].item() > 0
    changed = ["loss", "criterion"]
    if switch not in ({"masking": "auto"}, {"scheduler": "plateau"}):  # on this model and one epoch, no other thing
        assert history[changed].to_numpy().tolist() != one_epoch[changed].to_numpy().tolist()


def test_encoder_from_scratch(mv):
    """With training that moves nothing, the encoder keeps its start: the model's weights, or fresh ones."""
    for init, equal in {"reference": True, "scratch": False}.items():
        explainer = mv.fresh(replace(CONFIG, epochs=1, lr=1e-12, encoder_init=init)).fit(mv.x, x_val=mv.x_val, progress=False)
        for name, weight in mv.model.named_parameters():
            if name.endswith("weight") and "norm" not in name:
                own = explainer.model.encoder.get_parameter(name)
                assert torch.allclose(own, weight, atol=1e-6) is equal, name


def test_foreign_encoder_from_scratch():
    model = seeded(Attentive, 13, 3)
    config = replace(CONFIG, epochs=1, lr=1e-12, encoder_init="scratch")
    explainer = TimeX(model, "encoder", config).fit(series(30, 13, 3), progress=False)
    for name, weight in model.named_parameters():
        if name.endswith("weight") and "norm" not in name:
            assert not torch.allclose(explainer.model.encoder.module.get_parameter(name), weight, atol=1e-6), name


def test_attention_masking_of_a_model_without_attention():
    with pytest.raises(ValueError, match=r"masking='attention' needs a model with an attention mask, which CNN has not"):
        quick(config=replace(CONFIG, masking="attention")).fit(series(20, 12, 2), progress=False)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"r": 0.0}, "Expected r strictly between 0 and 1, got 0.0"),
        ({"r": 1.0}, "Expected r strictly between 0 and 1, got 1.0"),
        ({"tau": 0.0}, "Expected tau > 0, got 0.0"),
        ({"landmark_spread": 0.0}, "Expected landmark_spread > 0, got 0.0"),
        ({"resolution": 0}, "Expected resolution >= 1, got 0"),
        ({"lr": -1.0}, "Expected lr > 0, got -1.0"),
        ({"lam_lc": -1.0}, "Expected lam_lc >= 0, got -1.0"),
        ({"lam_e": -1.0}, "Expected lam_e >= 0"),
        ({"lam_con": -1.0}, "Expected lam_con >= 0"),
        ({"weight_decay": -0.1}, "Expected weight_decay >= 0"),
        ({"shown": 1.5}, "Expected shown between 0 and 1, got 1.5"),
        ({"n_landmarks": 0}, "Expected at least one landmark, got 0"),
        ({"epochs": 0}, "Expected epochs >= 1, got 0"),
        ({"batch_size": 1}, "Expected batch_size >= 2, got 1"),
        ({"patience": 0}, "Expected patience >= 1, got 0"),
        ({"warmup": -1}, "Expected warmup >= 0, got -1"),
        ({"generator_layers": -1}, "Expected generator_layers >= 1, got -1"),
        ({"generator_hidden": 0}, "Expected generator_hidden >= 1, got 0"),
        ({"generator_filters": -1}, "Expected generator_filters >= 0, got -1"),
        ({"generator_dropout": 1.0}, "Expected generator_dropout of at least 0 and below 1, got 1.0"),
        ({"consistency": "none", "label": "none"}, "got neither: nothing would tie the masks to the model"),
        ({"mask": "hard"}, "Expected mask among straight_through, soft, got 'hard'"),
        ({"masking": "values"}, "Expected masking among value, attention, both, auto, got 'values'"),
    ],
)
def test_config_errors(values, words):
    with pytest.raises(ValueError, match=words):
        TimeXConfig(**values)


def test_the_papers_settings():
    assert list(PAPER) == ["freqshapes", "seqcomb_uv", "seqcomb_mv", "lowvar"]
    for config in PAPER.values():
        assert (config.r, config.lam_e, config.lam_con, config.n_landmarks, config.tau) == (0.5, 2.0, 2.0, 50, 1.0)
        assert (config.label, config.connectivity, config.fill, config.masking) == ("pairwise", "equation", "draw", "auto")
        assert (config.shown, config.select, config.mask) == (0.0, "consistency", "straight_through")
        assert (config.landmark_spread, config.resolution) == (1.0, 1)
    assert [c.epochs for c in PAPER.values()] == [50, 50, 100, 100]
    assert [c.lr for c in PAPER.values()] == [0.001, 0.001, 0.001, 0.003]
    assert [c.weight_decay for c in PAPER.values()] == [0.001, 0.001, 0.001, 0.0001]


# ---------------------------------------------------------------------------------------------------------- resolution


def finely(n=30, t=128, seed=0):
    """Series of which neighbouring steps say the same."""
    noise = np.random.default_rng(seed).normal(size=(n, t, 1))
    x = gaussian_filter1d(noise, 3, axis=1, mode="wrap")
    return (x / x.std()).astype(np.float32)


def on_fine(config=CONFIG):
    return TimeX(seeded(lambda: CNN(1, 3, 128, width=6), 128, 1, x=finely()), config=replace(config, epochs=1))


def roughness(explanation):
    return np.abs(np.diff(explanation.attribution, 2, axis=1)).mean()


def test_finely_sampled_series_are_explained_at_their_own_resolution(caplog):
    x = finely()
    with caplog.at_level(logging.INFO, logger="timex"):
        explainer = on_fine().fit(x, progress=False)
    assert explainer.resolution == 4
    assert "explanations are resolved to 4 steps; resolution=1 asks for every step" in caplog.text
    every = on_fine(replace(CONFIG, resolution=1)).fit(x, progress=False)
    assert every.resolution == 1
    assert roughness(explainer.explain(x)) < roughness(every.explain(x)) / 3


def test_the_resolution_found_is_saved(tmp_path):
    x = finely()
    explainer = on_fine().fit(x, progress=False)
    loaded = TimeX.load(explainer.save(tmp_path / "e"), explainer._module)
    assert loaded.resolution == 4
    np.testing.assert_array_equal(loaded.explain(x).attribution, explainer.explain(x).attribution)


def test_an_explainer_saved_before_there_was_a_resolution_has_every_step(tmp_path):
    x = finely()
    explainer = on_fine(replace(CONFIG, resolution=1)).fit(x, progress=False)
    folder = explainer.save(tmp_path / "e")
    description = json.loads((folder / "explainer.json").read_text())
    del description["resolution"], description["config"]["resolution"]
    (folder / "explainer.json").write_text(json.dumps(description))
    loaded = TimeX.load(folder, explainer._module)
    np.testing.assert_array_equal(loaded.explain(x).attribution, explainer.explain(x).attribution)


def test_explainers_of_equal_resolution_train_together(monkeypatch):
    """However they came by it: found, or set."""
    sizes, train = [], engine.train
    monkeypatch.setattr(engine, "train", lambda p, m, *a, **k: sizes.append(len(m)) or train(p, m, *a, **k))
    x = finely()
    configs = [CONFIG, replace(CONFIG, seed=1, resolution=4)]
    many = fit_many([on_fine(c) for c in configs], [(x, None, None)] * 2, progress=False)
    assert sizes == [2]
    for config, one in zip(configs, many, strict=True):
        alone = on_fine(config).fit(x, progress=False)
        np.testing.assert_allclose(one.explain(x).attribution, alone.explain(x).attribution, atol=1e-4)


def test_series_with_gaps_are_explained_at_a_resolution_that_was_asked_for():
    x, observed = finely(), np.ones((30, 128, 1), dtype=bool)
    observed[:, 90:] = False
    assert on_fine().fit(x, observed=observed, progress=False).resolution == 1
    explainer = on_fine(replace(CONFIG, resolution=4)).fit(x, observed=observed, progress=False)
    explanation = explainer.explain(x, observed=observed)
    assert np.isfinite(explanation.attribution).all()
    assert (explanation.attribution[:, 90:] == 0).all()
    assert np.abs(np.diff(explanation.attribution[:, :90], 2, axis=1)).max() < 0.05


def test_explainers_of_another_resolution_train_apart():
    x = finely()
    data = [x, x + 0.3 * np.random.default_rng(0).normal(size=x.shape).astype(np.float32)]
    many = fit_many([on_fine(), on_fine()], [(x, None, None) for x in data], progress=False)
    assert [e.resolution for e in many] == [4, 1]
    for x, one in zip(data, many, strict=True):
        alone = on_fine().fit(x, progress=False)
        np.testing.assert_allclose(one.explain(x).attribution, alone.explain(x).attribution, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize(("lam_model", "lam_e", "left"), [(3.0, 0.0, 0.25), (0.0, 0.0, 0.25), (0.0, 1.0, 0.5)])
def test_one_batch_can_be_overfitted(lam_model, lam_e, left):
    """32 samples, one batch: the surrogate learns the model's predictions, best where nothing has to be hidden."""
    t, d = 12, 2
    model = seeded(lambda: Transformer(d, 3, t, d_hidden=16), t, d)
    x = series(32, t, d)
    config = TimeXConfig(
        epochs=60, batch_size=32, n_landmarks=6, lr=1e-2, generator_dropout=0.0, r=0.5, lam_model=lam_model, lam_e=lam_e
    )
    explainer = TimeX(model, config=config).fit(x, x_val=x, progress=False)
    first, last = explainer.history.iloc[0], explainer.history.iloc[-5:].mean()
    assert last["lc"] < left * first["lc"]
    assert last["loss"] < 0.5 * first["loss"]
    assert last["model"] <= 0.1 * first["model"]
    assert last["val_kept"] == pytest.approx(0.5 if lam_e else 1.0, abs=0.05)  # the prior, or everything
    assert explainer.explain(x).agreement.mean() > 0.7


def test_fit_says_when_the_surrogate_is_no_better_than_guessing(caplog):
    _Trust(CONFIG, kept=0.3, agreement=0.3, commonest=0.34).warn()
    assert "for 30 % of the training samples (the commonest class is 34 %)" in caplog.text
    caplog.clear()
    _Trust(CONFIG, kept=0.3, agreement=0.95, commonest=0.34).warn()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("settings", "kept", "agreement", "commonest", "again"),
    [
        ({}, 0.3, 0.9, 0.3, False),
        ({}, 0.3, 0.6, 0.3, True),  # the surrogate cannot be trusted
        ({}, 0.9, 1.0, 0.3, True),  # everything is kept
        ({"judged": "draw"}, 0.9, 0.6, 0.3, False),  # what was asked for
        ({"judged": "strength"}, 0.9, 0.6, 0.3, False),
        ({"lam_model": 0.0}, 0.9, 0.6, 0.3, False),  # the model is not asked at all
        ({"label": "none"}, 0.3, 0.1, 0.3, False),  # nobody taught it to agree
        ({"label": "mse"}, 0.3, None, 0.3, False),
        ({"label": "mse"}, 0.9, None, 0.3, False),  # nothing tells which of two forecasts' explanations is better
        ({"lam_lc": 0.0}, 0.9, 0.1, 0.3, False),
        ({}, 0.3, 0.6, 1.0, False),  # one class: there is nothing to explain
    ],
)
def test_which_fits_are_tried_again(settings, kept, agreement, commonest, again):
    config = replace(CONFIG, **{"judged": "auto", **settings})
    assert _Trust(config, kept, agreement, commonest).worth_another is again


def test_a_fit_that_singles_something_out_is_better_than_one_that_agrees_by_keeping_everything():
    everything, some, wrong = (
        _Trust(CONFIG, kept, agreement, 0.3).rank for kept, agreement in [(0.99, 1), (0.3, 0.9), (0.3, 0.5)]
    )
    assert everything < wrong < some


@pytest.mark.parametrize("better", ["draw", "strength"])
def test_a_fit_that_fails_is_tried_again_and_the_better_one_kept(monkeypatch, better):
    """Of explainers that train together, each is what its better fit would have been alone."""
    x, finish = series(40, 12, 2), TimeX._finish

    def said(explainer, *a):
        agreement = 0.9 if explainer.config.seed == 1 else 0.5 if explainer.judged == better else 0.4
        return replace(finish(explainer, *a), agreement=agreement)

    monkeypatch.setattr(TimeX, "_finish", said)
    many = [quick(config=replace(CONFIG, judged="auto", seed=seed)) for seed in range(3)]
    many.append(quick(config=replace(CONFIG, judged="strength", seed=3)))  # another program from the start
    fit_many(many, [(x, None, x)] * 4, progress=False)
    assert [explainer.judged for explainer in many] == [better, "draw", better, "strength"]  # the second did not fail
    for explainer in many:
        alone = quick(config=replace(explainer.config, judged=explainer.judged)).fit(x, x_val=x, progress=False)
        np.testing.assert_allclose(explainer.explain(x).attribution, alone.explain(x).attribution, atol=1e-5)
        assert explainer.history.loss.tolist() == pytest.approx(alone.history.loss.tolist(), rel=1e-3)


def test_a_second_fit_that_diverges_leaves_the_first(monkeypatch):
    x, train, calls = series(40, 12, 2), engine.train, []

    def once(program, members, *a, **k):
        calls.append(program.at_strength)
        runs = train(program, members, *a, **k)
        return runs if len(calls) == 1 else [replace(run, epoch=-1) for run in runs]

    monkeypatch.setattr(engine, "train", once)
    explainer = quick(config=replace(CONFIG, judged="auto")).fit(x, x_val=x, progress=False)
    assert calls == [False, True]
    assert explainer.judged == "draw"
    monkeypatch.undo()
    alone = quick().fit(x, x_val=x, progress=False)
    np.testing.assert_allclose(explainer.explain(x).attribution, alone.explain(x).attribution, atol=1e-5)


def test_an_error_in_the_second_fit_costs_nobody_the_first(monkeypatch, caplog):
    x, train = series(40, 12, 2), engine.train

    def once(program, *a, **k):
        if program.at_strength:
            raise torch.OutOfMemoryError("no memory left")
        return train(program, *a, **k)

    monkeypatch.setattr(engine, "train", once)
    explainer = quick(config=replace(CONFIG, judged="auto")).fit(x, progress=False)
    assert "the first is kept" in caplog.text
    assert "no memory left" in caplog.text
    monkeypatch.undo()
    alone = quick().fit(x, progress=False)
    assert explainer.judged == "draw"
    np.testing.assert_allclose(explainer.explain(x).attribution, alone.explain(x).attribution, atol=1e-5)


def test_what_is_said_before_a_fit_is_said_once(caplog):
    caplog.set_level("INFO")
    quick(config=replace(CONFIG, judged="auto", resolution=2)).fit(series(40, 12, 2), progress=False)
    assert "fitting again" in caplog.text
    for line in ("are set apart", "are resolved to 2 steps"):
        assert caplog.text.count(line) == 1


def test_a_fit_starts_from_draws_whatever_the_last_one_ended_with(tmp_path):
    x = series(40, 12, 2)
    explainer = quick(config=replace(CONFIG, judged="strength")).fit(x, x_val=x, progress=False)
    explainer.save(tmp_path)
    assert TimeX.load(tmp_path, explainer._module).judged == "strength"
    explainer.config = replace(CONFIG, judged="draw")
    assert explainer.fit(x, x_val=x, progress=False).judged == "draw"


def test_fit_says_when_explanations_keep_everything(caplog):
    x = series(32, 12, 2)
    for lam_e in (0.0, 5.0):  # nothing to pay for a cell, or more than it is worth
        caplog.clear()
        quick(config=replace(CONFIG, r=0.2, lam_e=lam_e, lam_model=3.0, lr=3e-2, epochs=12)).fit(x, x_val=x, progress=False)
        assert ("keep a cell with probability" in caplog.text) == (lam_e == 0)


def test_explainers_of_one_model_and_one_data_set_share_it_on_the_device(monkeypatch):
    """Seeds on a fold cost the device one copy of its data, and the frozen model one pass over it."""
    x, x_val, other = series(40, 12, 2), series(20, 12, 2, seed=1), series(40, 12, 2, seed=2)
    explainers = [quick(config=replace(CONFIG, epochs=1, seed=seed)) for seed in range(3)]
    for explainer in explainers[1:]:
        explainer._module = explainers[0]._module
    runs = []
    kept = engine._Run.__init__
    monkeypatch.setattr(engine._Run, "__init__", lambda run, *a: (kept(run, *a), runs.append(run))[0])
    fit_many(explainers, [(x, None, x_val), (x, None, x_val), (other, None, x_val)], progress=False)
    assert runs[-1].data["x"].shape == (2, 40, 12, 2)
    assert runs[-1].source.flatten().tolist() == [0, 0, 1]
    alone = quick(config=replace(CONFIG, epochs=1, seed=1))
    alone._module = explainers[0]._module
    alone.fit(x, x_val=x_val, progress=False)
    np.testing.assert_allclose(explainers[1].explain(x).attribution, alone.explain(x).attribution, atol=1e-5)
