"""The paper's tables and figures: measured, kept and shown."""

from timex.bench import show
from timex.bench.cells import Grid
from timex.bench.experiments import Experiment, Table
from timex.bench.run import Summary, run
from timex.bench.store import Store
from timex.bench.tables import TABLES

__all__ = ["TABLES", "Experiment", "Grid", "Store", "Summary", "Table", "run", "show"]
