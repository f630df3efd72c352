"""Whether a format holds a value, for each type; and which field does not, if one does not.

Every check has two halves. ``accepts`` is fast and says that the value can be written as it is.
``prepare`` is the slow walk for all the rest: it returns a copy that can be written (an integer
where a float is meant, a default filled in) or raises ValueMismatchError
with the path of the field. A value is taken only if reading it back gives an equal one.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import Any, NoReturn, Protocol

from statemigrate.errors import FormatError, ValueMismatchError, shown, values_hidden
from statemigrate.formats.avro.logical import MOST_ITEMS, freezing, takes_no_bytes, thawing
from statemigrate.formats.schema.fingerprint import plain_default
from statemigrate.formats.schema.nodes import (
    INTEGER_RANGES,
    NULL,
    Array,
    Decimals,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    type_name,
)
from statemigrate.formats.schema.parsing import COLLATED
from statemigrate.formats.timestamps import BEYOND_UTC, MICROSECOND, utc_of

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
        case Primitive(type="string", narrow=str(narrow)) if not narrow.startswith(COLLATED):
            return _bounded_string(narrow)
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


def _bounded_string(narrow: str) -> Leaf:
    longest = int(narrow.partition("(")[2].rstrip(")"))
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


def _time(node: Primitive) -> Leaf:
    digits = int((node.narrow or "time(6)")[5:-1])
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


class Check(Protocol):
    """The two halves; ``path`` is the field's, empty for the whole value."""

    @property
    def accepts(self) -> Callable[[Any], bool]:
        """Say whether the value can be written as it is."""

    def prepare(self, value: Any, path: str, /) -> Any:
        """Return a value that can be written, or raise ValueMismatchError."""


def check_of(node: Node) -> Check:
    """Compile the check of a type."""
    match node:
        case Record():
            return RecordCheck(node)
        case Array():
            return ArrayCheck(node)
        case Map():
            return MapCheck(node)
        case Union(branches=branches):
            others = [branch for branch in branches if branch != NULL]
            simple = len(others) == 1
            return NullableCheck(node, others[0]) if simple else UnionCheck(node)
    return leaf_of(node)


class RecordCheck:
    """A dictionary with exactly the record's fields."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.checks = {field.name: check_of(field.type) for field in record.fields}
        self.defaults = {
            field.name: self._default(field) for field in record.fields if field.has_default
        }
        self.accepts = _record_accepts([(n, c.accepts) for n, c in self.checks.items()])

    def prepare(self, value: Any, path: str) -> dict[str, Any]:
        """Return a copy with every field, or name the one that is wrong."""
        if not isinstance(value, dict):
            mismatch(path, "a dict with the fields of the record", value)
        for name in value:
            if name not in self.checks:
                self._refuse_extra(name, value, path)
        return {field.name: self._field(field, value, path) for field in self.record.fields}

    def _default(self, field: Field) -> Any:
        try:
            plain = plain_default(field.type, field.default)
            return self.checks[field.name].prepare(plain, field.name)
        except (FormatError, ValueMismatchError) as error:
            raise FormatError(
                "SM-FORMAT-001",
                f"The default of field {field.name} is not of the field's type.",
                expected=f"a default for {type_name(field.type)}",
                found=repr(field.default),
                next_action="correct the default in the schema",
                field=field.name,
            ) from error

    def _field(self, field: Field, value: dict[str, Any], path: str) -> Any:
        inner = f"{path}.{field.name}" if path else field.name
        check = self.checks[field.name]
        if field.name in value:
            return check.prepare(value[field.name], inner)
        if field.has_default:
            return self.defaults[field.name]
        raise ValueMismatchError(
            "SM-VALUE-005",
            f"Field {inner} is missing.",
            expected=f"{type_name(field.type)}; a field without a value is None, not absent",
            found=f"only {_listed(value)}",
            next_action=f"return {field.name!r} from the transform too",
            field=inner,
        )

    def _refuse_extra(self, name: object, value: dict[str, Any], path: str) -> NoReturn:
        inner = f"{path}.{name}" if path else str(name)
        raise ValueMismatchError(
            "SM-VALUE-006",
            f"Field {inner} is not in the format.",
            expected=f"only {_listed(self.checks)}",
            found=f"{name!r} = {value[name]!r:.60}",  # type: ignore[index]
            next_action="leave it out of the value, or add it to the format",
            field=inner,
        )


def _record_accepts(fields: list[tuple[str, Callable[[Any], bool]]]) -> Callable[[Any], bool]:
    pairs, size = tuple(fields), len(fields)

    def accepts(value: Any) -> bool:
        if type(value) is not dict or len(value) != size:
            return False
        try:
            for name, check in pairs:
                if not check(value[name]):
                    return False
        except KeyError:
            return False
        return True

    return accepts


class ArrayCheck:
    """A list; a plain tuple is taken for one. A Row or named tuple is a misplaced record."""

    def __init__(self, array: Array) -> None:
        self.items = check_of(array.items)
        self.accepts = _array_accepts(self.items.accepts)
        self._most = MOST_ITEMS if takes_no_bytes(array.items) else sys.maxsize

    def prepare(self, value: Any, path: str) -> list[Any]:
        """Return a list of prepared items."""
        if not isinstance(value, list) and type(value) is not tuple:
            mismatch(path, "a list", value)
        if len(value) > self._most:
            mismatch(path, f"{self._most:,} items that take no bytes, at the most", len(value))
        return [self.items.prepare(item, f"{path}[{i}]") for i, item in enumerate(value)]


def _array_accepts(items: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(items, value))


class KeyCheck:
    """A map's key: a plain value, but with tuples in place of what cannot be hashed."""

    def __init__(self, node: Node) -> None:
        self._check = check_of(node)
        self._thaw, self._freeze = thawing(node), freezing(node)
        thaw, accepts = self._thaw, self._check.accepts
        self.accepts: Callable[[Any], bool] = lambda key: accepts(thaw(key))

    def prepare(self, value: Any, path: str) -> Any:
        """Return a key that can be written, or name what is wrong with it."""
        return self._freeze(self._check.prepare(self._thaw(value), path))


