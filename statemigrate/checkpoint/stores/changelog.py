"""Changelogs: what a batch changed in a store, compressed with the codec of the offset log.

Version 1 is of a store without column families and has no header. Version 2 is of one with them: a
header ``v2`` as Java's ``writeUTF``, and a byte before each record. Versions 3 and 4 are these with
a header ``v3`` or ``v4`` and the lineage as JSON, the unique ids of the files since the last
snapshot (checkpoint format 2). Format: ``StateStoreChangelog.scala`` of apache/spark.

`fold` leaves each key once, with the value that it has after all changes. A delete, or a new value,
ends what was before; what is merged comes after it. Keys are compared and gathered by Arrow and
numpy, without a loop over rows. What is left of a partition is in memory at once, as it is in
Spark's HDFS-backed provider; changes are folded as they come, so that what later ones replace is
not, however large the files unpack.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from statemigrate.checkpoint.codecs import compressing, decompressed, most_content
from statemigrate.checkpoint.logs import MERGE_OPERATOR, pinned
from statemigrate.checkpoint.operators import JavaReader, java_text
from statemigrate.checkpoint.rows import Rows, joined, within
from statemigrate.errors import CorruptFileError, UnsupportedError
from statemigrate.files import check_shape, parse_json
from statemigrate.numpy_arrays import numpy_array

# The records of a file of state, a batch at a time.
#
# A record is the length of a key, the key, the length of a value, the value; a length is four
# bytes, big-endian, and -1 for a value that is deleted. In the files of a store with column
# families a byte before it says what it is. All come from ``StateStoreChangelog.scala`` and
# ``HDFSBackedStateStoreProvider.scala`` of apache/spark.


END, PUT, DELETE, MERGE = 0x00, 0x01, 0x10, 0x11
"""What a record is, as the byte before it says."""
_LENGTH = struct.Struct(">i")
_NOTHING = -1
_LONGEST = 0x7FFFFFFF
_MANY = 1 << 15
"""Records that are parsed at once: the places of many small ones take more than they do."""
_TYPES = {END, PUT, DELETE, MERGE}


@dataclass(frozen=True)
class ChangelogRecords:
    """Records in their order: what each is, its key, and its value, empty where it is deleted."""

    kinds: npt.NDArray[np.uint8]
    keys: Rows
    values: Rows

    def __len__(self) -> int:
        return len(self.keys)


@dataclass
class _RecordOffsets:
    """Where records are in a buffer."""

    kinds: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    key_lengths: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    value_lengths: list[int] = field(default_factory=list)
    end: int = 0
    is_last: bool = False

    def changes(self, data: npt.NDArray[np.uint8]) -> ChangelogRecords:
        return ChangelogRecords(
            np.array(self.kinds, np.uint8),
            within(data, _numbers(self.keys), _numbers(self.key_lengths)),
            within(data, _numbers(self.values), _numbers(self.value_lengths)),
        )


def read_records(pieces: Iterator[bytes], *, typed: bool, most: int) -> Iterator[ChangelogRecords]:
    """The records in ``pieces`` of a file, after its header; ``typed`` where a byte is before each.

    ``most`` are the bytes that the file can unpack to: a record that says it has more is refused
    before they are waited for. A piece and a record at a time are in memory. Raises ValueError for
    what are no such records, or not all of them.
    """
    buffer = bytearray()
    is_ended = False
    for piece in pieces:
        if is_ended and piece:
            raise ValueError("more after the end of the records")
        buffer += piece
        found = _RecordOffsets()
        while not found.is_last:
            found = _whole_records(buffer, found.end, typed=typed, most=most)
            if not found.keys:
                break
            yield found.changes(np.frombuffer(buffer, np.uint8))
        del buffer[: found.end]
        is_ended = found.is_last
        if is_ended and buffer:
            raise ValueError("more after the end of the records")
    if not is_ended:
        raise ValueError("the file ends too early")


def records(kind: int, keys: Rows, values: Rows, *, typed: bool) -> Rows:
    """Records that put or merge ``values`` under ``keys``, paired in order."""
    parts: tuple[Any, ...] = (_lengths(keys), keys, _lengths(values), values)
    return joined(bytes([kind]), *parts) if typed else joined(*parts)


def deletions(keys: Rows, *, typed: bool) -> Rows:
    """Records that delete ``keys``."""
    parts = (_lengths(keys), keys, _LENGTH.pack(_NOTHING))
    return joined(bytes([DELETE]), *parts) if typed else joined(*parts)


def end_of_records(*, typed: bool) -> bytes:
    """What stands after the last record."""
    return bytes([END]) if typed else _LENGTH.pack(_NOTHING)


def flat(rows: Rows) -> memoryview:
    """Rows end to end, as they are to be written."""
    return rows.data[rows.offsets[0] : rows.offsets[-1]].data


def corrupt(path: str, error: Exception) -> CorruptFileError:
    """A file of state that cannot be read to its end."""
    return CorruptFileError(
        "SM-CHECKPOINT-020",
        f"{path} is not a file of state as Spark writes it",
        expected="records to the end, of the codec that the offset log names",
        found=str(error),
        next_action="restore the file from a copy of the checkpoint; Spark cannot read it either",
        path=path,
    )


def _whole_records(data: bytearray, at: int, *, typed: bool, most: int) -> _RecordOffsets:
    """The next records that are there to their ends. Raises ValueError for what is none."""
    found = _RecordOffsets()
    unpack, size, before = _LENGTH.unpack_from, len(data), int(typed)
    kind = PUT
    while at + before + (0 if typed else 4) <= size and len(found.kinds) < _MANY:
        if typed:
            kind = data[at]
            if kind not in _TYPES:
                raise ValueError(f"a record of type {kind:#04x}")
            if kind == END or at + 5 > size:
                found.is_last = kind == END
                at += found.is_last
                break
        (key_length,) = unpack(data, at + before)
        if key_length == _NOTHING and not typed:
            found.is_last, at = True, at + 4
            break
        key = at + before + 4
        value = key + key_length + 4
        if not 0 <= key_length <= most:
            raise ValueError(f"a key of {key_length:,} bytes in a file of at most {most:,}")
        if value > size:
            break
        (value_length,) = unpack(data, value - 4)
        end = value + max(0, value_length)
        if not _NOTHING <= value_length <= most:
            raise ValueError(f"a value of {value_length:,} bytes in a file of at most {most:,}")
        if typed and (value_length < 0) != (kind == DELETE):
            raise ValueError(f"a value of {value_length} bytes in a record of type {kind:#04x}")
        if end > size:
            break
        found.kinds.append(DELETE if value_length < 0 else kind)
        found.keys.append(key)
        found.key_lengths.append(key_length)
        found.values.append(value)
        found.value_lengths.append(max(0, value_length))
        at = end
    found.end = at
    return found


def _lengths(rows: Rows) -> npt.NDArray[np.uint8]:
    """Four bytes for each row. Raises `UnsupportedError` for one that four bytes cannot count."""
    longest = int(rows.lengths.max()) if len(rows) else 0
    if longest > _LONGEST:
        raise UnsupportedError(
            "SM-STATE-019",
            "a key or a value of state is too large for Spark's files of state",
            expected="at most 2 GiB, as its length has four bytes",
            found=f"{longest:,} bytes",
            next_action="let the code, or the script, keep less under one key; no checkpoint was "
            "written",
        )
    return rows.lengths.astype(">i4").view(np.uint8).reshape(len(rows), 4)


def _numbers(found: list[int]) -> npt.NDArray[np.int64]:
    return np.array(found, np.int64)


_TYPED = (2, 4)
_WITH_LINEAGE = (3, 4)
_HEADER = 2 * (2 + 0xFFFF)
"""Bytes that a header has at most."""


@dataclass(frozen=True)
class LineageItem:
    """The file of a version: its unique id."""

    version: int
    unique_id: str


@dataclass(frozen=True)
class Changelog:
    """A changelog that is open: its header, and the changes, which can be read once.

    ``lineage`` has the versions from the last snapshot to the one before, oldest first; nothing in
    versions 1 and 2.
    """

    version: int
    lineage: tuple[LineageItem, ...]
    changes: Iterator[ChangelogRecords]


def read_changelog(source: BinaryIO, codec: str, path: str) -> Changelog:
    """Read a changelog of any version; ``path`` is for messages.

    Raises `CorruptFileError`, also from its ``changes``, for a damaged file, and `UnsupportedError`
    for a codec or a version that is not known.
    """
    most, pieces = most_content(codec, source), decompressed(codec, source)
    try:
        start = _start(pieces)
        version = version_of(start)
        if not 1 <= version <= 4:
            raise _unknown(path, version)
        lineage, size = _header(start, version)
    except ValueError as error:
        raise corrupt(path, error) from error
    rest = chain([start[size:]], pieces)
    return Changelog(version, lineage, _checked(rest, version, path, most))


class SparkChangelogWriter:
    """Writes a changelog of a ``version`` from 1 to 4; ``lineage`` is what 3 and 4 need.

    Raises `UnsupportedError` for what the version cannot hold.
    """

    def __init__(
        self, sink: BinaryIO, codec: str, version: int, lineage: Sequence[LineageItem] = ()
    ) -> None:
        self._version = version
        self._typed = version in _TYPED
        self._out = compressing(codec, sink)
        self._is_first = version == 1
        if version > 1:
            self._out.write(java_text(f"v{version}"))
        if version in _WITH_LINEAGE:
            self._out.write(java_text(_lineage_json(lineage)))

    def put(self, keys: Rows, values: Rows) -> None:
        """Set the value of each key."""
        self._write(records(PUT, keys, values, typed=self._typed))

    def merge(self, keys: Rows, values: Rows) -> None:
        """Append a value to those that each key has."""
        if not self._typed:
            raise UnsupportedError(
                "SM-STATE-014",
                "a store without column families keeps one value under a key",
                expected="a store with column families, for lists",
                found=f"several values for a changelog of version {self._version}",
                next_action="keep lists in transformWithState, or a join of state format 4",
            )
        self._write(records(MERGE, keys, values, typed=True))

    def delete(self, keys: Rows) -> None:
        """Remove each key."""
        self._write(deletions(keys, typed=self._typed))

    def close(self) -> None:
        """Write the end; the file stays open."""
        self._out.write(end_of_records(typed=self._typed))
        self._out.close()

    def _write(self, rows: Rows) -> None:
        if not len(rows):
            return
        if self._is_first and version_of(rows.data[:_HEADER].tobytes()) != 1:
            raise UnsupportedError(
                "SM-STATE-015",
                "the first key is so long that Spark would take the file for another version",
                expected="a first key of less than 65,536 bytes",
                found=f"{int.from_bytes(rows.data[:4].tobytes()):,} bytes",
                next_action="write a shorter key first",
            )
        self._is_first = False
        self._out.write(flat(rows))


def version_of(start: bytes) -> int:
    """The version of a changelog that begins like that, judged as Spark judges it.

    A file of version 1 has no header: it is what has no text ``v`` and a number in front.
    """
    try:
        text = JavaReader(start).text()
    except ValueError:
        return 1
    number = text.removeprefix("v")
    return int(number) if text != number and number.isascii() and number.isdigit() else 1


def _start(pieces: Iterator[bytes]) -> bytes:
    start = b""
    while len(start) < _HEADER and (piece := next(pieces, None)) is not None:
        start += piece
    return start


def _header(start: bytes, version: int) -> tuple[tuple[LineageItem, ...], int]:
    """The lineage, and how long the header is."""
    if version == 1:
        return (), 0
    reader = JavaReader(start)
    reader.text()
    lineage = _lineage(reader.text()) if version in _WITH_LINEAGE else ()
    return lineage, reader.bytes_read


def _lineage(text: str) -> tuple[LineageItem, ...]:
    document = parse_json(text)
    check_shape(document, [{"version": int, "checkpointUniqueId": str}], "the lineage")
    return tuple(LineageItem(each["version"], each["checkpointUniqueId"]) for each in document)


def _lineage_json(lineage: Sequence[LineageItem]) -> str:
    items = [{"version": i.version, "checkpointUniqueId": i.unique_id} for i in lineage]
    return json.dumps(items, separators=(",", ":"))


def _checked(
    pieces: Iterator[bytes], version: int, path: str, most: int
) -> Iterator[ChangelogRecords]:
    try:
        yield from read_records(pieces, typed=version in _TYPED, most=most)
    except ValueError as error:
        raise corrupt(path, error) from error


def _unknown(path: str, version: int) -> UnsupportedError:
    return UnsupportedError(
        "SM-STATE-016",
        f"{path} is a changelog of version {version}",
        expected="version 1, 2, 3 or 4",
        found=f"v{version}",
        next_action="statemigrate's changelog tells whether a newer release knows it",
        path=path,
    )


Indices = npt.NDArray[np.int64]
WAITING = 4 << 20
"""Bytes of changes that wait to be folded, or as many as twice what was left of those before."""

_EACH = 128
"""Bytes of the numbers by which a change is found and compared, whatever it has."""


def fold(changes: Iterable[ChangelogRecords], *, separator: bytes = b"") -> tuple[Rows, Rows]:
    """The keys that are there after all ``changes``, in no order, and the value of each.

    Values that were merged stand after each other with ``separator`` between, as RocksDB's own
    operator of the pinned version has them.
    """
    parts: list[ChangelogRecords] = []
    waiting, most = 0, WAITING
    for each in changes:
        parts.append(each)
        waiting += _size(each)
        if waiting > most:
            # Folding again costs as much as what is left: each time there is twice as much before.
            keys, values = _folded(parts, separator)
            parts = [ChangelogRecords(np.full(len(keys), PUT, np.uint8), keys, values)]
            waiting, most = 0, max(WAITING, 2 * _size(parts[0]))
    return _folded(parts, separator)


def _size(changes: ChangelogRecords) -> int:
    """The bytes that changes take in memory, with those that folding takes for each."""
    held = (changes.keys.offsets, changes.values.offsets)
    return int(sum(offsets[-1] - offsets[0] for offsets in held)) + _EACH * len(changes)


def _folded(parts: list[ChangelogRecords], separator: bytes) -> tuple[Rows, Rows]:
    if not parts:
        return Rows.from_list([]), Rows.from_list([])
    whole = ChangelogRecords(
        np.concatenate([each.kinds for each in parts]),
        Rows.concat([each.keys for each in parts]),
        Rows.concat([each.values for each in parts]),
    )
    return _left(whole, separator)


def _left(changes: ChangelogRecords, separator: bytes) -> tuple[Rows, Rows]:
    identities = changes.keys.to_arrow().dictionary_encode()
    key_of = numpy_array(identities.indices).astype(np.int64)
    order = np.arange(len(changes))
    # The last record of each key that does not merge: what is before it counts no more.
    floor = np.full(len(identities.dictionary), -1, np.int64)
    is_merge = changes.kinds == MERGE
    floor[key_of[~is_merge]] = order[~is_merge]
    kept = (order >= floor[key_of]) & (changes.kinds != DELETE)
    chosen = order[kept]
    chosen = chosen[np.argsort(key_of[chosen], kind="stable")]
    keys, starts = _first_of_each(key_of[chosen])
    values = _join_runs(changes.values.take(chosen), starts, separator)
    return changes.keys.take(chosen[starts]), values if len(keys) else Rows.from_list([])


def _first_of_each(sorted_keys: Indices) -> tuple[Indices, Indices]:
    found, starts = np.unique(sorted_keys, return_index=True)
    return found, starts


def _join_runs(values: Rows, starts: Indices, separator: bytes) -> Rows:
    """The values from each of ``starts`` up to the next, in one."""
    if len(starts) == len(values):
        return values
    if not separator:
        return Rows(values.data, values.offsets[np.append(starts, len(values))])
    joined_values = joined(values, separator)
    ends = joined_values.offsets[np.append(starts[1:], len(joined_values))] - len(separator)
    return _cut(joined_values, joined_values.offsets[starts], ends)


def _cut(rows: Rows, starts: Indices, ends: Indices) -> Rows:
    return within(rows.data, starts, ends - starts)


def fold_state(changes: Iterator[ChangelogRecords], conf: Mapping[str, str]) -> tuple[Rows, Rows]:
    """What is left of all ``changes`` of a version."""
    return fold(changes, separator=b"," if pinned(conf, MERGE_OPERATOR) == "1" else b"")


def among(keys: Rows, wanted: Rows) -> Indices:
    """The places of those keys that are wanted."""
    mask = pc.is_in(keys.to_arrow(), value_set=wanted.to_arrow())
    return np.flatnonzero(numpy_array(mask)).astype(np.int64)
