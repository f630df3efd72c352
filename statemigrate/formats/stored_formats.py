"""The two formats of stored values: `Avro`, by a schema, and `Struct`, by a type of Spark's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from statemigrate.errors import FormatError
from statemigrate.files import parse_json
from statemigrate.formats.format import Format
from statemigrate.formats.schema import as_spark_writes, avro_json, parse, too_deep, with_collations
from statemigrate.formats.struct import check_avro, ddl_of, parse_ddl, record_of, spark_json

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


class Struct(Format):
    """Values in the format of a Spark struct, in bytes by Spark's own Avro rules.

    It takes every type that Spark's state takes, also if Avro does not have it: maps with any keys,
    intervals, VARIANT, collations, and fields of any name. A day-time interval is a ``timedelta``,
    a year-month interval an ``int`` of months, a VARIANT a ``dict`` of its ``value`` and
    ``metadata`` in bytes; a struct or an array as a map's key is a ``tuple``.

    ``schema`` is DDL text such as ``"id BIGINT NOT NULL, tags ARRAY<STRING>"``, also in the form
    ``"struct<id: bigint>"``, or a ``StructType``. Neither needs Java. Comments and other metadata
    of the fields are ignored. Raises FormatError, with the place, if it cannot be read.
    """

    kind: ClassVar[str] = "struct"

    def __init__(self, schema: str | StructType) -> None:
        spark = parse_ddl(schema) if isinstance(schema, str) else _json_of(schema)
        super().__init__(record_of(with_collations(spark)))
        self._spark = _without_comments(spark)

    @property
    def avro_schema(self) -> dict[str, Any]:
        """Return the schema that Spark's own rules make of the struct.

        Raises FormatError for what Avro does not have: other keys than strings, odd names.
        """
        check_avro(self.schema)
        document: dict[str, Any] = avro_json(self.schema)
        return document

    @property
    def ddl(self) -> str:
        """Return the type as DDL text; ``Struct(format.ddl) == format``."""
        return ddl_of(with_collations(self._spark))

    def struct_type(self) -> StructType:
        """Return the struct as a Spark type."""
        from pyspark.sql.types import StructType

        # PySpark changes the JSON it is given where a string has a collation.
        return StructType.fromJson(copy.deepcopy(self._spark))

    def to_json(self) -> dict[str, Any]:
        """Return the kind and the struct, as Spark writes types in JSON."""
        return {"kind": self.kind, "schema": copy.deepcopy(self._spark)}

    def __reduce__(self) -> tuple[Any, ...]:
        return (struct_from_json, (self._spark,))

    def __repr__(self) -> str:
        return f"Struct({self.ddl!r})"


def struct_from_json(document: dict[str, Any]) -> Struct:
    """Return the format of a struct type in the JSON form of ``StructType.jsonValue()``."""
    format_ = Struct.__new__(Struct)
    try:
        Format.__init__(format_, record_of(with_collations(document)))
        format_._spark = _without_comments(document)
    except RecursionError as error:
        raise too_deep() from error
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            "SM-FORMAT-015",
            "This is not a struct type of Spark in JSON.",
            expected='{"type": "struct", "fields": [...]}',
            found=f"{document!r:.120} ({type(error).__name__}: {error})",
            next_action="write it with Struct(...).to_json()",
        ) from error
    return format_


def _json_of(schema: StructType) -> dict[str, Any]:
    from pyspark.sql.types import StructType

    if not isinstance(schema, StructType):
        raise FormatError(
            "SM-FORMAT-016",
            "A Struct format takes DDL text or a StructType.",
            expected='"name TYPE, ...", or pyspark.sql.types.StructType',
            found=f"{type(schema).__name__} {schema!r:.80}",
            next_action="wrap a single type in a struct with one field",
        )
    return schema.jsonValue()


def _without_comments(spark: dict[str, Any]) -> dict[str, Any]:
    stripped: dict[str, Any] = as_spark_writes(with_collations(spark))
    return stripped


def format_from_json(document: dict[str, Any]) -> Format:
    """Return the format that ``to_json`` wrote. Raises FormatError if ``document`` is not one."""
    match document:
        case {"kind": "avro", "schema": dict() as schema}:
            return Avro(schema)
        case {"kind": "struct", "schema": dict() as schema}:
            return struct_from_json(schema)
    raise FormatError(
        "SM-FORMAT-012",
        "This is not a stored format.",
        expected='{"kind": "avro" or "struct", "schema": {...}}',
        found=f"{document!r:.200}",
        next_action="check that the checkpoint was written by this version or an older one",
    )
