"""What Spark puts around the bytes of a row: checksums, times to live, partition prefixes.

CRC-32C of many runs of bytes at once, a word of each in every step.

The polynomial is Castagnoli's, reflected, with a table for each byte of a word: RFC 3720, appendix
B.4, and Java's ``java.util.zip.CRC32C``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.logs import MERGE_OPERATOR, has_checksums, is_avro, pinned
from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows, joined, within
from statemigrate.checkpoint.rows.unsafe_leaves import damaged
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.errors import UnsupportedError

# Bytes that are cut into parts at places that they tell themselves.


VERSION = b"\0"
"""The version of the encoding of rows in RocksDB, in front of each."""
LENGTH = 4
"""Bytes of a length within a key or a value."""


@dataclass(frozen=True)
class Spans:
    """``n`` runs of bytes within ``data``: not copied, and not next to each other."""

    data: Bytes
    starts: Integers
    lengths: Integers

    @staticmethod
    def of(rows: Rows) -> Spans:
        """Whole rows."""
        return Spans(rows.data, rows.starts, rows.lengths)

    def at(self, indices: Integers) -> Spans:
        """Those at ``indices``, in their order."""
        return Spans(self.data, self.starts[indices], self.lengths[indices])

    def rows(self) -> Rows:
        """The bytes, copied end to end."""
        return within(self.data, self.starts, self.lengths)

    def matrix(self, width: int, what: str) -> Bytes:
        """The first ``width`` bytes of each; `CorruptFileError` where there are fewer."""
        if self.lengths.size and int(self.lengths.min()) < width:
            raise damaged(what, f"at least {width} bytes", f"{int(self.lengths.min())} bytes")
        first = within(self.data, self.starts, np.full(self.starts.size, width))
        return first.data.reshape(self.starts.size, width)

    def behind(self, width: int, what: str) -> Spans:
        """What follows the first ``width`` bytes; `CorruptFileError` where there are fewer."""
        if self.lengths.size and int(self.lengths.min()) < width:
            raise damaged(what, f"at least {width} bytes", f"{int(self.lengths.min())} bytes")
        return Spans(self.data, self.starts + width, self.lengths - width)

    def without(self, first: bytes, what: str) -> Spans:
        """What follows the bytes ``first``; `CorruptFileError` where others come first."""
        found = self.matrix(len(first), what)
        if not bool(np.all(found == np.frombuffer(first, np.uint8))):
            raise damaged(what, f"bytes that begin with {first.hex()}", "others")
        return self.behind(len(first), what)

    def split(self, what: str) -> tuple[Spans, Spans]:
        """A part that begins with its length, little-endian, and what follows it.

        Raises `CorruptFileError` for a length that is none.
        """
        lengths = self.matrix(LENGTH, what).view("<i4")[:, 0].astype(np.int64)
        rest = self.behind(LENGTH, what)
        if bool(((lengths < 0) | (lengths > rest.lengths)).any()):
            raise damaged(what, "a length within the bytes there are", "another")
        first = Spans(self.data, rest.starts, lengths)
        return first, Spans(self.data, rest.starts + lengths, rest.lengths - lengths)


def length_of(rows: Rows) -> Bytes:
    """The length of each row as it is written in front of it."""
    return rows.lengths.astype("<i4").view(np.uint8).reshape(-1, LENGTH)


_POLYNOMIAL = np.uint32(0x82F63B78)
_WORD = 8
Checksums = npt.NDArray[np.uint32]


def crc32c(*columns: Spans) -> Checksums:
    """The checksum of what the columns have for each row, one after the other."""
    state = np.full(columns[0].starts.size, 0xFFFFFFFF, np.uint32)
    for column in columns:
        state = _updated(state, column)
    return ~state


def _updated(state: Checksums, spans: Spans) -> Checksums:
    # Longest first, so that those which still have bytes are always the first ones.
    order = np.argsort(-spans.lengths, kind="stable")
    starts, lengths = spans.starts[order], spans.lengths[order]
    found = state[order]
    words = lengths // _WORD
    for step in range(int(words[0]) if words.size else 0):
        rows = int(np.searchsorted(-words, -step))
        found[:rows] = _word(found[:rows], _words(spans)[starts[:rows] + step * _WORD])
    rest = lengths % _WORD
    for step in range(_WORD - 1):
        rows_with = np.flatnonzero(rest > step)
        read = spans.data[starts[rows_with] + words[rows_with] * _WORD + step]
        found[rows_with] = _byte(found[rows_with], read)
    state = np.empty_like(found)
    state[order] = found
    return state


def _words(spans: Spans) -> npt.NDArray[Any]:
    """Every eight bytes of the data: those at index ``i`` begin at byte ``i``."""
    return np.ndarray((spans.data.size - _WORD + 1,), "<u8", spans.data, strides=(1,))


def _word(state: Checksums, words: npt.NDArray[Any]) -> Checksums:
    mixed = (words ^ state).view(np.uint8).reshape(-1, _WORD)
    tables = _tables()
    found = tables[_WORD - 1][mixed[:, 0]]
    for index in range(1, _WORD):
        found ^= tables[_WORD - 1 - index][mixed[:, index]]
    return found


def _byte(state: Checksums, read: npt.NDArray[np.uint8]) -> Checksums:
    found: Checksums = _tables()[0][(state ^ read) & np.uint32(0xFF)] ^ (state >> np.uint32(8))
    return found


@cache
def _tables() -> tuple[Checksums, ...]:
    """For each place behind a byte within a word, what the byte adds to the checksum."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> np.uint32(1)) ^ _POLYNOMIAL, first >> np.uint32(1))
    tables = [first]
    for _ in range(_WORD - 1):
        last = tables[-1]
        tables.append(first[last & np.uint32(0xFF)] ^ (last >> np.uint32(8)))
    return tuple(tables)


