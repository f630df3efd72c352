"""`get` and `export`: the logical view of a checkpoint's stores."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Protocol

from statemigrate.commands.fleet import Progress, unseen
from statemigrate.errors import StatemigrateError
from statemigrate.files import replacing
from statemigrate.formats import Mask, Struct, json_text, plain_rows
from statemigrate.formats.avro import write_container
from statemigrate.native import looks_again
from statemigrate.pages import arrow_schema
from statemigrate.state import (
    Entry,
    Project,
    StoreEntries,
    keys_from_texts,
    open_state,
    require_store,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from statemigrate.native import Spark


# The forms of an export: how entries become blocks of bytes, and blocks a file.
#
# Blocks may be made by several processes, which is where the time goes; one joins them in order.


Record = dict[str, Any]


@dataclass(frozen=True)
class Fields:
    """The fields of a store's records, ``key`` and ``value`` as Spark's JSON, and their mask."""

    key: dict[str, Any]
    value: dict[str, Any]
    mask: Mask

    @classmethod
    def of(cls, entries: StoreEntries, mask: Mask) -> Fields:
        """The fields of a store."""
        value: Any = entries.value_type.jsonValue()
        element = value.get("elementType", value)
        return cls(entries.key_type.jsonValue(), element, mask)

    def record(self, entry: Entry) -> Record:
        """An entry as a record: its key by column, and its value."""
        names = [str(each["name"]) for each in self.key["fields"]]
        key = dict(zip(names, entry[0], strict=True))
        if not self.mask.names:
            return {"key": key, "value": entry[1]}
        shown = self.mask.shown
        return {"key": shown(self.key, key), "value": shown(self.value, entry[1])}

    def struct(self, *, is_list: bool) -> StructType:
        """The type of a record."""
        from pyspark.sql.types import ArrayType, StructField, StructType

        key, value = (
            StructType.fromJson(self.mask.type_shown(each)) for each in (self.key, self.value)
        )
        return StructType(
            [
                StructField("key", key, nullable=False),
                StructField("value", ArrayType(value) if is_list else value),
            ]
        )


class Form(Protocol):
    """A form of file with a record an entry; it travels to other processes."""

    def block(self, entries: Sequence[Entry]) -> bytes:
        """The bytes of some entries."""

    def write(self, stream: IO[bytes], parts: Iterable[IO[bytes]]) -> None:
        """Write the file; each of the ``parts`` has one block or several, one after the other."""


@dataclass(frozen=True)
class JsonLines:
    """A line of JSON an entry."""

    fields: Fields

    def block(self, entries: Sequence[Entry]) -> bytes:
        """See `Form`."""
        return b"".join(json_text(self.fields.record(each)).encode() + b"\n" for each in entries)

    def write(self, stream: IO[bytes], parts: Iterable[IO[bytes]]) -> None:
        """See `Form`."""
        for part in parts:
            _copy(part, stream)


@dataclass(frozen=True)
class AvroContainer:
    """An Avro container file: a header, and blocks that end with the marker that it names.

    The format is that of the Avro specification 1.11.1, "Object Container Files".
    """

    fields: Fields
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
        records = (self.fields.record(each) for each in entries)
        write_container(made, self.schema, records, marker=self.marker)
        return made.getvalue()


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file with a row group a block; ``schema`` is Arrow's."""

    fields: Fields
    schema: Any

    def block(self, entries: Sequence[Entry]) -> bytes:
        """See `Form`: a stream of Arrow's own, with its end."""
        import pyarrow as pa

        made = BytesIO()
        records = [self.fields.record(each) for each in entries]
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


def form_of(suffix: str, fields: Fields, *, is_list: bool) -> Form:
    """The form of files that end in ``suffix``, for records with these fields."""
    if suffix == ".jsonl":
        return JsonLines(fields)
    record = fields.struct(is_list=is_list)
    if suffix == ".avro":
        return AvroContainer(fields, Struct(record).avro_schema)
    return ParquetFile(fields, arrow_schema(record))


SUFFIXES = (".parquet", ".avro", ".jsonl")


def _copy(part: IO[bytes], stream: IO[bytes]) -> None:
    shutil.copyfileobj(part, stream, 1 << 20)


class ExportError(StatemigrateError):
    """The export cannot write this file. Data: ``path``."""


@dataclass(frozen=True)
class Exported:
    """An export: ``keys`` of ``store``, as of the committed ``batch``, in ``path``."""

    store: str
    keys: int
    batch: int
    path: str


@looks_again
def export(  # noqa: PLR0913 - all but three by name
    store: str,
    checkpoint: str | Path,
    path: str | Path | IO[bytes],
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    spark: Spark = None,
    progress: Progress = unseen,
) -> Exported:
    """Write every key of ``store`` with its value, in the target's format, to one file.

    The ending of ``path`` selects the form: ``.parquet``, ``.avro`` or ``.jsonl``. A binary stream
    gets lines of JSON after everything was read, and is "-" in the result. Each record has two
    fields: ``key``, a record of the key's columns, and ``value``, for list state an array. Only the
    owner can read the file. It appears when it is complete, and replaces an existing file of that
    name. The query may be running. ``mask`` names columns that get a hash in place of each value,
    as in `open_state`. ``progress`` gets the number of keys written; the other
    parameters are those of `open_state`. As many processes as there are processors write a large
    store of the embedded engine, in the same order as one process would. Raises `ExportError`, the
    errors of `StateTable.entries`, and `CheckpointError` if one of the processes was killed.
    """
    project = Project(
        migrations, targets or {}, stores or {}, spark, operator, tuple(accept_edited)
    )
    target = Path(path) if isinstance(path, str | Path) else None
    if target is not None:
        check_target(target)
    require_store(str(checkpoint), store)
    # What a stream was given cannot be taken back where a look begins again.
    with (
        open_state(checkpoint, mask=mask, **project.keywords) as state,
        TemporaryFile() if target is None else replacing(target, private=True) as stream,
    ):
        suffix = ".jsonl" if target is None else target.suffix
        entries = state.entries_of(store)
        is_list = entries.value_type.typeName() == "array"
        form = form_of(suffix, Fields.of(entries, state.mask_of(store)), is_list=is_list)
        counted = _Counted(progress)
        form.write(stream, entries.parts(form.block, counted))
        if not isinstance(path, str | Path):
            stream.seek(0)
            copyfileobj(stream, path)
            path.flush()
    return Exported(store, counted.number, state.batch, "-" if target is None else str(path))


