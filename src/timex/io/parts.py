"""Explanations in parts: a folder with a .parquet file for each chunk of a source.

    DIR/explain.json           the data, explainer and settings that the work began with
    DIR/part-000012.parquet    the explanations of chunk 12

Each part is written beside and renamed. A part is there whole, or it is not there and its chunk is explained again. So no row
is lost or doubled, whenever the work is killed, and whoever does it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from timex.io.atomic import atomic_path, clear_leftovers
from timex.io.explanations import explanation_frame, read_explanation
from timex.io.facts import expect_facts
from timex.io.parquet_source import Apart, Once, samples_of
from timex.io.sources import Chunk, named_by_place
from timex.io.tables import FACTS, decoded, open_parquet, write_csv_frames, write_parquet_frame
from timex.records import Explanation

BEGUN = "explain.json"
NAME = re.compile(r"part-(\d{6,})\.parquet")


class Parts:
    """The parts in a folder.

    Args:
        folder: Where they are, or will be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def done(self) -> list[int]:
        """The numbers of the chunks whose explanations are there."""
        found = (NAME.fullmatch(path.name) for path in self.folder.glob("part-*.parquet"))
        return sorted(int(match[1]) for match in found if match)

    def expect(self, facts: dict[str, Any]) -> None:
        """Refuse to go on if a fact about the work differs from what the folder holds."""
        expect_facts(self.folder / BEGUN, "explanations", facts)

    def path(self, number: int) -> Path:
        """The file of one part."""
        return self.folder / f"part-{number:06d}.parquet"

    def write(self, chunk: Chunk, explanation: Explanation, facts: dict[str, int]) -> None:
        """Write the explanations of one chunk, with facts that are wanted without reading them.

        Samples without a name are named by their index in the source.
        """
        named = replace(explanation, series=named_by_place(explanation.series, chunk.first))
        facts = {**facts, "named": int(bool(explanation.series.ids))}
        write_parquet_frame(self.path(chunk.number), explanation_frame(named), named.series, part=facts)

    def facts(self, number: int) -> dict[str, int]:
        """The facts that `write` was given."""
        with open_parquet(self.path(number)) as file:
            return dict(json.loads(file.schema_arrow.metadata[FACTS])["part"])

    def read(self, number: int) -> Explanation:
        """The explanations of one chunk, without names that `write` gave."""
        explanation = read_explanation(self.path(number))
        if self.facts(number)["named"]:
            return explanation
        return replace(explanation, series=replace(explanation.series, ids=()))

    def join(self, out: Path, count: int) -> None:
        """Write the parts of so many chunks as one file: .parquet, or .csv."""
        if missing := sorted({*range(count)} - {*self.done}):
            raise ValueError(
                f"Expected the parts of {count} chunks in {self.folder}, but {len(missing)} are missing, part {missing[0]} "
                "first: explain again with --resume."
            )
        self._check_names()
        if out.suffix.lower() == ".csv":
            write_csv_frames(out, (decoded(table) for table in self._tables()))
            return
        import pyarrow.parquet as pq

        tables = self._tables()
        first = next(tables)
        with atomic_path(out) as beside, pq.ParquetWriter(beside, first.schema, write_page_checksum=True) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    def clear(self) -> None:
        """Remove what this class wrote, and the folder if nothing else is in it."""
        self.clear_leftovers()
        for path in [*map(self.path, self.done), self.folder / BEGUN]:
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def clear_leftovers(self) -> None:
        """Remove the temporary files of killed processes."""
        clear_leftovers(self.folder, "part-*.parquet")
        clear_leftovers(self.folder, BEGUN)

    def _tables(self) -> Iterator[Any]:
        for number in self.done:
            with open_parquet(self.path(number)) as file:
                for group in range(file.num_row_groups):
                    yield file.read_row_group(group)

    def _check_names(self) -> None:
        """Refuse to join parts in which a name stands for two samples, as in a folder whose files all count from 0."""

        def names() -> Iterator[Sequence[Any]]:
            for number in self.done:
                with open_parquet(self.path(number)) as file:
                    yield from samples_of(file)

        with Once() as once:
            for some in names():
                once.add(some)
            try:
                once.check(names())
            except Apart as error:
                raise ValueError(
                    f"{error} Give every sample a name of its own, or write a folder: --out without a suffix."
                ) from None
