"""Entries of pages as columns of Arrow: keys as the structs that Spark has, values as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from statemigrate.pages.live.rows import arrow_schema
from statemigrate.processor.keys.codec import KeyCodec
from statemigrate.processor.rows.codec import RowCodec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Element = tuple[bytes, bytes, int]
"""The bytes of a key, a map's own included, those of a value or of an element of a list, and when
that expires: in milliseconds since the epoch, 0 for never."""


class KeyColumns:
    """Turns the bytes of grouping keys, and of a map's own, into structs and back."""

    def __init__(self, key: StructType, user_key: StructType | None = None) -> None:
        self.key = key
        self.user_key = user_key

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyColumns, (self.key, self.user_key)

    def encoded(self, key: Sequence[Any]) -> bytes:
        """The bytes that an entry's key begins with; ``key`` may end before its last column."""
        width = len(self.key)
        parts = ((self.key, key[:width]), (self.user_key, key[width:]))
        return b"".join(
            KeyCodec(_first(columns, len(values))).encode(values)
            for columns, values in parts
            if columns is not None and values
        )

    def arrays(self, keys: Sequence[bytes]) -> list[Any]:
        """The grouping keys as an array of structs, and where there are any the map's own."""
        found = [self._codec.split(data) for data in keys]
        arrays = [_structs(self.key, [key for key, _ in found])]
        if self.user_key is not None:
            codec = KeyCodec(self.user_key)
            arrays.append(_structs(self.user_key, [codec.decode(rest) for _, rest in found]))
        return arrays

    @cached_property
    def _codec(self) -> KeyCodec:
        return KeyCodec(self.key)


def _first(columns: StructType, count: int) -> StructType:
    from pyspark.sql.types import StructType

    return StructType(columns.fields[:count])


def _structs(columns: StructType, keys: Sequence[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    plain = RowCodec(columns).to_value
    return pa.array([plain(key) for key in keys], pa.struct(list(arrow_schema(columns))))
