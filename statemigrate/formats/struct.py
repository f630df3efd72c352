"""A format given as a Spark struct type."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar

from statemigrate.errors import FormatError
from statemigrate.formats.bounds import too_deep
from statemigrate.formats.ddl import ddl_of, parse_ddl
from statemigrate.formats.format import Format
from statemigrate.formats.schema import avro_json
from statemigrate.formats.spark_avro import record_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Struct(Format):
    """Values as a Spark struct describes them, in bytes by Spark's own Avro rules.

    ``schema`` is DDL text such as ``"id BIGINT NOT NULL, tags ARRAY<STRING>"``, also in the form
    ``"struct<id: bigint>"``, or a ``StructType``. No Java is needed for either. Comments and other
    metadata of the fields are left out. Raises FormatError, with the place, if it cannot be read.
    """

    kind: ClassVar[str] = "struct"

    def __init__(self, schema: str | StructType) -> None:
        spark = parse_ddl(schema) if isinstance(schema, str) else _json_of(schema)
        super().__init__(record_of(spark))
        self._spark = _without_metadata(spark)

    @property
    def avro_schema(self) -> dict[str, Any]:
        """Return the schema that Spark's own rules make of the struct."""
        document: dict[str, Any] = avro_json(self.schema)
        return document

    @property
    def ddl(self) -> str:
        """Return the type as DDL text; ``Struct(format.ddl) == format``."""
        return ddl_of(self._spark)

    def struct_type(self) -> StructType:
        """Return the struct as a Spark type."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._spark)

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
        Format.__init__(format_, record_of(document))
        format_._spark = _without_metadata(document)
    except RecursionError as error:
        raise too_deep() from error
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
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
            "A Struct format takes DDL text or a StructType.",
            expected='"name TYPE, ...", or pyspark.sql.types.StructType',
            found=f"{type(schema).__name__} {schema!r:.80}",
            next_action="wrap a single type in a struct with one field",
        )
    return schema.jsonValue()


def _without_metadata(spark: Any) -> Any:
    if isinstance(spark, dict):
        return {
            key: {} if key == "metadata" else _without_metadata(item) for key, item in spark.items()
        }
    return [_without_metadata(item) for item in spark] if isinstance(spark, list) else spark
