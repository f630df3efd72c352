"""The forms of an export: how entries become blocks of bytes, and blocks a file.

Blocks may be made by several processes, which is where the time goes; one joins them in order.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Protocol

from statemigrate.formats import Struct
from statemigrate.formats.avro.container import write_container
from statemigrate.formats.json_values import json_text
from statemigrate.pages.live.rows import arrow_schema
from statemigrate.state.protocol import Entry

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Record = dict[str, Any]
Columns = tuple[str, ...]


class Form(Protocol):
    """A form of file with a record an entry; it travels to other processes."""

    def block(self, entries: Sequence[Entry]) -> bytes:
        """The bytes of some entries."""

    def write(self, stream: IO[bytes], parts: Iterable[IO[bytes]]) -> None:
        """Write the file; each of the ``parts`` has one block or several, one after the other."""


@dataclass(frozen=True)
class JsonLines:
    """A line of JSON an entry."""

    key: Columns

    def block(self, entries: Sequence[Entry]) -> bytes:
        """See `Form`."""
        return b"".join(json_text(_record(self.key, each)).encode() + b"\n" for each in entries)

    def write(self, stream: IO[bytes], parts: Iterable[IO[bytes]]) -> None:
        """See `Form`."""
        for part in parts:
            _copy(part, stream)


@dataclass(frozen=True)
class AvroContainer:
    """An Avro container file: a header, and blocks that end with the marker that it names.

    The format is that of the Avro specification 1.11.1, "Object Container Files".
    """

    key: Columns
    schema: Any
    marker: bytes = field(default_factory=lambda: os.urandom(16))

    def block(self, entries: Sequence[Entry]) -> bytes:
        """See `Form`."""
        return self._container(entries)[len(self._header) :]

    def write(self, stream: IO[bytes], parts: Iterable[IO[bytes]]) -> None:
        """See `Form`."""
        stream.write(self._header)
        for part in parts:
            _copy(part, stream)

    @cached_property
    def _header(self) -> bytes:
        return self._container(())

    def _container(self, entries: Sequence[Entry]) -> bytes:
        made = BytesIO()
        records = (_record(self.key, each) for each in entries)
        write_container(made, self.schema, records, marker=self.marker)
        return made.getvalue()


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file with a row group a block; ``schema`` is Arrow's."""

    key: Columns
    schema: Any

    def block(self, entries: Sequence[Entry]) -> bytes:
        """See `Form`: a stream of Arrow's own, with its end."""
        import pyarrow as pa

        made = BytesIO()
        records = [_record(self.key, each) for each in entries]
        with pa.ipc.new_stream(made, self.schema) as to:
            to.write_table(pa.Table.from_pylist(records, self.schema))
        return made.getvalue()

    def write(self, stream: IO[bytes], parts: Iterable[IO[bytes]]) -> None:
        """See `Form`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetWriter(stream, self.schema) as writer:
            for part in parts:
                end = part.seek(0, os.SEEK_END)
                part.seek(0)
                while part.tell() < end:
                    writer.write_table(pa.ipc.open_stream(part).read_all())


def form_of(suffix: str, key: StructType, value: Any) -> Form:
    """The form of files that end in ``suffix``, for keys and values of these types."""
    from pyspark.sql.types import StructField, StructType

    columns = tuple(key.fieldNames())
    if suffix == ".jsonl":
        return JsonLines(columns)
    record = StructType([StructField("key", key, nullable=False), StructField("value", value)])
    if suffix == ".avro":
        return AvroContainer(columns, Struct(record).avro_schema)
    return ParquetFile(columns, arrow_schema(record))


SUFFIXES = (".parquet", ".avro", ".jsonl")


def _record(names: Columns, entry: Entry) -> Record:
    return {"key": dict(zip(names, entry[0], strict=True)), "value": entry[1]}


def _copy(part: IO[bytes], stream: IO[bytes]) -> None:
    shutil.copyfileobj(part, stream, 1 << 20)
