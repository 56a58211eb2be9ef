"""What the model itself says of an explanation: `check` one explainer, `compare` several methods. No truth is needed."""

from timex.trust.check import check
from timex.trust.compare import compare

__all__ = ["check", "compare"]
