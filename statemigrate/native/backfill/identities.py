"""What tells keys apart: their bytes in the state, not Spark's equality.

To Spark 0.0 and -0.0 are equal, and so are all NaNs: ``distinct`` and ``groupBy`` make one of them
all. In the state each of them is a key of its own, which only a row with those very bytes touches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.rows.unsafe_row import RowCodec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

IDENTITY = "identity"
"""The column that is the same for the same key, and for no other one."""


def with_identities(rows: DataFrame) -> DataFrame:
    """``rows`` with the column `IDENTITY` of their column ``key``.

    It is the key itself where Spark's equality is that of bytes, else the bytes of its row. Raises
    `UnsupportedError` for a key with floating point numbers beside what no row can be made of.
    """
    from pyspark.sql.types import BinaryType, StructType

    key: Any = rows.schema["key"].dataType
    if not has_equal_twins(key):
        return rows.withColumn(IDENTITY, rows["key"])
    schema = StructType([*rows.schema.fields]).add(IDENTITY, BinaryType(), nullable=False)
    return rows.mapInArrow(_Identify(key), schema)


def has_equal_twins(key: DataType) -> bool:
    """Whether two keys of this type may be equal to Spark and differ in the state.

    Strings with a collation may too; Spark takes none in the key of a state.
    """
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    if isinstance(key, StructType):
        return any(has_equal_twins(field.dataType) for field in key.fields)
    if isinstance(key, ArrayType):
        return has_equal_twins(key.elementType)
    return isinstance(key, DoubleType | FloatType)


class _Identify:
    """A function for ``mapInArrow`` that adds the bytes of each key's row."""

    def __init__(self, key: StructType) -> None:
        self._key = key.jsonValue()
        RowCodec(self._key)  # raises here, not in a task

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        codec = RowCodec(self._key)
        for batch in batches:
            identities = codec.encode(batch.column("key")).to_arrow()
            yield batch.append_column(IDENTITY, identities)
