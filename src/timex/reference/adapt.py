"""`adapt`: any model, as people have it, as a reference model.

Shapes: B samples, T time steps, D channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Unpack

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from timex.records import Series, as_series
from timex.reference.adaptation import Adaptation, How
from timex.reference.base import ReferenceModel, weights_hash
from timex.reference.beside import beside
from timex.reference.blackbox import BlackBox, answering
from timex.reference.copies import copied
from timex.reference.student import Distilled
from timex.reference.wrapped import Decided, Wrapped

TRIED = 256
"""Largest number of series in the trial of a model."""


def adapt(model: Any, x: ArrayLike | Tensor | Series | None = None, **how: Unpack[How]) -> ReferenceModel:
    """A frozen copy of a model that answers with embedding and logits. Every explainer calls this itself.

    Args:
        model: A torch module; a skorch net; or a black box: a function from an array (N, T, D) to answers, an object with
            predict_proba, decision_function or predict, or an ONNX Runtime session.
        x: A few series to try the model on. Without them `tried` has to be called before the model runs.
        how: How to call and read it: the attributes of `timex.reference.adaptation.Adaptation`.

    Example:
        >>> module = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3))
        >>> z, logits = adapt(module, 100 * torch.randn(64, 6, 2)).output(torch.randn(4, 6, 2))
        >>> z.shape, logits.shape  # z enters the last linear layer
        (torch.Size([4, 5]), torch.Size([4, 3]))
    """
    adapted = _adapted(model_of(model), Adaptation.of(how))
    return adapted if x is None else tried(adapted, as_series(x))


def _adapted(model: Any, how: Adaptation) -> ReferenceModel:
    if isinstance(model, ReferenceModel) and not isinstance(model, Wrapped | BlackBox) and set(how.given) == {"target"}:
        return Wrapped(model, how)  # one of its classes against others
    if isinstance(model, ReferenceModel):
        if how.given and how != getattr(model, "how", None):
            names = ", ".join(f"{name}=" for name in how.given)
            raise ValueError(f"{type(model).__name__} is a reference model, called and read in one way: leave out {names}.")
        return copied(model)  # type: ignore[return-value]
    return Wrapped(model, how) if isinstance(model, nn.Module) else BlackBox(model, how)


def tried(model: ReferenceModel, series: Series, scale_numbers: bool = False) -> ReferenceModel:
    """The model after a trial on a few of the series."""
    device = next((v.device for v in (*model.parameters(), *model.buffers())), torch.device("cpu"))
    few = series.take(slice(0, TRIED)).tensors(device)
    with beside(few):
        return model.tried(few["x"], few.get("times"), few.get("observed"), scale_numbers=scale_numbers)


def found(model: ReferenceModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the trial of a model found, or the student of a black box, as JSON values and tensors; `readapted` takes both."""
    if isinstance(model, Wrapped) and model.decided is not None:
        return asdict(model.decided), {}
    if isinstance(model, Distilled):
        return dict(model.config), dict(model.state_dict())
    return {}, {}


def readapted(
    model: Any, how: Adaptation, values: Mapping[str, Any], tensors: dict[str, Tensor], series: Series
) -> ReferenceModel:
    """A model as `found` described it."""
    adapted = _adapted(model_of(model), how)
    if isinstance(adapted, Wrapped):
        adapted.decide(Decided.restored(values))
    adapted = tried(adapted, series)
    return Distilled.restored(adapted, values, tensors) if isinstance(adapted, BlackBox) else adapted


def model_hash(model: ReferenceModel) -> str:
    """The SHA-256 of the weights of the explained model; empty for a black box, whose weights are unknown."""
    if isinstance(model, BlackBox | Distilled):
        return ""
    return model.fingerprint if isinstance(model, Wrapped) else weights_hash(model)


def model_of(value: Any) -> Any:
    """The torch module in what people hand over, or the black box itself; a `ValueError` for anything else."""
    if isinstance(value, type):
        raise ValueError(f"Expected a trained model, got the class {value.__name__}: pass an instance.")
    if not isinstance(value, nn.Module):
        value = _contained(value)
    if not isinstance(value, nn.Module):
        answering(value)  # raises if it is no model at all
        return value
    if isinstance(value, torch.jit.ScriptModule):
        raise ValueError("Expected a plain torch.nn.Module, got one of torch.jit: pass the module it was made from.")
    if isinstance(value, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return model_of(value.module)
    if isinstance(getattr(value, "_orig_mod", None), nn.Module):  # torch.compile
        return model_of(value._orig_mod)
    if any(p.is_meta for p in value.parameters()):
        raise ValueError("The model's weights are on the meta device, where they have no values: load them first.")
    lazy = [name for name, p in value.named_parameters() if isinstance(p, nn.parameter.UninitializedParameter)]
    if lazy:
        raise ValueError(f"The model's {lazy[0]} has no values yet: run the model once, and train it, before explaining it.")
    return value


def _contained(value: Any) -> Any:
    """The module inside a skorch net; other values as they are."""
    if isinstance(value, torch.export.ExportedProgram):
        raise ValueError("Expected a torch.nn.Module, got an exported program: pass the module it was made from.")
    if callable(getattr(value, "initialize", None)) and hasattr(value, "criterion"):  # skorch
        if not isinstance(getattr(value, "module_", None), nn.Module):
            raise ValueError(f"The {type(value).__name__} has no trained module: call its fit before explaining it.")
        return value.module_
    return value
