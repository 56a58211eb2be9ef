"""Shared by all tests, and by the examples in docstrings."""

import os
import random
import signal

# Set before torch is imported. The tests are small, and torch's threads wait for each other on a busy machine.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["COLUMNS"] = "160"  # the width of printed tables; pytest-xdist sets 80

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under nohup; the tests of Ctrl-C send it
    signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = ["tests/bench/plugin_for_tests.py"]  # the search for doctests would import it, which adds to the registry
collect_ignore_glob = ["*conftest.py"]  # the search for doctests would import several modules of this one name


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seeds the global generators before the fixtures of every test, so that no result depends on the order of tests."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
