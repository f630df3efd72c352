"""The values that a batch's writes replace, found as cheaply as possible, for the content hash.

Many keys looked up at once: along the records where they lie close together, else key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from statemigrate.blocks import BYTES_IN_BLOCK
from statemigrate.embedded.content_hash import Contents, change, contents_of
from statemigrate.embedded.database import Database, named, translated
from statemigrate.families import Span

_TURNS = 16
"""Lookups that go key by key after one whose keys lay far apart."""
_DELETED = 10_000
"""Records deleted of late that are passed by in one step, at most."""


class Lookup:
    """Finds keys in a column family.

    A step from record to record takes a fifth of the time that finding one takes, so a batch that
    touches most of the keys is read along the records. With more than one record between two keys
    that would be the longer way. Where all of them are held and nothing else, that is two thirds
    shorter.
    """

    def __init__(self, column: Any) -> None:
        from rocksdict import ReadOptions

        self._column = column
        self._get: Callable[..., Any] = named(column.get, Path(column.path()))
        self._options = ReadOptions()
        self._options.set_max_skippable_internal_keys(_DELETED)
        self._turns = 0
        self._is_dense = True

    def present_values(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The bytes of those that are held. Raises `CheckpointError` as any reading does."""
        if self._turns == 0:
            found = self._along(sorted(keys))
            if found is not None:
                return found
            self._turns = _TURNS
        self._turns -= 1
        every = zip(keys, self._get(keys), strict=True)
        return {key: data for key, data in every if data is not None}

    def _along(self, keys: list[bytes]) -> dict[bytes, bytes] | None:
        """What is held, read in key order; None for keys that lie too far apart, or a failure."""
        if self._is_dense:
            records = self._column.items(from_key=keys[0], read_opt=self._options)
            first: dict[bytes, bytes] = dict(islice(records, len(keys)))
            # What ends for a failure has not come so far.
            if list(first) == keys:
                return first
        found = self._step_by_step(keys)
        self._is_dense = found is not None and len(found) == len(keys)
        return found

    def _step_by_step(self, keys: list[bytes]) -> dict[bytes, bytes] | None:
        cursor = self._column.iter(self._options)
        read_key, read_value, advance = cursor.key, cursor.value, cursor.next
        found, passed, most = {}, 0, len(keys)
        cursor.seek(keys[0])
        at = read_key()
        for key in keys:
            while at != key and at is not None and at < key:
                passed += 1
                if passed > most:
                    return None
                advance()
                at = read_key()
            if at == key:
                found[key] = read_value()
                advance()
                at = read_key()
        try:
            cursor.status()
        except Exception:
            # Deleted records in the way, or damage: reading key by key shows which.
            return None
        return found


# Writes of a family that wait: a block costs half of what its writes cost one by one.


WriteMany = Callable[[Sequence[bytes], Sequence[bytes | None], Sequence[bytes | None]], None]
"""Takes keys, what the family holds of each before, and their values from now on."""
MOST = 1_024
"""Writes that wait at most."""
UNKNOWN: Any = bytes(bytearray(b"\x00 nobody has read it"))
"""In the place of a value before that nobody has read, compared by identity. It is bytes, since
looking for it among bytes is then quick."""
_LARGE = 16 << 10
"""Bytes of a record that waits for nothing, so that what waits takes no memory to speak of."""


class Unwritten:
    """The last write of each key since the last block; None for a delete.

    Readers of the family's records look into ``waiting`` first, or call `flush` before. What
    was ``read`` of a key before is forgotten with its next write, but for the block, which says
    what each write replaces: that, or `UNKNOWN`.
    """

    def __init__(self, write_many: WriteMany, most: int) -> None:
        self.waiting: dict[bytes, bytes | None] = {}
        self.read: dict[bytes, bytes | None] = {}
        self._replaced: dict[bytes, bytes | None] = {}
        self._forget = self.read.pop
        self._replace = self._replaced.setdefault
        self._write_many = write_many
        self._most = most

    def write(self, key: bytes, value: bytes | None) -> None:
        """Write a value, or None for a delete, with the next block."""
        waiting = self.waiting
        waiting[key] = value
        # Of several writes of a key the first one replaces what the family holds.
        self._replace(key, self._forget(key, UNKNOWN))
        size = len(key) if value is None else len(key) + len(value)
        if len(waiting) >= self._most or size >= _LARGE:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self.waiting:
            replaced = list(self._replaced.values())
            self._write_many(list(self.waiting), replaced, list(self.waiting.values()))
            self.waiting.clear()
            self._replaced.clear()


