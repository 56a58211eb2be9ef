"""Shared by all tests."""

import os

# Set before torch is imported. The tests are small, and torch's threads wait for each other on a busy machine.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["COLUMNS"] = "160"  # the width of printed tables; pytest-xdist sets 80

collect_ignore = ["bench/plugin_for_tests.py"]  # importing it adds to the registry, which the search for doctests would do
collect_ignore_glob = ["*conftest.py"]  # the search for doctests would import several modules of this one name
