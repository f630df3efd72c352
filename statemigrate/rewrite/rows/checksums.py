"""Checksums of rows that come out the same in whatever order the rows are.

Of each row Spark takes two hashes of 64 bits; the sums of both, each modulo 2**64, are the checksum
of many rows. The same is taken of what a reader gives back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

NAMES = ("checksum_1", "checksum_2")
_LIMIT = 1 << 64


@dataclass(frozen=True)
class Checksum:
    """The ``count`` of rows and the sums of their two hashes."""

    count: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        first, second = self.first + other.first, self.second + other.second
        return Checksum(self.count + other.count, first % _LIMIT, second % _LIMIT)

    @classmethod
    def of(cls, count: int, first: Any, second: Any) -> Checksum:
        """From sums as Spark or numpy give them: None for no rows, or negative."""
        return cls(count, int(first or 0) % _LIMIT, int(second or 0) % _LIMIT)

    @property
    def text(self) -> str:
        """The 128 bits as 32 hex characters."""
        return f"{self.first:016x}{self.second:016x}"

    @classmethod
    def from_text(cls, count: int, text: str) -> Checksum:
        """What `text` gave. Raises ValueError."""
        if len(text) != 32:
            raise ValueError(f"{text[:40]!r} are no 32 hex characters")
        return cls(count, int(text[:16], 16), int(text[16:], 16))


def hashes(schema: StructType) -> list[Column]:
    """The two hashes of a row with the columns ``key`` and ``value``, as `NAMES`."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [_hashable(F.col(name), schema[name].dataType) for name in ("key", "value")]
    return [F.xxhash64(F.lit(number), *parts).alias(name) for number, name in enumerate(NAMES)]


def sums() -> list[Column]:
    """The count and both sums over rows with the columns `NAMES`."""
    from pyspark.sql import functions as F  # noqa: N812

    # Of longs a sum would overflow; 38 digits hold that of 10**19 rows.
    totals = [F.sum(F.col(name).cast("decimal(38,0)")).alias(name) for name in NAMES]
    return [F.count("*").alias("rows"), *totals]


def _hashable(column: Column, kind: DataType) -> Column:
    """The column without maps, of which Spark takes no hash; their entries keep their order."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, MapType, StructType

    if "map<" not in kind.simpleString():
        return column
    match kind:
        case MapType():
            entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
            return _hashable(F.map_entries(column), ArrayType(entry))
        case ArrayType():
            return F.transform(column, lambda each: _hashable(each, kind.elementType))
        case StructType():
            return F.struct(
                column.isNull(),
                *(_hashable(column.getField(each.name), each.dataType) for each in kind.fields),
            )
    return column
