"""Whether a type holds a single value, and the error for one that it does not hold."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import Any, NoReturn

from statemigrate.errors import ValueMismatchError, values_hidden
from statemigrate.formats.schema import (
    COLLATED,
    INTEGER_RANGES,
    Decimals,
    Enum,
    Fixed,
    Node,
    Primitive,
    type_name,
)
from statemigrate.formats.timestamps import BEYOND_UTC, MICROSECOND, utc_of


class Unfit(Exception):  # noqa: N818 - a signal between two parts of this package
    """The value is not one that ``check_of`` accepts as it is."""


# The check of a single value, and the error it raises.


class Refusal(Exception):  # noqa: N818  # not an error of the program: it carries a reason
    """Raised by a conversion that cannot take the value; the text says what was found."""


class Leaf:
    """``accepts`` takes the exact type; ``convert`` returns an equal value of it, or refuses."""

    __slots__ = ("accepts", "convert", "expected")

    def __init__(
        self, expected: str, accepts: Callable[[Any], bool], convert: Callable[[Any], Any]
    ) -> None:
        self.expected = expected
        self.accepts = accepts
        self.convert = convert

    def prepare(self, value: Any, path: str) -> Any:
        """Return a value that ``accepts`` takes, or raise ValueMismatchError."""
        if self.accepts(value):
            return value
        try:
            converted = self.convert(value)
        except Refusal as refusal:
            mismatch(path, self.expected, value, str(refusal))
        if not self.accepts(converted):
            mismatch(path, self.expected, value)
        return converted


def mismatch(path: str, expected: str, value: object, reason: str = "") -> NoReturn:
    """Raise ValueMismatchError for the field at ``path``."""
    raise ValueMismatchError(
        "SM-VALUE-007",
        f"Field {path} cannot hold this value." if path else "The format cannot hold this value.",
        expected=expected,
        found=f"{describe(value)}, {reason}" if reason and not values_hidden() else describe(value),
        next_action="return a value of that type from the transform, or change the format",
        field=path,
    )


def describe(value: object) -> str:
    """Return the value's type and a short form of the value, if values are shown."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    if values_hidden():
        return name
    text = repr(value)
    return f"{name} {text if len(text) <= 60 else text[:57] + '...'}"


# The check of a decimal: the digits that fit, and trailing zeros made to fit.


def decimal_leaf(decimals: Decimals) -> Leaf:
    """Return the check for at most ``scale`` digits after the point and ``precision`` in all.

    ``Decimal("1.500")`` fits a scale of 2, since it equals ``Decimal("1.50")``.
    """
    whole = decimals.precision - decimals.scale
    return Leaf(
        f"{decimals}, a Decimal with at most {whole} digits before the point"
        f" and {decimals.scale} after it",
        _accepts(decimals),
        _convert(decimals),
    )


def _accepts(decimals: Decimals) -> Callable[[Any], bool]:
    lowest, whole = -decimals.scale, decimals.precision - decimals.scale

    def accepts(value: Any) -> bool:
        if type(value) is not Decimal or not value.is_finite():
            return False
        _, digits, exponent = value.as_tuple()
        # A finite Decimal's exponent is an int; the type allows for the letters of NaN too.
        return lowest <= exponent and len(digits) + exponent <= whole  # type: ignore[operator]

    return accepts


def _convert(decimals: Decimals) -> Callable[[Any], Decimal]:
    # Room for any value as written: what does not fit is judged by ``accepts`` afterwards.
    context = Context(prec=decimals.precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-decimals.scale)

    def convert(value: Any) -> Decimal:
        if not isinstance(value, Decimal):
            raise Refusal("")
        if not value.is_finite():
            raise Refusal("which is not finite")
        try:
            return Decimal(value).quantize(unit, context=context)
        except (Inexact, InvalidOperation) as error:
            raise Refusal("which has digits more than that") from error

    return convert


