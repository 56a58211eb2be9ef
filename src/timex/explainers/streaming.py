"""Explaining more series than memory holds: piece by piece, each as `explain` would explain it within all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from numpy.typing import ArrayLike
from torch import Tensor

from timex.explainers.target import part_of_target
from timex.io.pieces import pieces_of
from timex.io.sources import with_steps

if TYPE_CHECKING:
    from timex.records import Explanation, Series


class Streaming:
    """`explain_stream`, for `Explainer`."""

    needs_fit: ClassVar[bool]

    if TYPE_CHECKING:

        @property
        def fitted(self) -> Any:
            """See `Explainer.fitted`."""

        @classmethod
        def check_target(cls, *targets: Any) -> None:
            """See `Explainer.check_target`."""

        def explain_part(self, series: Series, first: int = 0, target: Any = None, contrast: Any = None) -> Explanation:
            """See `Explainer.explain_part`."""

    @final
    def explain_stream(
        self,
        data: Any,
        target: ArrayLike | Tensor | str | None = None,
        *,
        contrast: ArrayLike | Tensor | str | None = None,
        size: int | None = None,
    ) -> Iterator[Explanation]:
        """Explain more series than memory holds, some at a time; the scores are those of `explain`.

        Args:
            data: A torch loader or data set; an iterable of batches (B, T, D), of pairs (x, y), of dicts or of `Series`; an
                array, or anything with shape and slices, such as a memory-mapped, Zarr or HDF5 array; a pyarrow data set or
                table; or the path of a file.
            target: As in `explain`.
            contrast: As in `explain`.
            size: Samples of an explanation, where the data does not come in batches; by default about 260,000 cells.

        Returns:
            An iterator over explanations, in the order of the data.
        """
        self.check_target(target, contrast)
        pieces = pieces_of(data, size, *self._file_names())
        if self.needs_fit and (isinstance(data, str | Path) or hasattr(data, "to_batches")):
            pieces = (with_steps(series, self.fitted.shape[0]) for series in pieces)  # the longest may be in another piece
        return self._explained_pieces(pieces, target, contrast)

    def _explained_pieces(self, pieces: Iterable[Series], target: Any, contrast: Any) -> Iterator[Explanation]:
        first = 0
        for series in pieces:
            n = len(series)
            yield self.explain_part(series, first, part_of_target(target, first, n), part_of_target(contrast, first, n))
            first += n

    def _file_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the classes and channels by which files are read."""
        return (), ()
