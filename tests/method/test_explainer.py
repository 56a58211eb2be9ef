"""What `fit` and `explain` of TimeX give, and what they leave unchanged."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import (
    CONFIG,
    PAPER_CONFIG,
    N,
    quick,
    same_explanations,
    series,
    snapshot,
)
from torch.nn import functional as F

from timex import TimeX


def test_explanation_by_hand(case):
    e = case.explainer.explain(case.asked)
    model = case.explainer.fitted.model
    with torch.no_grad():
        logits = case.clean(torch.as_tensor(case.asked))
        # The surrogate, by hand: what is not explained is replaced by the fill.
        shifted = np.roll(case.asked, -(case.asked.shape[1] // 2), axis=1)
        fill = {"mean": case.x.mean(0), "shift": shifted}[case.explainer.fitted.fill]
        masked = np.where(e.attribution > 0.5, case.asked, fill)
        z_e = model.encoder.output(torch.as_tensor(masked)).z
        logits_e = model.surrogate.predictor(z_e)
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
    assert (e.method, e.signed) == ("timex", False)
    assert e.series.regular


def test_the_direction_is_the_sign_of_the_evidence():
    """A linear model: the evidence of a cell is weight x (value - training mean); runs of kept cells have that of their sum."""
    weight = torch.linspace(-1, 1, 24).view(12, 2)
    linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24, 2, bias=False))
    linear[1].weight.data = torch.stack([-weight.flatten(), weight.flatten()])
    x = np.random.default_rng(3).normal(size=(40, 12, 2)).astype(np.float32)
    config = replace(CONFIG, smoothing=0, epochs=1)
    explainer = TimeX(linear, config=config, embedding="0").fit(x, progress=False)
    e = explainer.explain(x[:9])
    part = weight.numpy() * (x[:9] - explainer.fitted.baseline.mean) * np.where(e.prediction == 1, 1, -1)[:, None, None]
    expected = np.sign(part)
    for i, k in np.ndindex(9, 2):
        for run in np.split(np.arange(12), np.flatnonzero(np.diff(e.mask[i, :, k])) + 1):
            if e.mask[i, run[0], k]:
                expected[i, run, k] = np.sign(part[i, run, k].sum())
    assert 0 < e.mask.mean() < 1
    np.testing.assert_array_equal(e.direction, expected)
    np.testing.assert_array_equal(e.directed().attribution, e.attribution * e.direction)
    no_gradient = config.replaced({"generator.gradient_points": 0})
    assert TimeX(linear, config=no_gradient, embedding="0").fit(x, progress=False).explain(x[:2]).direction is None


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
    np.testing.assert_allclose(parts.attribution, whole.attribution, atol=1e-5)
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
        quick(config=replace(config, seed=seed)).fit(x, x_val=x, progress=False).fitted.model.generator.out.weight
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
    explainer = case.fresh(replace(CONFIG, epochs=1)).fit(case.x, progress=False)
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
        for p in explainer.model.parameters():
            p.add_(1.0)
    same_explanations(explainer.explain(series(5, 12, 2)), e)


def check_history(rows, numbers, terms):
    """One row per epoch, the one with the lowest criterion selected, and finite figures."""
    assert rows["epoch"].tolist() == numbers
    assert rows["selected"].sum() == 1
    assert rows["criterion"].idxmin() == rows["selected"].idxmax()
    columns = ["loss", "criterion", "lr", "seconds", *terms, *(f"val_{term}" for term in terms)]
    assert np.isfinite(rows[columns].to_numpy()).all()


def test_history_has_a_row_per_epoch_of_generator_and_surrogate(case):
    history = case.explainer.history
    assert history["part"].tolist() == ["generator", "generator", "surrogate"]  # two thirds of the epochs, rounded
    check_history(history[history.part == "generator"], [0, 1], ["sufficiency", "necessity", "size", "variation", "kept"])
    check_history(history[history.part == "surrogate"], [2], ["mbc", "lc", "agreement"])


def test_history_of_the_papers_objective(mv):
    history = mv.fresh(PAPER_CONFIG).fit(mv.x, x_val=mv.x_val, progress=False).history
    assert set(history["part"]) == {"all"}
    check_history(history, [0, 1], ["mbc", "lc", "l_m"])
    assert np.isfinite(history[["landmarks", "l_con", "val_agreement", "val_kept"]].to_numpy()).all()


def test_the_selected_epoch_is_the_one_kept():
    """A learning rate far too large: the last epoch is not the best, and must not be what is kept."""
    x, x_val = series(40, 12, 2), series(20, 12, 2, seed=1)
    for base in (CONFIG, PAPER_CONFIG):
        config = base.replaced({"epochs": 6, "lr": 1.0, "training.scheduler": "none", "loss.lam_e": 0.0, "smoothing": 0})
        long = quick(config=config).fit(x, x_val=x_val, progress=False)
        best = int(long.history["selected"].idxmax())  # of the generator, which comes first
        assert best < 5
        short = quick(config=replace(config, epochs=best + 1)).fit(x, x_val=x_val, progress=False)
        np.testing.assert_array_equal(short.explain(x).attribution, long.explain(x).attribution)


def test_attribute_follows_captum(mv):
    inputs = torch.as_tensor(mv.asked).double().requires_grad_()
    with pytest.warns(UserWarning, match=r"explains the predicted class, which is not target= in \d+ of 20 samples"):
        out = mv.explainer.attribute(inputs, target=torch.zeros(20, dtype=torch.long))
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


def test_landmarks_are_embeddings_of_explanations(mv):
    found, z = mv.explainer.landmarks, mv.explainer.explain(mv.x).embedding
    distance = np.abs(found.vectors[:, None] - z[None]).max(-1)  # (L, N)
    assert distance.min(axis=1).max() < 1e-6
    assert len(np.unique(distance.argmin(axis=1))) == 6
    assert (found.nearest[:, 0] == distance.argmin(axis=1)).all()
    assert (found.counts > 0).all()


def test_labels_start_the_landmarks_of_the_papers_objective():
    """With training that does not move them, landmarks are embeddings of samples taken from the classes of y in turn."""
    x, y = series(40, 12, 2), np.array([0] * 38 + [1] * 2)
    explainer = quick(config=replace(PAPER_CONFIG, lr=1e-9, n_landmarks=4)).fit(x, y, x_val=x, progress=False)
    with torch.no_grad():
        z = explainer.model.eval().output(torch.as_tensor(x)).z
    exact = "donot_use_mm_for_euclid_dist"  # products lose the digits that tell a distance from 0
    nearest = torch.cdist(torch.as_tensor(explainer.landmarks.vectors), z, compute_mode=exact)
    assert float(nearest.min(dim=1).values.max()) < 1e-5
    assert sorted(y[nearest.argmin(dim=1)].tolist()) == [0, 0, 1, 1]
