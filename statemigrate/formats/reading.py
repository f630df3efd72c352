"""Read Avro binary through fastavro, strictly: the bytes are one value and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, cast

from fastavro import parse_schema, schemaless_reader

from statemigrate.errors import FormatError
from statemigrate.formats.schema import Record, avro_json, numbered


def reader_of(record: Record) -> Callable[[bytes], dict[str, Any]]:
    """Compile the reader of a record. It raises FormatError if it is not exactly one value."""
    parsed = parse_schema(avro_json(numbered(record)))

    def read(data: bytes) -> dict[str, Any]:
        buffer = BytesIO(data)
        try:
            value = schemaless_reader(buffer, parsed, None)
        except Exception as error:
            # fastavro raises a dozen unrelated classes for bytes that are not of the schema.
            raise _undecodable(data, f"{type(error).__name__}: {error}") from error
        if buffer.tell() != len(data):
            raise _undecodable(data, f"{len(data) - buffer.tell()} bytes more than the value")
        return cast("dict[str, Any]", value)

    return read


def _undecodable(data: bytes, found: str) -> FormatError:
    return FormatError(
        "These bytes are not one value of this format.",
        expected="the bytes of exactly one value",
        found=f"{found} (in {len(data)} bytes, the first {data[:16].hex()})",
        next_action="check that the format is the one the value was written with",
    )
