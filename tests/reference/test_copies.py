"""Odd parameters and containers: what is trained, what stays frozen, and what to hand over instead."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from timex import TimeX, TimeXConfig, adapt
from timex.explainers import IntegratedGradients, Occlusion
from timex.reference.adapt import model_of
from timex.reference.copies import copied

B, T, D, C = 6, 9, 2, 3


def series(n=B):
    return torch.randn(n, T, D, generator=torch.Generator().manual_seed(0))


class Odd(nn.Module):
    """Scalar, integer, complex and frozen parameters, and an activation that is kept."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))  # 0-dim
        self.shift = nn.Parameter(torch.tensor([1, 2]), requires_grad=False)  # integers
        self.phase = nn.Parameter(torch.tensor([1 + 2j, 3 - 1j]))
        self.gru = nn.GRU(D, 5, batch_first=True)
        self.gru.weight_ih_l0.requires_grad_(False)
        self.head = nn.Linear(5, C)
        self.kept = []

    def forward(self, x):
        h = self.gru((x + self.shift) * self.phase.abs())[0][:, -1] * self.scale
        self.kept = [h]  # has a history, which deepcopy refuses
        return self.head(h)


def odd():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Odd()


def test_only_trainable_floats_are_parameters_of_a_copy():
    module = odd()
    module(series())
    copy_ = copied(module)
    names = {name for name, _ in copy_.named_parameters()}
    assert names == {"scale", "gru.weight_hh_l0", "gru.bias_ih_l0", "gru.bias_hh_l0", "head.weight", "head.bias"}
    assert copy_.state_dict().keys() == module.state_dict().keys()
    with torch.no_grad():
        torch.testing.assert_close(copy_(series()), module(series()))
    assert copy_.kept[0] is not module.kept[0]


def test_a_module_that_is_frozen_as_a_whole_may_be_trained_in_its_copy():
    module = nn.Sequential(nn.Flatten(), nn.Linear(T * D, C)).requires_grad_(False)
    assert {name for name, _ in copied(module).named_parameters()} == {"1.weight", "1.bias"}


def test_odd_parameters_pass_through_a_fit():
    module = odd()
    explainer = TimeX(module, config=TimeXConfig(epochs=1, batch_size=4)).fit(series(30), progress=False)
    assert np.isfinite(explainer.explain(series()).attribution).all()
    trained, start = explainer.fitted.model.encoder.state_dict(), explainer.fitted.reference.state_dict()
    assert torch.equal(trained["module.gru.weight_ih_l0"], start["module.gru.weight_ih_l0"])
    assert not torch.equal(trained["module.scale"], start["module.scale"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_precisions_are_explained_in_float32(dtype):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(T * D, 5), nn.Tanh(), nn.Linear(5, C)).to(dtype)
    x = series()
    with torch.no_grad():
        expected = module(x.to(dtype)).float()
    logits = adapt(module, x)(x)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected, atol=0.02, rtol=0.02)
    assert next(module.parameters()).dtype == dtype
    assert IntegratedGradients(module).explain(x).attribution.shape == (B, T, D)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_quantised_module_is_explained_without_gradients():
    """Its weights are no parameters, and no gradient passes through it."""
    module = torch.ao.quantization.quantize_dynamic(plain(), {nn.Linear})
    x = series()
    with torch.no_grad():
        torch.testing.assert_close(adapt(module, x)(x), module(x))
    assert np.ptp(Occlusion(module).explain(x).attribution) > 0
    with pytest.raises(ValueError, match=r"^No gradient of the model's output reaches x, and TimeX learns from gradients"):
        TimeX(module, config=TimeXConfig(epochs=1)).fit(series(20), progress=False)


@pytest.mark.parametrize("scale", [0.01, 1, 100])
def test_the_units_of_a_number_do_not_matter(scale):
    """Distances are counted in the spread of the training answers, whatever their scale and offset."""

    class Amount(nn.Module):
        def __init__(self, scale, offset):
            super().__init__()
            self.net, self.scale, self.offset = plain(), scale, offset

        def forward(self, x):
            return self.offset + self.scale * self.net(x)[:, 0]

    found = []
    for by, offset in ((1, 0), (scale, 100 * scale)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = Amount(by, offset)
        explainer = TimeX(model, task="regress", config=TimeXConfig(epochs=2, batch_size=8))
        found.append(explainer.fit(series(40), progress=False).explain(series()).attribution)
    np.testing.assert_allclose(found[1], found[0], atol=2e-3)


def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(T * D, 5), nn.Tanh(), nn.Linear(5, C))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_containers_give_their_module():
    module = plain()
    assert model_of(nn.DataParallel(module)) is module
    assert model_of(torch.compile(module)) is module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_cannot_be_explained_says_what_to_hand_over():
    scripted = torch.jit.script(plain())
    with pytest.raises(ValueError, match=r"got one of torch\.jit: pass the module it was made from"):
        model_of(scripted)
    with pytest.raises(ValueError, match=r"got an exported program: pass the module it was made from"):
        model_of(torch.export.export(plain(), (series(),)))
    with pytest.raises(ValueError, match=r"^The model's weight has no values yet: run the model once"):
        model_of(nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"^Expected a trained model, got the class Odd: pass an instance\.$"):
        model_of(Odd)


def test_a_module_that_cannot_be_copied():
    class Locked(nn.Module):
        def __init__(self):
            super().__init__()
            self.lock = __import__("threading").Lock()

        def forward(self, x):
            return x.mean(1)

    with pytest.raises(ValueError, match=r"^Locked cannot be copied \(TypeError: .*lock.*\): take off what it keeps"):
        adapt(Locked())


def test_a_copy_is_a_copy():
    module = plain()
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        for p in copied(module).parameters():
            p.add_(1)
    assert all(torch.equal(v, before[name]) for name, v in module.state_dict().items())
