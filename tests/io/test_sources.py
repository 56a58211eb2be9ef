"""Files in chunks: together the chunks are what `read_series` reads, and any chunk can be read alone."""

import numpy as np
import pandas as pd
import pytest

from timex import Series
from timex.io import npz_source, parquet_source, sources
from timex.io.files import open_series, read_series, write_series
from timex.io.parquet_source import Once
from timex.io.sources import ManySources, SeriesSource, even_chunks, fingerprint, named_by_place, with_steps


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of about 30 cells, and batches of 7 rows."""
    monkeypatch.setattr(sources, "CHUNK_CELLS", 30)
    monkeypatch.setattr(parquet_source, "CHUNK_CELLS", 30)
    monkeypatch.setattr(parquet_source, "BATCH", 7)


@pytest.fixture
def series():
    """11 labelled series of 5 steps and 2 channels with gaps, of different length."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(11, 5, 2)).astype("float32")
    x[rng.random(x.shape) < 0.2] = np.nan
    x[3, 3:], x[7, 4:] = np.nan, np.nan
    x[4, :, 0] = np.nan  # the first channel has no value in this sample
    return Series.with_gaps(
        x,
        y=np.arange(11) % 3,
        truth=rng.random(x.shape) < 0.3,
        ids=[f"s{i}" for i in range(11)],
        channels=("hr", "spo2"),
        classes=("a", "b", "c"),
        units=("bpm", "%"),
        scaling=([1.0, 2.0], [3.0, 4.0]),
    )


def assert_same(series, whole):
    assert (series.ids, series.channels, series.classes, series.units) == (
        whole.ids,
        whole.channels,
        whole.classes,
        whole.units,
    )
    assert series.scaling == whole.scaling
    for name in ("x", "times", "observed", "y", "truth"):
        np.testing.assert_array_equal(getattr(series, name), getattr(whole, name))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("name", "layout"), [("a.parquet", "long"), ("a.parquet", "wide"), ("a.npz", "long"), ("a.csv", "long")]
)
def test_chunks_together_are_the_file(series, tmp_path, name, layout):
    path = tmp_path / name
    write_series(path, series, layout)
    source = open_series(path, series.classes)
    assert len(source.chunks) > 2
    assert [c.number for c in source.chunks] == list(range(len(source.chunks)))
    assert [c.first for c in source.chunks] == np.cumsum([0, *(c.samples for c in source.chunks)])[:-1].tolist()
    parts = [part for _, part in source.read(source.chunks)]
    assert [len(part) for part in parts] == [c.samples for c in source.chunks]
    whole = read_series(path, series.classes)
    assert_same(Series.joined([with_steps(part, 5) for part in parts]), whole)
    for chunk in (source.chunks[-1], source.chunks[1]):  # alone, and in any order
        ((again, part),) = source.read([chunk])
        assert again == chunk
        assert_same(part, parts[chunk.number])


@pytest.mark.usefixtures("small_chunks")
def test_the_size_of_row_groups_does_not_matter(series, tmp_path):
    import pyarrow.parquet as pq

    write_series(tmp_path / "a.parquet", series)
    table = pq.read_table(tmp_path / "a.parquet")
    whole = read_series(tmp_path / "a.parquet")
    for rows in (1, 9, 10, 1000):
        pq.write_table(table, tmp_path / "b.parquet", row_group_size=rows)
        source = open_series(tmp_path / "b.parquet")
        assert_same(Series.joined([with_steps(part, 5) for _, part in source.read(source.chunks)]), whole)


@pytest.mark.usefixtures("small_chunks")
def test_a_channel_without_a_row_in_a_chunk_is_missing_there(tmp_path):
    rows = [(s, t, c, s + t) for s in range(12) for t in range(3) for c in ("u", "v") if s < 5 or c == "v"]
    pd.DataFrame(rows, columns=["sample", "time", "channel", "value"]).to_parquet(tmp_path / "a.parquet", index=False)
    source = open_series(tmp_path / "a.parquet")
    parts = [part for _, part in source.read(source.chunks)]
    assert {part.channels for part in parts} == {("u", "v")}
    assert not parts[-1].observed[:, :, 0].any()
    assert parts[-1].observed[:, :, 1].all()
    swapped = open_series(tmp_path / "a.parquet", channels=("v", "u"))
    assert [part.channels for _, part in swapped.read(swapped.chunks)] == [("v", "u")] * len(parts)


