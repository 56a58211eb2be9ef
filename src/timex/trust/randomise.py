"""Do explanations follow the model's weights? Layer after layer is put in a random order, and the model explained again.

Shapes: N samples, T time steps, D channels.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from timex.explainers.base import Explainer
from timex.metrics import rank_correlation
from timex.records import Explanation, Series, as_series
from timex.reference.copies import copied
from timex.reference.wrapped import Wrapped
from timex.trust.interval import Interval

Order = Literal["top down", "bottom up"]


@torch.no_grad()
def shuffled(model: nn.Module, seed: int, layers: Sequence[str] | None = None) -> nn.Module:
    """A copy of the model with the entries of every weight tensor in a random order.

    Args:
        model: A torch module.
        seed: Seed of the orders.
        layers: Names of the modules whose own weights are shuffled; all by default.
    """
    other = copied(model)
    generator = torch.Generator().manual_seed(seed)
    for name, p in other.named_parameters():
        if layers is None or name.rpartition(".")[0] in layers:
            order = torch.randperm(p.numel(), generator=generator).to(p.device)
            p.copy_(p.flatten()[order].reshape(p.shape))
    return other


def layers_of(model: nn.Module) -> list[str]:
    """Names of the modules that have weights of their own, in the order of the model, which is from input to output."""
    return list(dict.fromkeys(name.rpartition(".")[0] for name, _ in model.named_parameters()))


def explained_by(explainer: Explainer[Any], model: nn.Module, series: Series, train: Series | None) -> Explanation:
    """Explanations of another model by the same method and settings; a method that needs a fit is fitted on `train`."""
    other = copy.copy(explainer)
    other.model = model
    if explainer.needs_fit and train is not None:
        other.fitted_ = None
        other.fit(train, progress=False)
    return other.explain(series)


def correlation_with(explanation: Explanation, other: Explanation) -> NDArray[np.float64]:
    """Rank correlation with other explanations of the same series, (N,); 1 for two constant maps, 0 if one map is constant."""
    a, b, seen = explanation.attribution, other.attribution, explanation.observed
    undefined = np.where(_constant(a, seen) & _constant(b, seen), 1.0, 0.0)
    found = rank_correlation(a, b, seen)
    return np.where(np.isnan(found), undefined, found)


def _constant(attribution: NDArray[np.float32], seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether all measured cells of a sample have one value, (N,)."""
    largest, smallest = (np.where(seen, sign * attribution, -np.inf).max(axis=(1, 2)) for sign in (1, -1))
    return np.asarray(largest <= -smallest)


def parameter_randomisation(
    explainer: Explainer[Any],
    x: ArrayLike | Tensor | Series,
    train: ArrayLike | Tensor | Series | None = None,
    *,
    order: Order = "top down",
    layers: Sequence[str] | None = None,
    seed: int = 0,
) -> dict[str, Interval]:
    """Rank correlation of explanations with those of the model after more and more layers were shuffled; lower is better.

    The model's parameter randomisation test (Adebayo et al., 2018), cumulative. An explanation that follows the model
    loses its likeness. The weights of a layer keep their values in another order.

    Args:
        explainer: Any explainer of a model with weights, fitted if it needs a fit.
        x: Series to explain, (N, T, D), or a `Series`.
        train: Training series. A method that needs a fit is fitted again for every shuffled model.
        order: From the last layer to the first, or from the first to the last.
        layers: Names of modules to shuffle; by default all that have weights.
        seed: Seed of the new orders.

    Returns:
        The mean over the series with its interval, by the name of the layer shuffled last.

    Example:
        >>> from timex.explainers import Saliency
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 2))
        >>> list(parameter_randomisation(Saliency(model, device="cpu"), np.ones((3, 6, 2))))
        ['3', '1']
    """
    if not list(explainer.model.parameters()):
        raise ValueError("Expected an explainer of a torch module, got one of a black box: its weights are not known.")
    if explainer.needs_fit and train is None:
        raise ValueError("Expected train= for a refit: the series to fit the explainer again on.")
    if order not in ("top down", "bottom up"):
        raise ValueError(f"Expected order as 'top down' or 'bottom up', got {order!r}.")
    series, known = as_series(x), None if train is None else as_series(train)
    explanation = explainer.explain(series)
    names = {_short(explainer.model, name): name for name in layers_of(explainer.model)}
    chosen = list(names) if layers is None else list(layers)
    if missing := [name for name in chosen if name not in names]:
        raise ValueError(f"Expected layers among {', '.join(names)}, got {', '.join(missing)}.")
    found = {}
    for i in range(len(chosen)):
        until = chosen[len(chosen) - 1 - i :] if order == "top down" else chosen[: i + 1]
        model = shuffled(explainer.model, seed, [names[name] for name in until])
        other = explained_by(explainer, model, series, known)
        found[until[0] if order == "top down" else until[-1]] = Interval.of(correlation_with(explanation, other))
    return found


def _short(model: nn.Module, name: str) -> str:
    """The name of a layer as the user's module has it, which an adapter holds as `module`."""
    return name.removeprefix("module.") if isinstance(model, Wrapped) else name
