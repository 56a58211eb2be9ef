"""A cache of their own for tests of real data, and the real files where there are any."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TIMEX_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def shared():
    """The folder of real data, which is not part of the repository."""
    folder = Path(os.environ.get("TIMEX_TEST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    if not (folder / "mitbih_lead0.npz").is_file():
        pytest.skip(f"no real data in {folder}: set TIMEX_TEST_DATA to the folder that has it")
    return folder
