"""The keys of a plan with a pace: in blocks, of which chunks are cut while the query runs.

A block lies out of the control source's sight. Its keys are in the order in which any piece of it
is spread over all partitions. A chunk's name says which piece it is, so that what was cut is known
from the names of files alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.logs.offsets import names_in
from statemigrate.errors import CorruptFileError
from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.shell import argument

if TYPE_CHECKING:
    import pyarrow as pa

ENTRIES = "statemigrate_entries"
"""The column of a block that says how many entries are under a key."""
KEYS_IN_BLOCK = 50_000
_CUT = re.compile(r"([0-9]{5,})-([0-9]{7,})-([0-9]{7,})-([0-9]+)\.parquet")
_BLOCK = re.compile(r"part-([0-9]{5,})-.*\.parquet")


@dataclass(frozen=True, order=True)
class Cut:
    """The keys ``start`` to ``end`` (without it) of a block, and how many ``entries`` they have."""

    block: int
    start: int
    end: int
    entries: int

    @property
    def keys(self) -> int:
        """How many keys it has."""
        return self.end - self.start

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.block:05}-{self.start:07}-{self.end:07}-{self.entries}.parquet"


def cuts_of(plan: str, names: Iterable[str]) -> dict[str, Cut]:
    """Which of the control source's files are cuts of a plan, and what is in them."""
    found = {name: _CUT.fullmatch(name.removeprefix(f"{plan}/")) for name in names}
    return {name: Cut(*map(int, match.groups())) for name, match in found.items() if match}


class Blocks:
    """The blocks of a plan that are left, and the place in them up to which chunks were cut."""

    def __init__(self, files: ChunkFiles, plan: str, after: Cut | None) -> None:
        self._files = files
        self._plan = plan
        names = names_in(files.files, f"{files.blocks}/{plan}")
        matches = [match for name in names if (match := _BLOCK.fullmatch(name))]
        self._names = {int(match[1]): f"{files.blocks}/{plan}/{match[0]}" for match in matches}
        self._after = after
        self._read = lru_cache(maxsize=1)(self._table)

    def keys(self) -> int:
        """How many keys are in no chunk yet."""
        after = self._after
        counts = {number: self._rows(number) for number in self._ahead()}
        cut = 0 if after is None else min(after.end, counts.get(after.block, 0))
        return sum(counts.values()) - cut

    def entries(self) -> int:
        """How many entries are under those keys."""
        after = self._after
        starts = {} if after is None else {after.block: after.end}
        counts = ((each, self._read(each).column(ENTRIES).to_pylist()) for each in self._ahead())
        return sum(sum(column[starts.get(number, 0) :]) for number, column in counts)

    def cut(self, entries: int) -> Cut | None:
        """Make a chunk of the next keys that have ``entries`` together, one or more.

        None where nothing is left. A chunk ends with its block.
        """
        for number in self._ahead():
            table, before = self._read(number), self._after
            start = before.end if before is not None and before.block == number else 0
            if start < len(table):
                return self._made(number, table, start, entries)
            self._files.files.delete([self._names.pop(number)])
        return None

    def _made(self, number: int, table: pa.Table, start: int, entries: int) -> Cut:
        from pyarrow import parquet

        counts = table.column(ENTRIES).slice(start).to_pylist()
        end, total = start, 0
        while end < len(table) and (end == start or total + counts[end - start] <= entries):
            total += counts[end - start]
            end += 1
        cut = Cut(number, start, end, total)
        written = BytesIO()
        parquet.write_table(table.slice(start, end - start).drop_columns([ENTRIES]), written)
        self._files.files.put(f"{self._files.chunks}/{self._plan}/{cut.name}", written.getvalue())
        self._after = cut
        return cut

    def _ahead(self) -> list[int]:
        least = -1 if self._after is None else self._after.block
        return sorted(number for number in self._names if number >= least)

    def _rows(self, number: int) -> int:
        from pyarrow import parquet

        return int(self._opened(parquet.read_metadata, number).num_rows)

    def _table(self, number: int) -> pa.Table:
        from pyarrow import parquet

        def read(data: BytesIO) -> pa.Table:
            # Spark's moments of 96 bits; it reads those of 64 as well.
            table = parquet.read_table(data, coerce_int96_timestamp_unit="us")
            table.column(ENTRIES)
            return table

        return self._opened(read, number)

    def _opened(self, read: Any, number: int) -> Any:
        import pyarrow as pa

        name = self._names[number]
        try:
            return read(BytesIO(self._files.files.get(name)))
        except (pa.ArrowException, KeyError, OSError) as error:
            path = f"{self._files.files.location}/{name}"
            raise CorruptFileError(
                "SM-BACKFILL-003",
                f"{path} has no keys of a backfill",
                expected=f"a Parquet file with the column {ENTRIES}",
                found=str(error),
                next_action=f"`statemigrate backfill {argument(self._files.checkpoint)}"
                f"{self._files.option}` plans again",
                path=path,
            ) from error
