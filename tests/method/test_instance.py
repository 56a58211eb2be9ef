"""The objective of TimeX++: its terms against their definitions, and that it finds cells that decide."""

import numpy as np
import pytest
import torch
from torch import nn

from timex.engine import Noise
from timex.method import instance, losses
from timex.method.config import TimeXConfig
from timex.method.instance import InstanceObjective, PlusConfig
from timex.method.model import Conditioner, TimeXModel
from timex.method.objective import FROZEN
from timex.method.plus import TimeXPlus
from timex.metrics import ground_truth_scores
from timex.reference import CNN

B, T, D, C = 5, 9, 2, 3


def test_divergence_of_moments_is_that_of_torch():
    torch.manual_seed(0)
    made, mean, std = torch.randn(40, T, D), torch.randn(T, D), torch.rand(T, D) + 0.5
    floor = 1e-3 * std.square().mean(0) + instance.VARIANCE_EPS
    ours = torch.distributions.Normal(made.mean(0), (made.var(0, correction=0) + floor).sqrt())
    training = torch.distributions.Normal(mean, (std.square() + floor).sqrt())
    expected = torch.distributions.kl_divergence(ours, training).mean()
    torch.testing.assert_close(instance.divergence_of_moments(made, mean, std), expected)


def test_divergence_and_pull_leave_out_what_was_not_measured():
    torch.manual_seed(0)
    made, mean, std = torch.randn(6, T, D), torch.randn(T, D), torch.rand(T, D) + 0.5
    observed = torch.rand(6, T, D) < 0.7
    observed[:, 2, 1] = False
    for term in (
        lambda x: instance.divergence_of_moments(x, mean, std, observed),
        lambda x: instance.pull(torch.where(observed, x, 0.0), torch.zeros_like(x), std, observed),
    ):
        torch.testing.assert_close(term(made), term(torch.where(observed, made, 1e3)))


def test_the_conditioner_is_one_network_per_cell():
    torch.manual_seed(0)
    conditioner, x, mask = Conditioner(D, 4), torch.randn(B, T, D), (torch.rand(B, T, D) < 0.5).float()
    made = conditioner(x, mask)
    b, t, k = 3, 5, 1
    features = torch.stack([x[b, t, k], mask[b, t, k], mask[b, t, k] * x[b, t, k]])
    hidden = (features @ conditioner.into[k] + conditioner.bias[k]).relu()
    torch.testing.assert_close(made[b, t, k], features[2] + hidden @ conditioner.out[k])


def test_the_loss_is_the_sum_of_its_terms():
    torch.manual_seed(0)
    reference = CNN(D, C, T, width=4)
    config = PlusConfig().replaced({"instance.lam_pull": 3.0, "instance.lam_close": 0.5, "loss.lam_lc": 2.0, "loss.r": 0.3})
    model = TimeXModel(reference, config)
    objective = InstanceObjective(model, reference, config, "draw")
    x = torch.randn(B, T, D)
    frozen = {"mean": torch.zeros(T, D), "std": torch.ones(T, D)}
    frozen |= {FROZEN + name: p.detach() for name, p in reference.named_parameters()}
    batch = {"x": x, "logits": reference(x).detach()}
    hyper = {name: torch.tensor(float(v)) for name, v in config.scalars().items()}
    params = model.masking_params()
    terms = objective.criterion(params, frozen, batch, hyper, Noise(torch.tensor(7)))

    noise = Noise(torch.tensor(7))  # the same draws: the mask's, then the fill's
    p = model.generator(x)
    mask = (noise.uniform(B, T, D) > 1 - p).float()
    wanted = mask * x + (1 - mask) * torch.erfinv(2 * noise.uniform(B, T, D) - 1) * 2**0.5
    made = model.conditioner(x, mask)
    expected = {
        "lc": losses.js(reference(x), reference(made)).mean(),
        "pull": (made - wanted).square().mean(),
        "close": instance.divergence_of_moments(made, frozen["mean"], frozen["std"]),
        "l_m": losses.mask_kl(p, 0.3),
        "l_con": losses.connectivity_published(p),
    }
    for name, value in expected.items():
        torch.testing.assert_close(terms[f"val_{name}"], value, rtol=1e-3, atol=1e-5, msg=name)
    weights = {"lc": 2.0, "pull": 3.0, "close": 0.5, "l_m": 2.0, "l_con": 4.0}
    total = sum(weights[name] * value for name, value in expected.items())
    torch.testing.assert_close(terms["criterion"], total, rtol=1e-3, atol=1e-4)


def test_the_objective_needs_its_own_settings():
    with pytest.raises(ValueError, match="Expected a PlusConfig with objective='instance'"):
        TimeXConfig(objective="instance")
    assert PlusConfig.from_dict({"epochs": 3}).epochs == 3


class FirstSteps(nn.Module):
    """The class is the sign of the sum of the first three steps."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, x):
        z = self.scale * x[:, :3].sum((1, 2))
        return torch.stack([-z, z], dim=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model has no linear layer")
def test_cells_that_decide_come_first():
    x = np.random.default_rng(0).normal(size=(200, 12, 1)).astype(np.float32)
    config = PlusConfig(epochs=60, lr=1e-2, batch_size=50, n_landmarks=2)
    e = TimeXPlus(FirstSteps(), config=config).fit(x, progress=False).explain(x[:50])
    truth = np.zeros(e.x.shape, dtype=bool)
    truth[:, :3] = True
    assert ground_truth_scores(e.attribution, truth)["auprc"].mean() > 0.9
    assert e.direction is None
