"""The family protocol on RocksDB: a family is a column family.

Value and map entries are one record each. A list is one record an element, under the list's key and
an eight-byte position, so that an append costs the same however long the list is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from statemigrate.blocks import BYTES_IN_BLOCK, block_of, record_size
from statemigrate.deployment import VARIABLE_KINDS, Kind
from statemigrate.embedded.database import named
from statemigrate.embedded.replaced_values import (
    MOST,
    UNKNOWN,
    Lookup,
    Replaced,
    Unwritten,
    WriteBefore,
    WriteMany,
    is_empty,
    records,
)
from statemigrate.families import Span
from statemigrate.formats import Format, Value

_POSITION = 8
_BLOCK = 256
_FIRST_AHEAD = 64
"""Keys that are read ahead first, to see how large their values are."""


class RocksFamily:
    """Values of one revision in a column family.

    ``write`` and ``write_many`` are the partition's ways of writing this family: to the database
    and the changelog together, None for a delete; each gets the value that the write replaces. Up
    to ``block`` writes wait for each other, and `flush` ends that. ``entries`` is the exact number
    of records while the family is a source, and None while it is a target, whose size nothing
    depends on.
    """

    def __init__(
        self,
        name: str,
        revision: str,
        fmt: Format,
        *,
        column: Any,
        write: WriteBefore,
        write_many: WriteMany,
        entries: int | None = None,
        block: int = MOST,
    ) -> None:
        self.name = name
        self.revision = revision
        self.format = fmt
        self.entries = entries
        self._column = column
        self._read = named(column.get, Path(column.path()))
        self._lookup = Lookup(column)
        self._contains = named(column.__contains__, Path(column.path()))
        self._write = write
        self._write_many = write_many
        self._replaced = Replaced(column)
        self._unwritten = Unwritten(self._write_block, block)
        # As it is: it is called for every key. See `statemigrate.families.EncodedFamily`.
        self.put_encoded = self._unwritten.write
        self._waiting, self._ahead = self._unwritten.waiting, self._unwritten.read
        self.flush = self._unwritten.flush
        self._encode = fmt.encode
        self._encode_many = fmt.encode_many
        self._decode = fmt.decode
        self._decode_many = fmt.decode_many
        self._expected = self._reads = 0
        # See `statemigrate.families.MeasuredFamily`.
        self.scanned_bytes = 0

    def read_ahead(self, keys: list[bytes]) -> None:
        """Read many keys at once; each answers the next `get` of its key, unless written before.

        Left out when less than half of the last keys were asked for. Of large values no more are
        read than a block has room for; the others are read when they are asked for.
        """
        self.flush()
        self._ahead.clear()
        if keys and 2 * self._reads >= self._expected:
            start, room, wanted = 0, BYTES_IN_BLOCK, _FIRST_AHEAD
            while start < len(keys) and wanted:
                some = keys[start : start + wanted]
                room -= self._read_some(some)
                start += len(some)
                wanted = min(_BLOCK, start * max(room, 0) // (BYTES_IN_BLOCK - room + 1))
        self._expected, self._reads = len(keys), 0

    def _read_some(self, keys: list[bytes]) -> int:
        """Read some keys ahead; how many bytes these are."""
        held = self._lookup.present_values(keys)
        if len(held) < len(keys):
            self._ahead.update(dict.fromkeys(keys))
        self._ahead.update(held)
        return sum(map(len, held.values()))

    def release(self) -> None:
        """Let go of the column family: RocksDB stays open while anything holds on to one."""
        del self._column, self._read, self._contains, self._write, self._write_many
        del self._lookup, self._replaced, self._unwritten, self.put_encoded, self.flush

    def get(self, key: bytes) -> Value | None:
        """See `statemigrate.families.Family.get`."""
        data = self.get_encoded(key)
        return None if data is None else self._decode(data)

    def get_encoded(self, key: bytes) -> bytes | None:
        """See `statemigrate.families.EncodedFamily.get_encoded`."""
        self._reads += 1
        if key in self._ahead:
            return self._ahead[key]
        data: bytes | None = self._waiting[key] if key in self._waiting else self._read(key)
        return data

    def contains(self, key: bytes) -> bool:
        """See `statemigrate.families.Family.contains`."""
        if key in self._waiting:
            return self._waiting[key] is not None
        held: bool = self._contains(key)
        return held

    def conform(self, value: Any) -> Any:
        """See `statemigrate.families.Family.conform`."""
        return self.format.conform(value)

    def put(self, key: bytes, value: Value) -> None:
        """See `statemigrate.families.Family.put`."""
        self.put_encoded(key, self._encode(value))

    def delete(self, key: bytes) -> None:
        """See `statemigrate.families.Family.delete`."""
        self.put_encoded(key, None)
        if self.entries is not None:
            self.entries -= 1

    def contains_any(self, keys: Sequence[bytes]) -> bool:
        """See `statemigrate.families.BlockFamily.contains_any`."""
        self.flush()
        # Mostly there is nothing at all between the first and the last.
        first = next(records(self._column, Span(lower=keys[0])), None)
        found = first is not None and first[0] <= keys[-1] and any(map(self._contains, keys))
        if not found:
            self._replaced.absent(keys)
        return found

    def put_many(self, keys: Sequence[bytes], values: Sequence[Value]) -> None:
        """See `statemigrate.families.BlockFamily.put_many`."""
        self.put_many_encoded(keys, self._encode_many(values))

    def get_many_encoded(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `statemigrate.families.EncodedBlockFamily.get_many_encoded`."""
        self.flush()
        self._ahead.clear()
        if keys:
            self._read_some(list(keys))
        return list(map(self._ahead.__getitem__, keys))

    def put_many_encoded(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """See `statemigrate.families.EncodedBlockFamily.put_many_encoded`."""
        self.flush()
        if keys and keys[0] in self._ahead:
            known = [self._ahead.get(key, UNKNOWN) for key in keys]
            before = self._replaced.by_block(keys, known)
        else:
            before = self._replaced.by_put(keys)
        self._write_many(keys, before, values)
        self._ahead.clear()

    def delete_many(self, keys: Sequence[bytes]) -> None:
        """See `statemigrate.families.BlockFamily.delete_many`."""
        self.flush()
        before = self._replaced.by_delete(keys)
        self._write_many(keys, before, [None] * len(keys))
        self._ahead.clear()
        if self.entries is not None:
            self.entries -= len(keys)

    def scan(self, span: Span) -> Iterator[tuple[bytes, Value]]:
        """See `statemigrate.families.Family.scan`."""
        self.flush()
        return self._decoded(self._blocks(records(self._column, span), self._replaced.scan()))

    def scan_encoded(self, span: Span) -> Iterator[tuple[bytes, bytes]]:
        """See `statemigrate.families.EncodedBlockFamily.scan_encoded`."""
        self.flush()
        blocks = self._blocks(records(self._column, span), self._replaced.scan())
        return (entry for keys, values in blocks for entry in zip(keys, values, strict=True))

    def _write_block(
        self, keys: Sequence[bytes], before: Sequence[bytes | None], values: Sequence[bytes | None]
    ) -> None:
        self._write_many(keys, self._replaced.by_block(keys, before), values)

    def _decoded(
        self, blocks: Iterator[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> Iterator[tuple[bytes, Value]]:
        for keys, values in blocks:
            yield from zip(keys, self._decode_many(values), strict=True)

    def _blocks(
        self, entries: Iterator[tuple[bytes, bytes]], scan: int
    ) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        # Decoding many in a row is faster; starting with one keeps a look at the first one cheap.
        size, is_end = 1, False
        while not is_end:
            block, is_end = block_of(entries, size, record_size)
            if block:
                keys, values = zip(*block, strict=True)
                self.scanned_bytes += sum(map(len, values))
                self._replaced.scanned(scan, keys, values)
                yield keys, values
            size = min(2 * size, _BLOCK)

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`.

        The counter answers for a family with entries; an iterator has the last word.
        """
        if self.entries != 0:
            return False
        self.flush()
        return is_empty(self._column)


class RocksListFamily(RocksFamily):
    """Lists of one revision in a column family; ``entries`` counts elements."""

    def get(self, key: bytes) -> list[Value] | None:  # type: ignore[override]
        """See `statemigrate.families.Family.get`."""
        values = self._decode_many([data for _, data in records(self._column, Span.prefix(key))])
        return values or None

    def contains(self, key: bytes) -> bool:
        """See `statemigrate.families.Family.contains`."""
        return next(records(self._column, Span.prefix(key)), None) is not None

    def conform(self, values: list[Value]) -> list[Value]:
        """See `statemigrate.families.Family.conform`."""
        return [self.format.conform(value) for value in values]

    def put(self, key: bytes, values: list[Value]) -> None:  # type: ignore[override]
        """See `statemigrate.families.Family.put`."""
        encoded = [self._encode(value) for value in values]
        self._remove(key)
        for position, data in enumerate(encoded):
            self._write(_element(key, position), None, data)

    def append(self, key: bytes, values: Iterable[Value]) -> None:
        """See `statemigrate.families.ListFamily.append`."""
        encoded = [self._encode(value) for value in values]
        start = self._next_position(key)
        for position, data in enumerate(encoded, start):
            self._write(_element(key, position), None, data)

    def delete(self, key: bytes) -> None:
        """See `statemigrate.families.Family.delete`."""
        removed = self._remove(key)
        if self.entries is not None:
            self.entries -= removed

    def contains_any(self, keys: Sequence[bytes]) -> bool:
        """See `statemigrate.families.BlockFamily.contains_any`."""
        return any(map(self.contains, keys))

    def put_many(self, keys: Sequence[bytes], values: Sequence[list[Value]]) -> None:  # type: ignore[override]
        """See `statemigrate.families.BlockFamily.put_many`."""
        encoded = [self._encode_many(each) for each in values]
        for key, elements in zip(keys, encoded, strict=True):
            self._remove(key)
            places = [_element(key, position) for position in range(len(elements))]
            self._write_many(places, [None] * len(places), elements)

    def delete_many(self, keys: Sequence[bytes]) -> None:
        """See `statemigrate.families.BlockFamily.delete_many`."""
        for key in keys:
            self.delete(key)

    def scan(self, span: Span) -> Iterator[tuple[bytes, list[Value]]]:  # type: ignore[override]
        """See `statemigrate.families.Family.scan`."""
        return self._lists(records(self._column, span), span)

    def _lists(
        self, entries: Iterator[tuple[bytes, bytes]], span: Span
    ) -> Iterator[tuple[bytes, list[Value]]]:
        for key, elements in groupby(entries, key=lambda entry: list_key(entry[0])):
            encoded = [data for _, data in elements]
            self.scanned_bytes += sum(map(len, encoded))
            values = self._decode_many(encoded)
            # A bound may fall behind a list's key and before its first element.
            if span.contains(key):
                yield key, values[::-1] if span.reverse else values

    def _next_position(self, key: bytes) -> int:
        last = next(records(self._column, Span.prefix(key, reverse=True)), None)
        return 0 if last is None else int.from_bytes(last[0][-_POSITION:], "big") + 1

    def _remove(self, key: bytes) -> int:
        elements = list(records(self._column, Span.prefix(key)))
        for place, data in elements:
            self._write(place, data, None)
        return len(elements)


def list_key(element: bytes) -> bytes:
    """The key of the list that an element's record is of."""
    return element[:-_POSITION]


def _element(key: bytes, position: int) -> bytes:
    return key + position.to_bytes(_POSITION, "big")


def family_class(kind: Kind) -> type[RocksFamily]:
    """The family of a kind of store."""
    return RocksListFamily if VARIABLE_KINDS[kind].has_several_values else RocksFamily
