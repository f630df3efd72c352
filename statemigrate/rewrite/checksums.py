"""Checksums of rows that come out the same in whatever order the rows are.

Of each row Spark takes a hash of 64 bits, and another one of that; the sums of both, each modulo
2**64, are the checksum of many rows. The same is taken of what a reader gives back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.checkpoint.rows import SEED, XXHASH64, hash_of
from statemigrate.formats import has_maps
from statemigrate.rewrite.rewrite_report import Checksum

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType


NAMES = ("checksum_1", "checksum_2")
Hashes = npt.NDArray[np.uint64]
_PARTS = ("key", "value")
_HALF = (1 << 32) - 1


def hashes(schema: StructType) -> list[Column]:
    """The two hashes of a row with the columns ``key`` and ``value``, as `NAMES`."""
    from pyspark.sql import functions as F  # noqa: N812

    found = F.xxhash64(*(_hashable(F.col(name), schema[name].dataType) for name in _PARTS))
    return [found.alias(NAMES[0]), F.xxhash64(found).alias(NAMES[1])]


def hashes_of(keys: pa.Array, values: pa.Array) -> tuple[Hashes, Hashes]:
    """The same of rows as Arrow has them."""
    found = hash_of([without_maps(keys), without_maps(values)], XXHASH64)
    return found, XXHASH64.longs(found, np.full(len(found), SEED, np.uint64))


def sums() -> list[Column]:
    """The count and both sums over rows with the columns `NAMES`, for `summed`."""
    from pyspark.sql import functions as F  # noqa: N812

    halves = []
    for name in NAMES:
        # Sums of 32 bits are longs, which Spark keeps in place; those of 64 bits would overflow.
        low = F.col(name).bitwiseAND(F.lit(_HALF).cast("long"))
        halves += [F.sum(low).alias(f"{name}_low")]
        halves += [F.sum(F.shiftrightunsigned(name, 32)).alias(f"{name}_high")]
    return [F.count("*").alias("rows"), *halves]


def summed(row: Any) -> Checksum:
    """The checksum in a row of `sums`."""
    first, second = (
        (row[f"{name}_low"] or 0) + ((row[f"{name}_high"] or 0) << 32) for name in NAMES
    )
    return Checksum.of(row["rows"], first, second)


def _hashable(column: Column, kind: DataType) -> Column:
    """The column without maps, which Spark does not hash; their entries keep their order."""
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


def without_maps(array: pa.Array) -> pa.Array:
    """The same as `_hashable` of values as Arrow has them."""
    kind = array.type
    if not has_maps(kind):
        return array
    if pa.types.is_struct(kind):
        columns = [array.is_null(), *map(without_maps, array.flatten())]
        return pa.StructArray.from_arrays(columns, [str(at) for at in range(len(columns))])
    lengths = pc.fill_null(pc.list_value_length(_as_list(array)), 0).to_numpy(zero_copy_only=False)
    elements = without_maps(_as_list(array).flatten())
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(ends, elements, mask=array.is_null())


def _as_list(array: pa.Array) -> pa.ListArray:
    """Of a map the list of its entries."""
    kind = array.type
    if not pa.types.is_map(kind):
        return array
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return array.cast(pa.list_(entry))


# What was written of a family in a partition.


@dataclass(frozen=True)
class RowsChecksum:
    """The ``checksum`` of the rows; of how many old rows they come, and how many were merged."""

    checksum: Checksum = field(default_factory=Checksum)
    origins: int = 0
    merged: int = 0

    def __add__(self, other: RowsChecksum) -> RowsChecksum:
        return RowsChecksum(
            self.checksum + other.checksum,
            self.origins + other.origins,
            self.merged + other.merged,
        )

    def to_json(self) -> dict[str, Any]:
        """As a task tells it to the driver."""
        count, text = self.checksum.count, self.checksum.text
        return {"rows": count, "checksum": text, "origins": self.origins, "merged": self.merged}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RowsChecksum:
        """What `to_json` gave."""
        checksum = Checksum.from_text(document["rows"], document["checksum"])
        return cls(checksum, document["origins"], document["merged"])
