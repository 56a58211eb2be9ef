"""`check_explainer`: whether an explainer keeps the contract of `timex.explainers.base`, for your own explainers too.

Shapes: N samples, T time steps, D channels, C classes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from timex.explainers.base import Explainer
from timex.records import Explanation, Series
from timex.reference.base import initialised
from timex.reference.copies import copied

Factory = Callable[[nn.Module], Explainer[Any]]
"""Makes an unfitted explainer of a model; the class itself, if it takes nothing else."""

N_FIT, N_EXPLAIN, T, D, C = 24, 7, 11, 3, 4
ATOL = 1e-5
"""Scores that should be equal may differ by this much: sums over chunks of another size round in another way."""


def check_explainer(factory: Factory, model: nn.Module | None = None, x: NDArray[np.float32] | None = None) -> None:
    """Check that an explainer keeps its contract, and that its class attributes are true.

    Checked are: shapes and finite values; the model's own predictions; the same scores at every call, after another fit, in
    chunks of any size and beside other samples; an unchanged model, unchanged arguments and an unchanged global random state;
    single series and `Series`; targets; missing cells; errors for data of a wrong shape; saving and loading, where offered.

    Args:
        factory: Makes an unfitted explainer of a model. Choose small settings: it is fitted several times.
        model: The model to explain; by default a small transformer with random weights.
        x: Series to fit on and to explain, (N, T, D) with at least 24 samples; random ones by default.

    Raises:
        AssertionError: If a promise is broken; the message names it.

    Example:
        >>> from timex.explainers import Saliency
        >>> check_explainer(Saliency)
    """
    case = Case(factory, _random_model() if model is None else model, _random_series() if x is None else x)
    for check in CHECKS:
        with case.unchanged():
            check(case)


@dataclass
class Case:
    """A model, series and the explainer under test, fitted once."""

    factory: Factory
    model: nn.Module
    x: NDArray[np.float32]

    @cached_property
    def explainer(self) -> Explainer[Any]:
        """The explainer, fitted."""
        return self.fitted()

    @cached_property
    def explanation(self) -> Explanation:
        """Its explanation of the first samples."""
        return self.explainer.explain(self.few)

    @property
    def few(self) -> NDArray[np.float32]:
        """The first samples."""
        return self.x[:N_EXPLAIN]

    def fitted(self, x: Any = None, **options: Any) -> Explainer[Any]:
        """A new explainer, fitted on x."""
        return self.factory(self.model).fit(self.x if x is None else x, progress=False, **options)

    def same(self, what: str, attribution: NDArray[np.float32], expected: Any = None, atol: float = ATOL) -> None:
        """Require an attribution to be that of the explanation, or another one."""
        expected = self.explanation.attribution if expected is None else expected
        shapes = attribution.shape, expected.shape
        _require(shapes[0] == shapes[1], f"{what}: attribution has shape {shapes[0]}, not {shapes[1]}")
        difference = float(np.abs(attribution - expected).max())
        _require(difference <= atol, f"{what}: scores differ by {difference:.2g}")

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Require that a check changes neither the model, nor the series, nor the global random state."""
        model, x, random = _state(self.model), self.x.tobytes(), torch.get_rng_state()
        yield
        _require(_state(self.model) == model, "the model was changed: work on a copy, see timex.reference.copies.copied")
        _require(self.x.tobytes() == x, "the series handed in were changed")
        _require(torch.equal(torch.get_rng_state(), random), "the global random state was changed: draw from a seed")


def _require(condition: bool, broken: str) -> None:
    if not condition:
        raise AssertionError(broken)


