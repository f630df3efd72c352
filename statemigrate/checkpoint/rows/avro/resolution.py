"""Rows of an older schema as rows of the newest: fields by name, as Avro resolves schemas."""

from __future__ import annotations

import pyarrow as pa

from statemigrate.checkpoint.rows.unsafe.types import Field, Struct
from statemigrate.errors import UnsupportedError

_PROMOTED = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}


def resolved(older: Struct, newest: Struct, structs: pa.StructArray) -> pa.StructArray:
    """Structs of ``older`` with the fields of ``newest``; one that they lack is null.

    Raises `UnsupportedError` for a field whose type is another in a way that is not known.
    """
    places = {field.name: index for index, field in enumerate(older.fields)}
    children = []
    for field in newest.fields:
        if field.name in places:
            index = places[field.name]
            children.append(_column(older.fields[index], field, structs.field(index)))
        else:
            children.append(pa.nulls(len(structs), field.type.arrow))
    mask = structs.is_null() if structs.null_count else None
    fields = [field.arrow for field in newest.fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _column(older: Field, newest: Field, array: pa.Array) -> pa.Array:
    if older.type.arrow == newest.type.arrow:
        return array
    if isinstance(older.type, Struct) and isinstance(newest.type, Struct):
        return resolved(older.type, newest.type, array)
    if newest.type.arrow in _PROMOTED.get(older.type.arrow, ()):
        return array.cast(newest.type.arrow, safe=False)
    raise UnsupportedError(
        "SM-STATE-006",
        f"{newest.path} had another type in an older schema of the state",
        expected=str(newest.type.arrow),
        found=str(older.type.arrow),
        next_action="let the query rewrite these rows first, or leave the state as it is",
        field=newest.path,
    )
