"""Keys as bytes: order-preserving and prefix-free, after the FoundationDB tuple layer's idea.

The bytes of two keys compare as Spark sorts the keys themselves, nulls first, and no key's bytes
are a prefix of another's, so that all entries of one grouping key form a range of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from statemigrate.errors import ValueMismatchError, shown
from statemigrate.processor.keys.columns import NULL, key_type, text_encode, texts_encode

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_UNFIT = (TypeError, ValueError, AttributeError, OverflowError, struct.error)
"""What encoders raise for a value of another type."""


class KeyCodec:
    """Encodes keys of one schema, a tuple of column values each."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        parts = [key_type(field.name, field.dataType) for field in schema.fields]
        self._encoders = tuple(encode for encode, _ in parts)
        self._decoders = tuple(decode for _, decode in parts)
        self._single = self._encoders[0] if len(parts) == 1 else None

    def encode(self, key: Sequence[Any]) -> bytes:
        """The bytes of ``key``. Raises `ValueMismatchError` naming the column that does not fit."""
        try:
            if self._single is not None:
                (value,) = key
                return NULL if value is None else self._single(value)
            return b"".join(
                NULL if value is None else encode(value)
                for encode, value in zip(self._encoders, key, strict=True)
            )
        except _UNFIT as error:
            raise ValueMismatchError(
                "SM-VALUE-009",
                f"the key {shown(key)} does not fit its columns",
                expected=self.schema.simpleString(),
                found=str(error),
                next_action="pass a key with one value a column, of the column's type",
                field="key",
            ) from error

    def encode_many(self, keys: Sequence[Sequence[Any]]) -> list[bytes]:
        """The bytes of many keys. Raises as `encode` does."""
        single = self._single
        if single is not None:
            # What does not fit is named one by one.
            with suppress(*_UNFIT):
                if single is text_encode:
                    return texts_encode([value for (value,) in keys])
                return [NULL if value is None else single(value) for (value,) in keys]
        return list(map(self.encode, keys))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The key that `encode` gave ``data`` for."""
        return self.split(data)[0]

    def split(self, data: bytes) -> tuple[tuple[Any, ...], bytes]:
        """The key at the start of ``data``, and the bytes behind it."""
        position = 0
        values: list[Any] = []
        for decode in self._decoders:
            if data[position : position + 1] == NULL:
                values.append(None)
                position += 1
            else:
                value, position = decode(data, position + 1)
                values.append(value)
        return tuple(values), data[position:]


def shown_key(keys: KeyCodec, user_keys: KeyCodec | None, data: bytes) -> tuple[Any, ...]:
    """A key's columns, for map state followed by those of the map's own key."""
    key, rest = keys.split(data)
    return key if user_keys is None else (*key, *user_keys.decode(rest))