# The raw records of a column family, read in key order.


_QUARANTINE = b"quarantine/"


def records(column: Any, span: Span) -> Iterator[tuple[bytes, bytes]]:
    """The raw records of a span, read from the moment of this call.

    Raises `CheckpointError` where the working copy is damaged: rocksdict's own ``items`` ends there
    as if nothing came after.
    """
    cursor = column.iter()
    if span.reverse:
        cursor.seek_to_last() if span.upper is None else cursor.seek_for_prev(span.upper)
    else:
        cursor.seek_to_first() if span.lower is None else cursor.seek(span.lower)
    return _within(cursor, span, Path(column.path()))


def _within(cursor: Any, span: Span, path: Path) -> Iterator[tuple[bytes, bytes]]:
    valid, read_key, read_value = cursor.valid, cursor.key, cursor.value
    advance = cursor.prev if span.reverse else cursor.next
    lower, upper = span.lower, span.upper
    while valid():
        key = read_key()
        if upper is not None and key >= upper:
            if not span.reverse:
                return
        elif lower is not None and key < lower:
            return
        else:
            yield key, read_value()
        advance()
    with translated(path):
        cursor.status()


def count(column: Any) -> int:
    """The number of records in the column family; raises as `records` does."""
    cursor, counted = column.iter(), 0
    valid, advance = cursor.valid, cursor.next
    cursor.seek_to_first()
    while valid():
        counted += 1
        advance()
    with translated(Path(column.path())):
        cursor.status()
    return counted


def contents_in(database: Database) -> dict[str, Contents]:
    """By family that holds anything, what it holds: every record is read."""
    read = {
        name: contents_of(records(database.column(name), Span()))
        for name in sorted(database.families)
    }
    # Opening a family creates it, also where nothing is ever written to it.
    return {name: each for name, each in read.items() if each.records}


def is_empty(column: Any) -> bool:
    """Whether the column family has no record at all; raises as `records` does."""
    return next(records(column, Span()), None) is None


def quarantine_prefix(family: str) -> bytes:
    """What the keys of a family's quarantined entries start with, in the engine's own family."""
    return _QUARANTINE + family.encode() + b"\x00"


# What a write of a family replaces, which mostly somebody has just read.
#
# A processor gets a value before it updates it, a backfill scans the values that it takes away, and
# looks whether there are any where it puts them. What nobody has read is read here.


_MOST = 8_192
"""Scanned records that are remembered at most."""