# The checks of single values, one for each of Avro's types and of the logical types Spark knows.
#
# ``accepts`` is called for every field of every value that is written, so each is one expression on
# the exact type. Subclasses and types that only have an equal value (a ``StrEnum``, a
# ``bytearray``, an int for a double) take the slower way through ``convert``.


_FLOAT_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_INFINITIES = (float("inf"), float("-inf"))


def leaf_of(node: Node) -> Leaf:  # noqa: PLR0911  # one return for each kind of node
    """Return the check of a type that has no types inside."""
    match node:
        case Primitive(decimals=Decimals() as decimals) | Fixed(decimals=Decimals() as decimals):
            return decimal_leaf(decimals)
        case Fixed():
            return _fixed(node)
        case Enum():
            return _enum(node)
        case Primitive(logical=str(logical)):
            return _LOGICAL[logical](node)
        case Primitive(type="int" | "long"):
            return _integer(node)
        case Primitive(type="string"):
            longest = longest_text(node)
            return STRING if longest is None else _bounded_string(type_name(node), longest)
        case Primitive():
            return _PLAIN[node.type]
    raise TypeError(f"{type_name(node)} has types inside")


def _refuse(_: Any) -> Any:
    raise Refusal("")


def _integer(node: Primitive) -> Leaf:
    low, high = INTEGER_RANGES[node.narrow or node.type]

    def accepts(value: Any) -> bool:
        return type(value) is int and low <= value <= high

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refusal("")
        return int(value)

    return Leaf(f"{type_name(node)}, an int from {low} to {high}", accepts, convert)


def _accepts_float(value: Any) -> bool:
    return type(value) is float and (
        -_FLOAT_MAX <= value <= _FLOAT_MAX or value != value or value in _INFINITIES  # noqa: PLR0124
    )


