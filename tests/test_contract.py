"""What every registered explainer promises, on every architecture; and the baselines by hand.

Shapes: distinct N, T, D and C per architecture, so that swapped axes fail.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from timex.baselines import (
    Amplitude,
    Centre,
    CoRTXConfig,
    DynamaskConfig,
    GradientShapConfig,
    IntegratedGradients,
    IntegratedGradientsConfig,
    Random,
    RandomConfig,
    SGTConfig,
    ShapleySamplingConfig,
    WinITConfig,
)
from timex.method.config import TimeXConfig
from timex.metrics import ground_truth_scores
from timex.reference import CNN, LSTM, REFERENCES, Transformer
from timex.reference.wrap import Wrapped
from timex.registry import EXPLAINERS, find
from timex.types import Explainer, Explanation

N, C = 24, 4
ARCHS = {
    "transformer": (11, 3, lambda t, d: Transformer(d, C, t, d_hidden=8)),
    "cnn": (17, 2, lambda t, d: CNN(d, C, t, width=6)),
    "lstm": (10, 3, lambda t, d: LSTM(d, C, t, hidden=3, n_layers=1)),
}
CONFIGS = {
    "timex": TimeXConfig(epochs=1, batch_size=12, n_landmarks=5),
    "dynamask": DynamaskConfig(keep_ratio=(0.1, 0.3), size_growth=(1e3,), sigma_max=(2.0,), steps=8),
    "winit": WinITConfig(window=3, draws=2, hidden=4, epochs=2),
    "cortx": CoRTXConfig(label_share=0.5, permutations=4, copies=3, layers=1, hidden=4, pretrain_epochs=1, epochs=2),
    "sgt_grad": SGTConfig(epochs=2, batch_size=12),
    "gradient_shap": GradientShapConfig(n_samples=6),
    "shapley_sampling": ShapleySamplingConfig(permutations=3),
}
"""Quick settings for those that have any."""
SIGNED = {"ig", "gradient_x_input", "gradient_shap", "deeplift", "occlusion", "shapley_sampling", "cortx"}
NEEDS_FIT = {"timex", "dynamask", "winit", "cortx", "sgt_grad", "gradient_shap"}


def series(n, t, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def reference(arch):
    """A model of random weights whose logits over random series have mean 0 and deviation 1, so that all classes occur."""
    t, d, make = ARCHS[arch]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = make(t, d)
    with torch.no_grad():
        logits = model(torch.as_tensor(series(200, t, d, seed=9)))
        mean, std = logits.mean(0), logits.std(0)
        model.head[-1].weight /= std[:, None]
        model.head[-1].bias.sub_(mean).div_(std)
    return model, t, d


def snapshot(model):
    return {
        "bytes": {name: value.numpy().tobytes() for name, value in model.state_dict().items()},
        "mode": {name: layer.training for name, layer in model.named_modules()},
        "gradient": {name: (p.requires_grad, p.grad) for name, p in model.named_parameters()},
        "hooks": {
            name: (list(m._forward_hooks.values()), list(m._forward_pre_hooks.values()), list(m._backward_hooks.values()))
            for name, m in model.named_modules()
        },
    }


def never(module, inputs, output):
    raise AssertionError("a hook of the user's model was called")


class Case:
    """An explainer fitted to a model, and what the model was before."""

    def __init__(self, name, arch):
        self.model, self.t, self.d = reference(arch)
        self.clean = copy.deepcopy(self.model).eval()
        self.model.train()  # a user may hand it in so
        self.model.head.register_forward_hook(never)
        self.model.head[0].eval()
        next(self.model.parameters()).requires_grad_(False)
        self.before = snapshot(self.model)
        self.x = series(N, self.t, self.d)
        self.name, self.explainer = name, EXPLAINERS[name](self.model, config=CONFIGS.get(name))
        self.random_state = torch.get_rng_state()
        self.fitted = self.explainer.fit(self.x, progress=False)
        self.asked = self.x[:7]
        self.explanation = self.explainer.explain(self.asked)
        self.again = EXPLAINERS[name](self.model, config=CONFIGS.get(name)).fit(self.x, progress=False).explain(self.asked)


@pytest.fixture(scope="module", params=[(name, arch) for arch in ARCHS for name in EXPLAINERS], ids=lambda pair: "-".join(pair))
def case(request):
    return Case(*request.param)


def test_every_architecture_is_here():
    assert set(ARCHS) == set(REFERENCES)


def test_an_explainer_is_an_explainer(case):
    assert isinstance(case.explainer, Explainer)
    assert not isinstance(case.model, Explainer)
    assert case.explainer.name == case.name


def test_fit_returns_self(case):
    assert case.fitted is case.explainer


def test_explanation(case):
    e = case.explanation
    assert isinstance(e, Explanation)
    assert e.attribution.shape == (7, case.t, case.d)
    assert e.attribution.dtype == np.float32
    assert np.isfinite(e.attribution).all()
    assert len(np.unique(e.attribution)) > (case.t // 2 - 1 if case.name == "centre" else 20)  # not a constant
    assert e.method == case.name
    assert e.signed == (case.name in SIGNED)
    np.testing.assert_array_equal(e.x, case.asked)
    if not e.signed and case.name != "winit":  # a difference of unsigned effects, which may fall below 0
        assert e.attribution.min() >= 0


def test_prediction_and_probability_are_the_models(case):
    with torch.no_grad():
        probability = case.clean(torch.as_tensor(case.asked)).softmax(-1).numpy()
    np.testing.assert_allclose(case.explanation.probability, probability, atol=1e-6)
    np.testing.assert_array_equal(case.explanation.prediction, probability.argmax(-1))
    assert len(np.unique(case.explanation.prediction)) > 1


def test_deterministic(case):
    again = case.explainer.explain(case.asked)
    assert again.attribution.tobytes() == case.explanation.attribution.tobytes()
    assert again.probability.tobytes() == case.explanation.probability.tobytes()


def test_the_seed_says_it_all(case):
    """Another explainer of the same settings, fitted again, gives the same."""
    assert case.again.attribution.tobytes() == case.explanation.attribution.tobytes()


@pytest.mark.parametrize("chunk", [1, 3])
def test_the_chunk_does_not_matter(case, chunk):
    other = case.explainer.explain(case.asked, chunk=chunk)
    np.testing.assert_allclose(other.attribution, case.explanation.attribution, atol=1e-5)
    np.testing.assert_allclose(other.probability, case.explanation.probability, atol=1e-6)


def test_the_rest_of_the_batch_does_not_matter(case):
    fewer = case.explainer.explain(case.asked[:2])
    np.testing.assert_allclose(fewer.attribution, case.explanation.attribution[:2], atol=1e-5)


def test_tensors_views_and_read_only_arrays_are_as_good(case):
    frozen = case.asked.copy()
    frozen.flags.writeable = False
    views = [torch.as_tensor(case.asked), frozen, case.asked[:, ::-1].copy()[:, ::-1], case.asked.tolist()]
    for view in views:
        np.testing.assert_allclose(case.explainer.explain(view).attribution, case.explanation.attribution, atol=1e-6)


def test_missing_cells_get_nothing_and_say_nothing(case):
    observed = np.ones(case.asked.shape, dtype=bool)
    observed[:, 2:4, 0] = False
    observed[0, -2:] = False  # padding
    times = np.tile(np.arange(1, case.t + 1, dtype=np.float32), (7, 1))
    nothing, anything = (np.where(observed, case.asked, filler) for filler in (np.nan, 1e6))
    a, b = (case.explainer.explain(x, times=times, observed=observed) for x in (nothing, anything))
    assert (a.attribution[~observed] == 0).all()
    assert np.isfinite(a.attribution).all()
    np.testing.assert_array_equal(a.attribution, b.attribution)
    np.testing.assert_array_equal(a.observed, observed)


def test_the_model_is_left_as_it_was(case):
    assert snapshot(case.model) == case.before


def test_the_global_random_state_is_left_as_it_was(case):
    before = torch.get_rng_state()
    case.explainer.explain(case.asked)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(case.random_state, before)


def test_unknown_explainer_lists_the_known():
    with pytest.raises(
        ValueError, match="Unknown explainer 'shap'; known: timex, ig, dynamask, winit, cortx, sgt_grad, saliency"
    ):
        find(EXPLAINERS, "shap", "explainer")


@pytest.mark.parametrize("name", sorted(NEEDS_FIT))
def test_explain_before_fit_is_an_error(name):
    model, t, d = reference("cnn")
    with pytest.raises(RuntimeError, match=r"has not been fitted: call fit\(x\)"):
        EXPLAINERS[name](model, config=CONFIGS.get(name)).explain(series(3, t, d))


@pytest.mark.parametrize("name", sorted(set(EXPLAINERS) - NEEDS_FIT))
def test_the_others_need_no_fit(name):
    model, t, d = reference("cnn")
    e = EXPLAINERS[name](model, config=CONFIGS.get(name)).explain(series(3, t, d))
    assert e.attribution.shape == (3, t, d)


@pytest.mark.parametrize("name", sorted(NEEDS_FIT))
def test_fit_on_irregular_series(name):
    """Cells that were not measured may hold anything, in the fit as in the explanation."""
    model, t, d = reference("transformer")
    x, times = series(N, t, d), np.cumsum(np.random.default_rng(1).uniform(0.5, 1.5, size=(N, t)), axis=1)
    observed = np.random.default_rng(2).random((N, t, d)) > 0.2
    observed[:3, -3:] = False  # padding
    out = []
    for filler in (np.nan, 1e6):
        filled = np.where(observed, x, filler)
        val = {"x_val": filled[:8], "times_val": times[:8], "observed_val": observed[:8]}
        explainer = EXPLAINERS[name](model, config=CONFIGS.get(name))
        explainer.fit(filled, times=times, observed=observed, **val, progress=False)
        out.append(explainer.explain(filled[:5], times=times[:5], observed=observed[:5]).attribution)
    assert np.isfinite(out[0]).all()
    assert (out[0][~observed[:5]] == 0).all()
    np.testing.assert_array_equal(*out)


class Foreign(nn.Module):
    """A module that is none of ours, reads series of one length only, and has layers that behave differently in training."""

    def __init__(self, t, d):
        super().__init__()
        self.gru = nn.GRU(d, 5, batch_first=True)
        self.norm, self.drop = nn.BatchNorm1d(5), nn.Dropout(0.3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(5 * t, C))

    def forward(self, x):
        return self.head(self.drop(self.norm(self.gru(x)[0].mT)))


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name != "timex"])
@pytest.mark.parametrize("d", [1, 2])
def test_foreign_models(name, d):
    t = 9
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Foreign(t, d)
    before, x = snapshot(model), series(N, t, d)
    random_state = torch.get_rng_state()
    explainer = EXPLAINERS[name](model, config=CONFIGS.get(name)).fit(x, progress=False)
    e = explainer.explain(x[:4])
    assert e.attribution.shape == (4, t, d)
    assert np.isfinite(e.attribution).all()
    np.testing.assert_allclose(explainer.explain(x[:4], chunk=3).attribution, e.attribution, atol=1e-5)
    assert snapshot(model) == before
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name != "timex"])
def test_a_wrapped_model_is_explained_as_the_module_itself(name):
    """`TimeX.reference` of a foreign model, which the command line hands on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Foreign(9, 2)
    x = series(N, 9, 2)
    wrapped = Wrapped(model, "gru", torch.as_tensor(x[:2]))
    explainers = [EXPLAINERS[name](m, config=CONFIGS.get(name)).fit(x, progress=False) for m in (model, wrapped)]
    a, b = (explainer.explain(x[:4]).attribution for explainer in explainers)
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", ["cortx", "winit", "sgt_grad"])
def test_a_training_that_diverges_is_an_error(name):
    model, t, d = reference("cnn")
    explainer = EXPLAINERS[name](model, config=replace(CONFIGS[name], lr=1e30))
    with pytest.raises(RuntimeError, match="No epoch gave a finite validation value: lower the learning rate"):
        explainer.fit(series(N, t, d), progress=False)
    with pytest.raises(RuntimeError, match="has not been fitted"):
        explainer.explain(series(2, t, d))


