"""Avro container files, written and read through fastavro."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

from fastavro import parse_schema, reader, writer

from statemigrate.errors import FormatError


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
    end = os.urandom(16) if marker is None else marker
    writer(stream, parse_schema(schema), records, codec="deflate", strict=True, sync_marker=end)


def read_container(stream: IO[bytes], name: str) -> Iterator[dict[str, Any]]:
    """The records of a container file, called ``name`` in errors.

    Raises `FormatError` for what is no such file, or is cut short.
    """
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