@looks_again
def get(  # noqa: PLR0913 - all but two by name
    store: str,
    checkpoint: str | Path,
    *key: Any,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    batches: bool = False,
    mask: Sequence[str] = (),
    spark: Spark = None,
) -> Any | None:
    """The value of a key in ``store``, in the target's format; None if there is none.

    ``key`` has the values of the columns that the query groups by, for map state followed by those
    of the map's own key. A value is a dictionary by field name, for list state a list of them. With
    ``batches`` it is the life of the key over the batches that are still there, the table of
    `StateTable.history`. ``mask`` is as in `export`. The other parameters and the errors are
    those of `open_state` and `StateTable.entries`; for more than one key call these.
    """
    project = Project(
        migrations, targets or {}, stores or {}, spark, operator, tuple(accept_edited)
    )
    if not batches:
        require_store(str(checkpoint), store)
    with open_state(checkpoint, mask=mask, **project.keywords) as state:
        if batches:
            return state[store].history(*key)
        entries = state.entries_of(store)
        value = next((value for _, value in entries.under(key)), None)
        fields = Fields.of(entries, state.mask_of(store))
        return fields.mask.shown(fields.value, value)


@dataclass(frozen=True)
class FoundKeys:
    """Keys by column, with their values; ``is_one`` if a whole key was asked for."""

    entries: tuple[tuple[dict[str, Any], Any], ...]
    is_one: bool


@looks_again
def find(
    store: str,
    checkpoint: str | Path,
    words: Sequence[str],
    *,
    mask: Sequence[str] = (),
    **reading: Any,
) -> FoundKeys:
    """All keys of ``store`` that begin with ``words``, texts as one types them.

    One word may be a whole key as a dry run prints it, a JSON list. The other parameters and the
    errors are those of `get`.
    """
    require_store(str(checkpoint), store)
    with open_state(checkpoint, mask=mask, **reading) as state:
        entries = state.entries_of(store)
        wanted = keys_from_texts(entries.key_type, words)
        fields = Fields.of(entries, state.mask_of(store))
        records = [fields.record(entry) for each in wanted for entry in entries.under(each)]
        found = [(each["key"], each["value"]) for each in records]
        width = len(entries.key_type.fields)
        is_one = len(found) <= 1 and all(len(each) == width for each in wanted)
        return FoundKeys(tuple(found), is_one)


@dataclass(frozen=True)
class Life:
    """What became of the keys asked for, over the ``batches`` that are still there.

    ``key`` and ``value`` are the names of columns. ``table`` has a row for each change: ``_batch``
    is the batch at which it was first found, and ``_change`` is "first" for what the oldest batch
    has, else "added", "changed" or "removed".
    """

    batches: tuple[int, ...]
    key: tuple[str, ...]
    value: tuple[str, ...]
    table: pa.Table

    def changes(self) -> list[dict[str, Any]]:
        """The changes, the oldest first; of a key that is gone the value is None."""
        found = []
        for row in plain_rows(self.table):
            is_gone = row["_change"] == "removed"
            found.append(
                {
                    "batch": row["_batch"],
                    "change": row["_change"],
                    "key": {name: row[name] for name in self.key},
                    "value": None if is_gone else {name: row[name] for name in self.value},
                    "revision": None if is_gone else row["_revision"],
                }
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """The life as JSON."""
        return {"batches": list(self.batches), "changes": self.changes()}


@looks_again
def find_life(store: str, checkpoint: str | Path, words: Sequence[str], **reading: Any) -> Life:
    """The life of all keys of ``store`` that begin with ``words``, texts as one types them.

    The other parameters and the errors are those of `open_state`.
    """
    state = open_state(checkpoint, **reading)
    table = state[store]
    wanted = table.keys_from(words)
    lives = [table.history(*each) for each in wanted]
    life = next((each for each in lives if each.num_rows), lives[0])
    return Life(state.batches, table.key_columns, table.layout.value_names, life)


def check_target(path: str | Path) -> None:
    """Raise `ExportError` for a file that cannot be exported to."""
    target = Path(path)
    if target.suffix not in SUFFIXES or not target.parent.is_dir():
        raise _unusable(target)


class _Counted:
    def __init__(self, progress: Progress) -> None:
        self.number = 0
        self._progress = progress

    def __call__(self, number: int) -> None:
        self.number = number
        self._progress(number, None)


def _unusable(path: Path) -> ExportError:
    return ExportError(
        "SM-EXPORT-001",
        f"cannot export to {path}",
        expected=f"a file ending in {', '.join(SUFFIXES)}, in a directory that exists",
        found=path.suffix or "no ending" if path.parent.is_dir() else f"no {path.parent}",
        next_action="name such a file",
        path=str(path),
    )
