"""Read Avro binary strictly: the bytes are one value and nothing else.

What is regular is read by a function made for the format: in compiled code where that is installed,
else in Python. For the rest there is fastavro, which reads whatever Avro allows, and says what is
wrong with all other bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from io import BytesIO
from typing import IO, Any, cast

from statemigrate.errors import HIDDEN, FormatError, values_hidden
from statemigrate.formats.avro.compiled_reading import compiled_reader
from statemigrate.formats.avro.extension import extension_reader, from_fastest
from statemigrate.formats.avro.logical import (
    check_items,
    contains_arrays_without_bytes,
    lift_of,
    stored_as,
)
from statemigrate.formats.schema import Record, avro_json, numbered

Read = Callable[[bytes], dict[str, Any]]
ReadMany = Callable[[Sequence[bytes]], list[dict[str, Any]]]


def readers_of(record: Record) -> tuple[Read, ReadMany]:
    """Compile the readers of a record's value, and of many.

    They raise FormatError for bytes that are not exactly one value.
    """
    strict = strict_reader_of(record)
    if contains_arrays_without_bytes(stored_as(record)):
        return strict, lambda values: list(map(strict, values))
    return from_fastest(lambda: extension_reader(record), lambda: compiled_reader(record), strict)


def strict_reader_of(record: Record) -> Read:
    """The reader that takes whatever Avro allows; it raises FormatError for anything else."""
    stored = stored_as(record)
    decode = _decoder_of(stored)
    lift = lift_of(record)
    far = _far_reader_of(record)
    unbounded = contains_arrays_without_bytes(stored)

    def read(data: bytes) -> dict[str, Any]:
        buffer = BytesIO(data)
        try:
            if unbounded:
                check_items(stored, data)
            value = decode(buffer)
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


def _decoder_of(stored: Record) -> Callable[[BytesIO], Any]:
    """Fastavro's reader of one value, made with the first one that it is needed for."""

    @cache
    def compiled() -> Callable[[BytesIO], Any]:
        from fastavro import parse_schema, schemaless_reader

        parsed = parse_schema(avro_json(numbered(stored)))
        return lambda buffer: schemaless_reader(buffer, parsed, None)

    def decode(buffer: BytesIO) -> Any:
        return compiled()(buffer)

    return decode


def _far_reader_of(record: Record) -> Callable[[bytes], dict[str, Any] | None]:
    """Read a value with a timestamp that UTC has no year for: None if that is not what it is.

    fastavro has no ``datetime`` for one, so all timestamps are read as numbers.
    """

    @cache
    def compiled() -> Any:
        return _decoder_of(stored_as(record, numbers=True)), lift_of(record, numbers=True)

    def read(data: bytes) -> dict[str, Any] | None:
        decode, lift = compiled()
        buffer = BytesIO(data)
        try:
            value = cast("dict[str, Any]", lift(decode(buffer)))
        except Exception:
            # The error that led here says what is wrong.
            return None
        return value if buffer.tell() == len(data) else None

    return read


def _undecodable(data: bytes, found: str) -> FormatError:
    first = HIDDEN if values_hidden() else data[:16].hex()
    return FormatError(
        "SM-FORMAT-003",
        "These bytes are not one value of this format.",
        expected="the bytes of exactly one value",
        found=f"{found} (in {len(data)} bytes, the first {first})",
        next_action="check that the format is the one the value was written with",
    )


# Avro container files, written and read through fastavro.


def write_container(
    stream: IO[bytes],
    schema: Any,
    records: Iterable[dict[str, Any]],
    *,
    marker: bytes | None = None,
) -> None:
    """Write ``records`` of an Avro schema as one container file, a block at a time.

    ``marker``, 16 bytes, is what its blocks end with; by chance unless given.
    """
    from fastavro import parse_schema, writer

    end = os.urandom(16) if marker is None else marker
    writer(stream, parse_schema(schema), records, codec="deflate", strict=True, sync_marker=end)


def read_container(stream: IO[bytes], name: str) -> Iterator[dict[str, Any]]:
    """The records of a container file, called ``name`` in errors.

    Raises `FormatError` for what is no such file, or is cut short.
    """
    from fastavro import reader

    try:
        yield from reader(stream)  # type: ignore[misc]
    except Exception as error:
        # fastavro raises a dozen unrelated classes for damaged files.
        raise FormatError(
            "SM-FORMAT-002",
            f"{name} is not an Avro container file",
            expected="a file that starts with `Obj`, 0x01 and its schema",
            found=f"{type(error).__name__}: {error}",
            next_action="write it with `statemigrate export`, or any Avro library",
            path=name,
        ) from error
