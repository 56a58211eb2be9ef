"""Preparing real data: the cache is whole or untouched, the splits leak nothing, and the command says what it did."""

import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from timex.cli import app
from timex.data import LOADERS, ORIGINS, REAL, load_dataset
from timex.data.prepare import MAX_VAL, Origin, digest_of, found, prepare, split_groups, split_samples

HEADER = "date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n"


def numbers_of(text):
    """An origin whose cache is the numbers of a text file."""

    def build(files):
        values = np.loadtxt(files[0])
        return {"values": values}, {"numbers": len(values)}

    return Origin(name="toy", title="A toy", page="https://example.org", needs="toy.txt", find=lambda s: [s], build=build)


@pytest.fixture
def toy(tmp_path, cache):
    source = tmp_path / "toy.txt"
    source.write_text("1\n2\n3\n")
    return numbers_of(source), source


# --------------------------------------------------------------------------------------------------------------- cache


def test_prepare_writes_once_and_again_only_for_other_files_or_on_demand(toy):
    origin, source = toy
    assert origin.facts() is None
    facts, built = prepare(origin, source)
    assert built
    assert facts["numbers"] == 3
    first = origin.path.stat().st_mtime_ns
    assert prepare(origin, source) == (facts, False)
    assert origin.path.stat().st_mtime_ns == first
    assert prepare(origin, source, force=True) == (facts, True)
    source.write_text("1\n2\n")
    assert prepare(origin, source)[0]["numbers"] == 2
    assert origin.read()["values"].tolist() == [1, 2]
    assert os.listdir(origin.path.parent) == ["toy.npz"]


def test_a_build_that_fails_leaves_the_cache_as_it_was(toy):
    origin, source = toy
    prepare(origin, source)
    before = origin.path.read_bytes()
    source.write_text("1\ntwo\n")
    with pytest.raises(ValueError, match="two"):
        prepare(origin, source)
    assert origin.path.read_bytes() == before
    assert os.listdir(origin.path.parent) == ["toy.npz"]


def test_a_killed_prepare_leaves_the_cache_as_it_was(shared_etth1, cache):
    """The process dies after writing, before renaming: the old file is still whole and still read."""
    prepare(ORIGINS["ett"], shared_etth1)
    before = ORIGINS["ett"].path.read_bytes()
    code = (
        "import os, sys\n"
        "from timex.data import ORIGINS\n"
        "from timex.data.prepare import prepare\n"
        "os.replace = lambda *paths: os._exit(9)\n"
        "prepare(ORIGINS['ett'], sys.argv[1], force=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(shared_etth1)], env={**os.environ, "TIMEX_DATA": str(cache)})
    assert done.returncode == 9
    assert ORIGINS["ett"].path.read_bytes() == before
    assert len(ORIGINS["ett"].read()["x"]) == 17420


@pytest.fixture
def shared_etth1(tmp_path):
    """A table with the shape of ETTh1."""
    import pandas as pd

    dates = pd.date_range("2016-07-01", periods=17420, freq="h")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(17420, 7)).round(3), columns=HEADER.strip().split(",")[1:])
    table.insert(0, "date", dates)
    folder = tmp_path / "ett"
    folder.mkdir()
    table.to_csv(folder / "ETTh1.csv", index=False)
    return folder


def test_what_is_not_prepared_says_how_to_get_it(cache):
    for name, loader in REAL.items():
        origin = loader.origin
        with pytest.raises(FileNotFoundError) as error:
            load_dataset(name)
        assert f"timex data prepare {origin.name} --source" in str(error.value)
        assert origin.page in str(error.value)
    with pytest.raises(ValueError, match=r"Expected a fold 0\.\.4 of ecg, got 5"):
        load_dataset("ecg", fold=5)


def test_a_cache_of_another_version_is_not_read(toy, monkeypatch):
    origin, source = toy
    prepare(origin, source)
    monkeypatch.setattr("timex.data.prepare.FORMAT", 99)
    with pytest.raises(ValueError, match="another version"):
        origin.read()
    assert prepare(origin, source)[1]


def test_a_damaged_cache_is_named_and_built_again(toy):
    origin, source = toy
    facts, _ = prepare(origin, source)
    whole = origin.path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        origin.path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"toy\.npz"):
            origin.read()
        assert prepare(origin, source) == (facts, True)
        assert origin.read()["values"].tolist() == [1, 2, 3]
    np.savez(origin.path, values=np.arange(3))
    with pytest.raises(ValueError, match=r"toy\.npz is no prepared data .*timex data prepare toy"):
        origin.read()


