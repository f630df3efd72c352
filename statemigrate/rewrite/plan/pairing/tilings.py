"""The whole functions that a sequence of fields may be of, where no code says which.

A state has nothing but the names and types of its fields, one function's after another's:
``sum double, count bigint`` may be an average, or a sum and a count. Where every way to divide the
fields ends a function, one ends there for sure; what lies between two such ends is kept together.

The patterns are those of Spark's functions; a test asks Spark itself about all that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from statemigrate.rewrite.plan.pairing.aggregates import (
    AggregateFunction,
    BufferField,
    fields_text,
)

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
