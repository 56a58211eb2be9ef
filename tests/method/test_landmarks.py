"""Landmarks: where they start, how explanations are matched to them, and what they say about the training set."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from timex.engine import Noise
from timex.method.config import TimeXConfig
from timex.method.landmarks import TAU, assimilate, medoids, stratified_start, survey
from timex.method.model import TimeXModel
from timex.method.objective import Objective
from timex.reference import Transformer

N, L, Z, C = 23, 5, 4, 3


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).clamp(1e-4, 1 - 1e-4)


# ---------------------------------------------------------------------------------------------------------------- start


def start(y, n, seed=0):
    """The samples chosen as landmarks, as indices: embeddings that name their own row."""
    z = torch.arange(float(len(y)))[:, None].expand(len(y), Z)
    vectors = stratified_start(z, torch.as_tensor(y), n, torch.Generator().manual_seed(seed))
    assert vectors.shape == (n, Z)
    assert (vectors == vectors[:, :1]).all()
    return vectors[:, 0].long()


def test_start_takes_every_class_in_equal_number():
    y = torch.tensor([0] * 40 + [1] * 10 + [2] * 12)[torch.randperm(62, generator=torch.Generator().manual_seed(1))]
    chosen = start(y, 9)
    assert len(chosen.unique()) == 9
    assert y[chosen].bincount().tolist() == [3, 3, 3]
    assert max(y[start(y, 10)].bincount()) == 4  # ten of three classes: nearly equal


def test_start_takes_all_of_a_rare_class_and_shares_the_rest():
    y = torch.tensor([0] * 30 + [1] * 2 + [2] * 30)
    assert y[start(y, 12)].bincount().tolist() == [5, 2, 5]


def test_start_repeats_samples_when_there_are_fewer_than_landmarks():
    y = torch.tensor([0, 0, 0, 1])
    chosen = start(y, 10)
    assert set(chosen.tolist()) == {0, 1, 2, 3}
    assert chosen.bincount().max() <= 3


def test_start_depends_on_the_generator_alone():
    y = torch.arange(60) % 2
    assert torch.equal(start(y, 8, seed=3), start(y, 8, seed=3))
    assert not torch.equal(start(y, 8, seed=3), start(y, 8, seed=4))


def test_start_is_a_copy_of_the_embeddings():
    z = draw(6, Z)
    before = z.clone()
    stratified_start(z, torch.zeros(6, dtype=torch.long), 6, torch.Generator().manual_seed(0)).zero_()
    assert torch.equal(z, before)


def test_start_is_random_within_a_class():
    y = torch.zeros(50, dtype=torch.long)
    assert not torch.equal(start(y, 10).sort().values, torch.arange(10))


# -------------------------------------------------------------------------------------------------------------- medoids


def test_medoids_are_the_middles_of_the_clusters():
    """Three directions with five embeddings each, of any length: the middle one of each direction is found."""
    angles = torch.tensor([[0.0], [2.0], [4.0]]) + torch.tensor([-0.2, -0.05, 0.0, 0.06, 0.2])
    lengths = 1 + 9 * uniform(3, 5)
    z_e = torch.stack([angles.cos(), angles.sin()], dim=-1) * lengths[..., None]
    found = medoids(z_e.flatten(0, 1), 3, seed=0)
    distance = (found[:, None] - z_e[:, 2][None]).abs().amax(-1)  # (3 found, 3 middles)
    assert distance.min(dim=0).values.max() == 0


def test_medoids_are_real_embeddings_and_depend_on_the_seed_alone():
    z_e = draw(40, Z)
    before = torch.get_rng_state()
    found = medoids(z_e, 7, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found, medoids(z_e, 7, seed=3))
    rows = (found[:, None] == z_e[None]).all(-1).nonzero()[:, 1]
    assert len(rows.unique()) == 7


def test_medoids_of_fewer_embeddings_than_landmarks():
    """Some are given twice."""
    z_e = draw(3, Z)
    found = medoids(torch.cat([z_e, z_e]), 5, seed=0)
    assert found.shape == (5, Z)
    assert torch.equal(found[3:], found[:2])
    assert len(found.unique(dim=0)) == 3


# ------------------------------------------------------------------------------------------------------------ the match


def test_assimilate_gives_exactly_one_landmark():
    landmarks = draw(L, Z, seed=1)
    out = assimilate(draw(N, Z), landmarks, uniform(N, L), 1.0)
    distance = (out[:, None] - landmarks[None]).abs().amax(-1)  # (N, L)
    assert torch.equal(distance.min(dim=1).values, torch.zeros(N))
    assert len(distance.argmin(dim=1).unique()) > 1


def test_assimilate_draws_as_the_gumbel_trick_says():
    """Argmax of log-softmax of the cosines over their spread, plus Gumbel noise, written out."""
    z_e, landmarks, u = draw(N, Z), draw(L, Z, seed=1), uniform(N, L)
    cosine = F.cosine_similarity(z_e[:, None], landmarks[None], dim=-1)
    expected = ((cosine / 0.3).log_softmax(-1) - (-u.log()).log()).argmax(-1)
    torch.testing.assert_close(assimilate(z_e, landmarks, u, 0.3), landmarks[expected])


@pytest.mark.parametrize(("spread", "odds"), [(1.0, np.e**2), (0.5, np.e**4), (0.01, np.inf)])
def test_assimilate_draws_by_similarity(spread, odds):
    """The landmark in the direction and the one against it differ by 2 in cosine."""
    landmarks = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    z_e = torch.tensor([[2.0, 0.0]]).expand(20_000, 2)
    share = (assimilate(z_e, landmarks, uniform(20_000, 2), spread)[:, 0] > 0).float().mean()
    assert float(share) == pytest.approx(1 / (1 + 1 / odds), abs=0.01)


def test_gradient_reaches_landmarks_and_not_the_explanations():
    z_e, landmarks = draw(N, Z).requires_grad_(), draw(L, Z, seed=1).requires_grad_()
    weight = draw(N, Z, seed=2)
    (assimilate(z_e, landmarks, uniform(N, L), 1.0) * weight).sum().backward()
    assert z_e.grad is None
    assert (landmarks.grad.abs().sum(1) > 0).all()


def test_gradient_is_that_of_the_soft_match():
    z_e, landmarks, u = draw(N, Z).double(), draw(L, Z, seed=1).double(), uniform(N, L).double()
    weight = draw(N, Z, seed=2).double()

    def soft_weights(vectors):
        cosine = F.cosine_similarity(z_e[:, None], vectors[None], dim=-1)
        return (((cosine / 0.5).log_softmax(-1) - (-u.log()).log()) / TAU).softmax(-1)

    a, b = (landmarks.clone().requires_grad_() for _ in range(2))
    (assimilate(z_e, a, u, 0.5) * weight).sum().backward()
    soft = soft_weights(b)
    hard = F.one_hot(soft.argmax(-1), L).double()
    (((hard - soft).detach() + soft) @ b * weight).sum().backward()
    torch.testing.assert_close(a.grad, b.grad, atol=1e-9, rtol=1e-6)


def test_landmarks_do_not_bend_the_explanations():
    """In the whole objective the landmark term has no gradient but that of the landmarks."""
    t, d = 9, 2
    config = TimeXConfig(objective="paper", n_landmarks=L)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reference = Transformer(n_channels=d, n_classes=C, n_steps=t, d_hidden=5).requires_grad_(False)
        model = TimeXModel(reference, config)
        nn.init.normal_(model.landmarks)
    x = draw(N, t, d)
    out = reference.output(x)
    params = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    terms = Objective(model, reference, config).loss(
        params,
        {"mean": torch.zeros(t, d), "std": torch.ones(t, d)},
        {"x": x, "z": out.z, "logits": out.logits},
        {name: torch.tensor(value) for name, value in config.scalars().items()},
        Noise(torch.tensor(7)),
    )
    names = list(params)
    gradients = torch.autograd.grad(terms["landmarks"], list(params.values()), allow_unused=True, retain_graph=True)
    for name, gradient in zip(names, gradients, strict=True):
        if name == "landmarks":
            assert float(gradient.abs().max()) > 0
        else:
            assert gradient is None or float(gradient.abs().max()) == 0, name
    rest = torch.autograd.grad(terms["mbc"] + terms["lc"], list(params.values()), allow_unused=True)
    reached = {name.split(".")[0] for name, g in zip(names, rest, strict=True) if g is not None and float(g.abs().max()) > 0}
    assert reached == {"generator", "surrogate"}


# ------------------------------------------------------------------------------------------------------------ filtration


def by_loop(landmarks, z_e, predicted, n_classes):
    """The paper's Algorithm 1, one explanation at a time."""
    counts = [0] * len(landmarks)
    composition = [[0] * n_classes for _ in landmarks]
    similarity = np.zeros((len(landmarks), len(z_e)))
    for i, z in enumerate(z_e):
        for j, landmark in enumerate(landmarks):
            similarity[j, i] = float(z @ landmark) / (np.linalg.norm(z) * np.linalg.norm(landmark))
        best = int(similarity[:, i].argmax())
        counts[best] += 1
        composition[best][int(predicted[i])] += 1
    return counts, composition, similarity


