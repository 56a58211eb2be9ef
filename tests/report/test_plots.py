import dataclasses

import matplotlib
import numpy as np
import pandas as pd
import pytest
from making import Z, make_landmarks
from making import make as make_any
from matplotlib._pylab_helpers import Gcf
from matplotlib.collections import PolyCollection, QuadMesh

from timex.report import plots, style
from timex.report.plots.sample import Sample

N, T, D = 5, 12, 3


def make(**changes):
    return make_any(**({"n": N, "t": T, "d": D} | changes))


def bands(figure):
    """The coloured meshes, colourbars (whose axes carry this label) left out."""
    return [c for ax in figure.axes if ax.get_label() != "<colorbar>" for c in ax.collections if isinstance(c, QuadMesh)]


def spans(ax, label):
    """The (left, right) ends of the rectangles drawn under `label`."""
    (found,) = [c for c in ax.collections if isinstance(c, PolyCollection) and c.get_label() == label]
    return [tuple(path.get_extents().intervalx) for path in found.get_paths()]


def words(figure):
    return " | ".join(t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text())


def legend(figure):
    return [t.get_text() for t in figure.legends[0].get_texts()]


@pytest.fixture(autouse=True)
def global_state_stays():
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    assert not Gcf.get_all_fig_managers()  # what pyplot would have opened


class TestExplanation:
    def test_one_row_a_channel_coloured_by_its_attribution(self):
        e = make()
        figure = plots.plot_explanation(e, 3)
        *rows, bar = figure.axes
        assert [ax.get_ylabel() for ax in rows] == ["sensor 0", "sensor 1", "sensor 2"]
        assert bar.get_ylabel() == "attribution"
        for k, (ax, mesh) in enumerate(zip(rows, bands(figure), strict=True)):
            np.testing.assert_allclose(mesh.get_array().ravel(), e.attribution[3, :, k])
            assert mesh.get_clim() == (0, 1)
            np.testing.assert_allclose(ax.lines[0].get_xydata(), np.stack([np.arange(1, T + 1), e.x[3, :, k]], axis=1))

    def test_the_method_plot_draws_the_same(self):
        e = make()
        np.testing.assert_array_equal(bands(e.plot(2))[1].get_array().ravel(), e.attribution[2, :, 1])

    def test_the_band_is_behind_the_whole_height_and_the_series_between_the_strips(self):
        figure = plots.plot_explanation(make(truth=np.ones((N, T, D), dtype=bool)), 0)
        figure.draw_without_rendering()
        ax = figure.axes[0]
        height = ax.transAxes.inverted().transform(ax.transData.transform(ax.lines[0].get_xydata()))[:, 1]
        strips = [c for c in ax.collections if c.get_label() in ("mask (kept cells)", "ground truth")]
        mask, truth = (c.get_paths()[0].get_extents().intervaly for c in strips)
        assert 0 < mask[0] < mask[1] < height.min() < height.max() < truth[0] < truth[1] < 1
        assert bands(figure)[0].get_coordinates()[..., 1].min() == 0
        assert bands(figure)[0].get_coordinates()[..., 1].max() == 1

    def test_mask_and_truth_strips_span_their_runs(self):
        mask = np.zeros((N, T, D), dtype=bool)
        mask[1, [2, 3, 4, 8], 2] = True
        truth = np.zeros((N, T, D), dtype=bool)
        truth[1, 0:2, 0] = True
        figure = plots.plot_explanation(make(mask=mask, truth=truth), 1)
        assert spans(figure.axes[2], "mask (kept cells)") == [(2.5, 5.5), (8.5, 9.5)]
        assert spans(figure.axes[0], "mask (kept cells)") == []
        assert spans(figure.axes[0], "ground truth") == [(0.5, 2.5)]
        assert legend(figure) == ["series", "mask (kept cells)", "ground truth"]

    def test_no_mask_and_no_truth_leave_no_strip(self):
        assert legend(plots.plot_explanation(make(mask=None))) == ["series"]

    @pytest.mark.parametrize(
        ("i", "expected"),
        [
            (0, ["Sample bed 0, predicted: calm (0.90), true: storm", "surrogate agrees", "JS divergence 0.000", "landmark 0"]),
            (
                1,
                ["Sample bed 1, predicted: storm", "surrogate disagrees: treat with care", "JS divergence 0.100", "landmark 1"],
            ),
        ],
    )
    def test_title_says_what_was_predicted_and_how_far_to_trust_it(self, i, expected):
        text = words(plots.plot_explanation(make(ids=[f"bed {j}" for j in range(N)], y=np.ones(N, dtype=int)), i))
        assert all(part in text for part in expected)

    def test_a_target_that_was_not_predicted_is_told_apart(self):
        text = words(plots.plot_explanation(make(prediction=np.ones(N, dtype=np.int64), classes=()), 0))
        assert "explained: class 1 (0.10), predicted: class 0 (0.90)" in text
        text = words(plots.plot_explanation(make(contrast=np.ones(N, dtype=np.int64), classes=()), 0))
        assert "predicted: class 0 (0.90), contrast: class 1" in text

    def test_methods_without_a_surrogate_make_no_claim(self):
        text = words(plots.plot_explanation(make(method="ig", agreement=None, divergence=None, landmark=None)))
        assert not any(word in text for word in ("surrogate", "divergence", "landmark"))

    def test_signed_attributions_are_centred_at_zero(self):
        attribution = np.full((N, T, D), -0.2, dtype=np.float32)
        attribution[0, 3, 1] = 0.05
        (mesh, *_) = bands(plots.plot_explanation(make(attribution=attribution, signed=True, method="ig")))
        assert mesh.get_clim() == pytest.approx((-0.2, 0.2))
        assert mesh.get_cmap() is plots.DIVERGING

    @pytest.mark.parametrize(("scale", "limits"), [(7.0, (0, 7)), (0.0, (0, 1))])
    def test_other_methods_have_the_scale_of_their_values(self, scale, limits):
        attribution = np.zeros((N, T, D), dtype=np.float32)
        attribution[0, 0, 0] = scale
        assert bands(plots.plot_explanation(make(attribution=attribution, method="winit")))[0].get_clim() == limits

    def test_channels_beyond_the_limit_are_left_out_and_that_is_said(self):
        e = make(d=20)
        weak = [0, 4, 9, 13]
        attribution = e.attribution.copy()
        attribution[..., weak] = 0.01
        figure = plots.plot_explanation(dataclasses.replace(e, attribution=attribution))
        assert len(figure.axes) == 16 + 1
        assert [ax.get_ylabel() for ax in figure.axes[:-1]] == [f"sensor {k}" for k in range(20) if k not in weak]
        assert "16 of 20 channels: those with the largest total attribution" in words(figure)

    def test_bad_requests_are_refused(self):
        with pytest.raises(ValueError, match=r"sample index 0\.\.4, got 5\."):
            plots.plot_explanation(make(), 5)
        with pytest.raises(ValueError, match=r"sample index 0\.\.4, got -1\."):
            plots.plot_explanation(make(), -1)


