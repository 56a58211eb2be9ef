"""Faithfulness scores against a slow loop, by hand, and against the torch version that fits by the gap."""

import numpy as np
import pytest
import torch
from faithfulness_by_loop import Interpolated, Sample
from scipy.integrate import simpson, trapezoid
from scipy.stats import rankdata, spearmanr

from timex import Series
from timex.metrics import faithfulness as f
from timex.metrics.agreement import disagreement, rank_correlation, stability
from timex.metrics.hiding import FILLS, Probe
from timex.records import Baseline, Explanation
from timex.reference.evidence import gap

N, T, D, C = 6, 7, 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, T, D)).astype(np.float32)
TRAIN = Series(RNG.normal(0.5, 1.5, size=(11, T, D)))
A = RNG.normal(size=(N, T, D))
WEIGHT = RNG.normal(size=(T, D, C))


def predict(x, kept):
    logits = np.einsum("ntd,tdc->nc", np.tanh(x.astype(np.float64)), WEIGHT) + np.tanh(x[:, 0, :1] * x[:, 1, 1:2])
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def probe(fill="mean", x=X, **options):
    return Probe(predict, Series(x), TRAIN, fill, **options)


def samples(fill="mean"):
    filling = probe(fill).hidden(np.zeros((N, T, D), bool))
    if fill == "local":
        return [Interpolated(predict, X[i], A[i], filling[i]) for i in range(N)]
    blank = TRAIN.baseline().mean if fill == "shift" else None  # a shift of every cell hides nothing
    return [Sample(predict, X[i], A[i], filling[i], blank) for i in range(N)]


def explained(p, attribution, **more):
    return Explanation(
        series=p.series,
        attribution=attribution.astype(np.float32),
        prediction=p.classes,
        probability=p.whole.astype(np.float32),
        **more,
    )


