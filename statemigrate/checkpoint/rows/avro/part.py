"""A row as Avro, with its version and the number of its schema before it.

Numbers count the schemas that a family has had; the first part of a key in two has none. Source:
apache/spark ``sql/core/.../execution/streaming/state/RocksDBStateEncoder.scala``
(``AvroStateEncoder``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import StructJson
from statemigrate.checkpoint.rows.avro.decoding import decoded_structs
from statemigrate.checkpoint.rows.avro.encoding import struct_bytes
from statemigrate.checkpoint.rows.avro.resolution import resolved
from statemigrate.checkpoint.rows.avro.types import check_avro
from statemigrate.checkpoint.rows.buffers import Rows, joined
from statemigrate.checkpoint.rows.unsafe.conforming import conforming
from statemigrate.checkpoint.rows.unsafe.leaf_decoding import damaged
from statemigrate.checkpoint.rows.unsafe.types import struct_of
from statemigrate.checkpoint.rows.wrapped.splitting import VERSION, Spans

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
