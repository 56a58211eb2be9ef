"""PAM from a small archive in PAMAP2's format."""

import numpy as np
import pytest

from timex import load_dataset
from timex.data.pam import CHANNELS, PAM, build, find
from timex.data.prepare import prepare


def write_subject(folder, subject, runs, seed=0, step=0.01):
    """A Protocol file: rows of one activity after another; column 3 (temperature) is the row number."""
    rng = np.random.default_rng(seed)
    activity = np.concatenate([np.full(n, a) for a, n in runs])
    table = rng.normal(size=(len(activity), 54))
    table[:, 0] = 5 + step * np.arange(len(activity))
    table[:, 1] = activity
    table[:, 2] = np.nan  # heart rate: mostly missing
    table[:, 3] = np.arange(len(activity))
    place = folder / "PAMAP2_Dataset" / "Protocol"
    place.mkdir(parents=True, exist_ok=True)
    text = "\n".join(" ".join(f"{v:g}" if np.isfinite(v) else "NaN" for v in row) for row in table)
    (place / f"subject{subject}.dat").write_text(text)
    return table


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pamap2")
    # 2,000 rows of lying: windows from rows 0, 300, ..., 1200; 0 lies between activities; 599 rows are too few
    write_subject(folder, 101, [(0, 50), (1, 2000), (0, 30), (2, 1500), (4, 599)])
    write_subject(folder, 102, [(2, 900), (1, 600), (24, 700)], seed=1)
    write_subject(folder, 109, [(1, 5000)], seed=2)  # the ninth subject is left out
    return folder


def test_windows_lie_inside_one_activity_and_overlap_by_half(source):
    files = find(source)
    assert [f.name for f in files] == ["subject101.dat", "subject102.dat"]
    arrays, facts = build(files, min_windows=2)
    assert facts == {"subjects": 2, "windows": {"lying": 6, "sitting": 6}}
    n_first = 50 + 2000 + 30 + 1500 + 599
    expected = [50 + 300 * i for i in range(5)] + [2080 + 300 * i for i in range(4)]
    expected += [n_first, n_first + 300, n_first + 900]
    assert arrays["start"].tolist() == expected
    assert arrays["activity"].tolist() == [1] * 5 + [2] * 4 + [2] * 2 + [1]
    assert arrays["subject"].tolist() == [101] * 9 + [102] * 3
    assert arrays["x"].shape[1] == len(CHANNELS) == 17
    assert arrays["x"][2080, 0] == 2080  # the hand's temperature comes first


def test_lost_values_are_the_last_received(tmp_path):
    table = write_subject(tmp_path, 101, [(1, 700), (2, 700)])
    path = next(tmp_path.rglob("subject101.dat"))
    table[:2, 5] = np.nan
    table[10:13, 7] = np.nan
    path.write_text("\n".join(" ".join(f"{v:.9g}" if np.isfinite(v) else "NaN" for v in row) for row in table))
    arrays, _ = build([path], min_windows=1)
    assert arrays["x"][:3, 2] == pytest.approx(table[2, 5], abs=1e-6)
    assert arrays["x"][9:13, 4] == pytest.approx(table[9, 7], abs=1e-6)
    assert np.isfinite(arrays["x"]).all()


def test_folds(source, cache, monkeypatch):
    monkeypatch.setattr("timex.data.pam.build.__defaults__", (2,))
    prepare(PAM, source)
    data = load_dataset("pam")
    assert data.classes == ("lying", "sitting")
    assert data.train.x.shape[1:] == (600, 17)
    assert sum(len(p) for p in (data.train, data.val, data.test)) == 12
    assert data.train.x.mean(axis=(0, 1)) == pytest.approx(0, abs=1e-2)
    assert data.train.x.std(axis=(0, 1)) == pytest.approx(1, rel=1e-3)


def test_too_little_data_is_named(source, cache):
    with pytest.raises(
        ValueError, match=r"Expected at least two activities with 500 windows or more, got \{1: 6, 2: 6, 24: 1\}"
    ):
        prepare(PAM, source)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2 3\n", "Expected 54 columns"),
        ("a b\n", "is no PAMAP2 table of numbers"),
        (None, r"Expected a row every 0\.01 s"),
    ],
)
def test_foreign_files_are_named(tmp_path, cache, text, words):
    write_subject(tmp_path, 101, [(1, 700), (2, 700)], step=0.02)
    if text is not None:
        next(tmp_path.rglob("subject101.dat")).write_text(text)
    with pytest.raises(ValueError, match=words):
        prepare(PAM, tmp_path)


def test_unknown_activities_are_named(tmp_path, cache):
    write_subject(tmp_path, 101, [(1, 700), (8, 700)])
    with pytest.raises(ValueError, match=r"activity numbers of PAMAP2 .* got \[8\.0\]|got \[np\.float64\(8\.0\)\]"):
        prepare(PAM, tmp_path)
