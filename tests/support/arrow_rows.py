"""Arrow arrays of the values that `unsafe_rows` draws."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from statemigrate.checkpoint.rows.spark_types import arrow_schema


def numbers(kind: pa.DataType) -> pa.DataType:
    """The type with moments and intervals as the numbers they are."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(numbers(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(numbers(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = (
            each.with_type(numbers(each.type)) for each in (kind.key_field, kind.item_field)
        )
        return pa.map_(key, item)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def arrow(schema: Any, rows: list[Any]) -> pa.StructArray:
    """Rows of numbers as Arrow has their type, bit by bit."""
    kind = pa.struct(list(arrow_schema(schema)))
    return rebuilt(pa.array(rows, numbers(kind)), kind)


def rebuilt(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same buffers with other types."""
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    buffers = array.buffers()
    if pa.types.is_struct(kind):
        inner = [rebuilt(array.field(i), kind[i].type) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), buffers[:1], children=inner)
    if pa.types.is_list(kind):
        inner = [rebuilt(array.values, kind.value_type)]
        return pa.Array.from_buffers(kind, len(array), buffers[:2], children=inner)
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [rebuilt(array.keys, kind.key_type), rebuilt(array.items, kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(kind, len(array), buffers[:2], children=[entries])
    return pa.Array.from_buffers(kind, len(array), buffers)
