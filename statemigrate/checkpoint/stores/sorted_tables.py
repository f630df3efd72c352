"""RocksDB's SST files, read without RocksDB: keys in order, with what happened to each.

A table has blocks of records, an index with the last key of each block, and a footer. A record
shares the beginning of its key with the one before it, up to the next restart point, which has a
whole key. All restart points of many blocks are read side by side, their first records, then their
second ones, so that there is no loop over records. Format: ``table/block_based`` and
``table/format.cc`` of facebook/rocksdb, format versions 2 to 5, as Spark writes them.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import count, pairwise

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.rows import (
    Bytes,
    Integers,
    Rows,
    copy_ranges,
    ends,
    within,
)
from statemigrate.checkpoint.stores.changelog import DELETE, MERGE, PUT, ChangelogRecords
from statemigrate.checkpoint.stores.integrity import matching
from statemigrate.errors import UnsupportedError

_FOOTER, _MAGIC = 53, 0x88E241B785F4CFF7
_VERSIONS = range(2, 6)
_TRAILER = 5
"""Bytes behind a block: how it is compressed, and its checksum."""
_LONGEST_VARINT = 10
_TAIL = 8
"""Bytes behind a key: the number of the change, and what it is."""
_KINDS = {0x00: DELETE, 0x01: PUT, 0x02: MERGE, 0x07: DELETE}
_HASHED = 0x80000000
MOST_IN_BLOCK = 1 << 30
"""Bytes that a block may unpack to."""
_MOST_IN_RUN = 4_096
"""Records behind one restart point; RocksDB's default is 16."""
_MOST_SHARED = 64
"""How often keys may be as long as the blocks that have them, since they share beginnings."""


@dataclass(frozen=True)
class Records:
    """Changes in the order of their keys; of one key the newest, of the highest number, first."""

    changes: ChangelogRecords
    numbers: Integers


@dataclass(frozen=True)
class BlockHandle:
    """Where a block is in its file, without its trailer."""

    offset: int
    size: int


@dataclass(frozen=True)
class Index:
    """The blocks of a table, and for each a key that none of its keys is behind."""

    keys: Rows
    offsets: Integers
    sizes: Integers

    def between(self, start: bytes = b"", stop: bytes | None = None) -> Integers:
        """The places of blocks that may have keys from ``start`` up to ``stop``, without it."""
        first = self.index_of(start)
        last = len(self.keys) if stop is None else self.index_of(stop) + 1
        return np.arange(first, min(last, len(self.keys)))

    def having(self, wanted: Sequence[bytes]) -> Integers:
        """The places of blocks that may have one of the ``wanted`` keys."""
        found: set[int] = set()
        last = self._listed
        for key in wanted:
            for place in range(self.index_of(key), len(last)):
                found.add(place)
                # What happened to one key may fill several blocks.
                if last[place] != key:
                    break
        return np.array(sorted(found), np.int64)

    def index_of(self, key: bytes) -> int:
        """The place of the first block that may have a key."""
        return bisect_left(self._listed, key)

    @cached_property
    def _listed(self) -> list[bytes]:
        """The keys as a list, in which others are found faster."""
        return self.keys.to_list()


