"""The logical view of a store as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from statemigrate.errors import StatemigrateError
from statemigrate.files.whole import replacing
from statemigrate.formats import Struct
from statemigrate.formats.json_values import json_text
from statemigrate.state.reader import StateReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BLOCK = 10_000
_TICK = 1_000
Record = dict[str, Any]


class ExportError(StatemigrateError):
    """A file that cannot be exported to. Data: ``path``."""


def export(
    reader: StateReader,
    store: str,
    path: str | Path,
    *,
    tick: Callable[[int], None] = lambda _: None,
) -> int:
    """Write every key of ``store`` with its value, in the target format; how many there were.

    The ending of ``path`` says in which form: ``.parquet``, ``.avro`` or ``.jsonl``. Each record
    has two fields: ``key``, a record of the key's columns, and ``value``, for list state an array.
    The file is its owner's alone, appears when it is complete, and replaces one of that name.
    Raises `ExportError`, and what `StateReader.entries` does.
    """
    target = Path(path)
    check_target(target)
    write = _WRITERS[target.suffix]
    schema = record_type(reader, store)
    counted = _Counted(_records(reader, store), tick)
    with replacing(target, private=True) as stream:
        write(stream, schema, iter(counted))
    return counted.number


def check_target(path: str | Path) -> None:
    """Raise `ExportError` for a file that cannot be exported to."""
    target = Path(path)
    if target.suffix not in _WRITERS or not target.parent.is_dir():
        raise _unusable(target)


def record_type(reader: StateReader, store: str) -> StructType:
    """The type of the records that are written."""
    from pyspark.sql.types import ArrayType, StructField, StructType

    plan = reader.plan(store)
    value: Any = plan.target.format.struct_type()
    return StructType(
        [
            StructField("key", reader.key_type(store), nullable=False),
            StructField("value", ArrayType(value) if plan.declared.kind == "list" else value),
        ]
    )


class _Counted:
    def __init__(self, records: Iterator[Record], tick: Callable[[int], None]) -> None:
        self.number = 0
        self._records = records
        self._tick = tick

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.number += 1
            if self.number % _TICK == 0:
                self._tick(self.number)
            yield record


def _records(reader: StateReader, store: str) -> Iterator[Record]:
    names = reader.key_columns(store)
    for key, value in reader.entries(store):
        yield {"key": dict(zip(names, key, strict=True)), "value": value}


def _write_json(stream: IO[bytes], _: StructType, records: Iterator[Record]) -> None:
    for record in records:
        stream.write(json_text(record).encode() + b"\n")


def _write_avro(stream: IO[bytes], schema: StructType, records: Iterator[Record]) -> None:
    from statemigrate.formats.avro.container import write_container

    write_container(stream, Struct(schema).avro_schema, records)


def _write_parquet(stream: IO[bytes], schema: StructType, records: Iterator[Record]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = arrow_schema(schema)
    with pq.ParquetWriter(stream, arrow) as writer:
        while block := list(islice(records, _BLOCK)):
            writer.write_table(pa.Table.from_pylist(block, arrow))


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema of a struct type, its timestamps in UTC."""
    from inspect import signature

    from pyspark.sql.pandas.types import to_arrow_schema

    # PySpark 4.1 has UTC as its default, and no argument of this name.
    named = "timezone" in signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if named else {}
    return to_arrow_schema(schema, **zone)


_WRITERS = {".parquet": _write_parquet, ".avro": _write_avro, ".jsonl": _write_json}


def _unusable(path: Path) -> ExportError:
    return ExportError(
        f"cannot export to {path}",
        expected=f"a file ending in {', '.join(_WRITERS)}, in a directory that exists",
        found=path.suffix or "no ending" if path.parent.is_dir() else f"no {path.parent}",
        next_action="name such a file with --to",
        path=str(path),
    )
