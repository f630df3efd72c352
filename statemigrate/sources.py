"""The live families other than the target, and the entries of several families in one order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, TypeVar

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.families import Family, Key
from statemigrate.migration import Path

V = TypeVar("V")
_NO_KEY: Any = object()


@dataclass
class Source(Generic[V]):
    """A live family other than the target, and the path from its revision to the target's.

    A family that no way leads from has none; it is guarded, and never gives a value.
    """

    family: Family[V]
    path: Path | None

    @property
    def way(self) -> Path:
        """The path of a family that gave a value."""
        assert self.path is not None, f"a value came out of {self.family.name}"  # noqa: S101
        return self.path

    def unfit(self, store: str, error: ValueMismatchError) -> TransformError:
        """The error of a value that its way has made, and that the target's format cannot hold."""
        path = self.way
        return TransformError(
            "SM-TRANSFORM-008",
            f"store {store}: the transform from {path.source} to "
            f"{path.target} returned what the new format cannot hold: {error.summary}",
            expected=error.expected,
            found=error.found,
            next_action="correct the transform in the migration script and deploy again; "
            "nothing of this batch was written",
            store=store,
            source=path.source,
            target=path.target,
        )


@dataclass
class Counts:
    """What one access did since it was made: entries migrated, by whom."""

    touched: int = 0
    backfilled: int = 0
    superseded: int = field(default=0)
    """Old entries dropped because the target held a newer value of their key."""


_Entry = tuple[Key, Source[V] | None, V]


def entries_of(source: Source[V] | None, entries: Iterator[tuple[Key, V]]) -> Iterator[_Entry[V]]:
    """The entries of a family with where they are; None for the target."""
    return ((key, source, value) for key, value in entries)


def first_of_each_key(streams: list[Iterator[_Entry[V]]], *, reverse: bool) -> Iterator[_Entry[V]]:
    """Merge sorted streams; of entries with one key the first stream's wins."""
    previous = _NO_KEY
    # heapq.merge is stable in both directions, so the earlier stream comes first on equal keys.
    for entry in heapq.merge(*streams, key=itemgetter(0), reverse=reverse):
        if entry[0] != previous:
            yield entry
        previous = entry[0]
