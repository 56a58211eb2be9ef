"""Shapelets, their occurrences and Shapley values, and cuts where shapes change, against loops and planted shapes."""

import numpy as np
import pytest
import torch
from torch import nn

from timex.explainers import KernelShap, SegmentsConfig, Shapelets, ShapeletsConfig
from timex.explainers.segmentation import crossings, lines_across, shape_changes
from timex.explainers.shapelets import best_match, occurrences, similarity
from timex.metrics import ground_truth_scores

T, D = 40, 2


class Contrast(nn.Module):
    """Class 1 where channel 1 has a bump up, class 0 where it has one down."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        z = self.scale * (x[..., 1] ** 3).sum(1)
        return torch.stack([-z, z], dim=1)


def bumps(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=0.2, size=(n, T, D)).astype(np.float32)
    truth = np.zeros(x.shape, dtype=bool)
    for i, start in enumerate(rng.integers(2, T - 8, n)):
        x[i, start : start + 5, 1] += 2 * rng.choice([-1, 1]) * np.array([0.5, 1, 1.2, 1, 0.5])
        truth[i, start : start + 5, 1] = True
    return x, truth


def test_similarity_and_match_are_those_of_a_loop():
    rng = torch.Generator().manual_seed(0)
    x, shapelets = torch.randn(3, T, D, generator=rng), torch.randn(D, 2, 5, generator=rng)
    alike = similarity(x, shapelets)
    padded = torch.nn.functional.pad(x, (0, 0, 2, 2))
    assert alike.shape == (3, D, 2, T)
    total = 0.0
    for b in range(3):
        for d in range(D):
            for n in range(2):
                row = torch.stack([(padded[b, t : t + 5, d] * shapelets[d, n]).mean() for t in range(T)])
                torch.testing.assert_close(alike[b, d, n], row)
                t = int(row.argmax())
                total += float((padded[b, t : t + 5, d] - shapelets[d, n]).square().mean()) / (3 * D * 2)
    assert float(best_match(x, shapelets, alike)) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("length", [3, 4])
def test_occurrences_by_hand(length):
    alike = torch.zeros(1, 1, 2, 12)
    alike[0, 0, 0, [2, 9]] = torch.tensor([1.0, 0.8])  # both reach .7 of the peak
    alike[0, 0, 1, [5, 10]] = torch.tensor([3.0, 2.0])  # the second does not
    owner = occurrences(alike, length, 0.7)[0, 0].tolist()
    expected = {3: [2, 0, 0, 0, 1, 1, 1, 2, 0, 0, 0, 2], 4: [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 2]}
    assert owner == expected[length]


def test_planted_bumps_are_found():
    x, truth = bumps(120)
    e = Shapelets(Contrast(), ShapeletsConfig(length=5, n_shapelets=2)).fit(x, progress=False).explain(x[:30])
    found = ground_truth_scores(e.attribution, truth[:30])["auprc"].mean()
    uniform = KernelShap(Contrast(), SegmentsConfig(n_segments=3)).explain(x[:30])
    assert found > 0.8
    assert found > ground_truth_scores(uniform.attribution, truth[:30])["auprc"].mean() + 0.2


def test_values_of_segments_sum_to_what_the_series_gains():
    x, _ = bumps(60)
    explainer = Shapelets(Contrast(), ShapeletsConfig(length=5, n_shapelets=2, fill="zero")).fit(x, progress=False)
    e = explainer.explain(x[:4])
    with torch.no_grad():
        logits = explainer.model(torch.as_tensor(x[:4])) - explainer.model(torch.zeros(4, T, D))
    gain = logits.numpy()[np.arange(4), e.prediction]
    # 2 channels of 2 shapelets and a rest: 6 segments, 62 sets, so the values are exact, and segments without cells have none
    values = [sum({round(float(v), 4) for v in np.unique(e.attribution[i])}) for i in range(4)]
    np.testing.assert_allclose(values, gain, atol=1e-2)


def test_arcs_are_those_of_a_loop():
    rows = torch.randn(2, 30, generator=torch.Generator().manual_seed(1))
    width, n = 4, 27
    found = crossings(rows, width)
    for row, values in zip(rows, found, strict=True):
        windows = np.array([row[i : i + width].numpy() for i in range(n)])
        z = (windows - windows.mean(1, keepdims=True)) / windows.std(1, keepdims=True)
        arcs = np.zeros(n)
        for i in range(n):
            distance = [np.inf if abs(i - j) < 2 else ((z[i] - z[j]) ** 2).sum() for j in range(n)]
            j = int(np.argmin(distance))
            arcs[min(i, j) + 1 : max(i, j) + 1] += 1
        place = np.arange(n)
        expected = np.minimum(arcs / np.maximum(2 * place * (n - place) / n, 1), 1)
        np.testing.assert_allclose(values[width + 2 : n - width + 2], expected[width : n - width], rtol=1e-5)


def test_cuts_are_where_the_shape_changes():
    t = np.arange(120)
    x = np.where(t < 70, np.sin(t), np.abs((t % 12) - 6) / 3)[None, :, None].astype(np.float32)
    first = shape_changes(torch.as_tensor(x), None, 2)[0, :, 0].nonzero().flatten().tolist()
    assert first[0] == 0
    assert abs(first[1] - 70) < 25
    many = shape_changes(torch.as_tensor(x), None, 30)
    assert many.sum() == 30


def test_lines_across_a_whole_channel_are_its_mean():
    x = torch.tensor([[[1.0], [2.0], [6.0]]])
    assert lines_across(x, torch.zeros(1, 3, 1)).flatten().tolist() == [3, 3, 3]
