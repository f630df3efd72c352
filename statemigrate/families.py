"""The family protocol, and its in-memory form.

A family holds the values of one store that are written at exactly one revision. Dual access
(`statemigrate.access`) is written over this protocol alone; an engine supplies families and nothing
else. `MemoryFamily` is the plain implementation that tests take as their oracle.

The complements of a store's values are a family of their own, under the keys of the values. Each
has what scripts have left out of the value that is there under the same key, in whichever family it
is. A value without one has no entry.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from statemigrate.errors import CheckpointError, TransformError, ValueMismatchError
from statemigrate.formats import Format, Struct, Value
from statemigrate.lenses import Complement
from statemigrate.migration import MigrationPath

V = TypeVar("V")
Key = Any
"""A key of a family: bytes in the embedded engine, a tuple in Spark's own state."""


@dataclass(frozen=True)
class Span:
    """A range of keys for a scan: from ``lower`` (included) to ``upper`` (excluded)."""

    lower: bytes | None = None
    upper: bytes | None = None
    reverse: bool = False

    @classmethod
    def prefix(cls, prefix: bytes, *, reverse: bool = False) -> Span:
        """Every key that starts with ``prefix``."""
        return cls(prefix or None, _successor(prefix), reverse)

    def contains(self, key: bytes) -> bool:
        """Whether ``key`` lies within the range."""
        above = self.lower is None or key >= self.lower
        return above and (self.upper is None or key < self.upper)


def _successor(prefix: bytes) -> bytes | None:
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


class Family(Protocol[V]):
    """The entries of one store at one revision.

    ``V`` is a plain value, or for list state a list of them. ``put`` validates against the
    family's format and raises `ValueMismatchError`; ``delete`` of an absent key is allowed only on
    the target family, dual access asks ``contains`` first on every other.
    """

    name: str
    revision: str

    def get(self, key: Key) -> V | None:
        """The value under ``key``, a fresh copy, or None."""

    def contains(self, key: Key) -> bool:
        """Whether ``key`` has an entry."""

    def conform(self, value: V) -> V:
        """``value`` as reading it back would give it.

        Raises `ValueMismatchError` unless the family's format can hold it.
        """

    def put(self, key: Key, value: V) -> None:
        """Write ``value`` under ``key``, replacing what is there."""

    def delete(self, key: Key) -> None:
        """Remove the entry under ``key``."""

    def scan(self, span: Span) -> Iterator[tuple[Key, V]]:
        """Entries of the span in key order, as they are now: later writes are not seen."""

    def is_drained(self) -> bool:
        """Whether it is certain that no entry is left; asked after deletes, so it is cheap."""


