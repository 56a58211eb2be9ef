"""Random numbers for stacked trainings: a function of a key and a position, independent of device and of K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from timex.engine.parallel import WHOLE, Part
from timex.engine.stacking import stacking

_MIX_1 = -4658895280553007687  # odd multipliers of a 64-bit finaliser
_MIX_2 = -7723592293110705685


def mix(x: Tensor) -> Tensor:
    """Scramble int64 so that neighbouring inputs give unrelated outputs (a xor-shift-multiply finaliser)."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * _MIX_1
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


class Noise:
    """Random numbers that are a function of (key, place in the stream), and of nothing else.

    Plain tensor operations: they can be stacked by vmap, captured in a graph, and give the same numbers on every device and
    for every K. One `Noise` serves one step of one member; each call of a method takes the next words of its stream.

    Args:
        key: The stream, an int64 scalar.
        pool: Words to draw in advance, for one long draw is faster than many short ones; the numbers are the same.
        part: The place of this process among those that share a batch: it gets its rows of the numbers of the whole batch.
    """

    def __init__(self, key: Tensor, pool: int = 0, part: Part = WHOLE) -> None:
        self.part = part
        self.base = mix(key)
        self.used = 0
        self._words = self._draw(0, pool) if pool else None
        self._octets = None if self._words is None else octets(self._words)

    def _draw(self, start: int, n: int) -> Tensor:
        return mix(self.base + torch.arange(start, start + n, device=self.base.device))

    def _take(self, n: int) -> tuple[int, bool]:
        """The place of the next n words, and whether they were drawn in advance."""
        start, self.used = self.used, self.used + n
        return start, self._words is not None and self.used <= len(self._words)

    def of_all(self) -> Noise:
        """The same stream, from here on for rows that were gathered from all processes."""
        self.part = WHOLE
        return self

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on (0, 1), 23 bits so that float32 holds every value and never rounds to exactly 0 or 1."""
        if self.part.size > 1:
            return self._rows(self._uniform(self.part.size * shape[0], *shape[1:]))
        return self._uniform(*shape)

    def _rows(self, values: Tensor) -> Tensor:
        return values[self.part.rows(len(values))]

    def _uniform(self, *shape: int) -> Tensor:
        n = math.prod(shape)
        start, drawn = self._take(m := (n + 1) // 2)
        words = self._words[start : start + m] if drawn and self._words is not None else self._draw(start, m)
        halves = torch.cat([(words >> shift) & 0x7FFFFF for shift in (41, 9)])[:n]  # two numbers from each 64-bit word
        return ((halves.float() + 0.5) * 2.0**-23).reshape(shape)

    def keep(self, shape: Sequence[int], rate: float) -> Tensor:
        """1 where dropout keeps an element, 0 (with probability `rate`, to the nearest 1/256) where not; bool or int8.

        Dropout is the hot path, so one 64-bit word serves eight elements, a byte each.
        """
        if self.part.size > 1:
            return self._rows(self._keep((self.part.size * shape[0], *shape[1:]), rate))
        return self._keep(shape, rate)

    def _keep(self, shape: Sequence[int], rate: float) -> Tensor:
        n = math.prod(shape)
        start, drawn = self._take(m := (n + 7) // 8)
        bytes_ = self._octets[8 * start :] if drawn and self._octets is not None else octets(self._draw(start, m))
        bytes_, lowest = bytes_[:n].reshape(tuple(shape)), round(rate * 256) - 128
        if bytes_.is_cuda or lowest == -128:
            return bytes_ >= lowest
        return bytes_.clamp(lowest - 1, lowest) - (lowest - 1)  # on a CPU three times as fast as to compare


def octets(words: Tensor) -> Tensor:
    """The bytes of 64-bit words, lowest first: (n,) -> (8 n,) int8."""
    if not stacking():
        return words.view(torch.int8)
    if torch.compiler.is_compiling():
        return (words[:, None] >> torch.arange(0, 64, 8, device=words.device)).to(torch.int8).flatten()
    return _Octets.apply(words)


class _Octets(torch.autograd.Function):
    """Bytes without a copy; older torch cannot vmap such a view."""

    @staticmethod
    def forward(words: Tensor) -> Tensor:
        return words.view(torch.int8)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], words: Tensor) -> tuple[Tensor, int]:
        assert in_dims == (0,)
        return words.contiguous().view(torch.int8), 0


def normal_from_uniform(u: Tensor) -> Tensor:
    """Standard normal draws from uniform ones, by the inverse of the distribution function.

    Args:
        u: Uniform noise in [0, 1], any shape; its ends are finite, about 5.2 standard deviations out in float32.

    Example:
        >>> normal_from_uniform(torch.tensor([0.5, 0.8413])).round(decimals=2)
        tensor([0., 1.])
    """
    eps = torch.finfo(u.dtype).eps
    return torch.special.ndtri(u.clamp(eps, 1 - eps))


def dropout(x: Tensor, rate: float, noise: Noise | None) -> Tensor:
    """Dropout drawn from `noise`; with no noise (evaluation) the identity."""
    if noise is None or rate == 0.0:
        return x
    return x * _kept(x, rate, noise)


def residual(h: Tensor, branch: Tensor, rate: float, noise: Noise | None) -> Tensor:
    """The sum h + dropout(branch), in one pass."""
    if noise is None or rate == 0.0:
        return h + branch
    return torch.addcmul(h, branch, _kept(branch, rate, noise))


def _kept(x: Tensor, rate: float, noise: Noise) -> Tensor:
    """What dropout multiplies x by."""
    return noise.keep(x.shape, rate) * (256 / (256 - round(rate * 256)))