class TestTime:
    def test_unobserved_cells_are_gaps_and_a_lone_step_is_a_dot(self):
        observed = np.ones((N, T, D), dtype=bool)
        observed[0, [3, 5, 6], 1] = False
        figure = plots.plot_explanation(make(observed=observed))
        line, mesh = figure.axes[1].lines[0], bands(figure)[1]
        assert np.flatnonzero(np.isnan(line.get_ydata())).tolist() == [3, 5, 6]
        assert np.flatnonzero(np.ma.getmaskarray(mesh.get_array()).ravel()).tolist() == [3, 5, 6]
        assert line.get_markevery() == [4]
        assert not np.isnan(figure.axes[0].lines[0].get_ydata()).any()
        assert "not observed" in legend(figure)

    def test_padding_is_left_out_and_gaps_inside_stay(self):
        observed = np.ones((N, T, D), dtype=bool)
        observed[0, [4, 10, 11]] = False
        times = np.tile(np.linspace(2.0, 13.0, T, dtype=np.float32) ** 2, (N, 1))
        times[0, 10:] = 0
        figure = plots.plot_explanation(make(observed=observed, times=times))
        line = figure.axes[0].lines[0]
        np.testing.assert_allclose(line.get_xdata(), np.arange(2, 12) ** 2)
        assert np.flatnonzero(np.isnan(line.get_ydata())).tolist() == [4]
        assert figure.axes[D - 1].get_xlabel() == "time"

    def test_cells_reach_half_way_to_their_neighbours(self):
        times = np.tile(np.array([0, 1, 4, 10], dtype=np.float32), (N, 1))
        (mesh,) = bands(plots.plot_explanation(make(t=4, d=1, times=times)))
        np.testing.assert_allclose(mesh.get_coordinates()[0, :, 0], [-0.5, 0.5, 2.5, 7.0, 13.0])

    def test_times_one_to_t_are_steps(self):
        steps = np.tile(np.arange(1, T + 1, dtype=np.float32), (N, 1))
        assert plots.plot_explanation(make(times=steps)).axes[D - 1].get_xlabel() == "step"
        assert plots.plot_explanation(make(sampling_rate=360.0)).axes[D - 1].get_xlabel() == "time in ms (360 steps per second)"

    @pytest.mark.parametrize(
        ("steps", "rate", "label", "last"),
        [
            (100, 1.0, "time in s (one step = 1 s)", 99),
            (100, 1 / 60, "time in min (one step = 1 min)", 99),
            (96, 1 / 3600, "time in h (one step = 1 h)", 95),
            (96, 1 / 900, "time in h (one step = 15 min)", 23.75),
            (100, 1 / 86_400, "time in days (one step = 1 day)", 99),
            (100, 1 / 172_800, "time in days (one step = 2 days)", 198),
        ],
    )
    def test_slow_sampling_is_an_interval_in_hours_or_days(self, steps, rate, label, last):
        drawn = Sample.of(make(t=steps, d=1, sampling_rate=rate), 0)
        assert drawn.clock.label == label
        assert drawn.times[[0, -1]].tolist() == pytest.approx([0, last])

    @pytest.mark.parametrize("n_seen", [0, 1])
    def test_hardly_anything_observed_still_draws(self, n_seen):
        observed = np.zeros((N, T, D), dtype=bool)
        observed[:, :n_seen] = True
        plots.plot_explanation(make(observed=observed)).draw_without_rendering()


