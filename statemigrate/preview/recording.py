"""The rows of a query's sources for some code: read again from the sources, or from a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from statemigrate.errors import CodeError
from statemigrate.files import Files
from statemigrate.preview.bundle import Bundle
from statemigrate.preview.history import History, read_twice
from statemigrate.preview.inputs import (
    FilesRead,
    RecordedInput,
    merged_schema,
    record_files,
    struct_of,
    unreadable,
)
from statemigrate.preview.replay import QueryFunction
from statemigrate.preview.tee import record_by_tee

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class Recorder(Protocol):
    """Gives the rows that some code reads."""

    def record(
        self, codes: Sequence[QueryFunction], folder: Path, session: SparkSession
    ) -> Mapping[str, RecordedInput]:
        """The rows of each source that any of the code reads; they may be written to ``folder``."""


@dataclass(frozen=True)
class Opener:
    """A function of the user's from the Spark session to a stream, and its ``reference``."""

    reference: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class SourceRecorder:
    """Reads the sources of a query again: files by their names, others as ``openers`` open them.

    ``read`` has by source the files of each batch, ``openers`` are by the parameter of the code.
    """

    files: Files
    history: History
    read: Mapping[str, FilesRead | None]
    openers: Mapping[str, Opener]

    def record(
        self, codes: Sequence[QueryFunction], folder: Path, session: SparkSession
    ) -> Mapping[str, RecordedInput]:
        """As `Recorder` says. Raises `UnsupportedError` for a source that nobody can read."""
        for code in codes:
            for source, others in code.repeated.items():
                self._check_same(source, others)
        found: dict[str, RecordedInput] = {}
        for source, schemas in _schemas(codes).items():
            place = folder / source
            names = {name for each in codes for name in each.inputs if each.inputs[name] == source}
            opener = next((self.openers[name] for name in sorted(names & {*self.openers})), None)
            read = self.read[source]
            if opener is not None:
                found[source] = record_by_tee(
                    self.files, self.history, source, opener.function, opener.reference, place,
                    session,
                )  # fmt: skip
            elif read is not None:
                schema = merged_schema(source, schemas, session)
                found[source] = record_files(read, schema, place, session)
            else:
                raise unreadable(self.files, self.history, source)
        _check_columns(codes, found, session)
        return found

    def _check_same(self, source: str, others: Sequence[str]) -> None:
        """Raise `UnsupportedError` where one stream has read differently in several places."""
        for other in others:
            reads = [self.history.reads(each) for each in (source, other)]
            if self.read[source] != self.read[other] or reads[0].keys() != reads[1].keys():
                raise read_twice(self.files, source)


@dataclass(frozen=True)
class BundledRecorder:
    """Takes the rows that a bundle has."""

    bundle: Bundle

    def record(
        self,
        codes: Sequence[QueryFunction],
        folder: Path,  # noqa: ARG002 - as `Recorder` has it
        session: SparkSession,
    ) -> Mapping[str, RecordedInput]:
        """As `Recorder` says. Raises `CodeError` for a column that was not recorded."""
        _check_columns(codes, self.bundle.inputs, session)
        return self.bundle.inputs


def _schemas(codes: Sequence[QueryFunction]) -> dict[str, dict[str, Any]]:
    """By source the schema with which each of the code reads it."""
    found: dict[str, dict[str, Any]] = {}
    for code in codes:
        for name, source in code.inputs.items():
            found.setdefault(source, {})[code.reference] = code.schemas[name]
    return found


def _check_columns(
    codes: Sequence[QueryFunction], recorded: Mapping[str, RecordedInput], session: SparkSession
) -> None:
    """Raise `CodeError` for a column that some code reads, and that was not recorded as such."""
    for source, schemas in _schemas(codes).items():
        there = _types(recorded[source]) if source in recorded else {}
        for reference, schema in schemas.items():
            for field in struct_of(schema, session).fields:
                found = there.get(field.name.casefold(), "no such column")
                if found != field.dataType.simpleString():
                    raise CodeError(
                        "SM-PREVIEW-022",
                        f"the recorded rows of source {source} have no such column {field.name}",
                        expected=f"{field.name} {field.dataType.simpleString()}, as {reference} "
                        "reads it",
                        found=found,
                        next_action="read what was recorded, or record it again with code that "
                        "reads the column",
                        reference=reference,
                    )


def _types(recorded: RecordedInput) -> dict[str, str]:
    from pyspark.sql.types import StructType

    schema: StructType = StructType.fromJson(dict(recorded.schema))
    return {each.name.casefold(): each.dataType.simpleString() for each in schema.fields}
