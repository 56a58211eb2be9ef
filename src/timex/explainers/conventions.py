"""How other libraries call an explainer: scikit-learn reads its parameters and clones it, Captum asks for attributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from timex.checks import warn_caller
from timex.explainers.target import wanted_classes

if TYPE_CHECKING:
    from timex.records import Explanation


class Conventions:
    """The methods of scikit-learn and Captum, for `Explainer`."""

    takes_target: ClassVar[bool]
    fitted_: Any
    _given: dict[str, Any]
    _tried_shape: Any

    if TYPE_CHECKING:

        def explain(self, x: Any, target: Any = None) -> Explanation:
            """See `Explainer.explain`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the explainer was made with, as scikit-learn asks for it."""
        return dict(self._given)

    def set_params(self, **params: Any) -> Self:
        """Make the explainer anew with other arguments; what was fitted is forgotten."""
        self.__init__(**{**self._given, **params})  # type: ignore[misc]
        self.fitted_, self._tried_shape = None, None
        return self

    def __sklearn_clone__(self) -> Self:
        """An unfitted explainer of the same model, which is not copied here."""
        return type(self)(**self._given)

    def attribute(self, inputs: Any, target: Any = None) -> Any:
        """Attributions by Captum's calling convention, of the shape, type and device of `inputs`.

        Args:
            inputs: Series (N, T, D) as a tensor, or a tuple of one.
            target: The class to explain. A method that explains the predicted class alone warns where this is another class.
        """
        if isinstance(inputs, tuple):
            if len(inputs) != 1:
                raise ValueError(f"Expected one tensor of series, got {len(inputs)}: give other inputs with forward=.")
            return (self.attribute(inputs[0], target),)
        if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
            kind = inputs.dtype if isinstance(inputs, Tensor) else type(inputs).__name__
            raise ValueError(f"Expected inputs as a tensor of floating-point numbers, got {kind}: pass it as float32.")
        if isinstance(target, Tensor) and target.numel() == 1:
            target = int(target)  # Captum: one class for all samples
        explanation = self.explain(inputs, target if self.takes_target else None)
        if target is not None and not self.takes_target and explanation.numbers is None:
            self._warn_of_other_class(target, explanation)
        return torch.as_tensor(explanation.attribution, device=inputs.device, dtype=inputs.dtype).reshape(inputs.shape)

    def _warn_of_other_class(self, target: Any, explanation: Explanation) -> None:
        """Warn where a method that explains the predicted class was called for another class."""
        n, classes = len(explanation), explanation.series.classes
        wanted = wanted_classes(torch.from_numpy(explanation.probability), target, 0, n, classes).numpy()
        other = int((wanted != explanation.prediction).sum())
        if other:
            warn_caller(
                f"{type(self).__name__} explains the predicted class, which is not target= in {other} of {n} samples: their "
                "scores are those of the predicted class. Fit another explainer for that class (target= of the fit), or use a "
                "method that takes a target, such as ig or gradients."
            )