class MapCheck:
    """A dictionary."""

    def __init__(self, node: Map) -> None:
        nested = isinstance(node.keys, Record | Array)
        self.keys: Check = KeyCheck(node.keys) if nested else check_of(node.keys)
        self._name = type_name(node.keys) + ("s" if node.has_text_keys else "")
        self.values = check_of(node.values)
        self.accepts = _map_accepts(self.keys.accepts, self.values.accepts)

    def prepare(self, value: Any, path: str) -> dict[Any, Any]:
        """Return a dict of prepared values."""
        if not isinstance(value, dict):
            mismatch(path, f"a dict from {self._name} to values", value)
        return {
            self.keys.prepare(key, f"{path} key {shown(key)}"): self.values.prepare(
                item, f"{path}[{shown(key)}]"
            )
            for key, item in value.items()
        }


def _map_accepts(
    keys: Callable[[Any], bool], values: Callable[[Any], bool]
) -> Callable[[Any], bool]:
    return lambda value: (
        type(value) is dict and all(map(keys, value)) and all(map(values, value.values()))
    )


class NullableCheck:
    """A union of one type, with null or alone."""

    def __init__(self, union: Union, other: Node) -> None:
        self.other = check_of(other)
        self.nullable = NULL in union.branches
        self.accepts = (
            _nullable_accepts(self.other.accepts) if self.nullable else self.other.accepts
        )

    def prepare(self, value: Any, path: str) -> Any:
        """Return None, or the value prepared."""
        return None if value is None and self.nullable else self.other.prepare(value, path)


def _nullable_accepts(other: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or other(value)


class UnionCheck:
    """A union with a real choice.

    The first branch that accepts the value is the one written, so the choice is ours and no guess.
    """

    def __init__(self, union: Union) -> None:
        self.union = union
        self.checks = [check for _, check in branches_in_order(union)]
        self.accepts = _union_accepts([check.accepts for check in self.checks])

    def prepare(self, value: Any, path: str) -> Any:
        """Return the value as its branch takes it."""
        if self.accepts(value):
            return value
        for check in self.checks:
            try:
                return check.prepare(value, path)
            except ValueMismatchError:
                continue  # another branch may take it; if none does, the union refuses it below
        return mismatch(path, type_name(self.union), value)


def branches_in_order(union: Union) -> list[tuple[int, Check]]:
    """Return a union's branches in the order they are tried, each with its index in the union.

    float comes last, since a float of Python is a double and may lose digits as a float.
    """
    checks = [(index, check_of(branch)) for index, branch in enumerate(union.branches)]
    return sorted(checks, key=lambda pair: union.branches[pair[0]] == Primitive("float"))


def _union_accepts(branches: list[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: any(accepts(value) for accepts in branches)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(str(name) for name in names) or "no field"
