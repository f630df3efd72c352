"""A row with what a store puts in front of it."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from statemigrate.checkpoint.rows.buffers import Rows, joined
from statemigrate.checkpoint.rows.unsafe_row import RowCodec
from statemigrate.checkpoint.rows.wrapped.splitting import Spans


class Part(Protocol):
    """A key, a value, or one part of a key: structs of one type, and their bytes in a store."""

    def encode(self, structs: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of structs."""
        ...

    def decode(self, spans: Spans) -> pa.StructArray:
        """The structs; `CorruptFileError` for bytes that are none."""
        ...


class RowPart:
    """Spark's ``UnsafeRow`` behind bytes that are the same for every row."""

    def __init__(self, codec: RowCodec, header: bytes, what: str) -> None:
        self._codec = codec
        self._header = header
        self._what = what

    def encode(self, structs: pa.RecordBatch | pa.StructArray) -> Rows:
        """The bytes of structs. Raises as `RowCodec.encode`."""
        rows = self._codec.encode(structs)
        return joined(self._header, rows) if self._header else rows

    def decode(self, spans: Spans) -> pa.StructArray:
        """The structs. Raises `CorruptFileError`."""
        rest = spans.without(self._header, self._what) if self._header else spans
        return self._codec.decode_within(rest.data, rest.starts, rest.lengths)
