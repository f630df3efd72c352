"""Rows of Spark's own state as plain values, from Arrow or from Rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.deployment import StoredFamily
from statemigrate.formats import Value
from statemigrate.processor.rows import RowCodec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Read = Callable[[Any], tuple[bytes, Value]]
"""Of what a row has as its value: the bytes the family's format writes, and the plain value."""


def reader_of(family: StoredFamily, *, envelope: bool) -> Read:
    """How values of a family are read.

    An envelope holds the format's bytes; a state variable holds a struct, which is written first,
    since a transform may change the value it is given.
    """
    fmt = family.format
    if envelope:
        return lambda held: (bytes(held["payload"]), fmt.decode(bytes(held["payload"])))
    codec = RowCodec(fmt.struct_type())

    def read(held: Any) -> tuple[bytes, Value]:
        value = codec.to_value(held)
        return fmt.encode(value), value

    return read


@dataclass(frozen=True)
class Keys:
    """Keys of Spark's own state as tuples: the grouping columns, for map state the map's own."""

    key: StructType
    user_key: StructType | None

    def shown(self, row: Any) -> tuple[Any, ...]:
        """The key of a row, or of what Arrow makes of one."""
        parts = tuple(row["key"][name] for name in self.key.fieldNames())
        if self.user_key is None:
            return parts
        return parts + tuple(row["user_key"][name] for name in self.user_key.fieldNames())


def arrow_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow record batch as dictionaries, maps as dictionaries too."""
    # Asking for maps costs three times as much, whether there are any or not.
    options = {"maps_as_pydicts": "strict"} if _holds_maps(batch.schema) else {}
    columns = [column.to_pylist(**options) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _holds_maps(fields: Iterable[Any]) -> bool:
    from pyarrow import types

    return any(
        types.is_map(field.type)
        or _holds_maps(field.type.field(place) for place in range(field.type.num_fields))
        for field in fields
    )