class Awkward(nn.Module):
    """Writes to its input, keeps a weight that has a history, and returns probabilities."""

    def __init__(self, t, d):
        super().__init__()
        self.head = nn.Linear(t * d, 3)
        self.last = self.head.weight * 2

    def forward(self, x):
        x *= 2
        return (x.flatten(1) @ self.last.T + self.head.bias).softmax(-1)


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name != "timex"])
def test_awkward_models(name):
    x = series(N, 9, 2)
    before = x.copy()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Awkward(9, 2)
    explainer = EXPLAINERS[name](model, config=CONFIGS.get(name)).fit(x, progress=False)
    with pytest.warns(UserWarning, match="seems to return probabilities") as caught:
        e = explainer.explain(x[:4])
    assert caught[0].filename == __file__
    assert np.isfinite(e.attribution).all()
    np.testing.assert_array_equal(x, before)


def test_settings_of_another_explainer_are_refused():
    model, _, _ = reference("cnn")
    with pytest.raises(ValueError, match="Expected a WinITConfig for WinIT, got SGTConfig"):
        EXPLAINERS["winit"](model, config=SGTConfig())
    with pytest.raises(ValueError, match="Expected no config for Saliency, got SGTConfig"):
        EXPLAINERS["saliency"](model, config=SGTConfig())
    with pytest.raises(ValueError, match=r"Expected a torch\.nn\.Module, got str"):
        EXPLAINERS["ig"]("model")