class SortedTable:
    """An SST file; ``path`` is for messages.

    Methods raise ValueError for what is no such file, or a block that is damaged, and
    `UnsupportedError` for a way to write one that Spark does not use.
    """

    def __init__(self, data: Bytes, path: str) -> None:
        self._data, self._path = data, path
        self._view = data.data
        footer = data[-_FOOTER:].tobytes()
        if len(footer) < _FOOTER:
            raise ValueError(f"a table of {len(footer)} bytes")
        version, magic = struct.unpack("<IQ", footer[-12:])
        if magic != _MAGIC:
            raise ValueError("no table of RocksDB: its last bytes are others")
        if version not in _VERSIONS:
            raise self._unknown(f"format version {version}")
        self._checksum_kind = footer[0]
        at = 1
        numbers = []
        for _ in range(4):
            number, at = _varint(footer, at)
            numbers.append(number)
        self._meta = self._entries(BlockHandle(*numbers[:2]))
        self._check_properties()
        self._index = BlockHandle(*numbers[2:])

    @cached_property
    def index(self) -> Index:
        """The blocks of records."""
        block = np.frombuffer(self._block(self._index), np.uint8)
        starts, limits = _runs(block, ends([block.size]))
        is_delta = self._has("rocksdb.index.value.is.delta.encoded")
        shared, at = _varints(block, starts, limits)
        own, at = _varints(block, at, limits)
        if not is_delta:
            _, at = _varints(block, at, limits)
        offsets, after = _varints(block, at + own, limits)
        sizes, after = _varints(block, after, limits)
        if bool(shared.any()) or not np.array_equal(after, limits):
            raise self._unknown("an index whose keys share their beginnings")
        tail = 0 if self._has("rocksdb.index.key.is.user.key") else _TAIL
        if own.size and int(own.min()) < tail:
            raise ValueError("an index with a key without its number")
        return Index(within(block, at, own - tail), offsets, sizes)

    def records(self, blocks: Integers, *, values: bool = True) -> Records:
        """All records of some of the blocks, by their places in the index.

        Without ``values`` each is empty: who wants keys alone saves a copy of all others.
        """
        index = self.index
        return _records(self._contents(index.offsets[blocks], index.sizes[blocks]), values)

    @cached_property
    def _properties(self) -> Mapping[str, bytes]:
        handle = self._meta.get("rocksdb.properties")
        return {} if handle is None else self._entries(_handle(handle))

    def _has(self, name: str) -> bool:
        value = self._properties.get(name, b"\0")
        return bool(_varint(value, 0)[0]) if value else False

    def _check_properties(self) -> None:
        deleted = self._meta.get("rocksdb.range_del")
        if deleted is not None and self._entries(_handle(deleted)):
            raise self._unknown("deletions of ranges of keys")
        kind = self._properties.get("rocksdb.block.based.table.index.type", b"\0")
        if int.from_bytes(kind, "little") not in (0, 1):
            raise self._unknown(f"an index of type {int.from_bytes(kind, 'little')}")

    def _entries(self, handle: BlockHandle) -> dict[str, bytes]:
        """A block of names and values."""
        block = self._block(handle)
        at, end, key = 0, _end_of_records(block), b""
        found: dict[str, bytes] = {}
        while at < end:
            shared, at = _varint(block, at)
            own, at = _varint(block, at)
            size, at = _varint(block, at)
            if shared > len(key) or at + own + size > end:
                raise ValueError("a name or a value that leaves its block")
            key, at = key[:shared] + block[at : at + own], at + own
            found[key.decode("utf-8", "backslashreplace")] = block[at : at + size]
            at += size
        return found

    def _block(self, handle: BlockHandle) -> bytes:
        place = np.array([handle.offset], np.int64), np.array([handle.size], np.int64)
        return bytes(self._contents(*place)[0])

    def _contents(self, starts: Integers, sizes: Integers) -> list[bytes | memoryview]:
        """Blocks, unpacked. Raises ValueError for a checksum that is another."""
        if bool(((starts < 0) | (sizes < 0)).any()) or bool(
            (starts > self._data.size - sizes - _TRAILER).any()
        ):
            raise ValueError("a block that is not within its file")
        fits = matching(self._checksum_kind, self._data, starts, sizes)
        if fits is None:
            raise self._unknown(f"checksums of type {self._checksum_kind}")
        if not fits.all():
            wrong = int(np.flatnonzero(~fits)[0])
            raise ValueError(f"the block at byte {int(starts[wrong])} has another checksum")
        numbers = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        return [self._unpacked(start, end) for start, end in numbers]

    def _unpacked(self, start: int, end: int) -> bytes | memoryview:
        stored, kind = self._view[start:end], self._view[end]
        if kind == _PLAIN:
            return stored
        unpack = _UNPACKERS.get(kind)
        if unpack is None:
            raise self._unknown(f"blocks compressed in way {kind}")
        try:
            return unpack(stored)
        except (OSError, zlib.error, ValueError) as error:
            raise ValueError(f"the block at byte {start}: {error}") from error

    def _unknown(self, found: str) -> UnsupportedError:
        return UnsupportedError(
            "SM-STATE-034",
            f"{self._path} is a table of RocksDB that is not understood",
            expected="a block-based table as Spark writes it, of format version 2 to 5",
            found=found,
            next_action="read it through Spark; statemigrate's changelog tells whether a newer "
            "release knows it",
            path=self._path,
        )


# Blocks unpacked.


_PLAIN = 0
_codec = cache(pa.Codec)


def _sized(codec: str, stored: memoryview) -> bytes:
    """A block that begins with the size of its content."""
    size, at = _varint(stored[:_LONGEST_VARINT].tobytes(), 0)
    _check_size(size)
    return bytes(_codec(codec).decompress(stored[at:], size, asbytes=True))