class TestComparison:
    def test_a_row_a_method_on_scales_that_can_be_compared(self):
        truth = np.zeros((N, T, D), dtype=bool)
        truth[4, 5:7, 1] = True
        a, b = make(truth=truth), make(attribution=make().attribution[::-1] * 40 - 3, signed=True)
        figure = plots.plot_comparison({"TimeX": a, "IG": b}, [4, 0])
        assert len(figure.axes) == 3 * 2 + 2
        assert [figure.axes[i].get_ylabel() for i in (0, 2, 4)] == ["series", "TimeX", "IG"]
        assert [ax.get_ylabel() for ax in figure.axes[-2:]] == ["attribution,\nrelative"] * 2
        assert [ax.get_title() for ax in figure.axes[:2]] == ["sample 4: calm", "sample 0: calm"]
        for row, e in enumerate((a, b)):
            for column, i in enumerate((4, 0)):
                mesh = bands(figure)[2 + 2 * row + column]
                values = e.attribution[i].T
                expected = values / np.abs(values).max() if e.signed else (values - values.min()) / np.ptp(values)
                np.testing.assert_allclose(mesh.get_array(), expected, atol=1e-6)
                assert mesh.get_clim() == ((-1, 1) if e.signed else (0, 1))
        assert not bands(figure)[0].get_array().any()
        shaded = [c for c in figure.axes[0].collections if c.get_label() == "ground truth"]
        assert [len(c.get_paths()) for c in shaded] == [0, 1, 0]
        box = shaded[1].get_paths()[0].get_extents()
        assert (*box.intervalx, *box.intervaly) == (5.5, 7.5, 1, 2)

    def test_a_constant_attribution_is_blank(self):
        figure = plots.plot_comparison({"flat": make(attribution=np.full((N, T, D), 0.7, dtype=np.float32))}, [1])
        assert not bands(figure)[1].get_array().any()

    def test_bad_requests_are_refused(self):
        e = make()
        with pytest.raises(ValueError, match="at least one method, got none"):
            plots.plot_comparison({}, [0])
        with pytest.raises(ValueError, match="at least one sample index, got none"):
            plots.plot_comparison({"a": e}, [])
        with pytest.raises(ValueError, match=r"sample index 0\.\.4, got 9"):
            plots.plot_comparison({"a": e}, [0, 9])
        with pytest.raises(ValueError, match=r"same samples, got x of \(5, 12, 3\) in a, \(4, 12, 3\) in b"):
            plots.plot_comparison({"a": e, "b": make(n=4)}, [0])
        with pytest.raises(ValueError, match="different series at 2 in a and in b"):
            plots.plot_comparison({"a": e, "b": make(x=e.x + (np.arange(N) == 2)[:, None, None])}, [0, 2])


