"""Hypothesis strategies: what people hand in, right and wrong."""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from hypothesis import strategies as st

from timex.metrics.hiding import FILLS

T, D, C = 6, 2, 3
"""Steps and channels of the models, and their classes."""
DTYPES = ("f2", "f4", "f8", "i1", "i4", "u2", "?", "c8", "M8[s]", "U3", "O", ">f4")
ODD = (None, 0, -1, 1.5, float("nan"), float("inf"), "text", b"bytes", [], [[1], [2, 3]], {}, object(), True, 2**70)


@st.composite
def arrays(draw, shapes=None):
    """An array of any shape, type, stride and content: noise, constants, huge values, NaN in patterns."""
    n = draw(st.sampled_from([1, 2, 3, 4, 12, 12, 0]))
    right = (n, T, D)
    usual_ones = st.sampled_from([right] * 8 + [right[1:], (n, T), (n, D, T), (), (n, T, D, 1), (n, 1, D)])
    shape = draw(usual_ones if shapes is None else shapes)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from(["noise"] * 5 + ["constant", "huge", "tiny", "nan", "nan rows", "inf", "zeros"]))
    x = rng.normal(size=shape)
    x = {"constant": np.full(shape, 3.0), "zeros": np.zeros(shape), "huge": x * 1e30, "tiny": x * 1e-30}.get(kind, x)
    if kind in ("nan", "inf") and x.size:
        x = np.where(rng.random(shape) < 0.2, np.nan if kind == "nan" else np.inf, x)
    if kind == "nan rows" and x.ndim and x.size:
        x = x.copy()
        x[0] = np.nan
    return draw(laid_out(x))


@st.composite
def laid_out(draw, x):
    """The same values in another type and memory layout."""
    dtype = draw(st.sampled_from(("f4",) * 16 + DTYPES))
    with np.errstate(all="ignore"), contextlib.suppress(TypeError, ValueError):
        x = x.astype(dtype)
    layout = draw(st.sampled_from(["plain", "plain", "fortran", "negative", "read-only", "masked", "tensor", "list"]))
    if not x.ndim:
        return x
    if layout == "fortran":
        return np.asfortranarray(x)
    if layout == "negative":
        return x[::-1]
    if layout == "read-only":
        x.flags.writeable = False
    elif layout == "masked" and x.dtype.kind == "f":
        return np.ma.masked_array(x, mask=np.zeros(x.shape, bool))
    elif layout == "tensor" and x.dtype.kind in "fiub" and x.dtype.isnative and x.dtype != np.uint16:
        return torch.from_numpy(np.ascontiguousarray(x))
    elif layout == "list":
        return x.tolist()
    return x


@st.composite
def odd_or(draw, strategy):
    """Mostly the strategy, at times something that nobody expects."""
    return draw(strategy) if draw(st.integers(0, 7)) else draw(st.sampled_from(ODD))


@st.composite
def usual(draw, strategy):
    """Mostly nothing, which is the default of most arguments."""
    return None if draw(st.integers(0, 7)) else draw(strategy)


times = usual(odd_or(arrays(st.sampled_from([(T,), (2, T), (3, T)]))))
observed = usual(odd_or(arrays(st.sampled_from([(2, T, D), (2, T), (3, T, D), (T, D)]))))
labels = usual(odd_or(st.lists(st.one_of(st.integers(-1, 5), st.floats(), st.text(max_size=2)), max_size=5)))
targets = usual(odd_or(st.one_of(st.integers(-2, 4), st.text(max_size=3), st.just("runner-up"), st.lists(st.integers(0, 2)))))
names = usual(odd_or(st.lists(st.text(max_size=3), max_size=3)))
chunks = usual(odd_or(st.integers(-1, 3)))
numbers = st.one_of(
    st.integers(), st.floats(), st.none(), st.text(max_size=3), st.booleans(), st.lists(st.integers(), max_size=2)
)
fills = odd_or(st.sampled_from(FILLS))
seeds = st.integers(-1, 9)
batches = st.one_of(
    arrays(),
    st.lists(arrays(), max_size=3),
    st.lists(st.tuples(arrays(), labels), max_size=2),
    st.lists(
        st.fixed_dictionaries({"x": arrays()}, optional={"times": times, "y": st.lists(st.integers(-1, 3)), "other": numbers}),
        max_size=2,
    ),
)
"""What `explain_stream` takes: arrays and iterables of batches."""
series_ = arrays(st.sampled_from([(T, D), (T, D), (3, D), (D, T), (T,)]))
containers = st.one_of(
    arrays(),
    st.lists(series_, max_size=4),
    st.dictionaries(st.sampled_from(["x", "label", "y", "other"]), st.one_of(arrays(), labels), max_size=3),
    st.lists(st.tuples(series_, st.integers(0, 3)), max_size=3),
)
"""What `Series.from_` takes: arrays, lists, columns and items."""
