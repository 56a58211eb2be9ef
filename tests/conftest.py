"""Shared by all tests."""

import pytest
import torch

collect_ignore = ["bench/plugin_for_tests.py"]  # importing it adds to the registry, which the search for doctests would do


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """One thread: the tests are small, and torch's threads wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
