"""The paper's tables and figures, run, kept and shown."""

from timex.bench import show
from timex.bench.grid import Settings
from timex.bench.run import Summary, run
from timex.bench.store import Store
from timex.bench.tables import TABLES, Experiment, Table

__all__ = ["TABLES", "Experiment", "Settings", "Store", "Summary", "Table", "run", "show"]