def _snappy(stored: memoryview) -> bytes:
    # Snappy's own format begins with the size too.
    size, _ = _varint(stored[:_LONGEST_VARINT].tobytes(), 0)
    _check_size(size)
    return bytes(_codec("snappy").decompress(stored, size, asbytes=True))


def _zlib(stored: memoryview) -> bytes:
    size, at = _varint(stored[:_LONGEST_VARINT].tobytes(), 0)
    _check_size(size)
    return _exactly(zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored[at:], size), size)


def _bzip2(stored: memoryview) -> bytes:
    size, at = _varint(stored[:_LONGEST_VARINT].tobytes(), 0)
    _check_size(size)
    return _exactly(bz2.BZ2Decompressor().decompress(stored[at:], size), size)


def _check_size(size: int) -> None:
    if size > MOST_IN_BLOCK:
        raise ValueError(f"a block of {size:,} bytes")


def _exactly(found: bytes, size: int) -> bytes:
    if len(found) != size:
        raise ValueError(f"{len(found):,} bytes in place of {size:,}")
    return found


_UNPACKERS: dict[int, Callable[[memoryview], bytes]] = {
    1: _snappy,
    2: _zlib,
    3: _bzip2,
    4: partial(_sized, "lz4_raw"),
    5: partial(_sized, "lz4_raw"),
    7: partial(_sized, "zstd"),
}


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    number = 0
    for step in range(_LONGEST_VARINT):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            return number, at
    raise ValueError("a number that does not end")


def _handle(value: bytes) -> BlockHandle:
    offset, at = _varint(value, 0)
    return BlockHandle(offset, _varint(value, at)[0])


def _restarts(block: bytes | memoryview) -> int:
    if len(block) < 4:
        raise ValueError("a block without restart points")
    (count,) = struct.unpack("<I", block[-4:])
    if count & _HASHED or 4 * (count + 1) > len(block):
        raise ValueError(f"a block with {count} restart points")
    return int(count)


def _end_of_records(block: bytes | memoryview) -> int:
    return len(block) - 4 * (_restarts(block) + 1)


# Records of many blocks at once.


@dataclass(frozen=True)
class _Step:
    """A record of each of some runs; a run is what follows one restart point."""

    runs: Integers
    shared: Integers
    own: Integers
    keys: Integers
    values: Integers
    sizes: Integers


def _records(contents: Sequence[bytes | memoryview], has_values: bool = True) -> Records:
    data = np.concatenate([np.frombuffer(each, np.uint8) for each in contents] or [_NO_BYTES])
    begins = ends([len(each) for each in contents])
    starts, limits = _runs(data, begins)
    steps = list(_steps(data, starts, limits))
    if not steps:
        none = Rows.from_list([])
        return Records(ChangelogRecords(np.zeros(0, np.uint8), none, none), _NO_NUMBERS)
    return _assembled(data, steps, starts.size, has_values)


_NO_BYTES, _NO_NUMBERS = np.zeros(0, np.uint8), np.zeros(0, np.int64)


def _runs(data: Bytes, begins: Integers) -> tuple[Integers, Integers]:
    """Where the records behind each restart point begin and end, in blocks laid end to end."""
    ends_of_blocks = begins[1:]
    if bool((np.diff(begins) < 4).any()):
        raise ValueError("a block without restart points")
    width = np.full(ends_of_blocks.size, 4)
    counts = within(data, ends_of_blocks - 4, width).data.view("<u4").astype(np.int64)
    last = ends_of_blocks - 4 * (counts + 1)
    if bool((last < begins[:-1]).any()):
        raise ValueError("a block with more restart points than bytes")
    points = within(data, last, 4 * counts).data.view("<u4").astype(np.int64)
    starts = points + np.repeat(begins[:-1], counts)
    limits = np.append(starts[1:], 0)
    has_points = counts > 0
    limits[np.cumsum(counts)[has_points] - 1] = last[has_points]
    firsts = (np.cumsum(counts) - counts)[has_points]
    if bool((starts > limits).any()) or bool((points[firsts] != 0).any()):
        raise ValueError("restart points that are not in their order")
    return starts, limits


