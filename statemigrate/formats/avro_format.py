"""A format given as an Avro schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from statemigrate.errors import FormatError
from statemigrate.files import parse_json
from statemigrate.formats.format import Format
from statemigrate.formats.schema import parse, too_deep
from statemigrate.formats.struct import spark_json

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Avro(Format):
    """Values in the format of an Avro schema.

    ``schema`` is the schema as a dictionary, as JSON text, or the path of an ``.avsc`` file. Its
    top must be a record. Raises FormatError for anything else, and for a recursive schema.
    """

    kind: ClassVar[str] = "avro"

    def __init__(self, schema: dict[str, Any] | str | Path) -> None:
        document = _load(schema)
        try:
            super().__init__(parse(document))
        except RecursionError as error:
            raise too_deep() from error
        self._document: dict[str, Any] = document

    @property
    def avro_schema(self) -> dict[str, Any]:
        """Return the schema as it was given."""
        return copy.deepcopy(self._document)

    def struct_type(self) -> StructType:
        """Return the Spark type that Spark reads this schema as."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(spark_json(self.schema))

    def to_json(self) -> dict[str, Any]:
        """Return the kind and the schema."""
        return {"kind": self.kind, "schema": self.avro_schema}

    def __reduce__(self) -> tuple[Any, ...]:
        return (Avro, (self._document,))

    def __repr__(self) -> str:
        return f"Avro({self.schema.name}: {', '.join(f.name for f in self.schema.fields)})"


def _load(schema: dict[str, Any] | str | Path) -> dict[str, Any]:
    if not isinstance(schema, (str, Path)):
        try:
            return copy.deepcopy(schema)  # whatever else it is, parsing says what is wrong with it
        except RecursionError as error:
            raise too_deep() from error
    if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"'):
        return _from_text(schema, "the schema's text")
    return _from_file(Path(schema))


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(
            "SM-FORMAT-004",
            f"Cannot read the Avro schema {str(path)!r}.",
            expected="the path of an .avsc file, or the schema itself as JSON or a dict",
            found=f"{type(error).__name__}: {error}",
            next_action="check the path; a relative one starts at the working directory",
        ) from error
    return _from_text(text, str(path))


def _from_text(text: str, place: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = parse_json(text, not_finite=True)  # a default may be infinite
    except ValueError as error:
        raise FormatError(
            "SM-FORMAT-005",
            f"{place} is not JSON.",
            expected="an Avro schema as JSON",
            found=str(error),
            next_action=f"correct line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else "correct it",
        ) from error
    return document
