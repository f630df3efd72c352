"""Keys of state as a store has them: rows, wrapped as the provider and the key's encoder do.

The HDFS-backed provider keeps the row as it is. RocksDB has a version byte before each row, divides
a key for scans into two rows, and puts the number of the column family first. Source: apache/spark
``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from statemigrate.checkpoint.rows.avro.part import AvroPart
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
from statemigrate.checkpoint.rows.wrapped.ordered import OrderedColumns
from statemigrate.checkpoint.rows.wrapped.parts import Part, RowPart
from statemigrate.checkpoint.rows.wrapped.splitting import VERSION, Spans

FAMILY = 2
"""Bytes of a column family's number."""
_KEY = "a key"


class KeyCodec:
    """Reads and writes the keys of one column family, or of a store that has none.

    ``family`` is the family's number in its partition, None in a store without families;
    ``schema_number`` is that of the schema, which Avro notes in each key. Raises `UnsupportedError`
    for a schema that is not known.
    """

    def __init__(
        self,
        key: StructJson,
        encoder: KeyEncoder,
        layout: RowLayout,
        family: int | None = None,
        *,
        schema_number: int = 0,
    ) -> None:
        self.arrow_schema = arrow_schema(key)
        self._family = b"" if family is None else family.to_bytes(FAMILY, "little", signed=True)
        order = _order(len(key["fields"]), encoder if layout.rocksdb else NoPrefix())
        self._places = np.argsort(order, kind="stable").tolist()
        parts = _Parts(key, layout, schema_number)
        self._form = _form(parts, encoder, order) if layout.rocksdb else WholeKeys(parts.whole())

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
        if not fields:
            # Columns would say how many there are.
            return pa.array([{}] * len(keys), pa.struct([]))
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


@dataclass(frozen=True)
class _Parts:
    """The rows that a key is made of."""

    key: StructJson
    layout: RowLayout
    number: int

    def whole(self) -> Part:
        """One row of every column."""
        return self._of(self.key, self.number)

    def first(self, indices: Sequence[int]) -> Part:
        """The row of the columns that a scan looks for."""
        return self._of(self.columns(indices), None)

    def others(self, indices: Sequence[int]) -> Part:
        """The row of the other columns."""
        return self._of(self.columns(indices), self.number)

    def ordered(self, indices: Sequence[int]) -> tuple[OrderedColumns, Part]:
        """The columns of a range, and the row of them."""
        ordered = OrderedColumns(self.columns(indices), divided=self.layout.avro)
        return ordered, self._of(ordered.schema, None)

    def columns(self, indices: Sequence[int]) -> StructJson:
        """The schema of some of the columns."""
        return {**self.key, "fields": [self.key["fields"][index] for index in indices]}

    def _of(self, schema: StructJson, number: int | None) -> Part:
        if self.layout.avro:
            return AvroPart(schema, _KEY, number)
        return RowPart(RowCodec(schema), VERSION if self.layout.rocksdb else b"", _KEY)


def _form(parts: _Parts, encoder: KeyEncoder, order: Sequence[int]) -> KeyForm:
    match encoder:
        case NoPrefix():
            return WholeKeys(parts.whole())
        case PrefixScan(columns):
            first, rest = tuple(order[:columns]), tuple(order[columns:])
            return DividedKeys(first, parts.first(first), rest, parts.others(rest))
        case RangeScan(ordinals):
            rest = tuple(order[len(ordinals) :])
            ordered, binaries = parts.ordered(ordinals)
            return DividedKeys(ordinals, binaries, rest, parts.others(rest), ordered)
        case _:
            rest = tuple(order[:-1])
            return TimedKeys(rest, parts.others(rest), isinstance(encoder, TimestampPrefix))