class TestHistory:
    history = pd.DataFrame(
        {
            "epoch": [1, 2, 3, 4],
            "loss": [4.0, 3.0, 2.0, 1.5],
            "mbc": [1.0, 0.5, 0.25, 0.125],
            "criterion": [1.0, 0.4, np.nan, 0.6],
            "val_agreement": [0.5, 0.7, 0.8, 0.9],
            "seconds": [1.0, 1.0, 1.0, 1.0],
            "selected": [False, True, False, False],
        }
    )

    def test_terms_that_are_there_with_the_selected_epoch_marked(self):
        figure = plots.plot_history(self.history)
        assert [ax.get_title(loc="left") for ax in figure.axes] == ["training", "validation", "validation, shares"]
        curves = [{line.get_label(): line for line in ax.lines} for ax in figure.axes]
        assert [list(c) for c in curves] == [
            ["total loss", "behaviour consistency (mbc)", "selected: epoch 2"],
            ["criterion", "selected: epoch 2"],
            ["surrogate agrees", "selected: epoch 2"],
        ]
        assert curves[0]["behaviour consistency (mbc)"].get_ydata().tolist() == [1.0, 0.5, 0.25, 0.125]
        assert curves[1]["criterion"].get_xydata().tolist() == [[1, 1.0], [2, 0.4], [4, 0.6]]
        assert [list(c["selected: epoch 2"].get_xdata()) for c in curves] == [[2, 2]] * 3
        assert [ax.get_yscale() for ax in figure.axes] == ["log", "linear", "linear"]

    def test_bad_histories_are_refused(self):
        with pytest.raises(ValueError, match="at least one epoch, got an empty one"):
            plots.plot_history(self.history[:0])
        with pytest.raises(ValueError, match=r"columns among \['loss', .*\], got \['epoch', 'seconds'\]"):
            plots.plot_history(self.history[["epoch", "seconds"]])


class TestLandmarks:
    def test_top_landmarks_with_the_nearest_explanations(self):
        embedding = np.array([[1, 0], [0, 2], [3, 0.3], [0.1, 1], [-1, -1]], dtype=np.float32)
        e = make(embedding=embedding)
        landmarks = make_landmarks([0, 12, 30], vectors=[[-1, -1], [0, 9], [5, 0]])
        figure = plots.plot_landmarks(e, landmarks, n=2, n_nearest=2)
        overview, *panels, _ = figure.axes
        assert [t.get_text() for t in overview.texts] == ["2", "1"]
        assert [ax.get_title().split(":")[0] for ax in panels] == ["sample 0", "sample 2", "sample 1", "sample 3"]
        assert [panels[i].get_ylabel().split("\n") for i in (0, 2)] == [
            ["landmark 2", "30 training samples", "100% calm"],
            ["landmark 1", "12 training samples", "100% calm"],
        ]
        for mesh, i in zip(bands(figure), (0, 2, 1, 3), strict=True):
            np.testing.assert_allclose(mesh.get_array(), e.attribution[i].T)
        assert legend(figure) == ["calm", "storm", "landmark"]

    def test_every_class_has_its_turn(self):
        landmarks = make_landmarks([30, 20, 10, 0, 5])
        composition = np.array([[30, 0], [18, 2], [1, 9], [0, 0], [0, 5]])
        figure = plots.plot_landmarks(make(), dataclasses.replace(landmarks, composition=composition), n=5, n_nearest=1)
        assert [t.get_text() for t in figure.axes[0].texts] == ["0", "2", "1", "4", "3"]

    def test_the_map_keeps_all_distances_of_a_plane(self):
        """Two dimensions into two components is a rotation, so distances between directions must survive."""
        angle = np.array([0.1, 0.9, 2.0, 3.5, 5.0])
        e = make(embedding=np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32) * 3)
        figure = plots.plot_landmarks(e, make_landmarks([3], vectors=[[0, 1]]), n_nearest=1)
        clouds = {c.get_label(): c.get_offsets() for c in figure.axes[0].collections}
        drawn = np.empty((N, 2))
        drawn[0::2], drawn[1::2] = clouds["calm"], clouds["storm"]
        expected = 2 * np.abs(np.sin((angle[:, None] - angle[None]) / 2))
        np.testing.assert_allclose(np.linalg.norm(drawn[:, None] - drawn[None], axis=2), expected, atol=1e-6)
        to_star = np.linalg.norm(drawn - clouds["landmark"], axis=1)
        np.testing.assert_allclose(to_star, 2 * np.abs(np.sin((angle - np.pi / 2) / 2)), atol=1e-6)

    def test_fewer_than_asked_for_are_drawn(self):
        figure = plots.plot_landmarks(make(n=1), make_landmarks([4, 0]), n=9, n_nearest=9)
        assert len(figure.axes) == 1 + 2 * 1 + 1
        assert "landmark 1\nunused" in words(figure)
        figure.draw_without_rendering()

    def test_bad_requests_are_refused(self):
        landmarks = make_landmarks([2, 1])
        with pytest.raises(ValueError, match="with an embedding, got none from method 'ig'"):
            plots.plot_landmarks(make(embedding=None, method="ig"), landmarks)
        with pytest.raises(ValueError, match="as wide as the landmarks, 4, got 7"):
            plots.plot_landmarks(make(embedding=np.ones((N, 7), dtype=np.float32)), landmarks)
        with pytest.raises(ValueError, match="at least one landmark, got none"):
            plots.plot_landmarks(make(), make_landmarks(np.zeros(0, dtype=np.int64), vectors=np.zeros((0, Z))))
        with pytest.raises(ValueError, match="n >= 1 and n_nearest >= 1, got n=0"):
            plots.plot_landmarks(make(), landmarks, n=0)


