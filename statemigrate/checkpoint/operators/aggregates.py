"""Which of Spark's functions keeps which columns of an aggregation's state.

An aggregation keeps buffers, not results, in the order of its functions. The names are those of
``aggBufferAttributes`` in ``sql/catalyst/.../expressions/aggregate`` of apache/spark, and several
functions may keep the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from statemigrate.checkpoint.operators.labels import labels, shown_places
from statemigrate.checkpoint.operators.shapes import StructJson


@dataclass(frozen=True)
class Meaning:
    """Columns, by their labels, and the functions that keep such."""

    columns: tuple[str, ...]
    functions: str

    def __str__(self) -> str:
        names = self.columns
        told = names if len(names) <= _MANY else (names[0], "...", names[-1])
        return f"{', '.join(told)}: {self.functions}"


_ANY = ""
_MANY = 6
_NUMBER = re.compile(r"_\d+$")
# By Spark's names and types of consecutive columns, the longest first; any type where none is said.
_BUFFERS: tuple[tuple[tuple[tuple[str, str], ...], str], ...] = (
    (
        tuple((name, _ANY) for name in ("n", "avg", "m2", "m3", "m4")),
        "kurtosis: count, mean and sums of powers of the differences from it",
    ),
    (
        tuple((name, _ANY) for name in ("n", "xAvg", "yAvg", "ck", "xMk", "yMk")),
        "corr: count, means, and sums of products of the differences from them",
    ),
    (
        tuple((name, _ANY) for name in ("n", "xAvg", "yAvg", "ck")),
        "covar_pop or covar_samp: count, means, and the sum of products of the differences",
    ),
    (
        tuple((name, _ANY) for name in ("n", "avg", "m2", "m3")),
        "skewness: count, mean and sums of powers of the differences from it",
    ),
    (
        tuple((name, _ANY) for name in ("n", "avg", "m2")),
        "stddev or variance: count, mean, sum of the squared differences from it",
    ),
    (
        (("sum", "decimal"), ("isEmpty", "boolean")),
        "sum of decimals: the sum, and whether there was no value yet",
    ),
    (
        (("sum", _ANY), ("count", "long")),
        "avg: sum and count of the values that are not null; or a sum, and a count after it",
    ),
    ((("first", _ANY), ("valueSet", "boolean")), "first or any_value: the value, and if one came"),
    ((("last", _ANY), ("valueSet", "boolean")), "last: the value, and whether one came"),
    (
        (("valueWithExtremumOrdering", _ANY), ("extremumOrdering", _ANY)),
        "max_by or min_by: the value, and what it is ordered by",
    ),
    ((("count", "long"),), "count"),
    ((("sum", _ANY),), "sum"),
    ((("max", _ANY),), "max"),
    ((("min", _ANY),), "min"),
    ((("bit_and", _ANY),), "bit_and"),
    ((("bit_or", _ANY),), "bit_or"),
    ((("bit_xor", _ANY),), "bit_xor"),
    (
        (("buf", "binary"),),
        "collect_list, collect_set, percentile, a sketch or an aggregator of your own: bytes that "
        "only the function itself can read",
    ),
)
_SKETCH = "MS["


def meanings(value: StructJson) -> tuple[Meaning, ...]:
    """What the columns of an aggregation's value are, as far as their names tell."""
    return tuple(_meanings(value))


def _meanings(value: StructJson) -> Iterator[Meaning]:
    names, fields = labels(value), value["fields"]
    places = shown_places(value)
    while places:
        # A number tells it from another column of its name, and has no meaning.
        held = [(_NUMBER.sub("", names[at]), _type(fields[at]["type"])) for at in places]
        length, functions = _first(held)
        if functions:
            yield Meaning(tuple(names[at] for at in places[:length]), functions)
        places = places[length:]


def _first(held: list[tuple[str, str]]) -> tuple[int, str]:
    sketch = next((n for n, (name, _) in enumerate(held) if not name.startswith(_SKETCH)), None)
    if sketch != 0:
        return sketch or len(held), "approx_count_distinct: the registers of a HyperLogLog sketch"
    for pattern, functions in _BUFFERS:
        pairs = list(zip(pattern, held, strict=False))
        if len(pairs) == len(pattern) and all(_fits(*pair) for pair in pairs):
            return len(pattern), functions
    return 1, ""


def _fits(wanted: tuple[str, str], held: tuple[str, str]) -> bool:
    return wanted[0] == held[0] and held[1].startswith(wanted[1])


def _type(found: object) -> str:
    return found if isinstance(found, str) else "nested"
