"""Evidence, gradients, smoothing and the gap: by hand, by slow loops, and against Captum.

Shapes: B samples, T time steps, D channels, C classes, all different.
"""

import math

import pytest
import torch
from captum.attr import IntegratedGradients

from timex.reference import CNN
from timex.reference.evidence import REACH, SHARES, WIDTHS, evidence, gap, gaps_by_width, log_odds, path_gradients, smoothed

B, T, D, C = 5, 11, 3, 4


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CNN(D, C, T, width=5).eval()


# ------------------------------------------------------------------------------------------------------------- evidence


def test_log_odds_are_those_of_the_probabilities():
    logits, target = normal(B, C), torch.tensor([0, 3, 1, 1, 2])
    for i in range(B):
        q = float(logits[i].softmax(-1)[target[i]])
        assert float(log_odds(logits, target)[i]) == pytest.approx(math.log(q / (1 - q)), abs=1e-5)


def test_log_odds_are_finite_where_the_model_is_sure():
    logits = torch.tensor([[300.0, 0.0, 0.0], [-300.0, 0.0, -300.0]], requires_grad=True)
    value = log_odds(logits, torch.tensor([0, 0]))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value.tolist() == pytest.approx([300 - math.log(2), -300.0])
    assert gradient.isfinite().all()


def test_evidence_of_classes_is_for_the_class_of_the_answer():
    view, answer = normal(B, C, seed=1), normal(B, C)
    assert torch.equal(evidence(view, answer), log_odds(view, answer.argmax(-1)))


def test_evidence_of_numbers_by_hand():
    # Squared distances 1, 9 and 0, 0: means 5 and 0, in units of 2.
    view, answer = torch.tensor([[1.0, 3.0], [4.0, 4.0]]), torch.tensor([[0.0, 0.0], [4.0, 4.0]])
    assert evidence(view, answer, 2.0).tolist() == [-2.5, 0.0]


# ------------------------------------------------------------------------------------------------------------ gradients


