import numpy as np
import pytest
import torch
from slow_reference import scores_by_loop

from timex.metrics import ground_truth, ground_truth_scores, score_summary

N, T, D = 7, 13, 3
NAMES = {"auprc", "auprc_trapezoid", "aup", "aur", "iou", "aup_rank", "aur_rank"}


def draw(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, kind)))
    attribution = rng.normal(size=(N, T, D)).astype(np.float32)
    truth = rng.random((N, T, D)) < 0.2
    truth[:, 0, 0] = True
    if kind == "tied":
        attribution = rng.integers(0, 4, (N, T, D)).astype(np.float32)
    elif kind == "binary":
        attribution = (attribution > 0.5).astype(np.float32)
    elif kind == "constant":
        attribution[:] = 0.3
    elif kind == "constant in some":
        attribution[2] = -1.0
    elif kind == "all salient":
        truth[:] = True
    elif kind == "none salient":
        truth[:] = False
    elif kind == "some without salient":
        truth[[1, 4]] = False
    return attribution, truth


KINDS = [
    "random",
    "tied",
    "binary",
    "constant",
    "constant in some",
    "all salient",
    "none salient",
    "some without salient",
]


@pytest.mark.parametrize("with_observed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_scikit_learn_sample_by_sample(kind: str, with_observed: bool) -> None:
    attribution, truth = draw(kind)
    observed = np.random.default_rng(1).random((N, T, D)) < 0.7 if with_observed else None
    got, expected = ground_truth_scores(attribution, truth, observed), scores_by_loop(attribution, truth, observed)
    assert set(got) == NAMES
    for name in NAMES:
        np.testing.assert_allclose(got[name], expected[name], rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("length", range(1, 45))
def test_quantile_of_iou_is_that_of_numpy_at_every_length(length: int) -> None:
    rng = np.random.default_rng(length)
    attribution = rng.integers(0, 2 * length, (5, length, 1)).astype(float)
    truth = rng.random((5, length, 1)) < 0.5
    expected = scores_by_loop(attribution, truth)["iou"]
    np.testing.assert_array_equal(ground_truth_scores(attribution, truth)["iou"], expected)


def test_by_hand() -> None:
    # Normalised 1, 2/3, 1/3, 0; as thresholds they give precision 1, 1/2, 2/3, 1/2 and recall 1/2, 1/2, 1, 1.
    attribution = np.array([8.0, 6.0, 4.0, 2.0]).reshape(1, 2, 2)
    truth = np.array([1, 0, 1, 0]).reshape(1, 2, 2)
    scores = {name: value.item() for name, value in ground_truth_scores(attribution, truth).items()}
    aup = (1 / 3) * ((1 + 1 / 2) / 2 + (1 / 2 + 2 / 3) / 2 + (2 / 3 + 1 / 2) / 2)
    aur = (1 / 3) * (1 / 2 + (1 / 2 + 1) / 2 + 1)
    assert scores == pytest.approx(
        {
            "auprc": 1 / 2 * 1 + 1 / 2 * 2 / 3,
            "auprc_trapezoid": 1 / 2 * 1 + 1 / 2 * (1 / 2 + 2 / 3) / 2,
            "aup": aup,
            "aur": aur,
            "iou": 1 / 2,  # the .9 quantile keeps one cell of four; the truth has two
            "aup_rank": aup,  # scores in equal steps are their own ranks
            "aur_rank": aur,
        }
    )


def test_ties_by_hand() -> None:
    # Two thresholds: 1 keeps the two tied cells (one salient), 0 keeps all four (two salient), in whatever order.
    for truth in ([1, 0, 0, 1], [0, 1, 1, 0]):
        scores = ground_truth_scores(np.array([[[5.0], [5.0], [1.0], [1.0]]]), np.array(truth).reshape(1, 4, 1))
        assert {name: value.item() for name, value in scores.items()} == pytest.approx(
            {
                "auprc": 0.5,
                "auprc_trapezoid": 0.5 * (1 + 0.5) / 2 + 0.5 * 0.5,
                "aup": 0.5,
                "aur": 0.75,
                "iou": 1 / 3,
                "aup_rank": 0.5,
                "aur_rank": 0.75,
            }
        )


def test_undefined_cases() -> None:
    flat = np.full((1, 2, 5), 0.7)
    truth = np.zeros((1, 2, 5), dtype=bool)
    assert all(np.isnan(value).all() for value in ground_truth_scores(flat, truth).values())
    truth[0, 0, :3] = True
    constant = {name: value.item() for name, value in ground_truth_scores(flat, truth).items()}
    assert constant["auprc"] == pytest.approx(0.3)
    assert constant["iou"] == pytest.approx(0.3)
    assert [constant[name] for name in ("aup", "aur", "aup_rank", "aur_rank")] == [0.0] * 4
    salient = ground_truth_scores(np.arange(10.0).reshape(1, 2, 5), np.ones((1, 2, 5), dtype=bool))
    assert [salient[name].item() for name in ("auprc", "auprc_trapezoid", "aup", "aup_rank")] == pytest.approx([1.0] * 4)
    nothing_seen = ground_truth_scores(flat, truth, np.zeros((1, 2), dtype=bool))
    assert all(np.isnan(value).all() for value in nothing_seen.values())
    assert all(value.shape == (0,) for value in ground_truth_scores(flat[:0], truth[:0]).values())


def test_rank_scores_ignore_a_monotone_rescaling_and_the_others_do_not() -> None:
    attribution, truth = draw("tied")
    before, after = ground_truth_scores(attribution, truth), ground_truth_scores(np.exp(3 * attribution), truth)
    for name in NAMES - {"aup", "aur"}:
        np.testing.assert_allclose(after[name], before[name], atol=1e-12, err_msg=name)
    assert np.abs(after["aur"] - before["aur"]).min() > 0.05


def test_unobserved_cells_take_no_part() -> None:
    attribution, truth = draw("random")
    steps = np.ones((N, T), dtype=bool)
    steps[:, 9:] = False
    expected = ground_truth_scores(attribution[:, :9], truth[:, :9])
    attribution[:, 9:] = np.nan
    truth[:, 9:] = True
    for observed in (steps, np.repeat(steps[:, :, None], D, axis=2)):
        got = ground_truth_scores(attribution, truth, observed)
        for name in NAMES:
            np.testing.assert_allclose(got[name], expected[name], atol=1e-12, err_msg=name)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    attribution, truth = draw("tied")
    whole = ground_truth_scores(attribution, truth)
    for cells in (1, 3 * T * D):  # one sample at a time; three, three and one
        monkeypatch.setattr(ground_truth, "CHUNK_CELLS", cells)
        for name, value in ground_truth_scores(attribution, truth).items():
            np.testing.assert_array_equal(value, whole[name])


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def test_tensors_read_only_and_reversed_arrays(device: str) -> None:
    attribution, truth = draw("random")
    expected = ground_truth_scores(attribution, truth)
    attribution.flags.writeable = False
    tensor = torch.tensor(attribution, device=device, requires_grad=True)
    for scores in (
        ground_truth_scores(tensor, torch.tensor(truth, dtype=torch.float32)),
        ground_truth_scores(attribution, truth),
        ground_truth_scores(attribution[:, ::-1], truth[:, ::-1]),
    ):
        for name in NAMES:
            np.testing.assert_allclose(scores[name], expected[name], atol=1e-12)


def test_input_is_left_as_it_was() -> None:
    attribution, truth = draw("random")
    tensor = torch.tensor(attribution, dtype=torch.float64)  # needs no conversion, so nothing copies it on the way
    before = tensor.clone()
    ground_truth_scores(tensor, truth, np.arange(T) % 2 == np.zeros((N, 1)))
    assert torch.equal(tensor, before)


def test_errors_say_what_came() -> None:
    attribution, truth = draw("random")
    with pytest.raises(ValueError, match=r"shape \(N, T, D\) with at least one cell, got \(7, 13\)"):
        ground_truth_scores(attribution[..., 0], truth[..., 0])
    with pytest.raises(ValueError, match=r"truth of the shape of attribution, \(7, 13, 3\), got \(7, 12, 3\)"):
        ground_truth_scores(attribution, truth[:, 1:])
    with pytest.raises(ValueError, match=r"observed of shape \(7, 13, 3\) or \(7, 13\), got \(7, 3\)"):
        ground_truth_scores(attribution, truth, truth[:, 0])
    with pytest.raises(ValueError, match="Expected attribution as numbers, got complex"):
        ground_truth_scores(torch.as_tensor(attribution) * 1j, truth)
    with pytest.raises(ValueError, match="Expected truth as numbers, got texts"):
        ground_truth_scores(attribution, truth.astype(str))
    with pytest.raises(ValueError, match=r"truth of 0 and 1, got 2 in sample 0"):
        ground_truth_scores(attribution, truth * 2)
    attribution[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"finite attributions, got nan in sample 5 \(3 such cells there\)"):
        ground_truth_scores(attribution, truth)


def test_error_names_the_sample_in_a_later_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground_truth, "CHUNK_CELLS", 2 * T * D)
    attribution, truth = draw("random")
    attribution[5, 2, 1] = np.inf
    with pytest.raises(ValueError, match="got inf in sample 5"):
        ground_truth_scores(attribution, truth)


def test_summary_by_hand() -> None:
    nan = float("nan")
    scores = {"auprc": np.array([0.2, 0.4, nan, 0.9, 0.9, 0.6]), "iou": np.array([nan, nan, nan, nan, nan, 0.5])}
    summary = score_summary(scores, fold=[0, 0, 0, 1, 1, 1])
    # Mean 3/5 = .6, deviations -.4, -.2, .3, .3, 0: variance .38 / 4. Fold means .3 and .8: half their distance is .25.
    assert summary["auprc"] == pytest.approx(
        {"mean": 0.6, "se_samples": np.sqrt(0.095 / 5), "samples": 5, "se_folds": 0.25, "folds": 2}
    )
    assert summary["iou"] == pytest.approx(
        {"mean": 0.5, "se_samples": nan, "samples": 1, "se_folds": nan, "folds": 1}, nan_ok=True
    )
    assert set(score_summary(scores)["auprc"]) == {"mean", "se_samples", "samples"}


def test_summary_of_nothing_defined_and_of_wrong_folds() -> None:
    assert np.isnan(score_summary({"aup": [float("nan")]}, fold=[0])["aup"]["mean"])
    with pytest.raises(ValueError, match=r"one fold per sample, shape \(3,\) as 'aup', got \(2,\)"):
        score_summary({"aup": [0.1, 0.2, 0.3]}, fold=[0, 1])
