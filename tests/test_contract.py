"""What every registered explainer promises, on every architecture and on foreign modules; and the controls by hand.

Shapes: distinct N, T, D and C per architecture, so that swapped axes fail.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers import (
    Amplitude,
    AugmentedOcclusionConfig,
    Centre,
    ContraLSPConfig,
    CoRTXConfig,
    DynamaskConfig,
    ExtremalMaskConfig,
    FeaturePermutationConfig,
    GradientsConfig,
    GradientShapConfig,
    IntegratedGradients,
    IntegratedGradientsConfig,
    LimeConfig,
    Random,
    RandomConfig,
    SegmentsConfig,
    SGTConfig,
    ShapeletsConfig,
    ShapleySamplingConfig,
    SmoothGradConfig,
    StepGradientsConfig,
    TimeShapConfig,
    TimingConfig,
    WinITConfig,
)
from timex.explainers.base import Explainer
from timex.method.config import TimeXConfig
from timex.method.instance import PlusConfig
from timex.metrics import ground_truth_scores
from timex.reference import CNN, LSTM, REFERENCES, ResidualTransformer, Transformer, adapt
from timex.registry import EXPLAINERS, find
from timex.testing import balanced, check_explainer

N, C = 24, 4
ARCHS = {
    "transformer": (11, 3, lambda t, d: Transformer(d, C, t, d_hidden=8)),
    "transformer_residual": (12, 2, lambda t, d: ResidualTransformer(d, C, t, d_hidden=8)),
    "cnn": (17, 2, lambda t, d: CNN(d, C, t, width=6)),
    "lstm": (10, 3, lambda t, d: LSTM(d, C, t, hidden=3, n_layers=1)),
}
CONFIGS = {
    "timex": TimeXConfig(epochs=1, batch_size=12, n_landmarks=5),
    "dynamask_deletion": DynamaskConfig(keep_ratio=(0.1, 0.3), size_growth=(1e3,), sigma_max=(2.0,), steps=8),
    "extremal_mask": ExtremalMaskConfig(steps=6, fit_steps=3, hidden=3),
    "contralsp": ContraLSPConfig(steps=6, fit_steps=3, hidden=3),
    "timex_plus": PlusConfig(epochs=2, batch_size=12, n_landmarks=5),
    "gradients": GradientsConfig(n_points=4),
    "dynamask": DynamaskConfig(keep_ratio=(0.1, 0.3), size_growth=(1e3,), sigma_max=(2.0,), steps=8),
    "winit": WinITConfig(window=3, draws=2, hidden=4, epochs=2),
    "cortx": CoRTXConfig(label_share=0.5, permutations=4, copies=3, layers=1, hidden=4, pretrain_epochs=1, epochs=2),
    "sgt_grad": SGTConfig(epochs=2, batch_size=12),
    "gradient_shap": GradientShapConfig(n_samples=6),
    "smoothgrad": SmoothGradConfig(n_samples=3),
    "timing": TimingConfig(n_points=6),
    "sequential_ig": StepGradientsConfig(n_points=2),
    "temporal_ig": StepGradientsConfig(n_points=2),
    "augmented_occlusion": AugmentedOcclusionConfig(draws=2),
    "feature_permutation": FeaturePermutationConfig(draws=2),
    "lime": LimeConfig(n_segments=5, n_samples=30, segmentation="shape_changes", fill="line"),
    "kernel_shap": SegmentsConfig(n_segments=5, n_samples=30, segmentation="change_points", fill="mean"),
    "timeshap": TimeShapConfig(n_segments=3, n_samples=30, tolerance=0.3),
    "shapelets": ShapeletsConfig(steps=5, n_samples=30),
    "shapley_sampling": ShapleySamplingConfig(permutations=3),
}
"""Quick settings for those that have any."""
FITTED = [name for name, explainer in EXPLAINERS.items() if explainer.needs_fit]
TARGETED = [name for name, explainer in EXPLAINERS.items() if explainer.takes_target]
FOR_ANY_MODEL = [name for name, explainer in EXPLAINERS.items() if not explainer.only_for]
FOR_ANY_MODULE = [name for name in FOR_ANY_MODEL if not EXPLAINERS[name].needs_embedding]
LAYERS = {"": tuple(REFERENCES), "convolutions": ("cnn",), "attention": ("transformer", "transformer_residual")}
SUITED = [(name, arch) for name, explainer in EXPLAINERS.items() for arch in LAYERS[explainer.only_for]]


def series(n, t, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, t, d)).astype(np.float32)


def made(name, model, **options):
    return EXPLAINERS[name](model, config=CONFIGS.get(name), **options)


def reference(arch):
    """A model of random weights that predicts every class."""
    t, d, make = ARCHS[arch]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = make(t, d)
    return balanced(model, torch.as_tensor(series(200, t, d, seed=9))), t, d


def never(module, inputs, output):
    raise AssertionError("a hook of the user's model was called")


@pytest.mark.parametrize(("name", "arch"), SUITED)
def test_every_explainer_keeps_the_contract(name, arch):
    model, t, d = reference(arch)
    model.train()  # a user may hand it in so
    model.head[0].eval()
    model.head.register_forward_hook(never)
    next(model.parameters()).requires_grad_(False)
    check_explainer(lambda model: made(name, model), model, series(N, t, d))


@pytest.mark.parametrize("name", EXPLAINERS)
def test_registered_under_its_own_name(name):
    assert issubclass(EXPLAINERS[name], Explainer)
    assert EXPLAINERS[name].name == name


@pytest.mark.parametrize("name", [name for name in FOR_ANY_MODEL if not EXPLAINERS[name].signed])
def test_unsigned_scores_are_not_negative(name):
    model, t, d = reference("cnn")
    scores = made(name, model).fit(series(N, t, d), progress=False).explain(series(7, t, d, seed=1)).attribution
    assert scores.min() >= 0 or name == "winit"  # a difference of unsigned effects, which may fall below 0
    assert len(np.unique(scores)) > (t // 2 - 1 if name == "centre" else 20)


@pytest.mark.parametrize("name", FOR_ANY_MODEL)
def test_tensors_views_and_read_only_arrays_are_as_good(name):
    model, t, d = reference("transformer")
    explainer, x = made(name, model).fit(series(N, t, d), progress=False), series(7, t, d)
    expected = explainer.explain(x).attribution
    frozen = x.copy()
    frozen.flags.writeable = False
    for view in (torch.as_tensor(x), frozen, x[:, ::-1].copy()[:, ::-1], x.tolist()):
        np.testing.assert_allclose(explainer.explain(view).attribution, expected, atol=1e-6)


def test_the_documentation_has_every_class_attribute():
    """The table of docs/add-your-own.md: each attribute that has a default, and its default."""
    page = (Path(__file__).parents[1] / "docs" / "add-your-own.md").read_text().split("Class attributes say")[1]
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", page.split("\n## ")[0], flags=re.MULTILINE)
    flags = [name for name, kind in Explainer.__annotations__.items() if "ClassVar" in kind and hasattr(Explainer, name)]
    defaults = {name: getattr(Explainer, name) for name in flags}
    shown = {name: v.__name__ if isinstance(v, type) else repr(v).replace("'", '"') for name, v in defaults.items()}
    assert dict(rows) == shown


def test_unknown_explainer_lists_the_known():
    with pytest.raises(
        ValueError, match="Unknown explainer 'shap'; known: timex, gradients, ig, dynamask, winit, cortx, sgt_grad, saliency"
    ):
        find(EXPLAINERS, "shap", "explainer")


class Foreign(nn.Module):
    """A module that is none of ours, reads series of one length only, and has layers that behave differently in training."""

    def __init__(self, t, d):
        super().__init__()
        self.gru = nn.GRU(d, 5, batch_first=True)
        self.norm, self.drop = nn.BatchNorm1d(5), nn.Dropout(0.3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(5 * t, C))

    def forward(self, x):
        return self.head(self.drop(self.norm(self.gru(x)[0].mT)))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("name", FOR_ANY_MODEL)
def test_every_explainer_keeps_the_contract_with_a_foreign_module(name, d):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Foreign(9, d).train()
    options = {"embedding": "gru"} if EXPLAINERS[name].needs_embedding else {}
    check_explainer(lambda model: made(name, model, **options), model, series(N, 9, d))


@pytest.mark.parametrize("name", FOR_ANY_MODULE)
def test_a_wrapped_model_is_explained_as_the_module_itself(name):
    """`TimeX.fitted.reference` of a foreign model, which the command line hands on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Foreign(9, 2)
    x = series(N, 9, 2)
    wrapped = adapt(model, x[:2], embedding="gru")
    explainers = [made(name, m).fit(x, progress=False) for m in (model, wrapped)]
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


