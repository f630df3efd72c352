"""What the steps of a plan cost in time, from the size of the state and measured rates."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.checkpoint import stored_partition
from statemigrate.checkpoint.operators import CheckpointShape
from statemigrate.checkpoint.stores import StoredPartition
from statemigrate.files import Files
from statemigrate.inspect import NATIVE_RATE

_START = 8.0
"""Seconds in which a command starts Spark and ends it."""
_REWRITTEN = 110_000
"""Rows a second that `rewrite --apply` reads, writes and reads back (see benchmarks/README.md)."""
_VERIFIED = 250_000
"""Rows a second that `rewrite --verify` reads of both checkpoints and compares (there, too)."""
_PAGES_RATE = 77_600.0
"""Entries a second that a backfill migrates in pages, in its own time (there, too)."""
_EMBEDDED_RATE = 119_000.0
"""Records a second that the embedded engine's backfill migrates, in its own time (there, too)."""
_ROW = 40
"""Bytes of a row in the files of a state, where the files do not say how many rows they have."""


@dataclass(frozen=True)
class StateCosts:
    """The times that the steps take for a state of about so many ``rows``.

    ``is_counted`` says that snapshots have that number; else it is from the size of the state.
    ``backfill_rate`` is how many a second a backfill migrates next to live rows.
    """

    rows: int
    is_counted: bool
    backfill_rate: float = NATIVE_RATE

    @property
    def rewrite(self) -> float:
        """Seconds until a new checkpoint is written."""
        return _START + self.rows / _REWRITTEN

    @property
    def verify(self) -> float:
        """Seconds until both checkpoints are compared."""
        return _START + self.rows / _VERIFIED

    @property
    def backfill(self) -> float:
        """Seconds in which a backfill beside live rows migrates every value."""
        return self.rows / self.backfill_rate

    @property
    def basis(self) -> str:
        """What the times are from."""
        source = "by its snapshots" if self.is_counted else f"if each takes {_ROW} bytes"
        return f"about {self.rows:,} rows of state, {source}, at the rates of two cores"


def costs_of(files: Files, shape: CheckpointShape, *, has_pages: bool = False) -> StateCosts:
    """The costs for the state of a checkpoint. Only listings and snapshots are read.

    With ``has_pages`` a row is a page with many entries, whose number only the size tells.

    Raises `CorruptFileError` where a file is missing.
    """
    counted = estimated = 0
    for operator in shape.operators:
        for place, store in enumerate(operator.stores):
            for number in range(store.partitions):
                part = stored_partition(files, shape, operator, place, number)
                is_known = part.keys is not None and not has_pages
                counted += (part.keys or 0) if is_known else 0
                if not is_known:
                    estimated += _bytes(files, part) // _ROW
    rate = _PAGES_RATE if has_pages else NATIVE_RATE
    return StateCosts(counted + estimated, not estimated, rate)


def embedded_costs(size: int) -> StateCosts:
    """The costs for state of the embedded engine whose files have so many bytes.

    The engine counts old families while it drains them, and never the one that it writes to.
    """
    return StateCosts(size // _ROW, is_counted=False, backfill_rate=_EMBEDDED_RATE)


def _bytes(files: Files, part: StoredPartition) -> int:
    """The size of the files that a partition is read from."""
    names = set(part.version.names)
    found = files.list(part.version.folder, recursive=True)
    return sum(each.size for each in found if each.name in names)