def test_digest_follows_names_and_contents(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("x")
    b.write_text("x")
    assert digest_of([a]) != digest_of([b])
    before = digest_of([a])
    a.write_text("y")
    assert digest_of([a]) != before


def test_found_takes_the_first_pattern_that_matches(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.csv", "deep/a.csv", "c.txt"):
        (tmp_path / name).write_text("")
    assert [p.name for p in found(tmp_path, "*.npz", "*.csv", "*.txt")] == ["b.csv", "a.csv"]
    assert found(tmp_path / "c.txt", "*.csv") == [tmp_path / "c.txt"]
    assert found(tmp_path, "*.npz") == []


# -------------------------------------------------------------------------------------------------------------- splits


def test_folds_of_samples_cover_everything_once_and_are_balanced():
    stratum = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [900, 90, 10]))
    tests = []
    for fold in range(5):
        train, val, test = split_samples(stratum, fold, seed=0)
        assert sorted(np.concatenate([train, val, test])) == list(range(1000))
        assert len(val) == 100
        assert np.bincount(stratum[test]).tolist() == [180, 18, 2]
        tests.append(test)
    assert sorted(np.concatenate(tests)) == list(range(1000))
    assert (split_samples(stratum, 0, seed=1)[2] != tests[0]).any()
    assert (split_samples(stratum, 0, seed=0)[2] == tests[0]).all()


def test_folds_of_samples_have_the_same_sizes_whatever_the_number():
    stratum = np.arange(503) % 3
    parts = [split_samples(stratum, fold, seed=2) for fold in range(5)]
    assert {tuple(map(len, p)) for p in parts} == {(353, 50, 100)}
    tested = np.concatenate([p[2] for p in parts])
    assert len(set(tested)) == 500
    left = set(range(503)) - set(tested)
    assert all(left <= set(p[0]) for p in parts)


def test_no_group_is_in_two_parts_and_every_part_has_every_stratum():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 40, 2000)
    stratum = (group < 8).astype(int)  # whole groups are abnormal, as patients are
    tests = []
    for fold in range(5):
        parts = split_groups(stratum, group, fold, seed=0)
        owners = [set(group[part]) for part in parts]
        assert sum(map(len, owners)) == len(set.union(*owners)) == 40
        assert all(set(stratum[part]) == {0, 1} for part in parts)
        assert sum(map(len, parts)) == 2000
        tests.append(parts[2])
    assert sorted(np.concatenate(tests)) == list(range(2000))


def test_a_large_validation_part_is_thinned_and_never_trained_on():
    group = np.repeat(np.arange(10), 6000)
    stratum = np.zeros(60000, dtype=int)
    train, val, test = split_groups(stratum, group, 0, seed=0)
    assert len(val) == MAX_VAL
    assert not set(group[train]) & set(group[val])
    assert len(split_samples(stratum, 0, seed=0)[1]) == MAX_VAL
    assert len(test) == 12000


def test_too_few_groups_are_refused():
    with pytest.raises(ValueError, match="at least 5 groups"):
        split_groups(np.zeros(4, dtype=int), np.arange(4), 0, 0)


# ------------------------------------------------------------------------------------------------------------- command


def invoke(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return " ".join(result.output.split())


def test_list_names_what_is_not_prepared(cache):
    text = invoke("data", "list")
    assert set(REAL) <= set(LOADERS)
    assert "ett (forecasting): not prepared: timex data prepare ett" in text
    assert text.count("not prepared") == len(REAL) + 1


def test_prepare_without_a_source_says_what_to_download(cache):
    text = invoke("data", "prepare", "ecg")
    assert "https://physionet.org/content/mitdb/1.0.0/" in text
    assert "timex data prepare ecg --source FOLDER" in text


def test_prepare_says_where_it_wrote_and_that_it_is_there(shared_etth1, cache):
    first = invoke("data", "prepare", "ett", "--source", shared_etth1)
    assert "rows: 17,420" in first
    assert "Written to" in first
    assert "Already prepared from the same files" in invoke("data", "prepare", "ett", "--source", shared_etth1)
    assert "Written to" in invoke("data", "prepare", "ett", "--source", shared_etth1, "--force")
    assert "ett (forecasting): rows: 17,420" in invoke("data", "list")


def test_unknown_names_and_places_are_errors(cache, tmp_path):
    with pytest.raises(ValueError, match=r"Unknown real data set 'mnist'; known: ecg, epilepsy, boiler, pam, ett"):
        invoke("data", "prepare", "mnist", "--source", tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist: download"):
        invoke("data", "prepare", "ecg", "--source", tmp_path / "nowhere")
    for name, origin in ORIGINS.items():
        with pytest.raises(FileNotFoundError, match="holds n") as error:
            invoke("data", "prepare", name, "--source", tmp_path)
        assert origin.page in str(error.value)
    assert not cache.exists()
