"""The aggregate functions of an operator, and the fields of state that each of them keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from statemigrate.rewrite.column_pairing import is_same, is_wider, type_text
from statemigrate.rewrite.plan_settings import without_settings

BufferField = tuple[str, Any]
"""The name of a field of a function's buffer, and its type in Spark's JSON form."""


@dataclass(frozen=True)
class AggregateFunction:
    """A function in the order of the plan, and the ``fields`` that its buffer has, in theirs.

    ``text`` is what users know it by, as ``max(amount)``. ``meaning`` is the same expression by
    what it is computed from, so that it can be compared with one of another code; it is empty where
    no code was seen. ``uncast`` is the meaning without casts of the arguments. ``function`` is
    Spark's name of the function, ``argument`` the type of its first argument, ``result`` the
    column that it becomes. ``shown`` is what the plan shows of one whose meaning it hides, with the
    names of what it hides. ``empty`` has what the buffer of a group without rows has, as JSON's
    plain values by field; None where that is not known. The buffer of one that ``is_opaque`` is
    bytes that only the function reads.
    """

    text: str
    fields: tuple[BufferField, ...]
    meaning: str = ""
    uncast: str = ""
    function: str = ""
    argument: Any = None
    result: str = ""
    empty: tuple[Any, ...] | None = None
    is_opaque: bool = False
    shown: str = ""

    @property
    def words(self) -> str:
        """How a question calls it."""
        named = self.result and self.result != self.text
        return f"{self.result} = {self.text}" if named else self.text

    def in_any_session(self) -> AggregateFunction:
        """The function without settings of a session."""
        return replace(
            self,
            meaning=without_settings(self.meaning),
            uncast=without_settings(self.uncast),
            shown=without_settings(self.shown),
        )

    def has_shape_of(self, other: AggregateFunction) -> bool:
        """Whether both keep fields of the same names and types, in the same order."""
        return fields_agree(self.fields, other.fields)

    def has_types_of(self, other: AggregateFunction) -> bool:
        """Whether Spark would read the buffer of one as that of the other: it has no names."""
        return len(self.fields) == len(other.fields) and all(
            is_same(one, two) for (_, one), (_, two) in zip(self.fields, other.fields, strict=True)
        )


@dataclass(frozen=True)
class KnownFunctions:
    """What is known of the functions of aggregations, by the numbers of their operators.

    An operator that is not in ``old`` or ``new`` has functions that no code has shown.
    """

    old: Mapping[int, tuple[AggregateFunction, ...]] = field(default_factory=dict)
    new: Mapping[int, tuple[AggregateFunction, ...]] = field(default_factory=dict)


def fields_agree(one: Sequence[BufferField], other: Sequence[BufferField]) -> bool:
    """Whether two sequences of fields are the same in names and types."""
    return len(one) == len(other) and all(
        before[0] == after[0] and is_same(before[1], after[1])
        for before, after in zip(one, other, strict=True)
    )


def fields_of(struct: Mapping[str, Any]) -> tuple[BufferField, ...]:
    """The names and types of the fields of a struct in Spark's JSON form."""
    return tuple((str(each["name"]), each["type"]) for each in struct["fields"])


def fields_text(fields: Sequence[BufferField]) -> str:
    """Fields as a person reads them, the first of many."""
    shown = ", ".join(f"{name} {type_text(spark)}" for name, spark in fields[:8])
    return shown + (f" and {len(fields) - 8} more" if len(fields) > 8 else "")


# What the buffer of a changed function is computed from, where that is proven.
#
# A sum of whole numbers that becomes one of decimals keeps a field more, ``isEmpty``. What Spark
# has there for an empty group would make nothing of every sum: it says that no row has come yet. It
# is true where the old sum is null, and there the new sum is zero, as in Spark's own buffers.


Rule = Literal["", "is null", "zero if null"]
"""How a field is computed from an old one: taken as it is, or in a wider type; or as named."""
_KEEP_VALUES = ("Sum", "Max", "Min", "First", "Last")
"""Functions that give the same, in a wider type, of arguments that are cast to a wider type."""
_WITH_ZERO = ("long", "decimal")
"""Types of sums whose zero is known here."""
_SCALE = re.compile(r"decimal\(\d+,(\d+)\)")


def rules_between(
    old: AggregateFunction, new: AggregateFunction
) -> tuple[tuple[int, Rule], ...] | None:
    """By each field of the new buffer the place of the old one in its buffer, and the rule.

    None where the new buffer cannot be computed from the old one.
    """
    before, after = old.fields, new.fields
    names = [name for name, _ in before], [name for name, _ in after]
    if names[0] == names[1]:
        pairs = [(one[1], other[1]) for one, other in zip(before, after, strict=True)]
        if all(is_same(one, other) or is_wider(one, other) for one, other in pairs):
            return tuple((at, "") for at in range(len(after)))
    if names == (["sum"], ["sum", "isEmpty"]) and str(after[0][1]).startswith(_WITH_ZERO):
        one, other = before[0][1], after[0][1]
        if is_same(one, other) or is_wider(one, other):
            return (0, "zero if null"), (0, "is null")
    return None


