"""Rows of Spark's own state as plain values, from Arrow or from Rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statemigrate.formats import Format, Value
from statemigrate.formats.arrow_values import plain_values
from statemigrate.processor.rows.codec import RowCodec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StructValues:
    """Reads the structs of a state variable; they are written first: a transform may change one."""

    def __init__(self, fmt: Format) -> None:
        self._format = fmt
        self._codec = RowCodec(fmt.struct_type())

    def __reduce__(self) -> tuple[Any, ...]:
        return StructValues, (self._format,)

    def __call__(self, held: Any) -> tuple[bytes, Value]:
        """The bytes that the format writes, and the plain value."""
        value = self._codec.to_value(held)
        return self._format.encode(value), value


@dataclass(frozen=True)
class EnvelopeValues:
    """Reads envelopes, which hold the format's bytes."""

    format: Format

    def __call__(self, held: Any) -> tuple[bytes, Value]:
        """The bytes that the format writes, and the plain value."""
        payload = bytes(held["payload"])
        return payload, self.format.decode(payload)


@dataclass(frozen=True)
class Keys:
    """Keys of Spark's own state as tuples: the grouping columns, for map state the map's own."""

    key: StructType
    user_key: StructType | None

    def __call__(self, row: Any) -> tuple[Any, ...]:
        """The key of a row, or of what Arrow makes of one."""
        parts = tuple(_part(row["key"][name]) for name in self.key.fieldNames())
        if self.user_key is None:
            return parts
        return parts + tuple(row["user_key"][name] for name in self.user_key.fieldNames())

    def begins_with(self, key: Sequence[Any]) -> Any:
        """The condition that a row's key begins with ``key``."""
        from pyspark.sql import functions

        columns = [functions.col("key")[name] for name in self.key.fieldNames()]
        if self.user_key is not None:
            columns += [functions.col("user_key")[name] for name in self.user_key.fieldNames()]
        condition = functions.lit(True)
        for column, value in zip(columns, key, strict=False):
            condition = condition & _equals(column, value)
        return condition


def _part(part: Any) -> Any:
    # A window is a struct: one is a dictionary from Arrow, and a Row otherwise.
    return part.asDict(recursive=True) if hasattr(part, "asDict") else part


def _equals(column: Any, value: Any) -> Any:
    from pyspark.sql import functions

    if not isinstance(value, dict):
        return column.eqNullSafe(functions.lit(value))
    condition = functions.lit(True)
    for name, each in value.items():
        condition = condition & _equals(column[name], each)
    return condition


def arrow_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow record batch as dictionaries, maps as dictionaries too."""
    columns = [plain_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))
