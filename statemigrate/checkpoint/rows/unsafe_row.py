"""Rows of one schema: Arrow to Spark's ``UnsafeRow`` and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from statemigrate.checkpoint.operators.shapes import StructJson
from statemigrate.checkpoint.rows.buffers import Bytes, Integers, Rows
from statemigrate.checkpoint.rows.unsafe.conforming import conforming
from statemigrate.checkpoint.rows.unsafe.decoding import decoded_rows
from statemigrate.checkpoint.rows.unsafe.encoding import struct_rows
from statemigrate.checkpoint.rows.unsafe.types import struct_of


class RowCodec:
    """Reads and writes the rows of a schema, a batch at a time.

    Raises `UnsupportedError` for a schema with a type that it does not know.
    """

    def __init__(self, schema: StructJson) -> None:
        self._struct = struct_of(schema)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow's schema of the rows, as Spark has it in ``mapInArrow``."""
        return pa.schema([field.arrow for field in self._struct.fields])

    def encode(self, batch: pa.RecordBatch | pa.StructArray) -> Rows:
        """The rows of a batch, or of structs of which none is null.

        Raises `ValueMismatchError` for columns that are not the schema's in name, order and type,
        and for a null where the schema has none.
        """
        columns = conforming(self._struct, batch)
        return struct_rows(self._struct, columns, np.zeros(len(batch), bool))

    def decode(self, rows: Rows) -> pa.StructArray:
        """The rows' values. Raises `CorruptFileError` for bytes that are no rows of the schema."""
        return self.decode_within(rows.data, rows.starts, rows.lengths)

    def decode_within(self, data: Bytes, starts: Integers, lengths: Integers) -> pa.StructArray:
        """The values of rows that lie in ``data`` at ``starts``, of these lengths.

        Raises `CorruptFileError` for bytes that are no rows of the schema.
        """
        return decoded_rows(self._struct, data, starts, lengths)
