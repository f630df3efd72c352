"""Values of state as a store has them.

RocksDB has a version byte before each row, and the length of both before an element of a list;
several elements are merged under one key, with or without a comma between them. With checksums,
what is stored begins with the CRC-32C of key and value. Source: apache/spark
``sql/core/.../execution/streaming/state/{RocksDBStateEncoder,StateStoreRowChecksum}.scala``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators import StructJson
from statemigrate.checkpoint.rows.avro_encoding import AvroPart
from statemigrate.checkpoint.rows.buffers import Integers, Rows, joined
from statemigrate.checkpoint.rows.spark_types import arrow_schema
from statemigrate.checkpoint.rows.unsafe_leaves import damaged
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.checkpoint.rows.wrapping import (
    VERSION,
    Repeated,
    RowLayout,
    RowPart,
    Spans,
    StructPart,
    checked_values,
    length_of,
    with_checksums,
)

_VALUE = "a value"


def merged_values(
    keys: Rows, values: Rows, owners: Integers, delimiter: bytes
) -> tuple[Rows, Rows]:
    """The keys of lists, and each list as RocksDB has merged its elements.

    ``values`` are elements, each with its key; ``owners`` rise, and tell which list each is of.
    """
    is_first = np.ones(len(owners), bool)
    is_first[1:] = owners[1:] != owners[:-1]
    lists: list[list[bytes]] = []
    for value, begins in zip(values.to_list(), is_first.tolist(), strict=True):
        if begins:
            lists.append([])
        lists[-1].append(bytes(value))
    merged = Rows.from_list([delimiter.join(each) for each in lists])
    return keys.take(is_first), merged


class ValueCodec:
    """Reads and writes the values of one column family, or of a store that has none.

    ``is_list`` says that several may be under one key. Avro notes the ``schema_number`` in each
    value; ``older`` are the family's earlier schemas by theirs. With ``paths``, dotted names of
    fields, other fields need not be read, and may be null. Raises `UnsupportedError` for a schema
    that is not known.
    """

    def __init__(
        self,
        value: StructJson,
        layout: RowLayout,
        *,
        is_list: bool = False,
        schema_number: int = 0,
        older: Mapping[int, StructJson] | None = None,
        paths: Collection[str] | None = None,
    ) -> None:
        self.arrow_schema = arrow_schema(value)
        self._layout = layout
        self._is_list = is_list and layout.rocksdb
        if layout.avro:
            self._row: StructPart = AvroPart(value, _VALUE, schema_number, older)
        else:
            codec = RowCodec(value, paths)
            self._row = RowPart(codec, VERSION if layout.rocksdb else b"", _VALUE)

    def encode(self, values: pa.RecordBatch | pa.StructArray, keys: Rows) -> Rows:
        """The bytes of each value, under a key each; ``keys`` as the store has them.

        Of a list each element is a row, under the same key as the one before: the first is to be
        put, the others to be merged. Raises as `RowCodec.encode`.
        """
        rows = self._row.encode(values)
        if self._is_list:
            rows = joined(length_of(rows), rows)
        return with_checksums(keys, rows, self._layout) if self._layout.checksums else rows

    def decode(self, values: Rows, keys: Rows) -> tuple[pa.StructArray, Integers]:
        """The values, and for each the index of the key that it is under.

        The indices rise, and tell those of a list apart. Raises `CorruptFileError`.
        """
        spans, owners = Spans.of(values), np.arange(len(values))
        if self._layout.checksums:
            spans, owners = checked_values(keys, values, self._layout)
        if self._is_list:
            spans, lists = Repeated(0, self._layout.delimiter, _VALUE).parts(spans)
            owners = owners[lists]
        elif not np.array_equal(owners, np.arange(len(values))):
            raise damaged(_VALUE, "one value under each key", "another number")
        return self._row.decode(spans), owners
