"""Which values of one type Spark takes for another without losing any."""

from __future__ import annotations

import json
import re
from typing import Any

_WIDER = {
    "byte": ("short", "integer", "long", "float", "double"),
    "short": ("integer", "long", "float", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
_WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def is_same(old: Any, new: Any) -> bool:
    """Whether two types in Spark's JSON form have the same values; what is noted does not count."""
    return bool(_bare(old) == _bare(new))


def is_wider(old: Any, new: Any) -> bool:
    """Whether the single type ``new`` holds every value of ``old``."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return False
    decimal = _DECIMAL.fullmatch(new)
    if decimal is None:
        return new in _WIDER.get(old, ())
    precision, scale = int(decimal[1]), int(decimal[2])
    before = _DECIMAL.fullmatch(old)
    whole = int(before[1]) - int(before[2]) if before else _WHOLE_DIGITS.get(old)
    return (
        whole is not None
        and whole <= precision - scale
        and (before is None or int(before[2]) <= scale)
    )


def type_text(spark: Any) -> str:
    """A type as a person reads it."""
    return spark if isinstance(spark, str) else json.dumps(spark, separators=(",", ":"))[:80]


def _bare(spark: Any) -> Any:
    """The type without comments and without what may be null: Spark keeps every field so."""
    if not isinstance(spark, dict):
        return spark
    match spark["type"]:
        case "struct":
            return [(field["name"], _bare(field["type"])) for field in spark["fields"]]
        case "array":
            return ("array", _bare(spark["elementType"]))
        case "map":
            return ("map", _bare(spark["keyType"]), _bare(spark["valueType"]))
    return spark