@pytest.mark.usefixtures("small_chunks")
def test_samples_apart_are_read_as_a_whole(series, tmp_path, caplog):
    write_series(tmp_path / "a.parquet", series)
    table = pd.read_parquet(tmp_path / "a.parquet").sort_values("time", kind="stable")
    table.to_parquet(tmp_path / "b.parquet", index=False)
    source = open_series(tmp_path / "b.parquet", series.classes)
    assert isinstance(source, SeriesSource)
    assert "b.parquet is read into memory as a whole. The rows of a sample do not stand together: s" in caplog.text
    assert sum(len(part) for _, part in source.read(source.chunks)) == 11


def test_arrays_by_columns_are_read_as_a_whole(tmp_path, caplog):
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.savez(tmp_path / "a.npz", x=np.asfortranarray(x))
    source = open_series(tmp_path / "a.npz")
    ((_, part),) = source.read(source.chunks)
    np.testing.assert_array_equal(part.x, x)
    assert "stored by rows" in caplog.text


@pytest.mark.parametrize("name", ["a.parquet", "a.npz"])
def test_a_damaged_file_is_named(series, tmp_path, name):
    path = tmp_path / name
    write_series(path, series)
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=name):
        open_series(path)


def test_unknown_labels_in_a_later_chunk_name_the_file(series, tmp_path, small_chunks):
    write_series(tmp_path / "a.parquet", series)
    source = open_series(tmp_path / "a.parquet", ("a", "b"))
    with pytest.raises(ValueError, match=r"a\.parquet: Expected labels among"):
        list(source.read(source.chunks))


def test_many_sources_count_through(series, monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_CELLS", 30)
    many = ManySources([SeriesSource(series), SeriesSource(series.take(slice(0, 4)))])
    assert [(c.number, c.first, c.samples) for c in many.chunks] == [
        (0, 0, 3),
        (1, 3, 3),
        (2, 6, 3),
        (3, 9, 2),
        (4, 11, 3),
        (5, 14, 1),
    ]
    read = list(many.read([many.chunks[i] for i in (1, 3, 5)]))
    assert [chunk.number for chunk, _ in read] == [1, 3, 5]
    assert [part.ids for _, part in read] == [("s3", "s4", "s5"), ("s9", "s10"), ("s3",)]


def test_a_name_that_comes_twice_is_found_among_many(monkeypatch):
    monkeypatch.setattr(parquet_source, "HASHES", 100)
    monkeypatch.setattr(parquet_source, "BATCH", 64)
    for twice in (False, True):
        with Once() as once:
            once.add([f"n{i}" for i in range(1000)])
            once.add(["n1000", "n123" if twice else "n1001"])
            if not twice:
                once.check()
                continue
            with pytest.raises(parquet_source.Apart, match="n123"):
                once.check([["n1", "n123"]])


def test_padding_holds_nothing(series):
    longer = with_steps(series, 7)
    assert longer.shape == (11, 7, 2)
    assert not longer.observed[:, 5:].any()
    assert not longer.truth[:, 5:].any()
    assert (longer.times[:, 5:] == 0).all()
    assert with_steps(series, 4) is series


def test_names_by_place():
    assert named_by_place(Series(np.zeros((2, 3, 1))), 5).ids == ("5", "6")
    named = Series(np.zeros((1, 3, 1)), ids=["a"])
    assert named_by_place(named, 5) is named


def test_a_changed_file_has_another_fingerprint(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    first = fingerprint(path)
    path.write_bytes(b"abd")
    assert fingerprint(path) != first
    assert even_chunks(2, 3, 4) == ((0, 0, 2, 0, 2),)
    assert npz_source.PER_SAMPLE[0] == "x"
