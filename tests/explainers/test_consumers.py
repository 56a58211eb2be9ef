"""Explainers as other tools use them: scikit-learn's clone, pickle and joblib, captum.metrics."""

import pickle

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from timex import TimeX, TimeXConfig
from timex.explainers import Gradients, IntegratedGradients, Occlusion

B, T, D, C = 8, 9, 2, 3


def series(n=B):
    return torch.randn(n, T, D, generator=torch.Generator().manual_seed(0))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 5), nn.Tanh(), nn.Linear(5, C))


def explainers():
    module = model()
    return [
        TimeX(module, "1", TimeXConfig(epochs=1), classes=("a", "b", "c")),
        Gradients(module, layout="BTD"),
        IntegratedGradients(module),
    ]


@pytest.mark.parametrize("explainer", explainers(), ids=lambda e: e.name)
def test_clone_makes_an_unfitted_twin(explainer):
    explainer.fit(series(30), progress=False)
    twin = clone(explainer)
    assert twin.fitted_ is None
    assert twin.get_params() == explainer.get_params()
    twin.fit(series(30), progress=False)
    np.testing.assert_array_equal(twin.explain(series()).attribution, explainer.explain(series()).attribution)


def test_set_params_forgets_the_fit():
    explainer = Gradients(model()).fit(series(30), progress=False)
    config = Gradients.config_class(width=2)
    assert explainer.set_params(config=config) is explainer
    assert explainer.config is config
    assert explainer.fitted_ is None
    with pytest.raises(ValueError, match=r"^Unknown keyword layuot=: did you mean layout=\?$"):
        explainer.set_params(layuot="BDT")


@pytest.mark.parametrize("explainer", explainers(), ids=lambda e: e.name)
def test_a_fitted_explainer_is_pickled(explainer, tmp_path):
    expected = explainer.fit(series(30), progress=False).explain(series()).attribution
    again = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(again.explain(series()).attribution, expected)
    joblib.dump(explainer, tmp_path / "e.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "e.joblib").explain(series()).attribution, expected)


def test_captum_metrics_take_an_explainer():
    from captum.metrics import sensitivity_max

    explainer = Occlusion(model())
    x = series(3)
    assert torch.equal(explainer.attribute((x,))[0], explainer.attribute(x))
    values = sensitivity_max(explainer.attribute, x, n_perturb_samples=2)
    assert values.shape == (3,)
    assert values.isfinite().all()
    with pytest.raises(ValueError, match=r"^Expected one tensor of series, got 2: give other inputs with forward=\.$"):
        explainer.attribute((x, x))
    with pytest.raises(TypeError, match="return_convergence_delta"):
        explainer.attribute(x, return_convergence_delta=True)


def test_attribute_warns_of_a_class_that_is_not_explained():
    from captum.metrics import sensitivity_max

    x = series(30)
    explainer = TimeX(model(), "1", TimeXConfig(epochs=1)).fit(x, progress=False)
    explanation = explainer.explain(x)
    predicted, expected = torch.from_numpy(explanation.prediction), torch.from_numpy(explanation.attribution)
    assert torch.equal(explainer.attribute(x, target=predicted), expected)  # a warning would be an error
    one = int(predicted[0])
    torch.testing.assert_close(explainer.attribute(x[:1], target=torch.tensor([one])), expected[:1])
    others = int((predicted != one).sum())
    assert 0 < others < 30
    with pytest.warns(
        UserWarning, match=rf"^TimeX explains the predicted class, which is not target= in {others} of 30 samples"
    ):
        assert torch.equal(explainer.attribute(x, target=one), expected)
    values = sensitivity_max(explainer.attribute, x[:3], target=predicted[:3], n_perturb_samples=2, perturb_radius=1e-6)
    assert values.isfinite().all()
    with pytest.raises(TypeError, match="tarket"):
        explainer.attribute(x, tarket=1)


@pytest.mark.filterwarnings("ignore")
def test_quantus_takes_attributions_and_an_explainer():
    """Quantus has channels first, (N, D, T): so must the model, and series and attributions are turned."""
    quantus = pytest.importorskip("quantus", reason="Quantus is not installed")
    module, x = model().eval(), series(4).numpy()
    explainer = Occlusion(module, layout="BDT")
    first, y = x.transpose(0, 2, 1), explainer.explain(x).prediction

    def explain(model, inputs, targets, **options):
        return explainer.explain(inputs.transpose(0, 2, 1), target=targets).attribution.transpose(0, 2, 1)

    data = {"model": module, "x_batch": first, "y_batch": y, "channel_first": True}
    flipping = quantus.PixelFlipping(features_in_step=3, perturb_baseline=0.0, normalise=False, disable_warnings=True)
    curves = np.asarray(flipping(**data, a_batch=explain(module, first, y)))
    assert curves.shape == (4, T * D // 3)
    assert np.ptp(curves[:, -1] - module(torch.zeros(1, D, T)).softmax(-1).detach().numpy()[0, y]) < 1e-6  # all cells gone
    sensitivity = quantus.MaxSensitivity(nr_samples=2, disable_warnings=True)
    assert np.isfinite(sensitivity(**data, explain_func=explain)).all()