def derived(old: AggregateFunction, new: AggregateFunction, *, is_known: bool) -> bool:
    """Whether the new function can go on with what the old one has kept.

    Where the old code is not known, a sum of ``long`` may be one of the digits of decimals: then it
    becomes no decimal with digits behind the point.
    """
    if old.has_shape_of(new):
        return True
    rules = rules_between(old, new)
    if rules is None:
        return False
    if is_known:
        fits = is_same(old.argument, new.argument) or is_wider(old.argument, new.argument)
        return fits and old.function == new.function and new.function in _KEEP_VALUES
    scale = _SCALE.fullmatch(str(new.fields[0][1]))
    whole = str(old.fields[0][1]) in ("byte", "short", "integer", "long")
    return not (whole and scale is not None and int(scale[1]) > 0)


# The whole functions that a sequence of fields may be of, where no code says which.
#
# A state has nothing but the names and types of its fields, one function's after another's: ``sum
# double, count bigint`` may be an average, or a sum and a count. Where every way to divide the
# fields ends a function, one ends there for sure; what lies between two such ends is kept together.
#
# The patterns are those of Spark's functions; a test asks Spark itself about all that it has.


_DECIMAL = r"decimal\(\d+,\d+\)"
_INTERVAL = r"interval .*"
_ANY = r".*"
Pattern = tuple[tuple[str, str], ...]


def _doubles(*names: str) -> Pattern:
    return tuple((name, "double") for name in names)


_COVARIANCE = ("n", "xAvg", "yAvg", "ck")
_MOMENTS = ("n", "avg", "m2")
_LINEAR = _doubles(*_COVARIANCE, *_MOMENTS)
PATTERNS: tuple[Pattern, ...] = (
    (("count", "long"),),
    (("sum", rf"long|double|{_INTERVAL}"),),
    (("sum", rf"long|{_DECIMAL}|{_INTERVAL}"), ("isEmpty", "boolean")),
    (("sum", rf"double|{_DECIMAL}|{_INTERVAL}"), ("count", "long")),
    *(((name, _ANY),) for name in ("max", "min")),
    *(((name, r"byte|short|integer|long"),) for name in ("bit_and", "bit_or", "bit_xor")),
    *(((name, _ANY), ("valueSet", "boolean")) for name in ("first", "last")),
    _doubles("n", "avg"),
    _doubles(*_MOMENTS),
    _doubles(*_MOMENTS, "m3"),
    _doubles(*_MOMENTS, "m3", "m4"),
    _doubles(*_COVARIANCE),
    _doubles(*_COVARIANCE, "xMk", "yMk"),
    _LINEAR,
    (("valueWithExtremumOrdering", _ANY), ("extremumOrdering", _ANY)),
    *(((name, "binary"),) for name in ("buf", "bitmap")),
    (("product", "double"),),
)


def divided(fields: Sequence[BufferField]) -> list[tuple[AggregateFunction, bool]]:
    """What is kept together of ``fields``, in order, and whether each is one function for sure."""
    ends = [list(_ends(fields, at)) for at in range(len(fields))]
    before, after = _ways(ends)
    total = after[0]
    if not total:
        # There is a function in it that no release of Spark has: nothing says where one ends.
        return [(AggregateFunction(fields_text(fields), tuple(fields)), False)] if fields else []
    cuts = [at for at in range(len(fields) + 1) if before[at] * after[at] == total]
    return [
        (
            AggregateFunction(fields_text(fields[begin:end]), tuple(fields[begin:end])),
            before[end] == before[begin],
        )
        for begin, end in pairwise(cuts)
    ]


def _ways(ends: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """In how many ways what is before each place, and behind it, is whole functions."""
    size = len(ends)
    before, after = [1] + [0] * size, [0] * size + [1]
    for at in range(size):
        for end in ends[at]:
            before[end] += before[at]
    for at in reversed(range(size)):
        after[at] = sum(after[end] for end in ends[at])
    return before, after


def _ends(fields: Sequence[BufferField], at: int) -> Iterator[int]:
    """Where a function that begins at a field may end."""
    lengths = {
        len(pattern)
        for pattern in PATTERNS
        if len(pattern) <= len(fields) - at
        and all(
            name == wanted and _is_of(spark, types)
            for (name, spark), (wanted, types) in zip(fields[at:], pattern, strict=False)
        )
    }
    registers = 0
    while at + registers < len(fields) and fields[at + registers] == (f"MS[{registers}]", "long"):
        registers += 1
    yield from sorted(at + length for length in lengths)
    if registers:
        yield at + registers


def _is_of(spark: Any, types: str) -> bool:
    return types == _ANY or (isinstance(spark, str) and re.fullmatch(types, spark) is not None)
