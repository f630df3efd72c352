"""Read Avro binary through fastavro, strictly: the bytes are one value and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from io import BytesIO
from typing import Any, cast

from fastavro import parse_schema, schemaless_reader

from statemigrate.errors import HIDDEN, FormatError, values_hidden
from statemigrate.formats.avro.leaf_writing import write_long
from statemigrate.formats.avro.lifting import lift_of, stored_as
from statemigrate.formats.avro.zero_size import check_items, holds_such_arrays
from statemigrate.formats.schema.nodes import Record, avro_json, numbered

Read = Callable[[bytes], dict[str, Any]]
ReadMany = Callable[[Sequence[bytes]], list[dict[str, Any]]]

_AT_ONCE = 256
_FEW = 4
_LARGE = 1 << 20
_MARK = os.urandom(8)
"""Stands behind each of many values that are read at once. No stored bytes can know it."""


def reader_of(record: Record) -> Read:
    """Compile the reader of a record. It raises FormatError if it is not exactly one value."""
    stored = stored_as(record)
    parsed = parse_schema(avro_json(numbered(stored)))
    lift = lift_of(record)
    far = _far_reader_of(record)
    unbounded = holds_such_arrays(stored)

    def read(data: bytes) -> dict[str, Any]:
        buffer = BytesIO(data)
        try:
            if unbounded:
                check_items(stored, data)
            value = schemaless_reader(buffer, parsed, None)
        except EOFError as error:
            # fastavro's own words have an address in memory, or none at all.
            raise _undecodable(data, "bytes that end before the value does") from error
        except Exception as error:
            found = far(data) if isinstance(error, OverflowError) else None
            if found is not None:
                return found
            # fastavro raises a dozen unrelated classes for bytes that are not of the schema.
            raise _undecodable(data, f"{type(error).__name__}: {error}") from error
        if buffer.tell() != len(data):
            raise _undecodable(data, f"{len(data) - buffer.tell()} bytes more than the value")
        return cast("dict[str, Any]", value if lift is None else lift(value))

    return read


def _far_reader_of(record: Record) -> Callable[[bytes], dict[str, Any] | None]:
    """Read a value with a timestamp that UTC has no year for: None if that is not what it is.

    fastavro has no ``datetime`` for one, so all timestamps are read as numbers.
    """

    @cache
    def compiled() -> Any:
        parsed = parse_schema(avro_json(numbered(stored_as(record, numbers=True))))
        return parsed, lift_of(record, numbers=True)

    def read(data: bytes) -> dict[str, Any] | None:
        parsed, lift = compiled()
        buffer = BytesIO(data)
        try:
            value = cast("dict[str, Any]", lift(schemaless_reader(buffer, parsed, None)))
        except Exception:
            # The error that led here says what is wrong.
            return None
        return value if buffer.tell() == len(data) else None

    return read


def many_reader_of(record: Record, read: Read) -> ReadMany:
    """Compile the reader of many values at once; where it fails, ``read`` finds the one to blame.

    Calling fastavro costs as much as a small value does, so the values are read as one array, each
    with a mark behind it. A value that ends before or behind its own bytes misses its mark.
    """
    stored = stored_as(record)
    parsed = parse_schema(_marked(stored))
    lift = lift_of(record)
    alone = holds_such_arrays(stored)

    def read_at_once(values: Sequence[bytes]) -> list[dict[str, Any]] | None:
        data = bytearray()
        write_long(len(values), data)
        data += _MARK.join(values)
        data += _MARK + b"\0"
        buffer = BytesIO(data)
        try:
            found = cast("list[dict[str, Any]]", schemaless_reader(buffer, parsed, None))
        except Exception:
            # Reading one by one will tell which value it was.
            return None
        whole = buffer.tell() == len(data) and len(found) == len(values)
        whole = whole and all(each["mark"] == _MARK for each in found)
        if not whole:
            return None
        return [each["value"] if lift is None else lift(each["value"]) for each in found]

    def read_some(values: Sequence[bytes]) -> list[dict[str, Any]]:
        found = None
        # Putting large values together would cost memory and save nothing.
        if not alone and len(values) >= _FEW and sum(map(len, values)) <= _LARGE:
            found = read_at_once(values)
        return [read(data) for data in values] if found is None else found

    def read_many(values: Sequence[bytes]) -> list[dict[str, Any]]:
        parts = range(0, len(values), _AT_ONCE)
        return [each for start in parts for each in read_some(values[start : start + _AT_ONCE])]

    return read_many


def _marked(record: Record) -> dict[str, Any]:
    mark = {"type": "fixed", "name": "mark", "size": len(_MARK)}
    fields = [
        {"name": "value", "type": avro_json(numbered(record))},
        {"name": "mark", "type": mark},
    ]
    return {"type": "array", "items": {"type": "record", "name": "marked", "fields": fields}}


def _undecodable(data: bytes, found: str) -> FormatError:
    first = HIDDEN if values_hidden() else data[:16].hex()
    return FormatError(
        "These bytes are not one value of this format.",
        expected="the bytes of exactly one value",
        found=f"{found} (in {len(data)} bytes, the first {first})",
        next_action="check that the format is the one the value was written with",
    )
