"""What goes into the page. How it looks and answers is in test_browser.py."""

import base64
import dataclasses
import hashlib
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from making import Z, make, make_landmarks
from reading import tags_of, unpack

from timex.report import embed, page, places
from timex.report.page import write_report
from timex.report.spans import important_spans

N, T, D = 9, 14, 3
EVIL = "<img src=x onerror=alert(1)>"


def write(tmp_path, explanations, **rest):
    return unpack(write_report(tmp_path / "report.html", explanations, projection="pca", **rest))


class TestWhatIsPacked:
    def test_values_attributions_masks_and_truth_come_back(self, tmp_path):
        truth = np.random.default_rng(1).random((N, T, D)) < 0.2
        e = make(truth=truth, y=np.zeros(N, dtype=int))
        e = dataclasses.replace(e, direction=np.where(np.random.default_rng(2).random((N, T, D)) < 0.3, -1, 1).astype(np.int8))
        ig = make(attribution=make().x - 3, signed=True, mask=None, method="ig")
        meta, out = write(tmp_path, {"timex": e, "ig": ig})

        def lanes(a):
            return a.transpose(0, 2, 1)

        span = np.ptp(e.x, axis=1)[:, :, None]
        assert (np.abs(out["low"] - lanes(e.x)) <= 0.51 * span / embed.FINE + 1e-6).all()
        np.testing.assert_allclose(out["attribution-0"], lanes(e.attribution), atol=0.51 / embed.LEVELS)
        top = np.abs(ig.attribution).max(axis=(1, 2))[:, None, None]
        assert (np.abs(out["attribution-1"] - lanes(ig.attribution)) <= 1.02 * top / embed.LEVELS).all()
        np.testing.assert_array_equal(out["mask-0"], lanes(e.mask))
        np.testing.assert_array_equal(out["against-0"], lanes(e.direction * e.attribution < 0))
        assert [m["directed"] for m in meta["methods"]] == [True, False]
        np.testing.assert_array_equal(out["truth"], lanes(truth))
        assert [m["mask"] for m in meta["methods"]] == [True, False]
        assert out["label"].tolist() == [0] * N
        assert out["correct"].tolist() == [1 - i % 2 for i in range(N)]
        assert (meta["steps"], meta["width"], meta["times"], meta["clock"]["label"]) == (T, 1, list(range(1, T + 1)), "step")

    def test_spans_are_those_of_the_terminal(self, tmp_path):
        mask = np.zeros((N, T, D), dtype=bool)
        for r in range(7):  # more runs than are listed
            mask[4, 2 * r, 1] = True
        e = make(mask=mask, times=np.tile(np.arange(T) * 0.5, (N, 1)))
        _, out = write(tmp_path, e)
        assert out["span-count-0"].tolist() == [len(important_spans(e, i, n=T * D)) for i in range(N)]
        assert out["span-count-0"][4] == 7
        ends = out["span-ends-0"].reshape(N, embed.SPANS, 2)
        channel = out["span-channel-0"].reshape(N, embed.SPANS)
        for i in range(N):
            spans = important_spans(e, i, n=embed.SPANS)
            assert [(e.channels[k], *pair) for k, pair in zip(channel[i], ends[i].tolist(), strict=True)][: len(spans)] == [
                (s.channel, s.start, s.end) for s in spans
            ]

    def test_the_time_axis_names_the_sampling_rate(self, tmp_path):
        meta, _ = write(tmp_path, make(sampling_rate=360.0, units=["mV"] * D))
        assert meta["clock"] == {
            "label": "time in ms (360 steps per second)",
            "unit": "ms",
            "factor": pytest.approx(1 / 0.36),
            "origin": 1.0,
        }
        assert meta["channels"][0] == "sensor 0 [mV]"

    def test_trust_and_kept_share_of_every_sample(self, tmp_path):
        mask = np.zeros((N, T, D), dtype=bool)
        mask[1:, 0, :] = True
        meta, out = write(tmp_path, make(mask=mask))
        assert out["trust"].tolist() == [0, 1, 2, 2, 1, 2, 2, 1, 2]
        np.testing.assert_allclose(out["kept"], [0] + [1 / T] * (N - 1), rtol=1e-6)
        assert [m["probability"] for m in meta["methods"]] == [True]
        assert "trust" not in write(tmp_path, make(mask=None, agreement=None))[1]

    def test_a_signed_zero_stays_zero(self, tmp_path):
        attribution = np.zeros((N, T, D), dtype=np.float32)
        attribution[:, 0, 0] = -3.7
        _, out = write(tmp_path, make(attribution=attribution, signed=True, method="ig"))
        assert (out["attribution-0"][:, :, 1:] == 0).all()
        np.testing.assert_allclose(out["attribution-0"][:, 0, 0], -3.7, rtol=1e-6)

    def test_long_series_keep_their_peaks(self, tmp_path):
        e = make(n=2, t=2501, d=2)
        e.x[1, 777, 1], e.x[1, 778, 1], e.attribution[0, 2500, 0] = 99.0, -88.0, 1.0
        mask = np.zeros(e.x.shape, dtype=bool)
        mask[1, 1203, 0] = True
        meta, out = write(tmp_path, dataclasses.replace(e, mask=mask))
        width = 6  # 2501 steps in at most 500 columns
        assert (meta["width"], meta["columns"]) == (width, 417)
        for i in range(2):
            for k in range(2):
                for c in range(417):
                    steps = slice(width * c, width * (c + 1))
                    assert out["low"][i, k, c] == pytest.approx(e.x[i, steps, k].min(), abs=0.03)
                    assert out["high"][i, k, c] == pytest.approx(e.x[i, steps, k].max(), abs=0.03)
                    assert out["attribution-0"][i, k, c] == pytest.approx(
                        e.attribution[i, steps, k].max(), abs=0.51 / embed.LEVELS
                    )
        assert np.argwhere(out["mask-0"]).tolist() == [[1, 0, 1203 // width]]
        assert meta["times"][0] == 3.5
        assert meta["times"][-1] == np.mean([2497, 2498, 2499, 2500, 2501])

    def test_irregular_series_are_drawn_without_padding(self, tmp_path):
        times = np.tile(np.arange(1.0, T + 1, dtype=np.float32), (N, 1))
        times[0, :4] = [1, 2, 3, 5]
        times[0, 4:] = 0
        observed = np.ones((N, T, D), dtype=bool)
        observed[0, 4:] = False
        observed[0, 2, 1] = False
        e = make(times=times, observed=observed)
        meta, out = write(tmp_path, e)
        assert (meta["times"], meta["clock"]["label"]) == (None, "time")
        assert out["length"].tolist() == [4] + [T] * (N - 1)
        assert out["times"].reshape(N, T)[0, :4].tolist() == [1, 2, 3, 5]
        np.testing.assert_allclose(out["low"][0, 0, :4], e.x[0, :4, 0], atol=0.01)
        assert out["observed"][0, :, :5].tolist() == [[1, 1, 1, 1, 0], [1, 1, 0, 1, 0], [1, 1, 1, 1, 0]]

    def test_a_channel_never_observed_and_a_constant_one(self, tmp_path):
        observed = np.ones((N, T, D), dtype=bool)
        observed[:, :, 1] = False
        x = make().x.copy()
        x[:, :, 2] = 4.25
        _, out = write(tmp_path, make(x=x, observed=observed))
        assert not out["observed"][:, 1].any()
        np.testing.assert_array_equal(out["low"][:, 2], 4.25)

    @pytest.mark.parametrize("thin", [1.0, 0.5, 0.1])
    def test_the_map_shows_the_principal_components_of_directions(self, tmp_path, thin):
        z = np.random.default_rng(4).normal(size=(N, Z)).astype(np.float32) * 5 + [40, 0, 0, 0]
        z[:, 1:3] *= [9, 9 * thin]
        meta, out = write(tmp_path, make(embedding=z.astype(np.float32)))
        directions = z / np.linalg.norm(z, axis=1, keepdims=True)
        u, s, _ = np.linalg.svd(directions - directions.mean(axis=0), full_matrices=False)
        for k in range(2):
            assert abs(np.corrcoef(out["place"][:, k], u[:, k])[0, 1]) == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(meta["projection"]["share"], (s**2 / (s**2).sum())[:2], rtol=1e-5)
        ratio = np.ptp(u[:, 1] * s[1]) / np.ptp(u[:, 0] * s[0])
        np.testing.assert_allclose(np.ptp(out["place"], axis=0), [1, min(1, places.STRETCH * ratio)], rtol=1e-4)
        np.testing.assert_allclose(out["place"].min(axis=0) + out["place"].max(axis=0), 1, atol=1e-5)

    def test_neighbours_are_those_of_a_slow_search(self, tmp_path):
        e = make(n=30)
        meta, out = write(tmp_path, e, landmarks=make_landmarks())
        unit = e.embedding / np.linalg.norm(e.embedding, axis=1, keepdims=True)
        for i in range(30):
            others = sorted((j for j in range(30) if j != i), key=lambda j: -(unit[i] @ unit[j]))
            assert out["nearest"][i].tolist() == others[: page.NEAREST]
        for entry in meta["landmarks"]:
            members = np.flatnonzero(e.landmark == entry["number"]).tolist()
            near = sorted(members, key=lambda j: -unit[j, entry["number"]])
            assert entry["nearest"] == near[: page.NEAREST]
        assert [(m["number"], m["rank"], m["count"]) for m in meta["landmarks"]] == [(1, 1, 9), (2, 2, 4), (0, 3, 2)]

    def test_methods_without_a_latent_space_are_placed_by_their_attributions(self, tmp_path):
        attribution = np.zeros((N, T, D), dtype=np.float32)
        attribution[:4, :3, 0] = 1
        attribution[4:, 9:, 2] = 1
        e = make(attribution=attribution, method="winit", embedding=None, landmark=None, agreement=None, divergence=None)
        meta, out = write(tmp_path, e)
        assert meta["projection"]["of"] == "attributions"
        assert np.ptp(out["place"][:4], axis=0).max() < 1e-6
        assert np.linalg.norm(out["place"][0] - out["place"][5]) == pytest.approx(1, abs=1e-6)
        assert meta["landmarks"] == []

    def test_landmarks_named_by_explanations_alone(self, tmp_path):
        meta, _ = write(tmp_path, make(landmark=np.array([7, 7, 7, 5, 5, 7, 2, 5, 7])))
        assert meta["landmarks"] == [{"number": 7, "rank": 1}, {"number": 5, "rank": 2}, {"number": 2, "rank": 3}]

    def test_scores_curves_and_training(self, tmp_path):
        history = pd.DataFrame(
            {"epoch": [0, 1], "loss": [2.0, np.nan], "val_agreement": [0.5, 0.75], "selected": [False, True]}
        )
        scores = {"timex": {"auprc": np.float32(0.5), "iou": float("nan")}, "random": {"auprc": 0.1, "mine": 2}}
        meta, _ = write(tmp_path, make(), history=history, scores=scores, occlusion={"timex": {0.9: 0.7, 0.75: 0.8}})
        assert meta["history"] == {
            "epochs": [0, 1],
            "selected": 1,
            "panels": [
                {"title": "training", "curves": {"total loss": [2.0, None]}},
                {"title": "validation, shares", "curves": {"surrogate agrees": [0.5, 0.75]}},
            ],
        }
        assert meta["scores"] == {"timex": {"auprc": 0.5, "iou": None}, "random": {"auprc": 0.1, "mine": 2}}
        assert {name: m["better"] for name, m in meta["metrics"].items()} == {"auprc": "higher", "iou": "higher"}
        assert "random" in meta["controls"]
        assert meta["occlusion"] == {"timex": [[0.75, 0.8], [0.9, 0.7]]}


class TestHowMuch:
    def test_above_the_limit_every_stratum_stays_in_proportion(self, tmp_path, monkeypatch):
        monkeypatch.setattr(page, "LIMIT", 40)
        landmark = np.repeat([0, 1, 2, 3], [300, 80, 19, 1])
        e = make(n=400, t=3, d=1, prediction=np.zeros(400, dtype=np.int64), landmark=landmark)
        meta, out = write(tmp_path, e)
        assert (meta["count"], meta["total"]) == (40, 400)
        kept = np.bincount(landmark[out["sample"]], minlength=4)
        assert kept[3] == 1
        assert kept.sum() == 40
        np.testing.assert_allclose(kept[:3], [30, 8, 2], atol=1)
        assert (np.diff(out["sample"].astype(int)) > 0).all()
        np.testing.assert_allclose(out["low"][:, 0], e.x[out["sample"], :, 0], atol=0.01)

    def test_the_file_stays_within_its_budget(self, tmp_path, monkeypatch):
        e = make(n=500, t=60, d=2)
        whole = write_report(tmp_path / "whole.html", e, projection="pca").stat().st_size
        monkeypatch.setattr(page, "BUDGET", int(0.6 * whole))
        path = write_report(tmp_path / "part.html", e, projection="pca")
        meta, _ = unpack(path)
        assert 0.4 * whole < path.stat().st_size <= 0.6 * whole
        assert 100 < meta["count"] < 500

    def test_names_go_with_the_samples_kept(self, tmp_path, monkeypatch):
        monkeypatch.setattr(page, "LIMIT", 4)
        meta, out = write(tmp_path, make(ids=[f"patient {i}" for i in range(N)]))
        assert meta["ids"] == [f"patient {i}" for i in out["sample"]]


class TestSafety:
    def test_names_are_text_wherever_they_stand(self, tmp_path):
        names = (EVIL, "</script><script>alert(2)</script>", "{{script}} & \u2028 <!--")
        e = make(channels=names, classes=(EVIL, "]]>"), ids=[f"{EVIL}{i}" for i in range(N)])
        methods = {EVIL: e, "</script>": make(channels=names)}
        given = {"scores": {EVIL: {"</script>": 1.0}}, "title": f"{EVIL}{{{{data}}}}"}
        path = write_report(tmp_path / "report.html", methods, projection="pca", **given)
        plain = write_report(tmp_path / "plain.html", {"a": make(), "b": make()}, projection="pca")
        assert tags_of(path) == tags_of(plain)
        assert EVIL not in path.read_text()
        meta, _ = unpack(path)
        assert tuple(meta["channels"]) == names
        assert [m["name"] for m in meta["methods"]] == [EVIL, "</script>"]
        assert meta["scores"] == {EVIL: {"</script>": 1.0}}

    def test_only_its_own_script_may_run_and_nothing_may_be_fetched(self, tmp_path):
        text = write_report(tmp_path / "report.html", make(), projection="pca").read_text()
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
        assert policy.startswith("default-src 'none';")
        for tag in ("script", "style"):
            body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
            digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy
        addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}  # the XML namespace of SVG, which is never fetched

    def test_the_same_explanations_give_the_same_file(self, tmp_path):
        first, second = (write_report(tmp_path / f"{j}.html", make(), title="same", projection="pca") for j in "ab")
        assert first.read_bytes() == second.read_bytes()

    def test_a_failure_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "report.html"
        path.write_text("old")
        monkeypatch.setattr(page, "filled", lambda *_: json.dumps(object()))
        with pytest.raises(TypeError):
            write_report(path, make(), projection="pca")
        assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("report.html", "old")]


