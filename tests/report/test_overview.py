"""The facts of the first tab, by hand."""

import numpy as np
import pytest
from making import make

from timex.report import overview
from timex.report.overview import EMPTY, TRUSTED, UNCHECKED, WEAK


def cells(n, *kept, t=4, d=2):
    """A mask (n, t, d) that keeps the cells (sample, step, channel)."""
    mask = np.zeros((n, t, d), dtype=bool)
    for cell in kept:
        mask[cell] = True
    return mask


class TestTrust:
    def test_an_empty_mask_is_never_trusted(self):
        mask = cells(4, (0, 1, 1), (1, 0, 0))
        e = make(n=4, t=4, d=2, mask=mask, agreement=np.array([True, False, True, False]))
        assert overview.trust_of(e).tolist() == [TRUSTED, WEAK, EMPTY, EMPTY]

    def test_kept_cells_that_were_not_measured_do_not_count(self):
        observed = ~cells(2, (0, 1, 1))
        e = make(n=2, t=4, d=2, mask=cells(2, (0, 1, 1), (1, 1, 1)), observed=observed, agreement=np.array([True, True]))
        assert overview.trust_of(e).tolist() == [EMPTY, TRUSTED]

    def test_without_a_surrogate_only_empty_masks_are_known(self):
        e = make(n=2, t=4, d=2, mask=cells(2, (0, 1, 1)), agreement=None)
        assert overview.trust_of(e).tolist() == [UNCHECKED, EMPTY]
        assert overview.trust_of(make(n=2, t=4, d=2, mask=None, agreement=None)) is None


class TestSummary:
    # 8 explanations: 6 of class 0, so that an empty explanation agrees for .75; agreement must reach .875.
    prediction = np.array([0, 0, 0, 0, 0, 0, 1, 1])

    @pytest.mark.parametrize(("agreeing", "verdict"), [(7, "passed"), (6, "disagrees")])
    def test_agreement_is_compared_with_that_of_empty_explanations(self, agreeing, verdict):
        mask = cells(8, (0, 0, 0))
        e = make(n=8, t=4, d=2, mask=mask, prediction=self.prediction, agreement=np.arange(8) < agreeing)
        facts = overview.summary(e)
        assert (facts["commonest"], facts["agreement"], facts["verdict"]) == (0.75, agreeing / 8, verdict)

    def test_one_class_alone_shows_nothing(self):
        e = make(n=3, t=4, d=2, prediction=np.zeros(3, dtype=int), agreement=np.ones(3, dtype=bool))
        assert overview.summary(e)["verdict"] == "one class"

    @pytest.mark.parametrize(("prior", "verdict"), [(0.2, "keeps most"), (0.3, "passed")])
    def test_agreement_on_most_cells_shows_nothing(self, prior, verdict):
        mask = np.ones((8, 4, 2), dtype=bool)
        mask[:, :3, 0] = False  # .625 kept; (1 + .2) / 2 = .6 and (1 + .3) / 2 = .65
        e = make(n=8, t=4, d=2, mask=mask, prediction=self.prediction, agreement=np.ones(8, dtype=bool))
        assert overview.summary(e, prior)["verdict"] == verdict

    def test_accuracy_is_of_the_model_and_kept_of_the_measured_cells(self):
        probability = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], dtype=np.float32)
        mask, observed = cells(3, (0, 0, 0), (0, 1, 0), (1, 3, 1)), ~cells(3, (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1))
        e = make(
            n=3,
            t=4,
            d=2,
            prediction=np.array([1, 1, 1]),  # a target, not the prediction
            probability=probability,
            y=[0, 1, 1],
            mask=mask,
            observed=observed,
        )
        facts = overview.summary(e)
        assert facts["accuracy"] == pytest.approx(2 / 3)
        assert facts["kept"] == pytest.approx((2 / 8 + 1 / 4 + 0) / 3)

    def test_what_is_unknown_is_none(self):
        facts = overview.summary(make(mask=None, agreement=None))
        assert (facts["accuracy"], facts["agreement"], facts["kept"], facts["verdict"]) == (None, None, None, None)


class TestClasses:
    def test_a_row_per_class(self):
        attribution = np.full((4, 4, 2), 0.25, dtype=np.float32)
        mask = cells(4, (0, 0, 0), (0, 1, 1), (2, 2, 1))
        attribution[mask] = [0.9, 0.6, 0.6]
        e = make(
            n=4,
            t=4,
            d=2,
            prediction=np.array([0, 1, 0, 1]),
            probability=np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32),
            attribution=attribution,
            mask=mask,
            agreement=np.array([True, False, False, False]),
            y=[0, 0, 0, 1],
        )
        points = np.eye(4)
        first, second = overview.class_rows(e, np.arange(4), points)
        assert (first["class"], first["samples"], first["accuracy"], first["agreement"]) == (0, 2, 1.0, 0.5)
        assert first["kept"] == pytest.approx((2 / 8 + 1 / 8) / 2)
        np.testing.assert_allclose(first["channels"], [0.9 / 2.1, 1.2 / 2.1], rtol=1e-6)
        assert (second["class"], second["accuracy"], second["agreement"], second["kept"]) == (1, 0.5, 0.0, 0.0)
        np.testing.assert_allclose(second["channels"], [0.5, 0.5])  # nothing kept: all cells count

    def test_the_exemplar_is_the_trusted_member_nearest_to_the_mean(self):
        e = make(
            n=5,
            t=4,
            d=2,
            prediction=np.array([0, 0, 0, 0, 1]),
            mask=np.ones((5, 4, 2), dtype=bool),
            agreement=np.array([True, False, True, True, True]),
        )
        angle = np.radians([0, 25, 20, 60, 200])
        points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        rows = overview.class_rows(e, np.arange(5), points)
        assert [row["exemplar"] for row in rows] == [2, 4]  # mean direction of 0, 20 and 60 degrees: about 26
        # of the samples embedded, which the places count
        assert [row["exemplar"] for row in overview.class_rows(e, np.array([1, 3]), points[[1, 3]])] == [1, None]