@runtime_checkable
class BlockFamily(Protocol):
    """A family that does for many keys at once what `Family` does for each, and costs less.

    Keys ascend, and none is there twice.
    """

    def contains_any(self, keys: Sequence[Key]) -> bool:
        """Whether any of ``keys`` has an entry."""

    def put_many(self, keys: Sequence[Key], values: Sequence[Any]) -> None:
        """Write entries; raises `ValueMismatchError` before anything is written."""

    def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove entries; all of them exist."""


@runtime_checkable
class MeasuredFamily(Protocol):
    """A family that tells how many bytes of values its scans have given so far.

    They may have read some entries more than were taken, which count as well.
    """

    scanned_bytes: int


@runtime_checkable
class EncodedFamily(Protocol):
    """A family of bytes of one format, for who makes them, and reads them, without plain values."""

    format: Format

    def get_encoded(self, key: Key) -> bytes | None:
        """The bytes under ``key``, or None."""

    def put_encoded(self, key: Key, data: bytes) -> None:
        """Write bytes that ``format`` has made, or would make."""


@runtime_checkable
class EncodedBlockFamily(Protocol):
    """A family that is both, and gives and takes the bytes of many values at once."""

    format: Format

    def scan_encoded(self, span: Span) -> Iterator[tuple[Key, bytes]]:
        """`Family.scan` of the bytes."""

    def get_many_encoded(self, keys: Sequence[Key]) -> list[bytes | None]:
        """The bytes under each of some keys, or None."""

    def put_many_encoded(self, keys: Sequence[Key], values: Sequence[bytes]) -> None:
        """`BlockFamily.put_many` of bytes that ``format`` has made, or would make."""


class ListFamily(Family[list[Value]], Protocol):
    """A family of list state: each value is the whole list of one key."""

    def append(self, key: Key, values: Iterable[Value]) -> None:
        """Write ``values`` behind those already under ``key``."""


class MemoryFamily:
    """Values of one revision in a dictionary."""

    def __init__(self, name: str, revision: str, fmt: Format) -> None:
        self.name = name
        self.revision = revision
        self.format = fmt
        self.entries: dict[Key, Any] = {}

    def get(self, key: Key) -> Any:
        """See `Family.get`."""
        return copy.deepcopy(self.entries.get(key))

    def contains(self, key: Key) -> bool:
        """See `Family.contains`."""
        return key in self.entries

    def conform(self, value: Any) -> Any:
        """See `Family.conform`."""
        return self.format.conform(value)

    def put(self, key: Key, value: Any) -> None:
        """See `Family.put`."""
        self.entries[key] = copy.deepcopy(self.conform(value))

    def delete(self, key: Key) -> None:
        """See `Family.delete`."""
        self.entries.pop(key, None)

    def scan(self, span: Span) -> Iterator[tuple[Key, Any]]:
        """See `Family.scan`."""
        keys = sorted((key for key in self.entries if span.contains(key)), reverse=span.reverse)
        return iter([(key, copy.deepcopy(self.entries[key])) for key in keys])

    def is_drained(self) -> bool:
        """See `Family.is_drained`."""
        return not self.entries


class MemoryListFamily(MemoryFamily):
    """List state in a dictionary."""

    def conform(self, value: list[Value]) -> list[Value]:
        """See `Family.conform`."""
        return [self.format.conform(element) for element in value]

    def put(self, key: Key, value: list[Value]) -> None:
        """See `Family.put`; an empty list is no entry."""
        super().put(key, value)
        if not value:
            self.delete(key)

    def append(self, key: Key, values: Iterable[Value]) -> None:
        """See `ListFamily.append`."""
        self.put(key, [*self.entries.get(key, []), *values])


# The live families other than the target, and the entries of several families in one order.


_NO_KEY: Any = object()


@dataclass
class Source(Generic[V]):
    """A live family other than the target, and the path from its revision to the target's.

    A family that no way leads from has none; it is guarded, and never gives a value.
    """

    family: Family[V]
    path: MigrationPath | None

    @property
    def way(self) -> MigrationPath:
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


REVISION = "complement"
"""In the place of a revision, in the name of the family; no script can have it."""
FORMAT = Struct("complement BINARY NOT NULL")


class Complements:
    """The complements of one store, over the family that an engine opened for them."""

    def __init__(self, family: Family[Value]) -> None:
        self.family = family

    def get(self, key: Key) -> Complement:
        """The complement of the value under a key. Raises CheckpointError for damaged bytes."""
        stored = self.family.get(key)
        if stored is None:
            return Complement()
        try:
            return Complement.from_bytes(stored["complement"])
        except CheckpointError as error:
            raise error.but(family=self.family.name) from error.__cause__

    def put(self, key: Key, complement: Complement) -> None:
        """Write the complement of the value under a key; an empty one is no entry."""
        if complement:
            self.family.put(key, {"complement": complement.to_bytes()})
        else:
            self.delete(key)

    def delete(self, key: Key) -> None:
        """Remove the complement of the value under a key, if there is one."""
        if self.family.contains(key):
            self.family.delete(key)

    def clear(self, span: Span) -> None:
        """Remove those of all keys of a span."""
        keys: list[Any] = [key for key, _ in self.family.scan(span)]
        for key in keys:
            self.family.delete(key)
