"""What the model itself says of an explanation: `check` one explainer, `compare` several methods. No truth is needed."""

from timex.trust.check import check
from timex.trust.compare import compare
from timex.trust.counterfactual import counterfactual
from timex.trust.randomise import parameter_randomisation

__all__ = ["check", "compare", "counterfactual", "parameter_randomisation"]
