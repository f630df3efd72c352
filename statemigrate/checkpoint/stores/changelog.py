"""Changelogs: what a batch changed in a store, compressed with the codec of the offset log.

Version 1 is of a store without column families and has no header. Version 2 is of one with them: a
header ``v2`` as Java's ``writeUTF``, and a byte before each record. Versions 3 and 4 are these with
a header ``v3`` or ``v4`` and the lineage as JSON, the unique ids of the files since the last
snapshot (checkpoint format 2). Format: ``StateStoreChangelog.scala`` of apache/spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from statemigrate.checkpoint.operators.java_text import JavaReader, java_text
from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.stores.codecs import compressing, decompressed, most_content
from statemigrate.checkpoint.stores.records import (
    MERGE,
    PUT,
    Changes,
    corrupt,
    deletions,
    end_of_records,
    flat,
    read_records,
    records,
)
from statemigrate.errors import UnsupportedError
from statemigrate.files import parse_json
from statemigrate.files.documents.shapes import check_shape

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
    changes: Iterator[Changes]


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


class ChangelogWriter:
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
    return lineage, reader.place


def _lineage(text: str) -> tuple[LineageItem, ...]:
    document = parse_json(text)
    check_shape(document, [{"version": int, "checkpointUniqueId": str}], "the lineage")
    return tuple(LineageItem(each["version"], each["checkpointUniqueId"]) for each in document)


def _lineage_json(lineage: Sequence[LineageItem]) -> str:
    items = [{"version": i.version, "checkpointUniqueId": i.unique_id} for i in lineage]
    return json.dumps(items, separators=(",", ":"))


def _checked(pieces: Iterator[bytes], version: int, path: str, most: int) -> Iterator[Changes]:
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
