"""Whether columns of Arrow are those of a schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from statemigrate.checkpoint.rows.unsafe.types import Array, Blob, Field, Map, Struct
from statemigrate.errors import ValueMismatchError


def conforming(struct: Struct, batch: pa.RecordBatch | pa.StructArray) -> list[pa.Array]:
    """The columns of a batch, or of structs of which none is null, that are the struct's.

    Raises `ValueMismatchError` for others in name, order or type. Nullability is the values'
    affair, and what Arrow has in two widths, strings, binaries and lists, may have either.
    """
    if not isinstance(batch, pa.StructArray):
        _conform_all(struct, list(batch.schema), "")
        return list(batch.columns)
    _conform_all(struct, list(batch.type.fields), "")
    if batch.null_count:
        raise _differs("the row", "fields, of which each may be null", "rows that are null")
    return [batch.field(index) for index in range(len(struct.fields))]


def _conform_all(struct: Struct, fields: Sequence[pa.Field], path: str) -> None:
    names = [field.name for field in fields]
    wanted = [field.name for field in struct.fields]
    if names != wanted:
        raise _differs(path or "the row", f"the fields {wanted}", f"the fields {names}")
    for field, found in zip(struct.fields, fields, strict=True):
        _conform(field, found.type)


def _conform(field: Field, found: pa.DataType) -> None:
    match field.type:
        case Struct() as kind if pa.types.is_struct(found):
            _conform_all(kind, list(found.fields), field.path)
        case Array() as kind if pa.types.is_list(found) or pa.types.is_large_list(found):
            _conform(kind.element, found.value_type)
        case Map() as kind if pa.types.is_map(found):
            _conform(kind.key, found.key_type)
            _conform(kind.value, found.item_type)
        case Blob(arrow) if found in (arrow, _LARGE[arrow]):
            pass
        case kind if found == kind.arrow or _both_moments(kind.arrow, found):
            pass
        case kind:
            raise _differs(field.path, str(kind.arrow), str(found))


_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def _both_moments(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether both are moments of the same unit; their time zones only say how they are shown."""
    if not (pa.types.is_timestamp(one) and pa.types.is_timestamp(other)):
        return False
    return one.unit == other.unit and (one.tz is None) == (other.tz is None)


def _differs(path: str, expected: str, found: str) -> ValueMismatchError:
    return ValueMismatchError(
        "SM-VALUE-002",
        f"{path} is not what the schema says",
        expected=expected,
        found=found,
        next_action="give the columns the names, the order and the types of the schema",
        field=path,
    )
