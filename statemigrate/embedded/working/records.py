"""The raw records of a column family, read in key order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statemigrate.embedded.storage.content_hash import Contents, contents_of
from statemigrate.embedded.storage.database import Database, translated
from statemigrate.families import Span

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