def _raises(kind: type[Exception], what: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{what}: expected a {kind.__name__}, none was raised")


# -------------------------------------------------------------------------------------------------------------- checks


def _needs_fit(case: Case) -> None:
    explainer = case.factory(case.model)
    if explainer.needs_fit:
        _raises(RuntimeError, "explain before fit", lambda: explainer.explain(case.few))
    else:
        case.same("without a fit", explainer.explain(case.few).attribution)
    _require(explainer.fit(case.x, progress=False) is explainer, "fit does not return self")


def _explanation(case: Case) -> None:
    e, explainer = case.explanation, case.explainer
    _require(isinstance(e, Explanation), "explain does not return an Explanation")
    _require(e.attribution.shape == case.few.shape, f"attribution has shape {e.attribution.shape}, not that of x")
    _require(e.attribution.dtype == np.float32, f"attribution has the type {e.attribution.dtype}, not float32")
    _require(float(np.ptp(e.attribution)) > 0, "attribution is constant")
    _require(np.array_equal(e.x, case.few), "the explanation holds other series than x")
    _require((e.method, e.signed) == (explainer.name, explainer.signed), "name or signed differ from the class attributes")


def _predictions(case: Case) -> None:
    with torch.no_grad():
        logits = copied(case.model)(torch.tensor(case.few))
    probability = logits.softmax(-1).numpy()
    _require(np.allclose(case.explanation.probability, probability, atol=ATOL), "probability is not the model's")
    _require(np.array_equal(case.explanation.prediction, logits.argmax(-1)), "prediction is not the model's")


def _deterministic(case: Case) -> None:
    case.same("explained again", case.explainer.explain(case.few).attribution, atol=0)
    case.same("fitted again", case.fitted().explain(case.few).attribution, atol=0)


def _other_chunks(case: Case) -> None:
    for chunk in (1, 3):
        case.same(f"in chunks of {chunk}", case.explainer.explain(case.few, chunk=chunk).attribution)
    whole = case.explanation.attribution[:2]
    case.same("beside fewer samples", case.explainer.explain(case.few[:2]).attribution, whole)


def _single_series(case: Case) -> None:
    e = case.explainer.explain(case.few[0])
    case.same("a single series (T, D)", e.attribution, case.explanation.attribution[:1])


def _series_records(case: Case) -> None:
    n = len(case.few)
    series = Series(case.few, y=np.zeros(n, dtype=int), ids=[f"sample {i}" for i in range(n)], truth=case.few > 0)
    e = case.explainer.explain(series)
    case.same("as a Series", e.attribution)
    _require(e.series.ids == series.ids, "the explanation lost the ids of a Series")
    _require(e.series.y is not None and e.series.truth is not None, "the explanation lost labels or truth of a Series")


def _targets(case: Case) -> None:
    n = len(case.few)
    if not case.explainer.takes_target:
        _raises(ValueError, "a target", lambda: case.explainer.explain(case.few, target=np.zeros(n, dtype=int)))
        _raises(ValueError, "a contrast", lambda: case.explainer.explain(case.few, contrast="runner-up"))
        return
    predicted = case.explanation.prediction
    case.same("the predicted class as target", case.explainer.explain(case.few, target=predicted).attribution)
    other = case.explainer.explain(case.few, target=0)
    _require(bool((other.prediction == 0).all()), "prediction does not hold the target")
    _raises(ValueError, "too few targets", lambda: case.explainer.explain(case.few, target=predicted[1:]))
    _raises(ValueError, "an unknown class", lambda: case.explainer.explain(case.few, target=10_000))


def _missing_cells(case: Case) -> None:
    n, t, _ = case.x.shape
    observed = np.ones(case.x.shape, dtype=bool)
    observed[:, 2:4, 0] = False
    observed[::3, -2:] = False  # padding
    times = np.tile(np.arange(1, t + 1) + 0.25 * (np.arange(t) % 2), (n, 1))  # uneven

    def explain(explainer: Explainer[Any], filler: float) -> NDArray[np.float32]:
        few = np.where(observed, case.x, filler)[:N_EXPLAIN]
        return explainer.explain(few, times=times[:N_EXPLAIN], observed=observed[:N_EXPLAIN]).attribution

    if not case.explainer.accepts_missing:
        _raises(ValueError, "missing cells", lambda: explain(case.explainer, 0.0))
        return
    nothing = explain(case.explainer, np.nan)
    _require(bool((nothing[~observed[:N_EXPLAIN]] == 0).all()), "missing cells have an attribution")
    case.same("other values in missing cells", explain(case.explainer, 1e6), nothing, atol=0)
    if case.explainer.needs_fit:
        fits = [case.fitted(np.where(observed, case.x, v), times=times, observed=observed) for v in (np.nan, 1e6)]
        first, second = (explain(fitted, np.nan) for fitted in fits)
        case.same("other values in missing cells of the fit", first, second, atol=0)


def _wrong_shapes(case: Case) -> None:
    bad = case.few.copy()
    bad[1, 2, 0] = np.nan
    _raises(ValueError, "x with NaN", lambda: case.explainer.explain(bad))
    _raises(ValueError, "x of shape (T,)", lambda: case.explainer.explain(case.few[0, :, 0]))
    _raises(ValueError, "x of shape (1, N, T, D)", lambda: case.explainer.explain(case.few[None]))
    _raises(ValueError, "times of another shape", lambda: case.explainer.explain(case.few, times=np.arange(3)))
    if case.explainer.needs_fit:
        _raises(ValueError, "fewer steps than in fit", lambda: case.explainer.explain(case.few[:, :-1]))


def _save_and_load(case: Case) -> None:
    save, load = (getattr(case.explainer, name, None) for name in ("save", "load"))
    if save is None or load is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(save(folder), case.model)
    case.same("saved and loaded", loaded.explain(case.few).attribution)


def _captum(case: Case) -> None:
    inputs = torch.tensor(case.few, dtype=torch.float64)
    out = case.explainer.attribute(inputs)
    _require((out.shape, out.dtype) == (inputs.shape, inputs.dtype), "attribute gives another shape or type than its inputs")
    case.same("attribute", out.float().numpy())


CHECKS: tuple[Callable[[Case], None], ...] = (
    _needs_fit,
    _explanation,
    _predictions,
    _deterministic,
    _other_chunks,
    _single_series,
    _series_records,
    _targets,
    _missing_cells,
    _wrong_shapes,
    _save_and_load,
    _captum,
)


# ---------------------------------------------------------------------------------------------------- models and series


def _random_series() -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(N_FIT, T, D)).astype(np.float32)


def _random_model() -> nn.Module:
    shape = {"n_channels": D, "n_classes": C, "n_steps": T, "d_hidden": 8}
    return balanced(initialised("transformer", shape, seed=1), torch.tensor(_random_series()))


@torch.no_grad()
def balanced(model: nn.Module, x: Tensor) -> nn.Module:
    """A model with random weights and an MLP `head`, its last layer scaled so that every class is predicted on x."""
    last: Any = model.get_submodule("head")[-1]  # type: ignore[index]
    logits = model(x)
    mean, std = logits.mean(0), logits.std(0)
    last.weight.div_(std[:, None])
    last.bias.sub_(mean).div_(std)
    return model


def _state(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that an explainer could change."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    tensors = {name: v for name, v in model.state_dict().items() if isinstance(v, Tensor)}
    return {
        "values": {name: v.detach().cpu().numpy().tobytes() for name, v in tensors.items()},
        "modes": {name: layer.training for name, layer in model.named_modules()},
        "gradients": {name: (p.requires_grad, p.grad is None) for name, p in model.named_parameters()},
        "hooks": {name: [list(getattr(layer, h)) for h in hooks] for name, layer in model.named_modules()},
    }
