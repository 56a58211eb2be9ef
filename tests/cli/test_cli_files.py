"""Output paths are checked before long work, and results are kept if the disk refuses them."""

import json
import shutil
from pathlib import Path

import pytest

from timex.cli.files import check_file, check_folder, keep, read_json


def test_folders_that_can_be_written(tmp_path):
    check_folder(tmp_path)
    check_folder(tmp_path / "new" / "deep")
    check_file(tmp_path / "new" / "e.npz", ".npz", ".csv")
    assert list(tmp_path.iterdir()) == []  # checking leaves nothing


def test_paths_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"Expected a folder for --out, got the file .*file"):
        check_folder(tmp_path / "file")
    with pytest.raises(ValueError, match=r"Cannot write to .*inside: Not a directory. Choose another --out."):
        check_folder(tmp_path / "file" / "inside")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(ValueError, match="Expected a file for --out, got the folder"):
        check_file(tmp_path / "d.csv", ".csv")
    with pytest.raises(ValueError, match=r"Expected --out to end in .npz or .csv, got 'e.txt'"):
        check_file(tmp_path / "e.txt", ".npz", ".csv")

    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match="Read-only file system"):
        check_folder(tmp_path)


def test_a_result_is_kept_elsewhere_if_the_disk_is_full(tmp_path, caplog):
    def write(folder):
        if folder == tmp_path:
            raise OSError(28, "No space left on device")
        (folder / "weights").write_text("trained for hours")

    kept = keep(tmp_path, write)
    assert (kept / "weights").read_text() == "trained for hours"
    assert f"cannot write to {tmp_path} (No space left on device): the result is kept in {kept}" in caplog.text
    shutil.rmtree(kept)
    assert keep(tmp_path / "fine", Path.mkdir) == tmp_path / "fine"


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00", "[" * 100_000])
def test_damaged_json_names_the_file(tmp_path, text):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(ValueError, match=r"scores\.json"):
        read_json(tmp_path / "scores.json")
    (tmp_path / "scores.json").write_text(json.dumps({"ig": 1}))
    assert read_json(tmp_path / "scores.json") == {"ig": 1}
