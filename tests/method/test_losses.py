"""Every loss against numbers worked out by hand or by a slow loop, then its gradients, its extremes and vmap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from timex.method import losses
from timex.method.losses import (
    connectivity,
    connectivity_published,
    connectivity_published_batch,
    cosine_similarity,
    js,
    label_consistency,
    label_consistency_batch,
    label_consistency_instance,
    label_consistency_mse,
    label_consistency_mse_instance,
    mask_kl,
    mbc,
    mbc_normalised,
    pairwise_js,
    simclr,
)

B, T, D, C, Z, H, K = 5, 7, 3, 4, 6, 2, 3
LOG2 = math.log(2)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def probabilities(*shape: int, seed: int = 0) -> Tensor:
    return torch.sigmoid(noise(*shape, seed=seed))


OBSERVED = noise(B, T, D, seed=9) > -0.5


def ring(n: int) -> Tensor:
    """Two negatives for each of n samples: the next two."""
    return (torch.arange(n)[:, None] + torch.tensor([1, 2])) % n


# name -> (function of the two sides, shape of one side); one entry for every loss that has the form of an equation
LOSSES = {
    "mask_kl": (lambda a, b: mask_kl(torch.sigmoid(a), 0.3) + mask_kl(torch.sigmoid(b), 0.6), (B, T, D)),
    "mask_kl_observed": (lambda a, b: mask_kl(torch.sigmoid(a + b), 0.3, OBSERVED), (B, T, D)),
    "connectivity": (lambda a, b: connectivity(torch.sigmoid(a + b)), (B, T, D)),
    "connectivity_observed": (lambda a, b: connectivity(torch.sigmoid(a + b), OBSERVED), (B, T, D)),
    "connectivity_published": (lambda a, b: connectivity_published(torch.sigmoid(a + b)), (B, T, D)),
    "connectivity_published_batch": (lambda a, b: connectivity_published_batch(torch.sigmoid(a + b)), (B, T, D)),
    "mbc": (mbc, (B, Z)),
    "mbc_normalised": (mbc_normalised, (B, Z)),
    "simclr": (simclr, (B, Z)),
    "simclr_sampled": (lambda a, b: simclr(a, b, ring(B)), (B, Z)),
    "js": (lambda a, b: js(a, b).sum(), (B, C)),
    "pairwise_js": (lambda a, b: pairwise_js(a - b).square().sum(), (B, C)),
    "label_consistency": (label_consistency, (B, C)),
    "label_consistency_published": (lambda a, b: label_consistency(a, b, published=True), (B, C)),
    "label_consistency_batch": (label_consistency_batch, (B, C)),
    "label_consistency_instance": (label_consistency_instance, (B, C)),
    "label_consistency_mse": (label_consistency_mse, (B, T, H)),
    "label_consistency_mse_instance": (label_consistency_mse_instance, (B, H)),
}
each_loss = pytest.mark.parametrize(("loss", "shape"), LOSSES.values(), ids=LOSSES.keys())


# ---- all of them -----------------------------------------------------------------------------------------------------


@each_loss
def test_gradients_are_right(loss, shape):
    a, b = noise(*shape, seed=1).requires_grad_(), noise(*shape, seed=2).requires_grad_()
    assert gradcheck(loss, (a, b))


@each_loss
def test_vmap_equals_a_loop(loss, shape):
    a, b = noise(K, *shape, seed=1), noise(K, *shape, seed=2)
    value_and_gradients = torch.func.grad_and_value(loss, argnums=(0, 1))
    (grad_a, grad_b), value = torch.vmap(value_and_gradients)(a, b)
    for k in range(K):
        (want_a, want_b), want = value_and_gradients(a[k], b[k])
        torch.testing.assert_close(value[k], want)
        torch.testing.assert_close(grad_a[k], want_a)
        torch.testing.assert_close(grad_b[k], want_b)


EXTREMES = {
    "zeros": lambda a: torch.zeros_like(a),
    "identical rows": lambda a: a[:1].expand_as(a).clone(),
    "saturated": lambda a: a.sign() * 1e4,
    "one zero row": lambda a: torch.cat([torch.zeros_like(a[:1]), a[1:]]),
    "tiny": lambda a: a * 1e-20,
}


@each_loss
@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES.keys())
def test_extremes_are_finite(loss, shape, extreme):
    a = extreme(noise(*shape, seed=1).float()).requires_grad_()
    b = extreme(noise(*shape, seed=2).float()).requires_grad_()
    value = loss(a, b)
    gradients = torch.autograd.grad(value, (a, b))
    assert value.isfinite()
    assert all(g.isfinite().all() for g in gradients)


# ---- the explanation p itself ----------------------------------------------------------------------------------------


def test_mask_kl_by_hand():
    # Cells .5 and .2 against r = .4:
    #   .5 log(.5/.4) + .5 log(.5/.6) = .02041...,   .2 log(.2/.4) + .8 log(.8/.6) = .09151...
    first = 0.5 * math.log(0.5 / 0.4) + 0.5 * math.log(0.5 / 0.6)
    second = 0.2 * math.log(0.2 / 0.4) + 0.8 * math.log(0.8 / 0.6)
    p = torch.tensor([0.5, 0.2], dtype=torch.float64).view(1, 2, 1)
    assert mask_kl(p, 0.4).item() == pytest.approx((first + second) / 2)
    assert mask_kl(p, torch.tensor(0.4)).item() == pytest.approx((first + second) / 2, rel=1e-5)
    assert mask_kl(p, 0.4, torch.tensor([False, True]).view(1, 2, 1)).item() == pytest.approx(second)


def test_mask_kl_equals_torch_distributions():
    p = probabilities(B, T, D)
    want = torch.distributions.kl_divergence(torch.distributions.Bernoulli(p), torch.distributions.Bernoulli(0.3)).mean()
    assert mask_kl(p, 0.3).item() == pytest.approx(want.item(), rel=1e-5)


def test_mask_kl_takes_one_r_per_member():
    p, r = probabilities(K, B, T, D), torch.tensor([0.2, 0.5, 0.7], dtype=torch.float64)
    want = torch.stack([mask_kl(p[k], float(r[k])) for k in range(K)])
    torch.testing.assert_close(torch.vmap(mask_kl)(p, r), want)


@pytest.mark.parametrize("loss", [connectivity, lambda p, observed: mask_kl(p, 0.3, observed)])
def test_members_may_observe_different_cells(loss):
    p, observed = probabilities(K, B, T, D), noise(K, B, T, D, seed=8) > -0.5
    want = torch.stack([loss(p[k], observed[k]) for k in range(K)])
    torch.testing.assert_close(torch.vmap(loss)(p, observed), want)


def test_certain_cells_cost_no_more_than_their_logarithm_and_have_finite_gradients():
    p = torch.tensor([0.0, 1.0]).view(1, 2, 1).requires_grad_()
    value = mask_kl(p, 0.5)
    assert value.item() == pytest.approx(LOG2, abs=1e-4)  # KL of a certain cell from a fair coin
    assert torch.autograd.grad(value, p)[0].isfinite().all()


def test_nothing_observed_costs_nothing():
    p, nothing = probabilities(B, T, D), torch.zeros(B, T, D, dtype=torch.bool)
    assert mask_kl(p, 0.3, nothing) == 0
    assert connectivity(p, nothing) == 0


def test_connectivity_by_hand():
    # Two samples of T = 3, D = 2. First: channel 0 goes 0, 1, .5 (1 + .5), channel 1 stays. Second: only channel 1
    # moves, .2, .2, .8 (.6). Sums over T * D = 6: 1.5 / 6 and .6 / 6; the mean of both is .175.
    p = torch.tensor([[[0.0, 0.3], [1.0, 0.3], [0.5, 0.3]], [[0.1, 0.2], [0.1, 0.2], [0.1, 0.8]]])
    assert connectivity(p).item() == pytest.approx(0.175)


def test_connectivity_leaves_out_pairs_with_an_unobserved_end():
    # 0, 1, .5, .5 with the second value missing: of three pairs only (.5, .5) is left. With the last one missing, the
    # first two are: (1 + .5) over three observed cells.
    p = torch.tensor([0.0, 1.0, 0.5, 0.5]).view(1, 4, 1)
    assert connectivity(p, torch.tensor([1, 0, 1, 1]).bool().view(1, 4, 1)) == 0
    assert connectivity(p, torch.tensor([1, 1, 1, 0]).bool().view(1, 4, 1)).item() == pytest.approx(0.5)


def test_connectivity_of_a_padded_series_is_that_of_the_series():
    p, padding = probabilities(B, T, D), noise(B, 4, D).abs()
    observed = torch.cat([torch.ones(B, T, D), torch.zeros(B, 4, D)], dim=1).bool()
    torch.testing.assert_close(connectivity(torch.cat([p, padding], dim=1), observed), connectivity(p))


def test_connectivity_equals_a_loop():
    p, observed = probabilities(B, T, D).numpy(), OBSERVED.numpy()
    total = 0.0
    for i in range(B):
        for t in range(T - 1):
            for k in range(D):
                if observed[i, t, k] and observed[i, t + 1, k]:
                    total += abs(p[i, t, k] - p[i, t + 1, k])
    got = connectivity(torch.from_numpy(p), torch.from_numpy(observed))
    assert got.item() == pytest.approx(total / observed.sum())


def test_connectivity_published_by_hand():
    # Two samples of T = 3: differences 3, 0 and 0, 4; norm 5, over four differences.
    p = torch.tensor([[0.0, 3.0, 3.0], [1.0, 1.0, 5.0]]).unsqueeze(-1)
    assert connectivity_published(p).item() == pytest.approx(5 / 4)


def test_connectivity_published_batch_takes_differences_between_samples():
    # Two samples of T = 2, D = 2, four cells apart: differences 3, 0, 0, 4; norm 5, over four differences.
    p = torch.tensor([[[0.0, 1.0], [2.0, 0.0]], [[3.0, 1.0], [2.0, 4.0]]])
    assert connectivity_published_batch(p).item() == pytest.approx(5 / 4)
    observed = torch.ones_like(p, dtype=torch.bool)
    observed[0, 1, 1] = False  # the pair with the difference of 4
    assert connectivity_published_batch(p, observed).item() == pytest.approx(3 / 3)
    assert connectivity_published_batch(p[..., :1]) == connectivity_published(p[..., :1])  # along time for one channel


# ---- the embedding ---------------------------------------------------------------------------------------------------


def test_cosine_similarity_by_hand():
    # (3, 4) and (4, 3), both of length 5: 24 / 25. A zero vector is like nothing.
    got = cosine_similarity(torch.tensor([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]]))
    torch.testing.assert_close(got, torch.tensor([[1.0, 0.96, 0.0], [0.96, 1.0, 0.0], [0.0, 0.0, 0.0]]))


def test_a_zero_vector_does_not_blow_up_the_gradient():
    # Gradients are clipped by their norm: one row of 1e12 would silence all others.
    z, z_e = noise(B, Z).float(), torch.zeros(B, Z, requires_grad=True)
    assert torch.autograd.grad(mbc(z, z_e) + simclr(z, z_e), z_e)[0].abs().max() < 10


def test_cosine_similarity_of_two_sets():
    a, b = noise(B, Z, seed=1), noise(3, Z, seed=2)
    torch.testing.assert_close(cosine_similarity(a, b), F.cosine_similarity(a[:, None], b[None], dim=-1))


def test_mbc_by_hand():
    # Reference: (1,0), (0,1): cosine 0. Explanations: (1,0), (3,4): cosine .6. Two of four pairs differ by .6.
    z, z_e = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [3.0, 4.0]])
    assert mbc(z, z_e).item() == pytest.approx(2 * 0.36 / 4)
    # The reference's cosines are 1, 0, 0, 1: their variance is 1/4.
    assert mbc_normalised(z, z_e).item() == pytest.approx(0.18 / 0.25, rel=1e-5)


def test_mbc_equals_a_loop_and_allows_spaces_of_different_width():
    z, z_e = noise(B, Z, seed=1).numpy(), noise(B, Z + 2, seed=2).numpy()

    def cosine(a, b):
        return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))

    want = sum((cosine(z[i], z[j]) - cosine(z_e[i], z_e[j])) ** 2 for i in range(B) for j in range(B)) / B**2
    assert mbc(torch.from_numpy(z), torch.from_numpy(z_e)).item() == pytest.approx(want)


def test_mbc_ignores_a_rotation_of_the_explanation_space():
    rotation = torch.linalg.qr(noise(Z, Z, seed=3))[0]
    z = noise(B, Z)
    assert mbc(z, z @ rotation).item() == pytest.approx(0, abs=1e-20)
    assert mbc(z, noise(B, Z, seed=4)) > 0.01


def test_mbc_with_another_similarity():
    # Dot products: reference 1, 0, 0, 4 and explanations 1, 1, 1, 1: squares 0, 1, 1, 9.
    z, z_e = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert mbc(z, z_e, similarity=lambda v: v @ v.mT).item() == pytest.approx(11 / 4)


def test_simclr_by_hand():
    # z = (1,0), (0,1), (-1,0); z^E = (1,0), (1,0), (0,1). D(z_j, z^E_i):
    #   i=0: 1, 0, -1    own 1; others 0, -1:  -1 + log(e^0 + e^-1)
    #   i=1: 1, 0, -1    own 0; others 1, -1:   0 + log(e^1 + e^-1)
    #   i=2: 0, 1,  0    own 0; others 0, 1:    0 + log(e^0 + e^1)
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    z_e = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    e = math.exp
    want = (-1 + math.log(1 + e(-1)) + math.log(e(1) + e(-1)) + math.log(1 + e(1))) / 3
    assert simclr(z, z_e).item() == pytest.approx(want)
    # One negative each, the next sample: 0 - 1, -1 - 0, 0 - 0.
    assert simclr(z, z_e, torch.tensor([[1], [2], [0]])).item() == pytest.approx(-2 / 3)


def test_simclr_with_all_others_listed_is_the_default():
    z, z_e = noise(B, Z, seed=1), noise(B, Z, seed=2)
    others = torch.tensor([[j for j in range(B) if j != i] for i in range(B)])
    torch.testing.assert_close(simclr(z, z_e, others), simclr(z, z_e))


def test_simclr_needs_someone_to_contrast_with():
    with pytest.raises(ValueError, match="at least 2 samples to contrast, got 1: drop the last"):
        simclr(noise(1, Z), noise(1, Z))


# ---- the prediction --------------------------------------------------------------------------------------------------


def slow_js(p: np.ndarray, q: np.ndarray) -> float:
    """The textbook form, half the KL divergences from the mean."""
    mean = (p + q) / 2
    return float(0.5 * (p * np.log(p / mean)).sum() + 0.5 * (q * np.log(q / mean)).sum())


def test_js_by_hand():
    # (1/2, 1/2) against (3/4, 1/4): the mean is (5/8, 3/8).
    #   KL(p||m) = .5 log(4/5) + .5 log(4/3), KL(q||m) = .75 log(6/5) + .25 log(2/3)
    want = 0.5 * (0.5 * math.log(4 / 5) + 0.5 * math.log(4 / 3) + 0.75 * math.log(6 / 5) + 0.25 * math.log(2 / 3))
    even, odd = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
    assert js(even, odd).tolist() == pytest.approx([want])
    # A one-hot against another: log 2. A one-hot against an even coin: the mean is (3/4, 1/4),
    #   KL(p||m) = log(4/3), KL(q||m) = .5 log(2/3) + .5 log 2
    one, two = torch.tensor([[1e4, 0.0]]), torch.tensor([[0.0, 1e4]])
    assert js(one, two).tolist() == pytest.approx([LOG2])
    want = 0.5 * math.log(4 / 3) + 0.5 * (0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    assert js(one, torch.zeros(1, 2)).tolist() == pytest.approx([want])


def test_js_equals_the_textbook_form():
    a, b = noise(B, C, seed=1), noise(B, C, seed=2)
    p, q = a.softmax(-1).numpy(), b.softmax(-1).numpy()
    assert js(a, b).tolist() == pytest.approx([slow_js(p[i], q[i]) for i in range(B)])


@pytest.mark.parametrize("rows_at_once", [1, 2, 100])
def test_pairwise_js_equals_a_double_loop_whatever_the_blocks(monkeypatch, rows_at_once):
    logits = noise(B, C)
    monkeypatch.setattr(losses, "PAIR_BYTES", rows_at_once * logits.numel() * logits.element_size())
    p = logits.softmax(-1).numpy()
    want = [[slow_js(p[i], p[j]) for j in range(B)] for i in range(B)]
    got = pairwise_js(logits)
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64))
    assert (got.diagonal() == 0).all()


def two_sides() -> tuple[Tensor, Tensor]:
    """Three samples of certain classes 0, 0, 1 on the reference's side and 0, 1, 1 on the explanations'."""
    one_hot = torch.eye(2) * 1e4
    return one_hot[[0, 0, 1]], one_hot[[0, 1, 1]]


def test_label_consistency_by_hand():
    # JS is 0 or log 2. Reference: the pairs 02 and 12 differ; explanations: 01 and 02 do. The sides disagree on 01 and
    # 12, each counted twice among nine pairs: 4 log(2)^2 / 9.
    logits, logits_e = two_sides()
    assert label_consistency(logits, logits_e).item() == pytest.approx(4 * LOG2**2 / 9)


def test_label_consistency_batch_by_hand():
    # Both sides have two differing pairs: the batch form sees no difference, which is its weakness. Against three equal
    # predictions the mean JS is 4 log(2) / 9 on one side and 0 on the other.
    logits, logits_e = two_sides()
    assert label_consistency_batch(logits, logits_e).item() == pytest.approx(0)
    assert label_consistency_batch(logits, logits[[0, 0, 0]]).item() == pytest.approx((4 * LOG2 / 9) ** 2)


def test_the_published_divergence_is_the_other_kl_averaged_over_classes():
    # p = (1/2, 1/2), q = (3/4, 1/4), m = (5/8, 3/8): KL(m||p) and KL(m||q), half of each, over two classes.
    kl_p = 5 / 8 * math.log(5 / 4) + 3 / 8 * math.log(3 / 4)
    kl_q = 5 / 8 * math.log(5 / 6) + 3 / 8 * math.log(3 / 2)
    logits = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]], dtype=torch.float64)
    d = (kl_p + kl_q) / 2 / 2
    torch.testing.assert_close(pairwise_js(logits, published=True), torch.tensor([[0, d], [d, 0]], dtype=torch.float64))
    # Against two equal predictions: two of four pairs differ by d; their mean is d / 2.
    equal = logits[[0, 0]]
    assert label_consistency(logits, equal, published=True).item() == pytest.approx(d**2 / 2)
    assert label_consistency_batch(logits, equal, published=True).item() == pytest.approx((d / 2) ** 2)


def test_label_consistency_instance_by_hand():
    # One of three samples has changed its class.
    logits, logits_e = two_sides()
    assert label_consistency_instance(logits, logits_e).item() == pytest.approx(LOG2 / 3)


def test_only_the_instance_form_sees_swapped_classes():
    logits = noise(B, C)
    swapped = logits[:, [1, 0, 2, 3]]
    assert label_consistency(logits, swapped).item() == pytest.approx(0, abs=1e-20)
    assert label_consistency_instance(logits, swapped) > 0.01


def test_label_consistency_mse_by_hand():
    # Forecasts of two steps. Reference (0,0), (2,0): D = (4 + 0) / 2 = 2. Explanations (0,0), (1,1): D = 1. Two of four
    # pairs differ by 1.
    y, y_e = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert label_consistency_mse(y, y_e).item() == pytest.approx(0.5)
    assert label_consistency_mse(y.unsqueeze(-1), y_e.unsqueeze(-1)).item() == pytest.approx(0.5)


def test_label_consistency_mse_instance_by_hand():
    # Squared differences 0, 0 and 1, 1: means 0 and 1 by sample.
    y, y_e = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert label_consistency_mse_instance(y, y_e).item() == pytest.approx(0.5)
