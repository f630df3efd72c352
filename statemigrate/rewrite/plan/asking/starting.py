"""Where a field starts that old rows lack.

For an aggregation it is what Spark has for a group without rows, where the name of a buffer tells:
see ``initialValues`` of the functions in ``catalyst/expressions/aggregate`` of apache/spark. Any
other field starts as null, which every field of state may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statemigrate.errors import RewriteError, ValueMismatchError, shown
from statemigrate.formats.json_values import value_from_json
from statemigrate.formats.struct_format import struct_from_json

_COUNTING = ("count", "sum")
"""An average keeps these, side by side; a sum by itself is null before its first row."""
_ZERO = ("n", "avg", "m2", "m3", "m4", "ck", "xAvg", "yAvg", "xMk", "yMk")
_FALSE = ("valueSet",)
_NULL = ("max", "min", "first", "last", "sum", "bit_and", "bit_or", "bit_xor")
_ELSEWHERE = {"timeoutTimestamp": -1, "matched": False}
"""Where fields of other operators start that Spark reads without looking for null."""
UNKNOWN = object()
"""Nothing can be said: the author must."""


def buffer_start(fields: Sequence[dict[str, Any]], place: int) -> object:
    """The plain value that the buffer at ``place`` starts with; `UNKNOWN` where that is open."""
    name, spark = fields[place]["name"], fields[place]["type"]
    following = fields[place + 1]["name"] if place + 1 < len(fields) else ""
    if name == "count" or name in _ZERO:
        return 0
    if name == "sum" and following in ("count", "isEmpty"):
        return 0
    if name == "isEmpty":
        return True
    if name in _FALSE:
        return False
    # What a user-defined or collecting function keeps is bytes, and null is no such bytes.
    return None if name in _NULL and spark != "binary" else UNKNOWN


def other_start(field: dict[str, Any]) -> object:
    """The plain value that a field of an operator without buffers starts with."""
    if field["name"] == "expiresAtMicros":
        return UNKNOWN
    return _ELSEWHERE.get(field["name"])


def is_never_null(fields: Sequence[dict[str, Any]], place: int, *, is_aggregate: bool) -> bool:
    """Whether Spark has a value in the field of every row, and reads it as if there were one."""
    start = buffer_start(fields, place) if is_aggregate else other_start(fields[place])
    return start is not None and (start is not UNKNOWN or not is_aggregate)


def plain_start(name: str, spark: Any, said: Any) -> Any:
    """The plain value that ``said``, JSON, is for a field of the type ``spark``, as JSON has it.

    Raises `RewriteError` for what the field cannot hold.
    """
    field = {"name": "value", "type": spark, "nullable": True, "metadata": {}}
    fmt = struct_from_json({"type": "struct", "fields": [field]})
    try:
        return fmt.conform(value_from_json(fmt, {"value": said}))["value"]
    except ValueMismatchError as error:
        raise RewriteError(
            "SM-REWRITE-011",
            f"{name} cannot start at {shown(said)}",
            expected=f"a value of the field's type, {_type(spark)}, as JSON",
            found=error.found,
            next_action=f"say --start {name}=JSON with such a value",
        ) from error


def _type(spark: Any) -> str:
    return spark if isinstance(spark, str) else str(spark["type"])