def surveyed(n=N, n_nearest=4):
    landmarks, z_e = draw(L, Z, seed=1), draw(n, Z)
    predicted = torch.arange(n) % C
    return survey(landmarks, z_e, predicted, C, n_nearest), by_loop(landmarks.numpy(), z_e.numpy(), predicted, C)


def test_survey_is_the_papers_loop():
    found, (counts, composition, similarity) = surveyed()
    assert found.counts.tolist() == counts
    assert found.composition.tolist() == composition
    for j in range(L):  # the landmark's members first, the most similar before the others; then the rest, likewise
        members, rest = ([i for i in range(N) if bool(similarity[:, i].argmax() == j) is own] for own in (True, False))
        order = [i for group in (members, rest) for i in sorted(group, key=lambda i: -similarity[j, i])]
        assert found.nearest[j].tolist() == order[:4]
        np.testing.assert_allclose(found.similarity[j], similarity[j, order[:4]], atol=1e-6)
    assert len(found) == L


def test_survey_of_fewer_samples_than_nearest_asked_for():
    found, _ = surveyed(n=3, n_nearest=10)
    assert found.nearest.shape == (L, 3)


def test_filtered_is_the_papers_loop():
    found, (counts, composition, _) = surveyed()
    least = sorted(counts)[2]
    expected = sorted((j for j in range(L) if counts[j] >= least), key=lambda j: -counts[j])
    assert 0 < len(expected) < L
    table = found.filtered(min_samples=least)
    assert table["landmark"].tolist() == expected
    assert table["rank"].tolist() == list(range(1, len(expected) + 1))
    assert table["samples"].tolist() == [counts[j] for j in expected]
    assert table["class"].tolist() == [int(np.argmax(composition[j])) for j in expected]
    assert table["share"].tolist() == pytest.approx([max(composition[j]) / counts[j] for j in expected])
    assert table["nearest"].tolist() == [found.nearest[j].tolist() for j in expected]