def test_series_of_another_shape_than_fitted_are_refused():
    model, t, d = reference("lstm")
    explainer = EXPLAINERS["gradient_shap"](model).fit(series(N, t, d))
    with pytest.raises(ValueError, match=rf"Expected x of shape \(N, {t}, {d}\) as in fit, got \(2, {t + 1}, {d}\)"):
        explainer.explain(series(2, t + 1, d))
    with pytest.raises(ValueError, match="Expected at least 3 samples to fit and validate on, got 2"):
        explainer.fit(series(2, t, d))
    with pytest.raises(ValueError, match=r"Expected x_val with \(T, D\)"):
        explainer.fit(series(N, t, d), x_val=series(N, t - 1, d))


# ------------------------------------------------------------------------------------------------- integrated gradients


@pytest.mark.parametrize("arch", ARCHS)
def test_integrated_gradients_are_complete(arch):
    """The attributions of a sample sum to what its logit gained over that of the zero series."""
    model, t, d = reference(arch)
    x = series(9, t, d, seed=4)
    e = IntegratedGradients(model, IntegratedGradientsConfig(n_steps=200)).explain(x)
    with torch.no_grad():
        gain = (model(torch.as_tensor(x)) - model(torch.zeros(9, t, d))).numpy()
    gain = gain[np.arange(9), e.prediction]
    assert np.abs(gain).max() > 0.5
    np.testing.assert_allclose(e.attribution.sum(axis=(1, 2)), gain, atol=0.02)


