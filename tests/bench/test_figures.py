"""The figure of forecasts."""

import numpy as np

from timex import Explanation, Series
from timex.bench.figures import _forecasts

T, H = 30, 4


def test_a_window_stands_beside_its_last_hours_and_the_forecast():
    rng = np.random.default_rng(0)
    p = rng.random((2, T, 1), dtype=np.float32)
    series = Series(rng.normal(size=(2, T, 1)), channels=("oil temperature",))
    numbers = rng.normal(size=(2, H)).astype(np.float32)
    chances = np.full((2, H), 1 / H, dtype=np.float32)
    given = {"attribution": p, "prediction": np.zeros(2, dtype=int), "probability": chances, "mask": p > 0.5}
    e = Explanation(series=series, numbers=numbers, **given)
    figure = _forecasts(e, numbers.tolist())
    figure.draw_without_rendering()
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["attribution", "forecast"] * 2
    left, right = figure.axes[2:]
    assert left.get_ylabel() == "oil temperature, standardised"
    (line,) = left.lines
    np.testing.assert_allclose(line.get_ydata(), series.x[1, :, 0])
    past, ahead = right.lines
    assert past.get_xdata().tolist() == [27, 28, 29, 30]
    np.testing.assert_allclose(past.get_ydata(), series.x[1, -H:, 0])
    assert ahead.get_xdata().tolist() == [31, 32, 33, 34]
    np.testing.assert_allclose(ahead.get_ydata(), numbers[1])