# Values that each hold any number of parts, one behind the other, as lists are merged.


_FEW = 64
"""So many lists that are longer than all others are read one at a time."""
_Found = tuple[Integers, Integers, Integers]


@dataclass(frozen=True)
class Repeated:
    """A part is ``before`` bytes, its length and its content; between two is the ``delimiter``.

    ``what`` names them in errors.
    """

    before: int
    delimiter: bytes
    what: str

    def parts(self, spans: Spans) -> tuple[Spans, Integers]:
        """The contents of all parts, and the index of the span that each is of, which rises.

        Raises `CorruptFileError`.
        """
        owners = np.flatnonzero(spans.lengths > 0)
        rest = spans.at(owners)
        found: list[_Found] = []
        while owners.size > _FEW:
            content, behind = rest.behind(self.before, self.what).split(self.what)
            found.append((content.starts, content.lengths, owners))
            more = np.flatnonzero(behind.lengths > 0)
            owners, rest = owners[more], behind.at(more).without(self.delimiter, self.what)
        for index, owner in enumerate(owners.tolist()):
            found.append(self._one(rest.at(np.array([index])), owner))
        return _in_order(spans, found)

    def _one(self, span: Spans, owner: int) -> _Found:
        """The parts of one span, one after the other."""
        place, starts, lengths = int(span.starts[0]), [], []
        end = place + int(span.lengths[0])
        data = span.data.data
        while True:
            start = place + self.before + LENGTH
            length = int.from_bytes(data[start - LENGTH : min(start, end)], "little", signed=True)
            if start > end or not 0 <= length <= end - start:
                raise damaged(self.what, "a length within the bytes there are", "another")
            starts.append(start)
            lengths.append(length)
            place = start + length
            if place == end:
                found = np.array(starts, np.int64), np.array(lengths, np.int64)
                return *found, np.full(len(starts), owner)
            if bytes(data[place : place + len(self.delimiter)]) != self.delimiter:
                raise damaged(self.what, f"{self.delimiter!r} between two parts", "another byte")
            place += len(self.delimiter)


def _in_order(spans: Spans, found: list[_Found]) -> tuple[Spans, Integers]:
    if not found:
        return spans.at(np.zeros(0, np.int64)), np.zeros(0, np.int64)
    starts, lengths, owners = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(owners, kind="stable")
    return replace(spans, starts=starts[order], lengths=lengths[order]), owners[order]


# How a query's state store wraps rows: by its provider and by what is pinned to the query.


_DELIMITERS = {"1": b",", "2": b""}


@dataclass(frozen=True)
class RowLayout:
    """What surrounds a row.

    ``delimiter`` is what RocksDB puts between values that it has merged under one key.
    """

    rocksdb: bool
    avro: bool = False
    checksums: bool = False
    delimiter: bytes = b""

    @staticmethod
    def of(conf: Mapping[str, str], *, rocksdb: bool) -> RowLayout:
        """The layout of a query with these pinned settings.

        Raises `UnsupportedError` for an encoding or a merge operator that is not known.
        """
        merging = pinned(conf, MERGE_OPERATOR)
        if merging not in _DELIMITERS:
            raise UnsupportedError(
                "SM-STATE-009",
                f"state with {MERGE_OPERATOR}={merging} cannot be read or written",
                expected="one of the versions 1 and 2",
                found=merging,
                next_action="leave the state as it is",
            )
        checksums = has_checksums(conf)
        # Spark encodes rows as Avro in RocksDB alone, whatever the setting says.
        return RowLayout(rocksdb, rocksdb and is_avro(conf), checksums, _DELIMITERS[merging])


