"""TimeX of modules that are not ours: the layer of the embedding, pooling, and models it refuses."""

import numpy as np
import pytest
import torch
from cases import CONFIG, Attentive, Convolutional, Recurrent, quick, same_explanations, seeded, series
from torch import nn

from timex import TimeX


def test_without_a_name_the_input_of_the_head_is_the_embedding():
    model, x = seeded(Attentive, 13, 3), series(30, 13, 3)
    explainer = TimeX(model, config=CONFIG).fit(x, progress=False)
    assert str(explainer.fitted.reference.tap) == "the input of layer 'head'"
    assert explainer.fitted.reference.embedding_size == model.head.in_features


def test_wrong_layer_names_give_near_misses():
    with pytest.raises(ValueError, match=r"no layer 'encodr'\. Did you mean 'encoder'"):
        TimeX(Attentive(), "encodr", CONFIG).fit(series(10, 13, 3), progress=False)


def test_something_that_is_no_module():
    with pytest.raises(ValueError, match=r"Expected a torch\.nn\.Module, an estimator .* or a function x -> output, got dict"):
        TimeX({}, "encoder")
    with pytest.raises(ValueError, match=r"A function is explained as a black box, which has no layers: leave out embedding="):
        TimeX(series, "encoder")


def test_pool_and_output_choose_the_embedding(tmp_path):
    model = seeded(Recurrent, 11, 3)
    x = series(30, 11, 3)

    def last(states):
        return states[:, -1]

    explainer = TimeX(model, "gru", CONFIG, pool=last, embedding_output=0).fit(x, progress=False)
    e = explainer.explain(x)
    loaded = TimeX.load(explainer.save(tmp_path), model, pool=last)
    same_explanations(loaded.explain(x), e)
    assert not np.allclose(e.embedding, TimeX(model, "gru", CONFIG).fit(x, progress=False).explain(x).embedding, atol=1e-4)


def test_another_pooling_than_fitted_with_is_refused(tmp_path):
    """Also where the mean series is the same at every step, at which all poolings are alike."""
    model = seeded(Convolutional, 15, 2)
    x = series(30, 15, 2)
    x = np.concatenate([x, -x])
    explainer = TimeX(model, "norm", CONFIG, pool=lambda h: h.amax(2)).fit(x, progress=False)
    folder = explainer.save(tmp_path)
    with pytest.raises(ValueError, match=r"fitted with a function as pool=, which is not saved: pass it to load"):
        TimeX.load(folder, model)
    with pytest.raises(
        ValueError, match=r"does not give the embedding that the explainer was fitted on: pass the functions of the fit"
    ):
        TimeX.load(folder, model, pool=lambda h: h.flatten(1))
    same_explanations(TimeX.load(folder, model, pool=lambda h: h.amax(2)).explain(x), explainer.explain(x))
    TimeX.load(folder, model, pool=lambda h: h.mean(2), allow_other_model=True)


def test_our_models_take_no_layer():
    for option in ({"embedding": "head"}, {"pool": 1}, {"output": 0}):
        with pytest.raises(
            ValueError, match=rf"CNN is a reference model, called and read in one way: leave out {next(iter(option))}="
        ):
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
    with pytest.raises(
        ValueError, match=r"The model fails on x as \(B, T, D\) and runs on it as \(B, D, T\): .* or transpose x"
    ):
        TimeX(Flat(), "body").fit(x.transpose(0, 2, 1), progress=False)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_model_is_refused():
    with pytest.raises(ValueError, match=r"Expected a plain torch\.nn\.Module, got one of torch\.jit"):
        TimeX(torch.jit.trace(Flat().eval(), torch.zeros(2, 10, 2)), "body")


def test_probabilities_are_taken_as_such():
    class Normalised(Flat):
        def forward(self, x):
            return super().forward(x).softmax(-1)

    model, x = seeded(Normalised, 10, 2), series(30, 10, 2)
    e = TimeX(model, "body", CONFIG).fit(x, progress=False).explain(x)
    with torch.no_grad():
        np.testing.assert_allclose(e.probability, model(torch.as_tensor(x)), atol=1e-6)


def test_a_model_with_nan_outputs_is_refused():
    explainer = quick()
    with torch.no_grad():
        explainer.model.head[-1].bias[0] = torch.nan
    with pytest.raises(ValueError, match="The model gives NaN or inf on some samples"):
        explainer.fit(series(20, 12, 2), progress=False)
