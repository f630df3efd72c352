"""`get` and `export`: the logical view of a checkpoint's stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from statemigrate.commands.following.progress import Progress, unseen
from statemigrate.errors import StatemigrateError
from statemigrate.files.documents.whole import replacing
from statemigrate.formats import Struct
from statemigrate.formats.json_values import json_text
from statemigrate.state.keys import key_from_texts
from statemigrate.state.opening import require_store
from statemigrate.state.protocol import Entry
from statemigrate.state.reader import StateReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from statemigrate.native.spark_state.session import Spark

_BLOCK = 10_000
_SHOWN = 1_000
Record = dict[str, Any]


class ExportError(StatemigrateError):
    """A file that cannot be exported to. Data: ``path``."""


@dataclass(frozen=True)
class Exported:
    """What was written: ``keys`` of ``store``, as of the committed ``batch``, to ``path``."""

    store: str
    keys: int
    batch: int
    path: str


def export(  # noqa: PLR0913 - all but three by name
    store: str,
    checkpoint: str | Path,
    path: str | Path,
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
    progress: Progress = unseen,
) -> Exported:
    """Write every key of ``store`` with its value, in the target format, to one file.

    The ending of ``path`` says in which form: ``.parquet``, ``.avro`` or ``.jsonl``. Each record
    has two fields: ``key``, a record of the key's columns, and ``value``, for list state an array.
    The file is its owner's alone, appears when it is complete, and replaces one of that name. The
    query may be running. ``progress`` is told how many keys were written; the other parameters are
    those of `StateReader`. JSON lines of a large store of the embedded engine are written by as
    many processes as there are processors, in the order of one. Raises `ExportError`, what
    `StateReader.entries` does, and `CheckpointError` for a process that was ended.
    """
    target = Path(path)
    check_target(target)
    require_store(str(checkpoint), store)
    reader = StateReader(
        checkpoint,
        migrations=migrations,
        targets=targets,
        accept_edited=accept_edited,
        operator=operator,
        stores=stores,
        spark=spark,
    )
    with reader, replacing(target, private=True) as stream:
        number = None
        if target.suffix == ".jsonl":
            line = partial(_line, reader.key_columns(store))
            number = reader.write_lines(store, stream, line, lambda done: progress(done, None))
        if number is None:
            counted = _Counted(_records(reader, store), progress)
            _WRITERS[target.suffix](stream, record_type(reader, store), iter(counted))
            number = counted.number
    return Exported(store, number, reader.batch, str(path))


def get(
    store: str,
    checkpoint: str | Path,
    *key: Any,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Any | None:
    """What ``store`` holds under a key, in the target format; None if there is nothing.

    ``key`` has the values of the columns that the query groups by, for map state then those of the
    map's own key. A value is a dictionary by field name, for list state a list of them. For more
    than one key open a `StateReader`, whose parameters and errors these are.
    """
    require_store(str(checkpoint), store)
    with StateReader(
        checkpoint,
        migrations=migrations,
        targets=targets,
        accept_edited=accept_edited,
        operator=operator,
        stores=stores,
        spark=spark,
    ) as reader:
        return reader.get(store, *key)


@dataclass(frozen=True)
class Found:
    """Keys by column, with their values; ``is_one`` if a whole key was asked for."""

    entries: tuple[tuple[dict[str, Any], Any], ...]
    is_one: bool


def find(store: str, checkpoint: str | Path, words: Sequence[str], **reading: Any) -> Found:
    """All keys of ``store`` that begin with ``words``, texts as one types them.

    The other parameters and the errors are those of `get`.
    """
    require_store(str(checkpoint), store)
    with StateReader(checkpoint, **reading) as reader:
        wanted = key_from_texts(reader.key_type(store), words)
        names = reader.key_columns(store)
        entries = ((dict(zip(names, k, strict=True)), v) for k, v in reader.entries(store, wanted))
        return Found(tuple(entries), len(wanted) == len(names))


def check_target(path: str | Path) -> None:
    """Raise `ExportError` for a file that cannot be exported to."""
    target = Path(path)
    if target.suffix not in _WRITERS or not target.parent.is_dir():
        raise _unusable(target)


def record_type(reader: StateReader, store: str) -> StructType:
    """The type of the records that are written."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField("key", reader.key_type(store), nullable=False),
            StructField("value", reader.value_type(store)),
        ]
    )


class _Counted:
    def __init__(self, records: Iterator[Record], progress: Progress) -> None:
        self.number = 0
        self._records = records
        self._progress = progress

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.number += 1
            if self.number % _SHOWN == 0:
                self._progress(self.number, None)
            yield record


def _records(reader: StateReader, store: str) -> Iterator[Record]:
    names = reader.key_columns(store)
    return (_record(names, entry) for entry in reader.entries(store))


def _record(names: tuple[str, ...], entry: Entry) -> Record:
    return {"key": dict(zip(names, entry[0], strict=True)), "value": entry[1]}


def _line(names: tuple[str, ...], entry: Entry) -> bytes:
    return json_text(_record(names, entry)).encode() + b"\n"


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
        next_action="name such a file",
        path=str(path),
    )
