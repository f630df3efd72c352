"""Encoding state rows as Avro, the way Spark does.

A row as Avro, with its version and the number of its schema before it.

Numbers count the schemas that a family has had; the first part of a key in two has none. Source:
apache/spark ``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``
(``AvroStateEncoder``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators import StructJson
from statemigrate.checkpoint.rows.avro import (
    check_avro,
    decoded_structs,
    fixed_width,
    resolved,
    varints,
)
from statemigrate.checkpoint.rows.buffers import Integers, Rows, joined, within
from statemigrate.checkpoint.rows.spark_types import (
    Blob,
    Decimal,
    Nothing,
    Number,
    SparkArray,
    SparkField,
    SparkMap,
    SparkStruct,
    struct_of,
)
from statemigrate.checkpoint.rows.unsafe_leaves import (
    Mask,
    conforming,
    damaged,
    slot_values,
    wide_decimals,
)
from statemigrate.checkpoint.rows.unsafe_row import flat, nulls_of
from statemigrate.checkpoint.rows.wrapping import VERSION, Spans
from statemigrate.errors import ValueMismatchError

# Columns of Arrow as Avro's bytes.
#
# Every field, and every struct, array and map within an array or map, is a union of null and its
# type. Other elements and values are not, so that none may be null. A map's entries are written in
# their order; Spark's own are in the order of Java's hash table, and nothing reads an order from
# them. Source: apache/spark ``sql/core/.../sql/avro/SchemaConverters.scala``
# (``toAvroTypeWithDefaults``) and ``AvroSerializer.scala``.


_NULL, _THERE = b"\0", b"\2"
_END = b"\0"


def struct_bytes(struct: SparkStruct, columns: Sequence[pa.Array], absent: Mask) -> Rows:
    """The bytes of structs; where ``absent`` is true there is none, and its bytes mean nothing.

    Raises `ValueMismatchError` for a null that a field does not allow.
    """
    parts = [_field(*each, absent) for each in zip(struct.fields, columns, strict=True)]
    if not parts:
        return Rows.from_matrix(np.zeros((absent.size, 0), np.uint8))
    return joined(*parts)


def _field(field: SparkField, array: pa.Array, absent: Mask) -> Rows:
    nulls = nulls_of(field, array, absent)
    if isinstance(field.type, Nothing):
        return Rows.from_matrix(np.zeros((len(array), 0), np.uint8))
    return _or_null(_present(field, array, nulls), nulls)


def _or_null(rows: Rows, nulls: Mask) -> Rows:
    """Rows of a union with null."""
    if not nulls.any():
        return joined(_THERE, rows)
    branch = np.where(nulls, np.uint8(_NULL[0]), np.uint8(_THERE[0]))[:, np.newaxis]
    kept = within(rows.data, rows.starts, np.where(nulls, 0, rows.lengths))
    return joined(branch, kept)


def _element(field: SparkField, array: pa.Array) -> Rows:
    """Elements of an array or values of a map."""
    if isinstance(field.type, SparkStruct | SparkArray | SparkMap):
        return _field(field, array, np.zeros(len(array), bool))
    if array.null_count:
        raise ValueMismatchError(
            "SM-VALUE-001",
            f"{field.path} is null, which Spark's Avro encoding of state has no bytes for",
            expected="values in every element of an array and for every key of a map",
            found=f"{array.null_count} nulls",
            next_action="leave such elements out, or keep the state as unsaferow",
            field=field.path,
        )
    return _present(field, array, np.zeros(len(array), bool))


def _present(field: SparkField, array: pa.Array, nulls: Mask) -> Rows:
    match field.type:
        case Number() as kind:
            return _numbers(kind, array, nulls)
        case Blob():
            rows = Rows.from_arrow(array)
            return joined(varints(rows.lengths), rows)
        case Decimal() as kind:
            width = fixed_width(kind)
            return Rows.from_matrix(wide_decimals(array)[:, -width:])
        case SparkStruct() as kind:
            columns = [array.field(index) for index in range(len(kind.fields))]
            return struct_bytes(kind, columns, nulls)
        case SparkArray() as kind:
            counts, (elements,) = flat(array, nulls, [array.values])
            return _blocks(counts, _element(kind.element, elements))
        case SparkMap() as kind:
            counts, (keys, values) = flat(array, nulls, [array.keys, array.items])
            return _blocks(counts, joined(_element(kind.key, keys), _element(kind.value, values)))
        case Nothing():
            raise AssertionError(field.path)


def _numbers(kind: Number, array: pa.Array, nulls: Mask) -> Rows:
    bits = slot_values(kind, array, nulls).bits
    if pa.types.is_floating(kind.arrow) or pa.types.is_boolean(kind.arrow):
        return Rows.from_matrix(
            np.ascontiguousarray(bits).view(np.uint8).reshape(-1, bits.itemsize)
        )
    signed = bits.view(f"<i{bits.itemsize}")
    return varints(signed.astype(np.int64))


def _blocks(counts: Integers, elements: Rows) -> Rows:
    """Lists of these elements: their number and they, unless there are none, and an end."""
    first = np.concatenate([[0], np.cumsum(counts)])
    listed = Rows(elements.data, elements.offsets[first])
    numbers = varints(counts)
    begins = within(numbers.data, numbers.starts, np.where(counts > 0, numbers.lengths, 0))
    return joined(begins, listed, _END)


_NUMBER = 2


class AvroPart:
    """Structs of one schema as Avro.

    Rows are written with the ``number`` of their schema; None is a part that has none. ``older``
    are the schemas that rows may have by other numbers: they are read with the newest one's fields,
    null where there was none. Raises `UnsupportedError` for a type that Spark's Avro encoding of
    state does not have.
    """

    def __init__(
        self,
        schema: StructJson,
        what: str,
        number: int | None = None,
        older: Mapping[int, StructJson] | None = None,
    ) -> None:
        self._struct = struct_of(schema)
        check_avro(self._struct, "")
        self._what = what
        self._number = number
        self._older = {each: struct_of(found) for each, found in (older or {}).items()}
        noted = b"" if number is None else number.to_bytes(_NUMBER, "little", signed=True)
        self._header = VERSION + noted

    def encode(self, structs: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of structs.

        Raises `ValueMismatchError` for columns that are not the schema's, and for a null where the
        schema or the encoding has none.
        """
        columns = conforming(self._struct, structs)
        rows = struct_bytes(self._struct, columns, np.zeros(len(structs), bool))
        return joined(self._header, rows)

    def decode(self, spans: Spans) -> pa.StructArray:
        """The structs. Raises `CorruptFileError` for bytes that are none."""
        rest = spans.without(VERSION, self._what)
        if self._number is None:
            return decoded_structs(self._struct, rest)
        numbers = rest.matrix(_NUMBER, self._what).view("<i2")[:, 0]
        content = rest.behind(_NUMBER, self._what)
        if bool(np.all(numbers == self._number)):
            return decoded_structs(self._struct, content)
        parts, places = [], []
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            parts.append(self._of(number, content.at(rows)))
            places.append(rows)
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def _of(self, number: int, content: Spans) -> pa.StructArray:
        if number == self._number:
            return decoded_structs(self._struct, content)
        if number not in self._older:
            known = sorted([*self._older, self._number or 0])
            raise damaged(self._what, f"a schema with a number of {known}", f"number {number}")
        older = self._older[number]
        return resolved(older, self._struct, decoded_structs(older, content))
