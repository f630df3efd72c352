"""The rows that each batch has read, one file of Parquet for each batch and source.

Code is run again on these files, and not on the sources themselves: whatever a source was, Spark
reads the same rows from a folder of files, in the batches that they came in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import CheckpointError, CodeError, UnsupportedError
from statemigrate.files import Files, open_files
from statemigrate.preview.history import History, files_read, later_batches
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".parquet": "parquet",
    ".txt": "text",
}
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|snappy|lz4|deflate)$")
_GLOB = re.compile(r"([\\\[\]{}*?])")
_OPENER = (
    "name a function from the Spark session to the stream, with --source NAME=MODULE:FUNCTION, "
    "where NAME is the parameter of the code"
)
FilesRead = Mapping[int, tuple[str, ...]]
"""By batch the files that a source has read."""


@dataclass(frozen=True)
class RecordedInput:
    """The rows of a source: in ``folder`` a file for each of the ``batches`` that read some.

    ``schema`` has the columns, as Spark's JSON.
    """

    folder: Path
    batches: tuple[int, ...]
    schema: Mapping[str, Any]

    def file(self, batch: int) -> Path:
        """The file with the rows of a batch."""
        return self.folder / f"{batch}.parquet"

    def position(self, batch: int) -> int:
        """How many of the batches up to this one have rows."""
        return sum(each <= batch for each in self.batches)


def find_files(
    files: Files, history: History, *, others: bool = False
) -> dict[str, FilesRead | None]:
    """By source and batch, the files that were read. All of them are there.

    None for a source that reads no files, which is refused unless ``others`` can be read. Raises
    `UnsupportedError` for it, and `CheckpointError` where files are gone.
    """
    found: dict[str, FilesRead | None] = {}
    for source in history.sources:
        read = files_read(files, source, history)
        if read is None and not others:
            raise unreadable(files, history, source)
        if not others:
            for path in (path for paths in (read or {}).values() for path in paths):
                _format(path)
        found[source] = read
    _check_there(files, history, found)
    return found


def unreadable(files: Files, history: History, source: str) -> UnsupportedError:
    """The error for a source that reads no files, and that no function opens."""
    return UnsupportedError(
        "SM-PREVIEW-004",
        f"source {source} of {files.location} cannot be read again by its offsets alone",
        expected="a source that reads files, or a function that opens it",
        found=f"the offset {history.batches[-1].entry.offsets.by_source[source]}",
        next_action=_OPENER,
        source=source,
    )


def _check_there(files: Files, history: History, found: Mapping[str, FilesRead | None]) -> None:
    listed: dict[str, set[str]] = {}
    gone: dict[int, str] = {}
    for read in found.values():
        for batch, paths in (read or {}).items():
            for path in paths:
                folder, _, name = path.rpartition("/")
                if folder not in listed:
                    listed[folder] = {each.base_name for each in open_files(folder).list()}
                if name not in listed[folder]:
                    gone[batch] = path
    if not gone:
        return
    last, newest = max(gone), history.batches[-1].number
    raise CheckpointError(
        "SM-PREVIEW-005",
        f"input that batches of {files.location} have read is gone",
        expected=f"every file that batches {history.batches[0].number} to {newest} have read",
        found=f"{len(gone)} batches without theirs; batch {last} has read {gone[last]}",
        next_action=later_batches(last, newest)
        or "put the files back, or let the query commit more batches",
        path=files.location,
        batch=last + 1,
    )


def record_files(
    read: FilesRead, schema: StructType, folder: Path, session: SparkSession
) -> RecordedInput:
    """Write the rows of the files that each batch has ``read`` to ``folder``."""
    folder.mkdir(parents=True)
    for batch, paths in read.items():
        kinds = {_format(path) for path in paths}
        if len(kinds) > 1:
            raise _unknown_format(paths, sorted(kinds))
        if not paths:
            write_rows(session.createDataFrame([], schema), folder, batch)
            continue
        escaped = [_GLOB.sub(r"\\\1", path) for path in paths]
        reader = session.read.schema(schema).format(kinds.pop())
        write_rows(reader.load(escaped), folder, batch)
    return RecordedInput(folder, tuple(sorted(read)), schema.jsonValue())


def write_rows(rows: DataFrame, folder: Path, batch: int) -> None:
    """Write the rows that a batch has read as one file."""
    made = folder / f".{batch}"
    rows.coalesce(1).write.mode("overwrite").parquet(made.as_uri())
    (part,) = [each for each in made.iterdir() if each.name.endswith(".parquet")]
    part.rename(folder / f"{batch}.parquet")
    for each in made.iterdir():
        each.unlink()
    made.rmdir()


def _format(path: str) -> str:
    ending = Path(_COMPRESSED.sub("", path.casefold())).suffix
    if ending not in _FORMATS:
        raise _unknown_format((path,), [ending])
    return _FORMATS[ending]


def _unknown_format(paths: tuple[str, ...], found: list[str]) -> UnsupportedError:
    return UnsupportedError(
        "SM-PREVIEW-006",
        f"the name of {paths[0]} does not tell how it is read",
        expected=f"files that end in {', '.join(_FORMATS)}, or a function that opens the source",
        found=", ".join(found),
        next_action=_OPENER,
        path=paths[0],
    )


def merged_schema(source: str, schemas: Mapping[str, Any], session: SparkSession) -> StructType:
    """The columns that any code reads of a source, by the names of these.

    Raises `CodeError` where two read a column with different types.
    """
    from pyspark.sql.types import StructType

    found: dict[str, Any] = {}
    for reference, schema in schemas.items():
        for field in struct_of(schema, session).fields:
            before = found.setdefault(field.name.casefold(), field)
            if before.dataType != field.dataType:
                raise CodeError(
                    "SM-PREVIEW-007",
                    f"old and new code read column {field.name} of source {source} as two types",
                    expected=f"{before.dataType.simpleString()} in both",
                    found=f"{field.dataType.simpleString()} in {reference}",
                    next_action="preview the new code with the column as it was, cast in the "
                    f"function {argument(reference)}",
                    reference=reference,
                )
    return StructType(list(found.values()))


def struct_of(schema: Any, session: SparkSession) -> StructType:
    """The schema of an input, from its DDL where it is given as that."""
    if not isinstance(schema, str):
        found: StructType = schema
        return found
    return session.createDataFrame([], schema).schema