@pytest.mark.parametrize(
    ("explanations", "options", "words"),
    [
        ({}, {}, "at least one method, got none"),
        ({"a": make(), "b": make(n=4)}, {}, r"got x of \(9, 14, 3\) in a, \(4, 14, 3\) in b"),
        ({"a": make(), "b": make(x=make().x + (np.arange(N) == 2)[:, None, None])}, {}, "different series at 2 in a and in b"),
        (make(embedding=None), {"landmarks": make_landmarks()}, "got 4 and None"),
        (make(), {"projection": "tsne"}, "'auto', 'pca' or 'umap', got 'tsne'"),
    ],
)
def test_bad_requests_are_refused(explanations, options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        write_report(tmp_path / "report.html", explanations, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_name_must_be_that_of_a_page(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.html, got 'report.pdf'"):
        write_report(tmp_path / "report.pdf", make())


def test_umap_is_asked_for_by_name_only_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)  # as if it were not installed
    with pytest.raises(ValueError, match=r"pip install 'timex-explain\[embed\]'"):
        write_report(tmp_path / "report.html", make(), projection="umap")
    assert unpack(write_report(tmp_path / "report.html", make()))[0]["projection"]["kind"] == "PCA"


@pytest.mark.slow
def test_umap_where_it_is_installed(tmp_path):
    pytest.importorskip("umap", reason="umap-learn (the extra embed) is not installed")
    z = np.repeat(np.eye(2, Z, dtype=np.float32), 30, axis=0) + np.random.default_rng(0).normal(size=(60, Z)) * 0.05
    meta, out = unpack(write_report(tmp_path / "report.html", make(n=60, embedding=z.astype(np.float32))))
    assert meta["projection"]["kind"] == "UMAP"
    apart = np.linalg.norm(out["place"][:30].mean(axis=0) - out["place"][30:].mean(axis=0))
    assert apart > 3 * out["place"][:30].std(axis=0).max()