@pytest.mark.parametrize("fill", FILLS)
def test_scores_are_those_of_a_slow_loop(fill):
    p, loop = probe(fill), samples(fill)
    rng = np.random.default_rng(p.seed)
    hidden = np.stack([rng.random(X.shape) < f.HIDDEN for _ in range(10)])
    expected = {
        "gap": [s.gap(f.SHARES) for s in loop],
        "log_odds": [s.log_odds(0.2) for s in loop],
        "aopc": [s.aopc(0.2, 10) for s in loop],
        "cpd": [s.changes(2, False) for s in loop],
        "cpp": [s.changes(2, True) for s in loop],
        "cpd_signed": [s.signed_changes(2) for s in loop],
        "infidelity": [s.infidelity(hidden[:, i]) for i, s in enumerate(loop)],
    }
    scores = f.faithfulness_scores(explained(p, A, signed=True), p)
    assert set(scores) == {*expected, "comprehensiveness", "sufficiency"}
    for name, values in expected.items():
        np.testing.assert_allclose(scores[name], values, rtol=1e-5, err_msg=name)
    for name in ("comprehensiveness", "sufficiency"):
        curve = np.array([[getattr(s, name)(share) for share in f.SHARES] for s in loop])
        np.testing.assert_allclose(getattr(f, name)(p, A), curve, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(scores[name], trapezoid(curve, f.SHARES) / 0.28, rtol=1e-5)


def test_signed_cpd_needs_a_sign_or_a_direction():
    p, size, direction = probe(), np.abs(A), np.sign(A).astype(np.int8)
    assert "cpd_signed" not in f.faithfulness_scores(explained(p, size), p)
    signed, directed = (
        f.faithfulness_scores(e, p)["cpd_signed"]
        for e in (explained(p, A, signed=True), explained(p, size, direction=direction))
    )
    np.testing.assert_array_equal(signed, directed)
    assert (signed != f.cpd(p, A, 2)).any()


def test_explanations_without_a_model_have_no_scores_of_faithfulness():
    e = Explanation(series=Series(X), attribution=A.astype(np.float32), prediction=np.zeros(N, int), probability=np.eye(N))
    assert f.faithfulness_scores(e) == {}


def test_cpd_takes_a_number_or_a_share_and_averages_over_classes():
    loop = samples("zero")
    for cells, n in ((4, 4), (0.3, 6)):  # .3 of 21 cells
        np.testing.assert_allclose(f.cpd(probe("zero"), A, cells), [s.changes(n, False) for s in loop], rtol=1e-5)
    np.testing.assert_allclose(f.cpp(probe("zero"), A, 4, mean=True), [s.changes(4, True) / C for s in loop], rtol=1e-5)


def test_degradation():
    found = f.degradation(probe(), A, steps=5)
    dds = np.array([s.dds(5) for s in samples()])
    np.testing.assert_allclose(found.dds, dds, rtol=1e-5)
    assert found.pes == pytest.approx((dds > 0).mean() - (dds < 0).mean())
    harmonic = 2 / (1 / abs(dds.mean()) + 1 / abs(found.pes)) if dds.mean() * found.pes > 0 else 0
    assert found.cmi == pytest.approx(harmonic)


def test_degradation_by_hand():
    """p = sigmoid of the one cell that counts: hidden in the first of two steps, or in the last."""

    def one_cell(x, kept):
        return np.stack([1 - x[:, 0, 0], x[:, 0, 0]], axis=1)

    nothing = Baseline(np.full((2, 1), 0.5, np.float32), np.zeros((2, 1), np.float32))
    right = f.degradation(Probe(one_cell, Series([[[0.9], [7.0]]]), nothing), [[[2.0], [1.0]]], steps=2)
    assert right.dds == pytest.approx([0.4])  # only step 1 differs: (1/8) (.9 - .5) / (1/8)
    assert (right.pes, right.cmi) == (1.0, pytest.approx(2 / (1 / 0.4 + 1)))
    wrong = f.degradation(Probe(one_cell, Series([[[0.9], [7.0]]]), nothing), [[[1.0], [2.0]]], steps=2)
    assert (wrong.pes, wrong.cmi) == (-1.0, pytest.approx(2 / (1 / 0.4 + 1)))  # CMI has no sign: read it beside PES


def test_interpret_time_by_hand():
    """The class's score is the sum of two positive cells; a negative attribution takes no part."""

    def score(x, kept):
        own = x.sum((1, 2)) / 10
        return np.stack([own, 1 - own], axis=1)

    series = Series([[[5.0], [3.0], [0.0]]])
    p = Probe(score, series, Baseline(np.zeros((3, 1), np.float32), np.zeros((3, 1), np.float32)), target=[0])
    found = f.interpret_time(p, [[[2.0], [1.0], [-4.0]]], quantiles=(0.5, 1.0))
    # Top: of 3 cells 1, then 2 are replaced, and S~ is 5/8, then 1. Held to 1: (0, 0), (1/3, 5/8), (2/3, 1), (1, 1).
    third = [0, 1 / 3, 2 / 3, 1]
    top, bottom = (simpson([0, first, 1, 1], x=third) for first in (5 / 8, 3 / 8))
    assert found.top == pytest.approx(top)
    assert found.bottom == pytest.approx(bottom)
    assert found.f1 == pytest.approx(top * (1 - bottom) / (top + 1 - bottom))
    assert top > bottom


def test_the_gap_is_that_of_the_torch_version():
    weight = torch.as_tensor(WEIGHT)
    linear = lambda x: torch.einsum("ntd,tdc->nc", x.double().tanh(), weight)  # noqa: E731
    ours = Probe(lambda x, kept: linear(torch.as_tensor(x)).softmax(-1).numpy(), Series(X), TRAIN)
    torchs = gap(linear, torch.as_tensor(X), torch.as_tensor(np.abs(A)), torch.as_tensor(TRAIN.baseline().mean))
    np.testing.assert_allclose(f.evidence_gap(ours, A), torchs, atol=1e-5)


def test_evidence_keeps_its_digits_near_certainty():
    still = Baseline(np.zeros((2, 1), np.float32), np.zeros((2, 1), np.float32))
    sure = Probe(lambda x, kept: np.array([[1.0, 1e-20]]), Series(np.zeros((1, 2, 1))), still, target=[0])
    assert sure.evidence(sure.whole) == pytest.approx(20 * np.log(10))


def test_fills_by_hand():
    x = np.array([[[1.0], [9.0], [9.0], [4.0], [9.0]]])
    kept = np.array([[[True], [False], [False], [True], [False]]])
    background = Series([[[5.0]] * 5, [[7.0]] * 5])

    def hidden(fill, **options):
        return Probe(predict, Series(x, **options), background, fill).hidden(kept)[0, :, 0].tolist()

    assert hidden("mean") == [1, 6, 6, 4, 6]
    assert hidden("zero") == [1, 0, 0, 4, 0]
    assert hidden("sample") == pytest.approx([1, 6.4, 6.4, 4, 6.4])
    assert hidden("local") == [1, 2, 3, 4, 4]  # a line, then level
    assert hidden("local", times=[[1, 3, 4, 7, 8]]) == [1, 2, 2.5, 4, 4]
    assert hidden("shift") == [1, 4, 9, 4, 9]  # the values two steps later: 9, 4, 9, 1, 9
    assert hidden("draw") in ([1, 5, 5, 4, 5], [1, 7, 7, 4, 7])  # one series
    none = Probe(predict, Series(x), background, "local").hidden(np.zeros_like(kept))
    assert none.ravel().tolist() == [6] * 5


def test_a_series_without_evidence_is_the_mean_where_the_fill_is_a_shift():
    np.testing.assert_array_equal(probe("shift").blank, probe("mean").blank)
    np.testing.assert_array_equal(probe("shift").hidden(np.zeros_like(X, dtype=bool)), np.roll(X, -3, axis=1))


def test_noise_has_the_cells_mean_and_deviation():
    background = Baseline(np.array([[3.0], [-2.0]], np.float32), np.array([[2.0], [0.5]], np.float32))
    drawn = Probe(predict, Series(np.zeros((4000, 2, 1))), background, "noise").hidden(np.zeros((4000, 2, 1), bool))
    np.testing.assert_allclose(drawn.mean(0), background.mean, atol=0.15)
    np.testing.assert_allclose(drawn.std(0), background.std, rtol=0.1)


@pytest.mark.parametrize("fill", FILLS)
def test_missing_cells_are_neither_counted_nor_filled(fill):
    seen = np.random.default_rng(1).random(X.shape) < 0.6
    shown = []

    def watched(x, kept):
        shown.append(x)
        return predict(x, kept)

    p = Probe(watched, Series(X, observed=seen), TRAIN, fill)
    for scores in (f.evidence_gap(p, A), f.aopc(p, A), f.cpd(p, A, 0.5)):
        assert np.isfinite(scores).all()
    assert all((x[~seen] == 0).all() for x in shown)
    place, n_seen = p.places(np.where(seen, A, 99))
    assert n_seen.tolist() == seen.sum((1, 2)).tolist()
    assert (place[seen] < np.repeat(n_seen, n_seen)).all()


def test_a_target_changes_the_class_that_counts():
    second = np.argsort(predict(X, None), axis=1)[:, -2]
    p = probe(target=second)
    whole = predict(X, None)[range(N), second]
    np.testing.assert_allclose(f.log_odds(p, A, 1.0), np.log(p.blank[range(N), second]) - np.log(whole), rtol=1e-6)


def test_correlation_is_spearmans():
    a, b = np.round(A, 1), np.round(A + RNG.normal(size=A.shape), 1)  # with ties
    seen = RNG.random(A.shape) < 0.7
    found = rank_correlation(a, b, seen)
    np.testing.assert_allclose(found, [spearmanr(a[i][seen[i]], b[i][seen[i]]).statistic for i in range(N)])
    assert np.isnan(rank_correlation(a, np.zeros_like(a))).all()


def test_disagreement_is_that_of_a_loop():
    maps = [A, RNG.normal(size=A.shape), np.round(RNG.normal(size=A.shape))]
    seen = RNG.random(A.shape) < 0.7
    found = disagreement(maps, seen)
    for i in range(N):
        ranks = [(rankdata(np.abs(m[i][seen[i]])) - 1) / (seen[i].sum() - 1) for m in maps]
        np.testing.assert_allclose(found[i][seen[i]], np.std(ranks, axis=0))
    assert not found[~seen].any()
    assert not disagreement([A, 2 * A]).any()


def test_stability_of_what_follows_the_values_and_of_what_does_not():
    steady = stability(lambda s: np.broadcast_to(np.arange(T)[:, None], s.shape), Series(X), noise=0.5)
    np.testing.assert_allclose(steady, 1)
    small, large = (stability(lambda s: s.x, Series(X), noise=noise).mean() for noise in (0.01, 2.0))
    assert small > 0.98 > large


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: probe("median"), "Expected fill among mean, zero"),
        (lambda: Probe(predict, Series(X), TRAIN.baseline(), "draw"), "Expected training series as background"),
        (lambda: Probe(predict, Series(X), Series(X[:, 1:])), "Expected background of the series' shape"),
        (lambda: f.evidence_gap(probe(), A[:, 1:]), "finite attribution of the shape of x"),
        (lambda: f.evidence_gap(probe(), A.astype("M8[s]")), "Expected attribution as numbers, got dates"),
        (lambda: f.evidence_gap(probe(), A, shares=(0.0,)), "shares above 0"),
        (lambda: f.cpd(probe(), A, 0), "Expected cells as a number of at least 1"),
        (lambda: f.degradation(probe(), A, steps=1), "at least 2 steps"),
        (lambda: f.interpret_time(probe(), -np.abs(A)), "at least one cell with an attribution >= 0"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_evidence_of_numbers_by_hand():
    """Two outputs, 10 x and 100 x, of a series of two steps 1 and 2: units of 100 and 10,000 make them equal."""
    total = Probe(
        predict=lambda x, kept: x.sum(axis=(1, 2))[:, None] * np.array([10.0, 100.0]),
        series=Series([[[1.0], [2.0]]]),
        background=Baseline(np.zeros((2, 1)), np.ones((2, 1))),
        spread=[100.0, 10_000.0],
    )
    np.testing.assert_array_equal(total.evidence(total.blank), [-9])
    first = total.answer(np.array([[[True], [False]]]))  # the model sees 1 and 0, and answers 10 and 100
    np.testing.assert_array_equal(total.evidence(first), [-4])
    np.testing.assert_allclose(total.share(first), [5 / 9])
    np.testing.assert_allclose(total.own(total.whole), [1])
    np.testing.assert_array_equal(total.open, [True])
    two_first = [[[1.0], [2.0]]]
    np.testing.assert_allclose(f.evidence_gap(total, two_first, shares=(0.5,)), [8 / 9 - 5 / 9])
    np.testing.assert_allclose(f.comprehensiveness(total, two_first, shares=(0.5,)), [[1 - 5 / 9]])


def test_numbers_near_those_of_a_blank_series_cannot_change():
    """A tenth of the usual distance counts as near: the root of the spread of 4 is 2."""
    sums = Probe(
        predict=lambda x, kept: x.sum(axis=(1, 2))[:, None],
        series=Series([[[1.0], [-1.0]], [[0.19], [0.0]], [[0.0], [-0.21]], [[5.0], [0.0]]]),
        background=Baseline(np.zeros((2, 1)), np.ones((2, 1))),
        spread=4.0,
    )
    assert sums.open.tolist() == [False, False, True, True]


def test_the_gap_of_numbers_is_that_of_the_torch_version():
    def numbers(x):
        return torch.einsum("ntd,tdc->nc", x, torch.tensor(WEIGHT, dtype=x.dtype))

    spread = 7.0
    p = Probe(lambda x, kept: numbers(torch.tensor(x)).numpy(), Series(X), TRAIN, spread=spread)
    mean = torch.tensor(p.baseline.mean, dtype=torch.float32)
    expected = gap(numbers, torch.tensor(X), torch.tensor(np.abs(A), dtype=torch.float32), mean, spread=spread)
    np.testing.assert_allclose(f.evidence_gap(p, A), expected, rtol=1e-4)


def test_numbers_have_no_target():
    with pytest.raises(ValueError, match="no target= for a model of numbers"):
        probe(spread=1.0, target=0)
