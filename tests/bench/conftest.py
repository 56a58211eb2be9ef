"""The plugin adds to the registry when it is imported, which the search for doctests would do."""

collect_ignore = ["plugin_for_tests.py"]
