"""Keys of state as a store has them: rows, wrapped as the provider and the key's encoder do.

The HDFS-backed provider keeps the row as it is. RocksDB has a version byte before each row, divides
a key for scans into two rows, and puts the number of the column family first. Source: apache/spark
``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import (
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    StructJson,
    TimestampPrefix,
)
from statemigrate.checkpoint.rows.buffers import Rows, joined
from statemigrate.checkpoint.rows.layouts import RowLayout
from statemigrate.checkpoint.rows.unsafe.types import arrow_schema
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.checkpoint.rows.wrapped.key_forms import (
    DividedKeys,
    KeyForm,
    TimedKeys,
    WholeKeys,
)
from statemigrate.checkpoint.rows.wrapped.ordered import OrderedColumns, ordered_as_binary
from statemigrate.checkpoint.rows.wrapped.parts import RowPart
from statemigrate.checkpoint.rows.wrapped.splitting import VERSION, Spans

FAMILY = 2
"""Bytes of a column family's number."""
_KEY = "a key"


class KeyCodec:
    """Reads and writes the keys of one column family, or of a store that has none.

    ``family`` is the family's number in its partition, None in a store without families.
    Raises `UnsupportedError` for a schema that is not known.
    """

    def __init__(
        self, key: StructJson, encoder: KeyEncoder, layout: RowLayout, family: int | None = None
    ) -> None:
        self.arrow_schema = arrow_schema(key)
        self._family = b"" if family is None else family.to_bytes(FAMILY, "little", signed=True)
        order = _order(len(key["fields"]), encoder if layout.rocksdb else NoPrefix())
        self._places = np.argsort(order, kind="stable").tolist()
        self._form = _form(key, encoder, order) if layout.rocksdb else WholeKeys(_row(key, b""))

    def encode(self, keys: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of keys, as a store has them. Raises as `RowCodec.encode`."""
        structs = keys.to_struct_array() if isinstance(keys, pa.RecordBatch) else keys
        rows = self._form.encode(structs)
        return joined(self._family, rows) if self._family else rows

    def decode(self, keys: Rows) -> pa.StructArray:
        """The keys. Raises `CorruptFileError` for bytes that are none, or of another family."""
        spans = Spans.of(keys)
        columns = self._form.decode(spans.without(self._family, _KEY) if self._family else spans)
        fields = list(self.arrow_schema)
        return pa.StructArray.from_arrays([columns[at] for at in self._places], fields=fields)


def families_of(keys: Rows) -> npt.NDArray[np.int16]:
    """The number of each key's column family, in a store with families.

    Raises `CorruptFileError` for a key without one.
    """
    return Spans.of(keys).matrix(FAMILY, _KEY).view("<i2")[:, 0]


def _order(count: int, encoder: KeyEncoder) -> list[int]:
    """The fields of a key in the order in which a store has them."""
    first = encoder.ordinals if isinstance(encoder, RangeScan) else ()
    return [*first, *(index for index in range(count) if index not in first)]


def _form(key: StructJson, encoder: KeyEncoder, order: Sequence[int]) -> KeyForm:
    match encoder:
        case NoPrefix():
            return WholeKeys(_row(key, VERSION))
        case PrefixScan(columns):
            first, rest = tuple(order[:columns]), tuple(order[columns:])
            parts = _row(_part(key, first), VERSION), _row(_part(key, rest), VERSION)
            return DividedKeys(first, parts[0], rest, parts[1])
        case RangeScan(ordinals):
            first, rest = ordinals, tuple(order[len(ordinals) :])
            ordered = OrderedColumns(_part(key, first))
            binaries = _row(ordered_as_binary(_part(key, first)), VERSION)
            return DividedKeys(first, binaries, rest, _row(_part(key, rest), VERSION), ordered)
        case _:
            rest = tuple(order[:-1])
            others = _row(_part(key, rest), VERSION)
            return TimedKeys(rest, others, isinstance(encoder, TimestampPrefix))


def _row(schema: StructJson, header: bytes) -> RowPart:
    return RowPart(RowCodec(schema), header, _KEY)


def _part(schema: StructJson, indices: Sequence[int]) -> StructJson:
    return {**schema, "fields": [schema["fields"][index] for index in indices]}