@pytest.mark.parametrize("name", FOR_ANY_MODULE)
def test_awkward_models(name):
    x = series(N, 9, 2)
    before = x.copy()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Awkward(9, 2)
    explainer = made(name, model).fit(x, progress=False)
    e = explainer.explain(x[:4])
    with torch.no_grad():
        np.testing.assert_allclose(e.probability, model(torch.tensor(x[:4])), atol=1e-5)  # taken as probabilities
    assert np.isfinite(e.attribution).all()
    np.testing.assert_array_equal(x, before)


def test_settings_of_another_explainer_are_refused():
    model, _, _ = reference("cnn")
    with pytest.raises(ValueError, match="Expected a WinITConfig for WinIT, got SGTConfig"):
        EXPLAINERS["winit"](model, config=SGTConfig())
    with pytest.raises(ValueError, match="Expected no config for Saliency, got SGTConfig"):
        EXPLAINERS["saliency"](model, config=SGTConfig())
    with pytest.raises(ValueError, match=r"Expected a torch\.nn\.Module, an estimator .* got str"):
        EXPLAINERS["ig"]("model")


def test_series_of_another_shape_than_fitted_are_refused():
    model, t, d = reference("lstm")
    explainer = EXPLAINERS["gradient_shap"](model).fit(series(N, t, d))
    with pytest.raises(ValueError, match=rf"Expected x of shape \(N, {t}, {d}\) as in fit, got \(2, {t + 1}, {d}\)"):
        explainer.explain(series(2, t + 1, d))
    with pytest.raises(ValueError, match="Expected at least 4 samples to fit and validate on, got 2"):
        explainer.fit(series(2, t, d))
    with pytest.raises(ValueError, match=r"Expected x_val with \(T, D\)"):
        explainer.fit(series(N, t, d), x_val=series(N, t - 1, d))
    bad = series(2, t, d)
    bad[1, 2, 0] = np.nan
    with pytest.raises(ValueError, match="Expected finite values, got nan at sample 1, step 2, channel 0"):
        explainer.explain(bad)


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


def test_amplitude_of_an_unobserved_channel_is_zero():
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
