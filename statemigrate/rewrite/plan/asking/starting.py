"""Where a field starts that old rows lack.

For an aggregation it is what Spark has for a group without rows, where the name of a buffer tells:
see ``initialValues`` of the functions in ``catalyst/expressions/aggregate`` of apache/spark. Any
other field starts as null, which every field of state may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_COUNTING = ("count", "sum")
"""An average keeps these, side by side; a sum by itself is null before its first row."""
_ZERO = ("n", "avg", "m2", "m3", "m4", "ck", "xAvg", "yAvg", "xMk", "yMk")
_FALSE = ("valueSet",)
_NULL = ("max", "min", "first", "last", "sum", "bit_and", "bit_or", "bit_xor")
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