class Replaced:
    """The values that a family holds of keys which are about to be written.

    A value that was scanned, or found absent, is believed as long as nothing was written since but
    by `by_delete`, and that only at smaller keys: as a backfill does it, behind its scan.
    """

    def __init__(self, column: Any) -> None:
        self._lookup = Lookup(column)
        self._scan = 0
        self._scanned: dict[bytes, bytes] = {}
        self._bytes = 0
        self._deleted_to: bytes | None = None
        self._absent: Sequence[bytes] | None = None

    def scan(self) -> int:
        """Begin a scan, of the records as they are now; its number."""
        self._forget()
        return self._scan

    def scanned(self, scan: int, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Remember what a scan has come to, unless another one, or a write, has come meanwhile."""
        if scan != self._scan:
            return
        if len(self._scanned) >= _MOST or self._bytes >= BYTES_IN_BLOCK:
            self._scanned, self._bytes = {}, 0
        self._scanned.update(zip(keys, values, strict=True))
        self._bytes += sum(map(len, values))

    def absent(self, keys: Sequence[bytes]) -> None:
        """Remember that the family holds none of these, for the write that comes next."""
        self._absent = keys

    def by_block(
        self, keys: Sequence[bytes], known: Sequence[bytes | None]
    ) -> Sequence[bytes | None]:
        """Of a block of writes; some know what they replace."""
        self._forget()
        if UNKNOWN not in known:
            return known
        asked = [key for key, each in zip(keys, known, strict=True) if each is UNKNOWN]
        held = self._lookup.present_values(asked)
        return [
            held.get(key) if each is UNKNOWN else each
            for key, each in zip(keys, known, strict=True)
        ]

    def by_put(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Of many writes."""
        is_absent = self._absent is keys
        self._forget()
        return [None] * len(keys) if is_absent else self._present_or_none(keys)

    def by_delete(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """Of many deletes."""
        self._absent = None
        if not keys:
            return []
        # What lags behind the scan stays until it is deleted, however far the scan has come.
        before: Sequence[bytes | None] = list(map(self._scanned.pop, keys, repeat(None)))
        if None in before or (self._deleted_to is not None and min(keys) <= self._deleted_to):
            before = self._present_or_none(keys)
        else:
            self._bytes -= sum(map(len, before))  # type: ignore[arg-type]
        last = max(keys)
        self._deleted_to = last if self._deleted_to is None else max(last, self._deleted_to)
        return before

    def _present_or_none(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        held = self._lookup.present_values(list(keys)) if keys else {}
        return list(map(held.get, keys))

    def _forget(self) -> None:
        # Whatever a scan that has begun before comes to may be another value by now.
        self._scan += 1
        self._scanned, self._bytes = {}, 0
        self._deleted_to = self._absent = None


# What the families of a partition hold, followed write by write: see `content_hash`.


_WAITING = 1_024
"""Writes of a family that wait for each other; hashing many takes half of the time for each."""
_MANY = 512
"""Writes at once that wait for no others."""
_MOST_BYTES = 1 << 20
"""Bytes of values with which nothing waits any more."""
WriteBefore = Callable[[bytes, bytes | None, bytes | None], None]
"""Takes a key, its value before, and its value from now on; None is no value."""


class Tally:
    """The contents of each family, from those at the beginning and each write since.

    A writer passes the value that the family had for the key just before the write.
    """

    def __init__(self, contents: Mapping[str, Contents]) -> None:
        self._contents = dict(contents)
        self._waiting: dict[str, _Waiting] = {}

    def begin(self, contents: Mapping[str, Contents]) -> None:
        """Forget what was noted so far; these are the contents now."""
        self._note_waiting()
        self._contents = dict(contents)

    def adding(self, family: str) -> WriteBefore:
        """What notes single writes of a family."""
        return self._waiting_of(family).add

    def add_many(
        self,
        family: str,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        """Note several writes."""
        if len(keys) >= _MANY:
            self._note(family, keys, before, after)
        else:
            self._waiting_of(family).add_many(keys, before, after)

    def drop(self, family: str) -> None:
        """Note that a family was dropped with all that is in it."""
        self._note_waiting()
        self._contents.pop(family, None)

    def contents(self) -> dict[str, Contents]:
        """By family that holds anything, what it holds."""
        self._note_waiting()
        nothing = Contents()
        return {name: each for name, each in sorted(self._contents.items()) if each != nothing}

    def _waiting_of(self, family: str) -> _Waiting:
        found = self._waiting.get(family)
        if found is None:
            found = self._waiting[family] = _Waiting(partial(self._note, family))
        return found

    def _note(
        self,
        family: str,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        known = self._contents.get(family, Contents())
        self._contents[family] = known + change(keys, before, after)

    def _note_waiting(self) -> None:
        for each in self._waiting.values():
            each.note()


class _Waiting:
    def __init__(self, note: WriteMany) -> None:
        self._note = note
        self._bytes = 0
        self._keys: list[bytes] = []
        self._before: list[bytes | None] = []
        self._after: list[bytes | None] = []

    def add(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        self._keys.append(key)
        self._before.append(before)
        self._after.append(after)
        self._bytes += len(before or b"") + len(after or b"")
        self._note_if_full()

    def add_many(
        self,
        keys: Sequence[bytes],
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
    ) -> None:
        self._keys += keys
        self._before += before
        self._after += after
        self._bytes += sum([len(each) for each in (*before, *after) if each is not None])
        self._note_if_full()

    def _note_if_full(self) -> None:
        if len(self._keys) >= _WAITING or self._bytes >= _MOST_BYTES:
            self.note()

    def note(self) -> None:
        if self._keys:
            self._note(self._keys, self._before, self._after)
            self._bytes = 0
            self._keys, self._before, self._after = [], [], []
