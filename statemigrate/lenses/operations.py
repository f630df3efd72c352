"""What lenses do with a single value: casts, scales, tables of values, functions.

Each has a form for one value and one for an Arrow array. The form for arrays may raise
``pyarrow.ArrowInvalid`` for a value that it doubts; the form for one value then decides.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from statemigrate.formats.schema import (
    INTEGER_RANGES,
    Decimals,
    Fixed,
    Node,
    Primitive,
    kind_of,
    without_none,
)

DIGITS = Context(prec=100)
"""Arithmetic that rounds no decimal that a format holds."""


class UnfitValueError(ValueError):
    """A value that a lens does not take."""


def decimals_of(node: Node) -> Decimals:
    """The digits of a type of decimals."""
    node = without_none(node)
    decimals = node.decimals if isinstance(node, Primitive | Fixed) else None
    assert decimals is not None, "asked for decimals only"  # noqa: S101
    return decimals


def limits_of(node: Node) -> tuple[int, int]:
    """The least and the greatest of an integer type."""
    assert isinstance(node, Primitive), "the only integer types"  # noqa: S101
    return INTEGER_RANGES[node.narrow or node.type]


@dataclass(frozen=True)
class Cast:
    """The same value in another type, or `UnfitValueError`; with ``or_null`` None instead."""

    old: Node
    type: Node
    total: bool
    or_null: bool = False

    @property
    def new(self) -> Node:
        """The new type, None apart."""
        return without_none(self.type)

    def __call__(self, value: Any) -> Any:
        """The cast of one value."""
        found = _CASTS[kind_of(self.old), kind_of(self.new)](value, self.new)
        if found is None and not self.or_null:
            raise UnfitValueError(f"{value!r:.80} does not fit into the new type")
        return found

    def source(self, name: str, constant: Callable[[Any], str]) -> str | None:
        """A name, a comparison or a call."""
        kinds = kind_of(self.old), kind_of(self.new)
        if kinds == ("integer", "integer"):
            if self.total:
                return name
            least, most = limits_of(self.new)
            return f"({name} if {least} <= {name} <= {most} else {constant(self)}({name}))"
        if self.total and kinds in _SHORT:
            return f"{_SHORT[kinds]}({name})"
        return None

    def column(self, array: Any) -> Any:
        """Arrow's own cast, where it is the same."""
        import pyarrow.compute as pc

        from statemigrate.formats.avro import arrow_type

        kinds = kind_of(self.old), kind_of(self.new)
        if self.or_null or kinds not in _IN_COLUMNS:
            return None
        if kinds == ("integer", "decimal"):
            import pyarrow as pa

            array = array.cast(pa.int64()).cast(pa.decimal128(38, decimals_of(self.new).scale))
        made = array.cast(arrow_type(self.type))
        if (
            kinds == ("text", "integer")
            and not pc.all(pc.equal(made.cast(array.type), array)).as_py()
        ):
            # A text that is not as the number is written, or no text at all.
            return None if array.null_count < len(array) else made
        return made


_SHORT = {("integer", "float"): "float", ("integer", "text"): "str"}
_IN_COLUMNS = {
    ("integer", "integer"),
    ("integer", "float"),
    ("integer", "decimal"),
    ("integer", "text"),
    ("text", "integer"),
    ("decimal", "decimal"),
}


def _to_integer(value: Any, node: Node) -> int | None:
    least, most = limits_of(node)
    if isinstance(value, float) and (not math.isfinite(value) or _is_minus_zero(value)):
        return None
    whole = int(value)
    return whole if whole == value and least <= whole <= most else None


def _is_minus_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def _text_to_integer(value: str, node: Node) -> int | None:
    try:
        whole = int(value)
    except ValueError:
        return None
    return _to_integer(whole, node) if str(whole) == value else None


def _to_float(value: Any, node: Node) -> float | None:
    assert isinstance(node, Primitive), "the only floats"  # noqa: S101
    try:
        found = float(value)
        if node.type == "float" and math.isfinite(found):
            found = struct.unpack("<f", struct.pack("<f", found))[0]
    except OverflowError:
        return None
    return found if found == value or (found != found and value != value) else None  # noqa: PLR0124  # NaN


def _to_decimal(value: Any, node: Node) -> Decimal | None:
    decimals = decimals_of(node)
    exact = value if isinstance(value, Decimal) else Decimal(value)
    found = exact.quantize(Decimal(1).scaleb(-decimals.scale), context=DIGITS)
    # abs() would round to the 28 digits of the thread's arithmetic.
    fits = found.copy_abs() < Decimal(10) ** (decimals.precision - decimals.scale)
    return found if found == exact and fits else None


def _to_text(value: Any, _node: Node) -> str:
    return str(value)


