"""The columns that rows are grouped by, where an engine groups them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from statemigrate.errors import StartupError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def grouping_key(rows: StructType, columns: Sequence[str], *, argument: str) -> StructType:
    """The schema of the key that ``columns`` of ``rows`` make, in their order.

    ``argument`` is what names them in the user's call, for messages. Raises `StartupError` unless
    each is the name of one column, and `UnsupportedError` as `check_grouping` does.
    """
    from pyspark.sql.types import StructType

    names = rows.fieldNames()
    for column in columns:
        if names.count(column) != 1:
            raise StartupError(
                "SM-START-026",
                f"the stream cannot be grouped by {column}",
                expected=f"one of its columns: {', '.join(names)}",
                found=column,
                next_action=f"name existing columns in {argument}=",
            )
    key = StructType([rows.fields[names.index(column)] for column in columns])
    check_grouping(key)
    return key


def check_grouping(schema: StructType) -> None:
    """Raise `UnsupportedError` for a column that rows cannot be grouped by exactly.

    Of some types Spark takes several values for one key: 0.0 and -0.0, or texts that a collation
    holds equal.
    """
    for field in schema.fields:
        name, collation = field.dataType.typeName(), getattr(field.dataType, "collation", _BINARY)
        if name not in _GROUPING or collation != _BINARY:
            raise UnsupportedError(
                "SM-START-025",
                f"column {field.name} of type {field.dataType.simpleString()} cannot be a key here",
                expected="boolean, an integer type, string, binary, date, timestamp or decimal",
                found=field.dataType.simpleString(),
                next_action="group by another column, or cast it to one of these types first",
                column=field.name,
            )


_BINARY = "UTF8_BINARY"
_GROUPING = (
    *("boolean", "byte", "short", "integer", "long", "decimal"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
)
