"""Explanations for any time-series model, learned once, given in one forward pass.

>>> from timex import TimeX, load_dataset
>>> load_dataset("freqshapes").train.x.shape
(5000, 50, 1)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timex.data import load_dataset
    from timex.method.config import TimeXConfig
    from timex.method.explainer import TimeX
    from timex.method.fit import fit_many
    from timex.records import Dataset, Explanation, Series
    from timex.reference import load_reference
    from timex.reference.adapt import adapt
    from timex.trust.check import check
    from timex.trust.compare import compare
    from timex.trust.counterfactual import counterfactual

    __version__: str

__all__ = [
    "Dataset",
    "Explanation",
    "Series",
    "TimeX",
    "TimeXConfig",
    "adapt",
    "check",
    "compare",
    "counterfactual",
    "fit_many",
    "load_dataset",
    "load_reference",
]

_MODULES = {
    "Dataset": "timex.records",
    "Explanation": "timex.records",
    "Series": "timex.records",
    "TimeX": "timex.method.explainer",
    "TimeXConfig": "timex.method.config",
    "adapt": "timex.reference.adapt",
    "check": "timex.trust.check",
    "compare": "timex.trust.compare",
    "counterfactual": "timex.trust.counterfactual",
    "fit_many": "timex.method.fit",
    "load_dataset": "timex.data",
    "load_reference": "timex.reference",
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use: `timex --help` then needs no torch, which takes seconds to import."""
    if name == "__version__":
        value: Any = _version()
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'timex' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("timex-explain")
    except PackageNotFoundError:  # run from the source tree without being installed
        return "0+unknown"
