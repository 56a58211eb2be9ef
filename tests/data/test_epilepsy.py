"""Epilepsy from the UCI table and from the Bonn files."""

import numpy as np
import pandas as pd
import pytest

from timex.data import load_dataset
from timex.data.epilepsy import EPILEPSY, SETS
from timex.data.prepare import prepare


@pytest.fixture
def recordings():
    """Two recordings of each set: a level per recording, seizures far louder."""
    rng = np.random.default_rng(0)
    return {
        f"{letter}{i:03d}": rng.integers(-50, 50, 4097) * (8 if letter == "S" else 1) for letter in SETS for i in range(1, 6)
    }


def write_bonn(folder, recordings):
    for name, values in recordings.items():
        place = folder / name[0]
        place.mkdir(exist_ok=True)
        suffix = ".TXT" if name[0] == "N" else ".txt"  # as in the originals
        (place / f"{name}{suffix}").write_text("\n".join(map(str, values)))


def uci_table(n_recordings=500):
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (n_recordings * 23, 178))
    table = pd.DataFrame(x, columns=[f"X{i}" for i in range(1, 179)])
    table.insert(0, "Unnamed", [f"X{c}.V1.{r}" for r in range(n_recordings) for c in range(1, 24)])
    return table.assign(y=np.repeat(np.arange(n_recordings) % 5 + 1, 23))


def test_bonn_files_become_23_windows_each(tmp_path, cache, recordings):
    write_bonn(tmp_path, recordings)
    facts, _ = prepare(EPILEPSY, tmp_path)
    assert (facts["windows"], facts["recordings"]) == (25 * 23, 25)
    arrays = EPILEPSY.read()
    one = arrays["recording"] == "N002"
    assert arrays["x"][one].reshape(-1).tolist() == recordings["N002"][: 23 * 178].tolist()
    assert set(arrays["label"][one]) == {3}
    data = load_dataset("epilepsy")
    assert data.train.x.shape[1:] == (178, 1)
    assert data.test.y.mean() == pytest.approx(0.2, abs=0.01)
    assert data.train.x.std() == pytest.approx(1, rel=1e-4)
    assert data.test.truth is None


def test_split_by_recording_shares_none(tmp_path, cache, recordings):
    write_bonn(tmp_path, recordings)
    prepare(EPILEPSY, tmp_path)
    arrays = EPILEPSY.read()
    whose = {tuple(row): name for row, name in zip(arrays["x"].tolist(), arrays["recording"], strict=True)}
    raw = arrays["x"].astype(np.float32)
    for fold in range(5):
        d = load_dataset("epilepsy_by_recording", fold=fold)
        assert [len(p) for p in (d.train, d.val, d.test)] == [15 * 23, 5 * 23, 5 * 23]
        # All windows are in one of the parts, so that the scaling can be undone to find out whose they are.
        whole = np.concatenate([d.train.x, d.val.x, d.test.x])
        scale = raw.std() / whole.std()
        centre = raw.mean() - scale * whole.mean()
        owners = [
            {whose[tuple(np.round(w * scale + centre).astype(int).tolist())] for w in part.x[:, :, 0]}
            for part in (d.train, d.val, d.test)
        ]
        assert sum(map(len, owners)) == len(set.union(*owners)) == 25
        assert all(any(name[0] == "S" for name in o) for o in owners)


def test_uci_table(tmp_path, cache):
    uci_table().to_csv(tmp_path / "data.csv", index=False)
    facts, _ = prepare(EPILEPSY, tmp_path)
    assert facts["recordings"] == 500
    assert facts["labels"] == {str(c): 2300 for c in range(1, 6)}
    assert len(load_dataset("epilepsy_by_recording").test) == 2300


def test_uci_rows_without_a_recording_can_be_split_by_row_only(tmp_path, cache):
    table = uci_table()
    table["Unnamed"] = [f"row.{i}" for i in range(len(table))]
    table.to_csv(tmp_path / "data.csv", index=False)
    assert prepare(EPILEPSY, tmp_path)[0]["recordings"] == "unknown"
    load_dataset("epilepsy")
    with pytest.raises(ValueError, match="does not say which recording"):
        load_dataset("epilepsy_by_recording")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "data.csv").write_text("a,b\n1,2\n"), "Expected the UCI table with columns X1..X178 and y"),
        (lambda f: uci_table(499).to_csv(f / "data.csv", index=False), "Expected 11,500 rows"),
        (lambda f: (f / "Z001.txt").write_text("1\n2\n"), "Expected 4,097 samples"),
        (lambda f: (f / "Z001.txt").write_text("one\n"), "is no Bonn recording"),
        (lambda f: np.savez(f / "epilepsy.npz", X=1), "it lacks source, y"),
    ],
)
def test_foreign_files_are_named_and_the_cache_untouched(tmp_path, cache, spoil, words):
    folder = tmp_path / "source"
    folder.mkdir()
    spoil(folder)
    with pytest.raises(ValueError, match=words):
        prepare(EPILEPSY, folder)
    assert not cache.exists()


@pytest.mark.slow
def test_real_windows(shared, cache):
    facts, _ = prepare(EPILEPSY, shared)
    assert facts["windows"] == 11500
    assert facts["recordings"] == 500
    data = load_dataset("epilepsy_by_recording")
    assert [len(p) for p in (data.train, data.val, data.test)] == [6900, 2300, 2300]
    loud = data.test.x.std(axis=(1, 2))
    assert np.median(loud[data.test.y == 1]) > 3 * np.median(loud[data.test.y == 0])  # seizures are loud