def _steps(data: Bytes, starts: Integers, limits: Integers) -> Iterator[_Step]:
    places = starts.copy()
    runs = np.flatnonzero(places < limits)
    lengths = np.zeros(starts.size, np.int64)
    for number in count():
        if not runs.size:
            return
        if number == _MOST_IN_RUN:
            raise ValueError(f"more than {_MOST_IN_RUN} records behind a restart point")
        at, end = places[runs], limits[runs]
        shared, at = _varints(data, at, end)
        own, at = _varints(data, at, end)
        sizes, at = _varints(data, at, end)
        values = at + own
        places[runs] = values + sizes
        if bool((places[runs] > end).any()) or bool((shared > lengths[runs]).any()):
            raise ValueError("a record that leaves its block, or shares more than there is")
        lengths[runs] = shared + own
        if int(lengths[runs].min()) < _TAIL:
            raise ValueError("a key without its number")
        yield _Step(runs, shared, own, at, values, sizes)
        runs = runs[places[runs] < limits[runs]]


def _varints(data: Bytes, places: Integers, limits: Integers) -> tuple[Integers, Integers]:
    """A number of at most 35 bits at each place, and where it ends."""
    if bool((places >= limits).any()):
        raise ValueError("a record that ends too early")
    read = data[places].astype(np.int64)
    ends_at = places + 1
    more = np.flatnonzero(read >= 0x80)
    read &= 0x7F
    for step in range(1, 5):
        if not more.size:
            return read, ends_at
        if bool((ends_at[more] >= limits[more]).any()):
            break
        byte = data[ends_at[more]].astype(np.int64)
        read[more] |= (byte & 0x7F) << (7 * step)
        ends_at[more] += 1
        more = more[byte >= 0x80]
    if more.size:
        raise ValueError("a length that does not end")
    return read, ends_at


def _assembled(data: Bytes, steps: list[_Step], runs: int, has_values: bool) -> Records:
    """The records in the order of runs, each run's in its own order."""
    counts = np.zeros(runs, np.int64)
    for step in steps:
        counts[step.runs] += 1
    first = ends(counts)[:-1]
    total = int(counts.sum())
    lengths, value_starts, value_sizes = (np.empty(total, np.int64) for _ in range(3))
    for number, step in enumerate(steps):
        rows = first[step.runs] + number
        lengths[rows] = step.shared + step.own
        value_starts[rows], value_sizes[rows] = step.values, step.sizes
    places = ends(lengths)
    if int(places[-1]) > max(_MOST_SHARED * data.size, 1 << 20):
        raise ValueError(f"keys of {int(places[-1]):,} bytes in {data.size:,} bytes of blocks")
    keys = np.empty(int(places[-1]), np.uint8)
    for number, step in enumerate(steps):
        rows = first[step.runs] + number
        if number:
            copy_ranges(keys, places[rows - 1], step.shared, keys, places[rows])
        copy_ranges(data, step.keys, step.own, keys, places[rows] + step.shared)
    tails = places[1:] - _TAIL
    tail = within(keys, tails, np.full(total, _TAIL)).data.view("<u8")
    kinds = _kinds((tail & np.uint64(0xFF)).astype(np.uint8))
    users = within(keys, places[:-1], lengths - _TAIL)
    if not has_values:
        value_sizes[:] = 0
    values = within(data, value_starts, value_sizes)
    return Records(ChangelogRecords(kinds, users, values), (tail >> np.uint64(8)).astype(np.int64))


def _kinds(found: Bytes) -> Bytes:
    kinds = np.full(256, 0xFF, np.uint8)
    for number, kind in _KINDS.items():
        kinds[number] = kind
    known = kinds[found]
    if bool((known == 0xFF).any()):
        other = int(found[known == 0xFF][0])
        raise ValueError(f"a record of type {other:#04x}")
    return known


def ranges(
    tables: Sequence[SortedTable], start: bytes, stop: bytes | None, most: int, first: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """Ranges of keys, one behind the other, with some ``most`` bytes of the tables in each.

    The first range has some ``first`` bytes.
    """
    marks: list[tuple[bytes, int]] = []
    for table in tables:
        index, waiting, enough = table.index, 0, first
        for place in index.between(start, stop).tolist():
            waiting += int(index.sizes[place])
            if waiting > enough // len(tables):
                marks.append((index.keys.row(place), waiting))
                waiting, enough = 0, most
    cuts, waiting, enough = [start], 0, first
    for key, size in sorted(marks):
        waiting += size
        is_within = key > cuts[-1] and (stop is None or key < stop)
        if waiting >= enough and is_within:
            cuts.append(key)
            waiting, enough = 0, most
    yield from pairwise(cuts)
    yield cuts[-1], stop