def test_integrated_gradients_of_a_linear_model_by_hand():
    """For logits = w x the attribution of a cell is w x, for the class that is asked for."""

    class Sum(nn.Module):
        def forward(self, x):
            return torch.stack([x.sum((1, 2)), -2 * x.sum((1, 2))], dim=1)

    x = np.array([[[1.0, 2.0], [0.5, -1.0], [0.0, 4.0]]], dtype=np.float32)
    ig = IntegratedGradients(Sum())
    np.testing.assert_allclose(ig.explain(x).attribution, x, atol=1e-5)  # class 0 is predicted
    np.testing.assert_allclose(ig.explain(x, target=[1]).attribution, -2 * x, atol=1e-5)
    assert ig.explain(x, target=[1]).prediction.tolist() == [1]


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name != "timex"])
def test_targets_are_checked(name):
    model, t, d = reference("cnn")
    explainer = EXPLAINERS[name](model, config=CONFIGS.get(name)).fit(series(N, t, d), progress=False)
    with pytest.raises(ValueError, match="one label per sample"):
        explainer.explain(series(3, t, d), target=[0, 1])
    with pytest.raises(ValueError, match=r"Expected labels 0\.\.3, got 0\.\.4"):
        explainer.explain(series(3, t, d), target=[0, 1, 4])