def test_hand_made_landmarks():
    """Three landmarks on the axes and one nobody is near."""
    landmarks = torch.tensor([[1.0, 0.0], [0.0, 5.0], [-1.0, 0.0], [0.0, -1.0]])
    z_e = torch.tensor([[3.0, 0.1], [0.2, 1.0], [0.0, 9.0], [-0.1, 2.0], [-4.0, 0.0], [1.0, 0.5]])
    found = survey(landmarks, z_e, torch.tensor([0, 1, 1, 0, 2, 0]), 3, n_nearest=2)
    assert found.counts.tolist() == [2, 3, 1, 0]
    assert found.composition.tolist() == [[2, 0, 0], [1, 2, 0], [0, 0, 1], [0, 0, 0]]
    assert found.ranking().tolist() == [1, 0, 2, 3]
    assert found.nearest.tolist()[:3] == [[0, 5], [2, 3], [4, 3]]
    crowded = survey(torch.tensor([[1.0, 0.0], [0.99, 0.1]]), z_e[:1], torch.tensor([0]), 3, n_nearest=1)
    assert crowded.nearest.tolist() == [[0], [0]]
    table = found.filtered(min_samples=2)
    assert table["landmark"].tolist() == [1, 0]
    assert table["class"].tolist() == [1, 0]
    assert table["share"].tolist() == pytest.approx([2 / 3, 1.0])


def test_ranking_keeps_the_order_of_ties():
    found, _ = surveyed()
    tied = type(found)(found.vectors, np.array([2, 7, 2, 7, 0]), found.nearest, found.similarity, found.composition)
    assert tied.ranking().tolist() == [1, 3, 0, 2, 4]


def test_filtered_may_be_empty():
    found, _ = surveyed()
    assert len(found.filtered(min_samples=N + 1)) == 0


def test_filtered_asks_for_at_least_one_sample():
    found, _ = surveyed()
    with pytest.raises(ValueError, match="Expected min_samples >= 1, got 0"):
        found.filtered(min_samples=0)