@pytest.mark.parametrize("n_points", [2, 4, 7])
def test_path_gradients_are_captums(n_points):
    reference, x, mean = model(), normal(B, T, D), normal(T, D, seed=1)
    target = reference(x).argmax(-1)

    def evidence_of(point):
        return log_odds(reference(point), target.repeat_interleave(len(point) // B))

    baseline = mean.expand_as(x)
    expected = torch.zeros_like(x)
    for i in range(B):
        of_one = IntegratedGradients(lambda point, i=i: log_odds(reference(point), target[i].expand(len(point))))
        expected[i] = of_one.attribute(x[i : i + 1], baseline[i : i + 1], n_steps=n_points, method="riemann_middle")[0]
    torch.testing.assert_close(path_gradients(evidence_of, x, baseline, n_points), expected, atol=1e-5, rtol=1e-4)


def test_path_gradients_sum_to_the_evidence_gained():
    reference, x, baseline = model(), normal(B, T, D), normal(B, T, D, seed=1)
    target = reference(x).argmax(-1)
    with torch.no_grad():  # gradients are taken all the same
        found = path_gradients(lambda point: log_odds(reference(point), target), x, baseline, 300)
        gained = log_odds(reference(x), target) - log_odds(reference(baseline), target)
    torch.testing.assert_close(found.sum((1, 2)), gained, atol=0.02, rtol=0.02)
    assert not found.requires_grad


# ------------------------------------------------------------------------------------------------------------ smoothing


@pytest.mark.parametrize("width", [0.8, 1, 2, 4])
def test_smoothed_is_the_loop_over_steps(width):
    a = torch.rand(B, T, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    observed = normal(B, T, D, seed=1) > -1
    observed[1, :, 2] = False
    found, reach = smoothed(a, width, observed), int(REACH * width + 0.5)
    for i in range(B):
        for t in range(T):
            for d in range(D):
                near = [s for s in range(T) if abs(s - t) <= reach and observed[i, s, d]]
                weights = [math.exp(-((t - s) ** 2) / (2 * width**2)) for s in near]
                total = sum(w * float(a[i, s, d]) for w, s in zip(weights, near, strict=True))
                expected = total / sum(weights) if near else 0.0
                assert float(found[i, t, d]) == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(smoothed(a, width), smoothed(a, width, torch.ones_like(observed)))


def test_a_width_of_zero_changes_nothing():
    a = normal(B, T, D)
    assert smoothed(a, 0) is a


def test_a_constant_stays_constant():
    torch.testing.assert_close(smoothed(torch.full((2, 300, 3), 0.7), 6), torch.full((2, 300, 3), 0.7))


# -------------------------------------------------------------------------------------------------------------- the gap


def ranked_views(x, attribution, fill, share, observed=None):
    """One series (T, D) with the highest share of its cells alone, and without them."""
    cells = [(t, d) for t in range(T) for d in range(D) if observed is None or observed[t, d]]
    cells.sort(key=lambda cell: -float(attribution[cell]))
    top = cells[: max(1, round(share * len(cells)))]
    kept, removed = fill.clone(), x.clone()
    for cell in top:
        kept[cell], removed[cell] = x[cell], fill[cell]
    return kept, removed


def gap_by_loop(answer, x, attribution, fill, spread=None, blank=None, observed=None):
    found = []
    for i in range(len(x)):
        whole = answer(x[i : i + 1])
        nothing = evidence(answer(fill[i : i + 1]) if blank is None else blank[i : i + 1], whole, spread)
        unit = max(1.0, float(evidence(whole, whole, spread) - nothing))
        total = 0.0
        for share in SHARES:
            seen = None if observed is None else observed[i]
            for sign, view in zip((1, -1), ranked_views(x[i], attribution[i], fill[i], share, seen), strict=True):
                part = float(evidence(answer(view[None]), whole, spread) - nothing) / unit
                total += sign * max(-1.0, min(1.0, part))
        found.append(total / len(SHARES))
    return torch.tensor(found)


@pytest.mark.parametrize("spread", [None, 0.3])
@torch.no_grad()
def test_gap_is_the_loop_over_samples(spread):
    reference, x, attribution = model(), 3 * normal(B, T, D), normal(B, T, D, seed=2)
    fill = normal(T, D, seed=1).expand(B, T, D)
    found = gap(reference, x, attribution, fill[0], spread=spread)
    torch.testing.assert_close(found, gap_by_loop(reference, x, attribution, fill, spread), atol=1e-5, rtol=1e-4)
    blank = reference(normal(B, T, D, seed=5))
    found = gap(reference, x, attribution, fill, spread=spread, blank=blank)
    torch.testing.assert_close(found, gap_by_loop(reference, x, attribution, fill, spread, blank), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_gap_counts_measured_cells_alone():
    observed = normal(B, T, D, seed=4) > -0.5
    x, fill = normal(B, T, D) * observed, torch.zeros(B, T, D)
    attribution, reference = normal(B, T, D, seed=2), model()
    found = gap(reference, x, attribution, fill, observed=observed)
    expected = gap_by_loop(reference, x, attribution, fill, observed=observed)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    changed = torch.where(observed, attribution, 99.0)
    assert torch.equal(gap(reference, x, changed, fill, observed=observed), found)


def test_the_gap_of_a_model_that_reads_one_cell():
    """The cell's evidence is 10. A share of it is kept whenever the cell is: the gap is 1, and -1 for the reverse order."""

    def answer(x):
        return torch.stack([10 * x[:, 4, 1], torch.zeros(len(x))], dim=1)

    x, scores = torch.ones(2, T, D), torch.zeros(2, T, D)
    scores[:, 4, 1] = 1
    torch.testing.assert_close(gap(answer, x, scores, torch.zeros(T, D)), torch.ones(2))
    torch.testing.assert_close(gap(answer, x, -scores, torch.zeros(T, D)), -torch.ones(2))


@torch.no_grad()
def test_gaps_by_width_are_means_over_all_parts():
    reference, x, a, fill = model(), 3 * normal(B, T, D), normal(B, T, D, seed=2).abs(), torch.zeros(T, D)
    parts = [(lambda v, s=s: gap(reference, x[s], v, fill), a[s], None) for s in (slice(0, 2), slice(2, B))]
    found = gaps_by_width(iter(parts))
    assert list(found) == list(WIDTHS)
    for width in WIDTHS:
        assert found[width] == pytest.approx(float(gap(reference, x, smoothed(a, width), fill).mean()), abs=1e-5)
