"""A value's bytes: by the function made for its format; what that refuses goes type by type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from statemigrate.formats.avro.compiled.writing import Encode, compiled_writer
from statemigrate.formats.avro.writing import writer_of
from statemigrate.formats.schema.nodes import Record

EncodeMany = Callable[[Sequence[Any]], list[bytes]]


def encoders_of(record: Record) -> tuple[Encode, EncodeMany]:
    """Compile what makes the bytes of a value, or of many; both raise `Unfit`."""
    strict = writer_of(record)
    # Made when it is needed: most formats of a lineage never write a value.
    compiled: Callable[[], Encode] = cache(lambda: compiled_writer(record))

    def encode(value: Any) -> bytes:
        try:
            return compiled()(value)
        except Exception:
            # Something about this value is not as usual.
            out = bytearray()
            strict(value, out)
            return bytes(out)

    def encode_many(values: Sequence[Any]) -> list[bytes]:
        write = compiled()
        try:
            return [write(value) for value in values]
        except Exception:
            return [encode(value) for value in values]

    return encode, encode_many