_CASTS: dict[tuple[str, str], Callable[[Any, Node], Any]] = {
    ("integer", "integer"): _to_integer,
    ("integer", "float"): _to_float,
    ("integer", "decimal"): _to_decimal,
    ("integer", "text"): _to_text,
    ("float", "integer"): _to_integer,
    ("float", "float"): _to_float,
    ("decimal", "decimal"): _to_decimal,
    ("decimal", "integer"): _to_integer,
    ("text", "integer"): _text_to_integer,
}
CASTS = frozenset(_CASTS)
"""The pairs of kinds that a cast takes from one to the other."""


@dataclass(frozen=True)
class ToDecimal:
    """An integer of small units as a decimal of ``places``, as cents become money."""

    type: Node
    total: bool
    places: int
    or_null: bool = False

    def __call__(self, value: int) -> Decimal | None:
        """The decimal."""
        if abs(value) < 10 ** decimals_of(self.type).precision:
            return Decimal(value).scaleb(-self.places, DIGITS)
        if self.or_null:
            return None
        raise UnfitValueError(f"{value} has too many digits for the new type")

    def source(self, name: str, constant: Callable[[Any], str]) -> str | None:
        """The same without a call of its own."""
        # With both as objects that are there already: half the time of Decimal(...).scaleb(...).
        made = f"{constant(DIGITS.scaleb)}({name}, {constant(Decimal(-self.places))})"
        if self.total:
            return made
        most = 10 ** decimals_of(self.type).precision
        return f"({made} if {-most} < {name} < {most} else {constant(self)}({name}))"

    def column(self, array: Any) -> Any:
        """The same numbers under a type that has the point elsewhere."""
        import pyarrow as pa

        from statemigrate.formats.avro import arrow_type

        if self.or_null:
            return None
        whole = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
        return _scaled(whole, 19, self.places).cast(arrow_type(self.type))


@dataclass(frozen=True)
class FromDecimal:
    """A decimal of ``places`` as an integer of its last one."""

    type: Node
    places: int
    total: bool = False

    def __call__(self, value: Decimal) -> int:
        """The integer."""
        found = int(value.scaleb(self.places, DIGITS))
        least, most = limits_of(self.type)
        if least <= found <= most:
            return found
        raise UnfitValueError(f"{value} has too many digits for the type before")

    def source(self, name: str, constant: Callable[[Any], str]) -> str | None:
        """The same without a call of its own, but for a value that may not fit."""
        if not self.total:
            return None
        return f"int({constant(DIGITS.scaleb)}({name}, {constant(Decimal(self.places))}))"

    def column(self, array: Any) -> Any:
        """The same numbers under a type that has the point at their end."""
        from statemigrate.formats.avro import arrow_type

        return _scaled(array, array.type.precision, 0).cast(arrow_type(self.type))


def _scaled(array: Any, precision: int, scale: int) -> Any:
    """A decimal array with the point elsewhere; its numbers stay as they are in memory."""
    import pyarrow as pa

    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)


@dataclass(frozen=True)
class Mapped:
    """A value out of a table; what is not in it stays, becomes None, or is `UnfitValueError`."""

    table: Mapping[Any, Any]
    type: Node
    otherwise: str

    @property
    def total(self) -> bool:
        """Whether there is a rule for every value."""
        return self.otherwise != "fail"

    def __call__(self, value: Any) -> Any:
        """What the table has for it."""
        if value in self.table:
            return self.table[value]
        if self.otherwise == "keep":
            return value
        if self.otherwise == "null":
            return None
        raise UnfitValueError(f"{value!r:.80} is not among the values of `map_values`")

    def source(self, name: str, constant: Callable[[Any], str]) -> str | None:
        """A look-up."""
        if self.otherwise == "fail":
            return None
        rest = f", {name}" if self.otherwise == "keep" else ""
        return f"{constant(dict(self.table).get)}({name}{rest})"

    def column(self, array: Any) -> Any:
        """Each different value once."""
        import pyarrow as pa

        from statemigrate.formats import plain_array, plain_values
        from statemigrate.formats.avro import arrow_type

        different = array.dictionary_encode()
        values = plain_values(different.dictionary)
        made = plain_array([self(each) for each in values], arrow_type(self.type))
        return pa.compute.take(made, different.indices)

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True, eq=False)
class Called:
    """What a function of the script makes of a value. It has no form for columns."""

    function: Callable[[Any], Any]
    type: Node
    total: bool = False

    def __call__(self, value: Any) -> Any:
        """What the function makes of it."""
        return self.function(value)

    def source(self, name: str, constant: Callable[[Any], str]) -> str | None:
        """A call without a detour."""
        return f"{constant(self.function)}({name})"

    def column(self, array: Any) -> Any:  # noqa: ARG002  # as the other operations have it
        """None: there is none."""
        return None
