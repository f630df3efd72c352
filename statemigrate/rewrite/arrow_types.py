"""The types of rows as a rewrite hands them around: every field by its label, all nullable."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.operators import FamilyShape, row_json
from statemigrate.checkpoint.rows import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


Struct = dict[str, Any]


def row_type(struct: Struct) -> StructType:
    """Spark's type of rows of the struct, fields by their labels."""
    from pyspark.sql.types import StructType

    found: StructType = StructType.fromJson(copy.deepcopy(row_json(struct)))
    return found


def value_type(family: FamilyShape) -> DataType:
    """Spark's type of a family's values: of a list the array of its elements."""
    from pyspark.sql.types import ArrayType

    single = row_type(family.value)
    return ArrayType(single) if family.is_list else single


def arrow_row(struct: Struct) -> pa.StructType:
    """Arrow's type of such rows."""
    return pa.struct(list(arrow_schema(row_json(struct))))


def arrow_value(family: FamilyShape) -> pa.DataType:
    """Arrow's type of a family's values."""
    single = arrow_row(family.value)
    return pa.list_(single) if family.is_list else single


def retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values in a type that holds them, fields of structs by their places.

    Raises `pyarrow.ArrowInvalid` for a value that it does not hold.
    """
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_struct(kind):
        fields = [retyped(array.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        return struct_array(fields, kind, array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        return _list(array, retyped(array.flatten(), kind.value_type), kind)
    return array.cast(kind)


def struct_array(fields: list[pa.Array], kind: pa.StructType, nulls: pa.Array) -> pa.StructArray:
    """Structs of as many rows as ``nulls`` says which are null."""
    if fields:
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=nulls)
    return pa.array([None if null else {} for null in nulls.to_pylist()], kind)


def list_array(lengths: npt.NDArray[Any], elements: pa.Array, kind: pa.ListType) -> pa.ListArray:
    """Lists, none of them null, of so many elements each."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=kind)


def _list(array: pa.ListArray, elements: pa.Array, kind: pa.ListType) -> pa.ListArray:
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    made = list_array(lengths, elements, kind)
    if not array.null_count:
        return made
    return pa.ListArray.from_arrays(made.offsets, made.values, type=kind, mask=array.is_null())
