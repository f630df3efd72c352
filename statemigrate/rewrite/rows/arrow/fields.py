"""What becomes of rows whose fields go by name, a batch at a time as Arrow has them.

There is no other rule for them: tasks that read files themselves follow it, and so do rows that
Spark's reader gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import StructJson
from statemigrate.rewrite.plan.asking.starting import plain_start
from statemigrate.rewrite.plan.families import FamilyPlan
from statemigrate.rewrite.plan.pairing.fields import FieldChange, StructChange
from statemigrate.rewrite.rows.arrow.structs import (
    arrow_row,
    list_array,
    plain_array,
    retyped,
    row_type,
    struct_array,
)
from statemigrate.state.telling import Telling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Starts = Mapping[str, pa.Array]
"""By the dotted labels of new fields where they start: arrays of one value."""


@dataclass(frozen=True)
class FieldChanges:
    """Changes the fields of a ``key`` and of a ``value``, or of each element of a list.

    ``types`` are Arrow's of the new key and of the new content. What else is in a batch goes along.
    """

    key: StructChange
    value: StructChange
    types: tuple[pa.StructType, pa.StructType]
    starts: Starts
    is_list: bool = False

    @classmethod
    def of(
        cls, plan: FamilyPlan, said: Mapping[str, Any], key: StructJson, *, is_list: bool
    ) -> FieldChanges:
        """Those of a family to keys of the struct ``key``; ``said`` is by ``store.field``.

        Raises `RewriteError` for a start that a field cannot hold.
        """
        assert plan.key is not None, "rows go on"  # noqa: S101
        assert plan.value is not None, "rows go on"  # noqa: S101
        starts = {
            each.label: started(f"{plan.name}.{each.label}", each.type, said)
            for each in plan.value.added
        }
        types = arrow_row(key), arrow_row(plan.new.family.content)
        return cls(plan.key, plan.value, types, starts, is_list)

    @property
    def is_identity(self) -> bool:
        """Whether rows stay as they are."""
        return self.key.is_identity and self.value.is_identity

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with their new keys and values."""
        for batch in batches:
            changed = {
                "key": changed_struct(batch["key"], self.key, self.types[0], {}),
                "value": self._values(batch["value"]),
            }
            columns = [changed.get(name, batch[name]) for name in batch.schema.names]
            yield pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def _values(self, values: pa.Array) -> pa.Array:
        kind = self.types[1]
        if not self.is_list:
            return changed_struct(values, self.value, kind, self.starts)
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        elements = changed_struct(values.flatten(), self.value, kind, self.starts)
        return list_array(lengths, elements, pa.list_(kind))


def started(name: str, spark: Any, said: Mapping[str, Any]) -> pa.Array:
    """Where the field ``name`` of the type ``spark`` starts, as an array of one value."""
    (field,) = arrow_row({"type": "struct", "fields": [{"name": "x", "type": spark}]})
    return plain_array([plain_start(name, spark, said.get(name))], field.type)


def changed_struct(
    rows: pa.StructArray, change: StructChange, kind: pa.StructType, starts: Starts
) -> pa.StructArray:
    """Structs of the type ``kind`` from old ones; one that is null stays so."""
    if change.is_identity:
        return retyped(rows, kind)
    fields = [
        _field(rows, each, field.type, starts)
        for each, field in zip(change.fields, kind, strict=True)
    ]
    return struct_array(fields, kind, rows.is_null())


def _field(rows: pa.StructArray, change: FieldChange, kind: pa.DataType, starts: Starts) -> Any:
    if change.place is None:
        return starts[change.label].take(pa.array(np.zeros(len(rows), np.int64)))
    source = rows.field(change.place)
    if change.rule == "is null":
        return source.is_null()
    if change.rule == "zero if null":
        return retyped(source, kind).fill_null(pa.scalar(0).cast(kind))
    if change.nested is None:
        return retyped(source, kind)
    return changed_struct(source, change.nested, kind, starts)


def with_fields(
    rows: DataFrame, changes: FieldChanges, plan: FamilyPlan, key: StructJson
) -> DataFrame:
    """Rows of Spark's with new keys of the struct ``key``, and new contents."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, StructType

    content = row_type(plan.new.family.content)
    types = {"key": row_type(key), "value": ArrayType(content) if changes.is_list else content}
    if changes.is_identity:
        return rows.withColumns({name: F.col(name).cast(kind) for name, kind in types.items()})
    schema = StructType()
    for field in rows.schema.fields:
        schema = schema.add(field.name, types.get(field.name, field.dataType))
    return rows.mapInArrow(Telling(changes), schema)