class TestCurves:
    def test_a_curve_per_name_in_the_order_of_x(self):
        figure = plots.plot_curves(
            {"timex": {0.9: 0.7, 0.75: 0.9}, "ig": {0.75: 0.6}},
            errors={"timex": {0.9: 0.1, 0.75: 0.2}},
            across="share hidden",
            up="AUROC",
        )
        (ax,) = figure.axes
        curves = {c.get_label(): c for c in ax.containers}
        assert curves["timex"].lines[0].get_xydata().tolist() == [[0.75, 0.9], [0.9, 0.7]]
        bars = [np.ptp(path.vertices[:, 1]) / 2 for path in curves["timex"].lines[2][0].get_paths()]
        np.testing.assert_allclose(bars, [0.2, 0.1])
        assert curves["ig"].lines[2] == ()
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("share hidden", "AUROC")
        assert [t.get_text() for t in ax.get_legend().get_texts()] == ["timex", "ig"]

    @pytest.mark.parametrize("curves", [{}, {"timex": {}}])
    def test_curves_without_points_are_refused(self, curves):
        with pytest.raises(ValueError, match="curves with at least one point each"):
            plots.plot_curves(curves, across="r", up="score")


def test_figures_and_the_page_share_their_colours():
    assert plots.DIVERGING(0.0)[:3] == matplotlib.colors.to_rgb(style.DIVERGING[0])
    assert plots.SEQUENTIAL(1.0)[:3] == matplotlib.colors.to_rgb(style.SEQUENTIAL[-1])


class TestSave:
    @pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
    def test_format_follows_the_suffix(self, tmp_path, suffix, start):
        path = tmp_path / "new" / "folder" / f"figure{suffix}"
        assert plots.save(plots.plot_explanation(make()), path) == path
        assert path.read_bytes().startswith(start)
        assert list(path.parent.iterdir()) == [path]

    def test_a_failure_leaves_the_old_file_and_nothing_else(self, tmp_path, monkeypatch):
        path = tmp_path / "figure.png"
        path.write_bytes(b"old")
        figure = plots.plot_history(TestHistory.history)

        def fail(beside, **_):
            beside.write_bytes(b"half")
            raise OSError("disk full")

        monkeypatch.setattr(figure, "savefig", fail)
        with pytest.raises(OSError, match="disk full"):
            plots.save(figure, path)
        assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("figure.png", b"old")]

    @pytest.mark.parametrize("name", ["figure", "figure.docx"])
    def test_unknown_formats_are_refused(self, tmp_path, name):
        with pytest.raises(ValueError, match=rf"ends in one of pdf, png, svg, got '{name}'"):
            plots.save(plots.plot_explanation(make()), tmp_path / name)
        assert not list(tmp_path.iterdir())