@pytest.mark.parametrize("name", EXPLAINERS)
def test_bad_series_are_refused(name):
    model, t, d = reference("cnn")
    explainer = EXPLAINERS[name](model, config=CONFIGS.get(name)).fit(series(N, t, d), progress=False)
    bad = series(2, t, d)
    bad[1, 2, 0] = np.nan
    with pytest.raises(ValueError, match="Expected finite values, got nan at sample 1, step 2, channel 0"):
        explainer.explain(bad)
    with pytest.raises(ValueError, match=r"add the batch axis with x\[None\]"):
        explainer.explain(series(2, t, d)[0])


# ------------------------------------------------------------------------------------------------------------- controls


def test_random_is_the_floor():
    """Uniform scores find truth at the rate at which it occurs."""
    t, d, n = 25, 2, 300
    model = CNN(d, C, t, width=3)
    e = Random(model).explain(series(n, t, d))
    assert 0 <= e.attribution.min() < 0.01
    assert 0.99 < e.attribution.max() < 1
    assert e.attribution.mean() == pytest.approx(0.5, abs=0.01)
    truth = np.zeros((n, t, d), dtype=bool)
    truth[:, 5:10] = True  # a fifth of the cells
    assert np.nanmean(ground_truth_scores(e.attribution, truth)["aup_rank"]) == pytest.approx(0.2, abs=0.05)
    assert np.nanmean(ground_truth_scores(e.attribution, truth)["auprc"]) == pytest.approx(0.25, abs=0.04)


def test_random_depends_on_its_seed_alone():
    model, t, d = reference("cnn")
    x = series(5, t, d)
    scores = Random(model, RandomConfig(seed=3)).explain(x).attribution
    np.testing.assert_array_equal(scores, Random(model, RandomConfig(seed=3)).explain(x + 1).attribution)
    assert not np.array_equal(scores, Random(model, RandomConfig(seed=4)).explain(x).attribution)
    assert not np.array_equal(scores[0], scores[1])


class Constant(nn.Module):
    """Predicts class 1 of 2 whatever it sees."""

    def forward(self, x):
        return torch.tensor([[0.0, 2.0]]).expand(len(x), 2)


def test_amplitude_by_hand():
    """Distance from the median of the channel over time, the two channels apart."""
    x = np.array([[[1.0, 10.0], [2.0, 30.0], [9.0, 20.0], [2.5, 0.0], [-4.0, 20.0]]], dtype=np.float32)
    expected = np.array([[[1.0, 10.0], [0.0, 10.0], [7.0, 0.0], [0.5, 20.0], [6.0, 0.0]]], dtype=np.float32)
    e = Amplitude(Constant()).explain(x)
    np.testing.assert_allclose(e.attribution, expected)
    assert e.prediction.tolist() == [1]


def test_amplitude_takes_the_median_of_the_observed():
    x = np.array([[[5.0], [1.0], [2.0], [3.0], [777.0]]], dtype=np.float32)
    observed = np.array([[[False], [True], [True], [True], [False]]])
    e = Amplitude(Constant()).explain(x, observed=observed)
    np.testing.assert_allclose(e.attribution[0, :, 0], [0, 1, 0, 1, 0])


def test_amplitude_of_a_channel_nobody_observed_is_zero():
    x = np.ones((1, 4, 2), dtype=np.float32)
    observed = np.ones((1, 4, 2), dtype=bool)
    observed[:, :, 1] = False
    assert (Amplitude(Constant()).explain(x, observed=observed).attribution == 0).all()


@pytest.mark.parametrize(("t", "expected"), [(5, [0, 1, 2, 1, 0]), (4, [0, 1, 1, 0])])
def test_centre_by_hand(t, expected):
    """The middle first, whatever the series and the channel; a missing cell has 0."""
    x = series(2, t, 3)
    observed = np.ones(x.shape, dtype=bool)
    observed[1, t // 2, 2] = False
    e = Centre(Constant()).explain(x, observed=observed)
    np.testing.assert_array_equal(e.attribution, np.where(observed, np.array(expected)[:, None], 0))