# Rows with the checksums that a query stores if it is configured to.
#
# RocksDB has the checksum, the length and the bytes of each value, the HDFS-backed provider the
# checksum and the bytes; a deletion has the checksum before its key. What is summed is the key as
# the store has it, and the value without all that. Source: apache/spark
# ``sql/core/.../execution/streaming/state/StateStoreRowChecksum.scala``, ``RocksDB.scala`` and
# ``HDFSBackedStateStoreProvider.scala``.


CHECKSUM = 4
"""Bytes of a checksum."""
_VALUE, _KEY = "a value with its checksum", "a deleted key with its checksum"


def with_checksums(keys: Rows, values: Rows, layout: RowLayout) -> Rows:
    """Values as a store has them; ``keys`` are those of each, as the store has them."""
    found = crc32c(Spans.of(keys), Spans.of(values)).view(np.uint8).reshape(-1, CHECKSUM)
    return joined(found, length_of(values), values) if layout.rocksdb else joined(found, values)


@dataclass(frozen=True)
class Summed:
    """Rows without their checksums: the ``n`` contents, and two checksums of each.

    ``owners`` has for each the index of the row that it was in; ``stored`` is the checksum there,
    ``computed`` that of the bytes.
    """

    content: Spans
    owners: Integers
    stored: Checksums
    computed: Checksums

    @property
    def differing(self) -> Integers:
        """The indices of contents whose two checksums differ."""
        return np.flatnonzero(self.stored != self.computed)


def summed_values(keys: Rows, values: Rows, layout: RowLayout) -> Summed:
    """Values, each under one of ``keys``. Raises `CorruptFileError` where there is no checksum."""
    spans = Spans.of(values)
    if layout.rocksdb:
        content, owners = Repeated(CHECKSUM, layout.delimiter, _VALUE).parts(spans)
    else:
        content, owners = spans.behind(CHECKSUM, _VALUE), np.arange(len(values))
    before = CHECKSUM + (CHECKSUM if layout.rocksdb else 0)
    stored = Spans(content.data, content.starts - before, content.lengths + before)
    return _summed(stored, content, owners, Spans.of(keys).at(owners), content)


def summed_deletions(keys: Rows) -> Summed:
    """Deleted keys. Raises `CorruptFileError` where one is too short to have a checksum."""
    spans = Spans.of(keys)
    content = spans.behind(CHECKSUM, _KEY)
    return _summed(spans, content, np.arange(len(keys)), content)


def checked_values(keys: Rows, values: Rows, layout: RowLayout) -> tuple[Spans, Integers]:
    """Values without checksums, and for each the index of the key that it is under.

    Raises `CorruptFileError` where a checksum is another.
    """
    found = summed_values(keys, values, layout)
    wrong = found.differing.size
    if wrong:
        raise damaged(_VALUE, "the checksum of key and value", f"another one in {wrong} rows")
    return found.content, found.owners


def with_deletion_checksums(keys: Rows) -> Rows:
    """Keys, as a store has them, as its changelog has those that are deleted."""
    found = crc32c(Spans.of(keys)).view(np.uint8).reshape(-1, CHECKSUM)
    return joined(found, keys)


def _summed(stored: Spans, content: Spans, owners: Integers, *summed: Spans) -> Summed:
    noted = stored.matrix(CHECKSUM, _VALUE).view("<u4")[:, 0]
    return Summed(content, owners, noted, crc32c(*summed))


# A row with what a store puts in front of it.


class StructPart(Protocol):
    """A key, a value, or one part of a key: structs of one type, and their bytes in a store."""

    def encode(self, structs: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of structs."""
        ...

    def decode(self, spans: Spans) -> pa.StructArray:
        """The structs; `CorruptFileError` for bytes that are none."""
        ...


class RowPart:
    """Spark's ``UnsafeRow`` behind bytes that are the same for every row."""

    def __init__(self, codec: RowCodec, header: bytes, what: str) -> None:
        self._codec = codec
        self._header = header
        self._what = what

    def encode(self, structs: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of structs. Raises as `RowCodec.encode`."""
        rows = self._codec.encode(structs)
        return joined(self._header, rows) if self._header else rows

    def decode(self, spans: Spans) -> pa.StructArray:
        """The structs. Raises `CorruptFileError`."""
        rest = spans.without(self._header, self._what) if self._header else spans
        return self._codec.decode_within(rest.data, rest.starts, rest.lengths)
