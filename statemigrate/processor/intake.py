"""What a processor puts into state, as Python's own values: what PySpark takes is taken here too.

PySpark turns NumPy's and pandas' values into Python's, rounds a decimal to its column's digits,
takes the day of a ``datetime`` for a DATE, the text of a number for a STRING, and a struct as a
tuple, a dictionary or an object with the fields. The same is done here, column by column, and only
for values that the state's format does not take as they are. What PySpark would store as NULL, or
wrap around, without a word stays as it is, for the format to refuse.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


# Numbers as the texts that Spark makes of them for a STRING column.


_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7


def text_of(value: Any) -> Any:
    """The text of a boolean or a number, as Java writes it; everything else as it is.

    Of other values Java has texts too, but none that a value could be read back from.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _of_float(value)
    return str(value) if isinstance(value, int | Decimal) else value


def _of_float(number: float) -> str:
    if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        return str(number).replace("inf", "Infinity").replace("nan", "NaN")
    sign = "-" if str(number).startswith("-") else ""
    _, digits, exponent = Decimal(repr(abs(number))).normalize().as_tuple()
    text = "".join(map(str, digits))
    whole = len(text) + int(exponent)
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_TO:
        return sign + _plain(text, whole)
    return f"{sign}{text[0]}.{text[1:] or '0'}E{whole - 1}"


def _plain(digits: str, whole: int) -> str:
    if whole <= 0:
        return f"0.{'0' * -whole}{digits}"
    return f"{digits[:whole].ljust(whole, '0')}.{digits[whole:] or '0'}"


Take = Callable[[Any], Any]
_DIGITS = 76
"""Room for any decimal that is to be rounded; one with more digits does not fit a column anyway."""


def row_taker(schema: StructType) -> Take:
    """What makes a tuple of Python's own values of a row, or of a map's key.

    What does not have the columns is returned as it is.
    """
    return _struct(schema, empty_for_absent=False)


def python_value(value: Any) -> Any:
    """A NumPy or pandas value as Python's own, None for what stands for no value in them."""
    kind = type(value)
    if kind.__module__ == "numpy":
        return _from_numpy(value)
    if kind.__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value


def _from_numpy(value: Any) -> Any:
    if value.dtype.kind not in "mM" or value.shape:
        return list(value) if value.shape else value.item()
    # Of nanoseconds NumPy would give a number.
    exact = value.astype(f"{value.dtype.str[1:3]}[us]")
    days = value.dtype.kind == "M" and value.dtype.str.endswith("[D]")
    return value.item() if days or exact != value else exact.item()


def _taker(data_type: DataType) -> Take:
    name = data_type.typeName()
    if name == "struct":
        return _struct(data_type, empty_for_absent=True)
    if name == "array":
        return _array(_taker(data_type.elementType))  # type: ignore[attr-defined]
    if name == "map":
        return _map(_taker(data_type.keyType), _taker(data_type.valueType))  # type: ignore[attr-defined]
    if name == "decimal":
        return _decimal(data_type)
    convert = _LEAVES.get(name)
    if convert is None:
        return python_value
    return lambda value: convert(python_value(value))


def _struct(schema: Any, *, empty_for_absent: bool) -> Take:
    names = schema.fieldNames()
    takers = [_taker(field.dataType) for field in schema.fields]

    def take(value: Any) -> Any:
        found = _columns(python_value(value), names, empty_for_absent)
        if found is None or len(found) != len(names):
            return python_value(value)
        return tuple([each(item) for each, item in zip(takers, found, strict=True)])

    return take


def _columns(value: Any, names: list[str], empty_for_absent: bool) -> list[Any] | None:
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, dict):
        held = getattr(value, "__dict__", {})
        # An object may well have more than its columns; one with none of them is none.
        value = {name: held[name] for name in names if name in held} or None
    if value is None or not value.keys() <= set(names):
        return None
    if not empty_for_absent and len(value) < len(names):
        return None
    return [value.get(name) for name in names]


def _array(item: Take) -> Take:
    def take(values: Any) -> Any:
        found = python_value(values)
        # A named tuple is a misplaced struct, to PySpark too.
        return [item(each) for each in found] if type(found) in (list, tuple) else found

    return take


def _map(key: Take, item: Take) -> Take:
    def take(values: Any) -> Any:
        if not isinstance(values, dict):
            return python_value(values)
        taken = {_hashable(key(each)): item(held) for each, held in values.items()}
        # Two keys that become one would lose a value.
        return taken if len(taken) == len(values) else values

    return take


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list | tuple) else key


def _decimal(data_type: Any) -> Take:
    unit = Decimal(1).scaleb(-data_type.scale)
    context = Context(prec=_DIGITS, rounding=ROUND_HALF_UP)

    def take(value: Any) -> Any:
        found = python_value(value)
        if not isinstance(found, Decimal) or not found.is_finite():
            return found
        try:
            return found.quantize(unit, context=context)
        except InvalidOperation:
            return found

    return take


def _day(value: Any) -> Any:
    return value.date() if isinstance(value, dt.datetime) else value


def _plain_datetime(value: Any) -> Any:
    """A plain ``datetime`` of one of another class, which may be finer than microseconds."""
    if not isinstance(value, dt.datetime):
        return value
    return dt.datetime.combine(value.date(), value.timetz()).replace(fold=value.fold)


def _wall_clock(value: Any) -> Any:
    return _plain_datetime(value).replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _time(value: Any) -> Any:
    return value.replace(tzinfo=None, fold=0) if isinstance(value, dt.time) else value


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


_LEAVES: dict[str, Take] = {
    "string": text_of,
    "varchar": text_of,
    "char": text_of,
    "binary": _bytes,
    "date": _day,
    "timestamp": _plain_datetime,
    "timestamp_ntz": _wall_clock,
    "time": _time,
}
