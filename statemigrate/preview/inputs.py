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
from statemigrate.files import Files
from statemigrate.files.open import open_files
from statemigrate.preview.history import History, files_read
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


@dataclass(frozen=True)
class RecordedInput:
    """The rows of a source: in ``folder`` a file for each of the ``batches`` that read some."""

    folder: Path
    batches: tuple[int, ...]

    def file(self, batch: int) -> Path:
        """The file with the rows of a batch."""
        return self.folder / f"{batch}.parquet"

    def position(self, batch: int) -> int:
        """How many of the batches up to this one have rows."""
        return sum(each <= batch for each in self.batches)


def find_files(files: Files, history: History) -> dict[str, dict[int, tuple[str, ...]]]:
    """By source and batch, the files that were read. All of them are there.

    Raises `UnsupportedError` for a source that reads no files, and `CheckpointError` where files
    are gone.
    """
    found: dict[str, dict[int, tuple[str, ...]]] = {}
    for source in history.sources:
        read = files_read(files, source, history)
        if read is None:
            raise UnsupportedError(
                "SM-PREVIEW-004",
                f"source {source} of {files.location} cannot be read again by its offsets",
                expected="a source that reads files",
                found=f"the offset {history.batches[-1].entry.offsets.by_source[source]}",
                next_action="only queries over files can be previewed yet",
                source=source,
            )
        found[source] = read
    _check_there(files, history, found)
    return found


def _check_there(
    files: Files, history: History, found: Mapping[str, Mapping[int, tuple[str, ...]]]
) -> None:
    listed: dict[str, set[str]] = {}
    gone: dict[int, str] = {}
    for read in found.values():
        for batch, paths in read.items():
            for path in paths:
                folder, _, name = path.rpartition("/")
                if folder not in listed:
                    listed[folder] = {each.base_name for each in open_files(folder).list()}
                if name not in listed[folder]:
                    gone[batch] = path
    if not gone:
        return
    last, newest = max(gone), history.batches[-1].number
    can = newest - last
    raise CheckpointError(
        "SM-PREVIEW-005",
        f"input that batches of {files.location} have read is gone",
        expected=f"every file that batches {history.batches[0].number} to {newest} have read",
        found=f"{len(gone)} batches without theirs; batch {last} has read {gone[last]}",
        next_action=f"preview the batches from {last + 1} on, with --batches {can}"
        if can
        else "put the files back, or let the query commit more batches",
        path=files.location,
        batch=last + 1,
    )


def record_files(
    read: Mapping[int, tuple[str, ...]], schema: StructType, folder: Path, session: SparkSession
) -> RecordedInput:
    """Write the rows of the files that each batch has ``read`` to ``folder``."""
    folder.mkdir(parents=True)
    for batch, paths in read.items():
        kinds = {_format(path) for path in paths}
        if len(kinds) > 1:
            raise _unknown_format(paths, sorted(kinds))
        if not paths:
            _write(session.createDataFrame([], schema), folder, batch)
            continue
        escaped = [_GLOB.sub(r"\\\1", path) for path in paths]
        reader = session.read.schema(schema).format(kinds.pop())
        _write(reader.load(escaped), folder, batch)
    return RecordedInput(folder, tuple(sorted(read)))


def _write(rows: DataFrame, folder: Path, batch: int) -> None:
    made = folder / f".{batch}"
    rows.coalesce(1).write.parquet(made.as_uri())
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
        expected=f"files that end in {', '.join(_FORMATS)}",
        found=", ".join(found),
        next_action="only such files can be read again yet",
        path=paths[0],
    )


def merged_schema(source: str, schemas: Mapping[str, Any], session: SparkSession) -> StructType:
    """The columns that any code reads of a source, by the names of these.

    Raises `CodeError` where two read a column with different types.
    """
    from pyspark.sql.types import StructType

    found: dict[str, Any] = {}
    for reference, schema in schemas.items():
        for field in _struct(schema, session).fields:
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


def _struct(schema: Any, session: SparkSession) -> StructType:
    if not isinstance(schema, str):
        found: StructType = schema
        return found
    return session.createDataFrame([], schema).schema