def _convert_float(value: Any, *, form: str) -> float:
    """Return a float, or an int that the type holds exactly; ``form`` is its ``struct`` code."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refusal("")
    try:
        stored: float = struct.unpack(form, struct.pack(form, float(value)))[0]
    except OverflowError as error:
        raise Refusal("which is out of range") from error
    if stored != value:
        raise Refusal(f"which would be stored as {stored:.0f}")
    return stored


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _accepts_string(value: Any) -> bool:
    return type(value) is str and (value.isascii() or _encodable(value))


def _convert_string(value: Any) -> str:
    if not isinstance(value, str):
        raise Refusal("")
    if not _encodable(value):
        raise Refusal("which has half a surrogate pair and so no UTF-8 form")
    return str.__str__(value)


def longest_text(node: Primitive) -> int | None:
    """The most characters of a string type, or None where it has any number of them."""
    narrow = node.narrow
    if narrow is None or narrow.startswith(COLLATED):
        return None
    return int(narrow.partition("(")[2].rstrip(")"))


def _bounded_string(narrow: str, longest: int) -> Leaf:
    return Leaf(
        f"{narrow}, a str of at most {longest} characters",
        lambda value: _accepts_string(value) and len(value) <= longest,
        _convert_string,
    )


def _convert_bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise Refusal("")
    return bytes(value)


def _fixed(node: Fixed) -> Leaf:
    size = node.size
    return Leaf(
        f"fixed, bytes of length {size}",
        lambda value: type(value) is bytes and len(value) == size,
        _convert_bytes,
    )


def _enum(node: Enum) -> Leaf:
    symbols = frozenset(node.symbols)
    return Leaf(
        f"enum, one of {', '.join(node.symbols)}",
        lambda value: type(value) is str and value in symbols,
        _convert_string,
    )


def _convert_date(value: Any) -> date:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise Refusal("")
    return date(value.year, value.month, value.day)


def _date(_: Primitive) -> Leaf:
    return Leaf("date", lambda value: type(value) is date, _convert_date)


def time_digits(node: Primitive) -> int:
    """The decimals that a time of day may have."""
    return int((node.narrow or "time(6)")[5:-1])


def _time(node: Primitive) -> Leaf:
    digits = time_digits(node)
    unit = 10 ** (6 - digits)
    return Leaf(
        f"time({digits}), a time without a zone and with at most {digits} decimals",
        lambda value: (
            type(value) is time
            and value.tzinfo is None
            and value.fold == 0
            and value.microsecond % unit == 0
        ),
        _refuse,
    )


def _plain_datetime(value: Any) -> datetime:
    """Return an equal plain ``datetime``; a subclass may be finer than microseconds."""
    if not isinstance(value, datetime):
        raise Refusal("")
    try:
        plain = datetime.combine(value.date(), value.timetz())
    except ValueError as error:
        raise Refusal("which is no moment at all") from error
    if plain != value:
        raise Refusal("which is finer than a microsecond")
    return plain


def _convert_timestamp(value: Any) -> datetime:
    plain = _plain_datetime(value)
    if plain.utcoffset() is None:
        raise Refusal("which has no time zone")
    try:
        return utc_of(plain)
    except OverflowError as error:
        raise Refusal("which is out of range in UTC") from error


def _timestamp(node: Primitive, *, unit: int) -> Leaf:
    return Leaf(
        f"{node.logical}, an aware datetime" + (" of whole milliseconds" if unit > 1 else ""),
        lambda value: (
            type(value) is datetime
            and (value.tzinfo is UTC or value.tzinfo in BEYOND_UTC)
            and value.microsecond % unit == 0
        ),
        _convert_timestamp,
    )


def _convert_local(value: Any) -> datetime:
    plain = _plain_datetime(value)
    if plain.tzinfo is not None:
        raise Refusal("which has a time zone")
    return plain


def _local_timestamp(node: Primitive, *, unit: int) -> Leaf:
    return Leaf(
        f"{node.logical}, a datetime without a time zone"
        + (" of whole milliseconds" if unit > 1 else ""),
        lambda value: (
            type(value) is datetime and value.tzinfo is None and value.microsecond % unit == 0
        ),
        _convert_local,
    )


def _day_time_interval(node: Primitive) -> Leaf:
    low, high = (edge * MICROSECOND for edge in INTEGER_RANGES["long"])
    return Leaf(
        f"{node.narrow}, a timedelta",
        lambda value: type(value) is timedelta and low <= value <= high,
        _convert_interval,
    )


def _convert_interval(value: Any) -> timedelta:
    if not isinstance(value, timedelta):
        raise Refusal("")
    return timedelta(value.days, value.seconds, value.microseconds)


def _year_month_interval(node: Primitive) -> Leaf:
    months = _integer(Primitive("int"))
    return Leaf(f"{node.narrow}, an int of months", months.accepts, months.convert)


STRING = Leaf("string, a str", _accepts_string, _convert_string)
_PLAIN = {
    "null": Leaf("null, None", lambda value: value is None, _refuse),
    "boolean": Leaf("boolean, True or False", lambda value: type(value) is bool, _refuse),
    "float": Leaf("float, a float of 32 bits", _accepts_float, partial(_convert_float, form="<f")),
    "double": Leaf(
        "double, a float",
        lambda value: type(value) is float,
        partial(_convert_float, form="<d"),
    ),
    "bytes": Leaf("bytes", lambda value: type(value) is bytes, _convert_bytes),
    "string": STRING,
}
_LOGICAL: dict[str, Callable[[Primitive], Leaf]] = {
    "date": _date,
    "time-micros": _time,
    "day-time-interval": _day_time_interval,
    "year-month-interval": _year_month_interval,
    "timestamp-millis": partial(_timestamp, unit=1000),
    "timestamp-micros": partial(_timestamp, unit=1),
    "local-timestamp-millis": partial(_local_timestamp, unit=1000),
    "local-timestamp-micros": partial(_local_timestamp, unit=1),
}
