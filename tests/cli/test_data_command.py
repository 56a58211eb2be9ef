"""`timex data`."""

import numpy as np

from timex.data.synthetic import Recipe
from timex.io.files import write_series


def test_a_file_is_described(invoke, series, tmp_path):
    write_series(tmp_path / "own.npz", series)
    printed = invoke("data", "describe", tmp_path / "own.npz")
    assert "own.npz: T = 12, D = 2, regular" in printed
    assert "channels: left, right" in printed
    assert "classes: 0 " in printed
    assert "file │ 40 │ 14 │ 13 │ 13 │ 100.0% │ 2" in printed


def test_an_infinite_value_is_refused_in_words_of_files(fails, series, tmp_path):
    write_series(tmp_path / "own.npz", series)
    arrays = dict(np.load(tmp_path / "own.npz"))
    arrays["x"][3, 4, 1] = np.inf
    np.savez(tmp_path / "own.npz", **arrays)
    printed = fails("data", "describe", tmp_path / "own.npz")
    assert (
        "got inf at sample 3, step 4, channel 1 (1 such cells): fill them, or leave them empty in the file (NaN in .npz)."
        in printed
    )


def test_list_and_describe(tiny, invoke):
    assert "freqshapes │ 50" in invoke("data", "list")
    described = invoke("data", "describe", "freqshapes")
    assert "up every 17" in described
    assert "T = 50, D = 1" in described
    assert "│ train │ 96 │" in described
    assert "│ test │ 32 │" in described


def test_list_draws_only_a_few_samples(invoke, monkeypatch):
    drawn, part = {}, Recipe.part
    monkeypatch.setattr(Recipe, "part", lambda self, p, s, f, n: drawn.update({self.name: n}) or part(self, p, s, f, n))
    printed = invoke("data", "list")
    assert "seqcomb_mv │ 200 │ 4 │ 4 │ 5,000 / 100 / 1,000 │ yes" in printed
    assert drawn["seqcomb_mv"] < 10
