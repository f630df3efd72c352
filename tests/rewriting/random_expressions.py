"""Expressions at random, one that differs from it in a part, and the same ones in other words."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

DDL = (
    "n BIGINT, i INT, s STRING, j STRING, b BINARY, d DOUBLE, a ARRAY<INT>, t TIMESTAMP, "
    "st STRUCT<x: INT, y: STRING>"
)
_SMALL = st.integers(-3, 12)
_WORDS = ["", "a", "ab", "b,1", "A", "x|2", "3,4", "zz", "7"]
_FIELDS = ["p BIGINT", "q BIGINT", "r INT", "text STRING"]


@dataclass(frozen=True)
class Made:
    """An expression of SQL: a ``template`` with places for ``parts``, and a ``kind`` of value.

    ``{v0}`` and ``{v1}`` in a template are the variables of its lambda, ``{=…}`` parts whose order
    means nothing.
    """

    kind: str
    template: str
    parts: tuple[Made, ...] = ()
    values: tuple[str, ...] = ()

    def sql(self, style: Style) -> str:
        """As SQL, in one of the ways in which people write it."""
        names = style.variables()
        values = style.ordered(self.values)
        parts = [each.sql(style) for each in self.parts]
        listed = ", ".join(values)
        return self.template.format(*parts, v0=names[0], v1=names[1], values=listed)

    @property
    def every(self) -> Sequence[Made]:
        """The expression and all within it."""
        return [self, *(inner for each in self.parts for inner in each.every)]

    def with_part(self, part: Made, other: Made) -> Made:
        """The expression with another one in place of a part of it."""
        if self is part:
            return other
        return replace(self, parts=tuple(each.with_part(part, other) for each in self.parts))


class Style:
    """How expressions are written: names of variables, and the order of values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def variables(self) -> list[str]:
        """Two names for the variables of a lambda, which no lambda around it has."""
        number = self._random.randrange(10**9)
        return [f"v{number}", f"w{number}"]

    def ordered(self, values: Sequence[str]) -> list[str]:
        """Some values in another order."""
        return self._random.sample(values, len(values))


def _literals(kind: str) -> st.SearchStrategy[Made]:
    if kind == "string":
        texts = st.sampled_from(_WORDS).map(lambda each: f"'{each}'")
    elif kind == "boolean":
        texts = st.sampled_from(["true", "false"])
    elif kind == "array":
        texts = st.lists(_SMALL, min_size=1, max_size=3).map(lambda v: f"array{tuple(v)}")
        texts = texts.map(lambda each: each.replace(",)", ")"))
    else:
        texts = _SMALL.map(lambda each: f"{each}L")
    return texts.map(lambda text: Made(kind, text.replace("{", "{{")))


_COLUMNS = {
    "long": ["n", "CAST(i AS BIGINT)", "CAST(st.x AS BIGINT)"],
    "string": ["s", "j", "st.y"],
    "array": ["a"],
    "boolean": ["b IS NULL"],
}
_TEMPLATES: dict[str, list[tuple[str, list[str]]]] = {
    "long": [
        ("({} + {})", ["long", "long"]),
        ("({} - {})", ["long", "long"]),
        ("({} * {})", ["long", "long"]),
        ("coalesce({}, {})", ["long", "long"]),
        ("CAST(length({}) AS BIGINT)", ["string"]),
        ("CASE WHEN {} THEN {} ELSE {} END", ["boolean", "long", "long"]),
        ("CAST(hash({}) AS BIGINT)", ["string"]),
        ("CAST(size({}) AS BIGINT)", ["array"]),
        ("aggregate({}, {}, ({v0}, {v1}) -> {v0} * 3 + {v1})", ["array", "long"]),
        ("aggregate({}, {}, ({v0}, {v1}) -> {v0} - {v1})", ["array", "long"]),
        ("CAST(element_at(transform({}, {v0} -> {v0} + {}), 1) AS BIGINT)", ["array", "long"]),
        ("unix_timestamp(date_trunc('hour', t)) + {}", ["long"]),
        ("CAST(array_position({}, 3) AS BIGINT)", ["array"]),
        ("greatest({}, {})", ["long", "long"]),
        ("pmod({}, 7)", ["long"]),
    ],
    "string": [
        ("upper({})", ["string"]),
        ("substring({}, 1, 2)", ["string"]),
        ("substring({}, 2, 2)", ["string"]),
        ("concat({}, {})", ["string", "string"]),
        ("regexp_replace({}, 'a', {})", ["string", "string"]),
        ("CAST({} AS STRING)", ["long"]),
        ("to_csv(named_struct('x', {}, 'y', {}))", ["string", "long"]),
        ("to_csv(named_struct('x', {}, 'y', {}), map('sep', '|'))", ["string", "long"]),
        ("to_json(named_struct('x', {}))", ["string"]),
        ("get_json_object(j, '$.p')", []),
        ("hex(b)", []),
        ("date_format(t, 'HH')", []),
        ("lpad({}, 4, '*')", ["string"]),
        ("split({}, ',')[0]", ["string"]),
    ],
    "boolean": [
        ("({} > {})", ["long", "long"]),
        ("({} = {})", ["string", "string"]),
        ("({} AND {})", ["boolean", "boolean"]),
        ("({} OR {})", ["boolean", "boolean"]),
        ("NOT {}", ["boolean"]),
        ("{} LIKE 'a%'", ["string"]),
        ("{} LIKE 'a|%%' ESCAPE '|'", ["string"]),
        ("exists({}, {v0} -> {v0} > {})", ["array", "long"]),
        ("forall({}, {v0} -> exists(a, {v1} -> {v1} >= {v0}))", ["array"]),
        ("({} IS NULL)", ["long"]),
    ],
    "array": [
        ("transform({}, {v0} -> {v0} + 1)", ["array"]),
        ("transform({}, ({v0}, {v1}) -> {v0} * {v1})", ["array"]),
        ("filter({}, {v0} -> {v0} > {})", ["array", "long"]),
        ("sort_array({})", ["array"]),
        ("array_distinct({})", ["array"]),
    ],
}


def _parsed() -> st.SearchStrategy[Made]:
    """A field of parsed text, of JSON whatever others are declared."""
    names = st.lists(st.sampled_from(_FIELDS), min_size=1, max_size=4, unique=True)
    of_json = names.map(
        lambda found: Made("long", f"from_json(j, '{', '.join([*found, 'z BIGINT'])}').z")
    )
    of_line = st.sampled_from(["", ", map('sep', '|')"]).map(
        lambda options: Made("long", f"from_csv(s, 'w STRING, z BIGINT'{options}).z")
    )
    return (
        of_json
        | of_line
        | st.sampled_from(["p", "q"]).map(
            lambda name: Made("long", f"from_json(j, 'p BIGINT, q BIGINT').{name}")
        )
    )


def _one_of_many(kind: str, inner: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    values = st.lists(st.integers(-3, 40), min_size=2, max_size=16, unique=True)
    quote = "'{}'" if kind == "string" else "{}L"

    def made(part: Made, found: Sequence[int]) -> Made:
        template = "{} IN ({values})"
        return Made("boolean", template, (part,), tuple(quote.format(each) for each in found))

    return st.builds(made, inner, values)


_BYTES = st.lists(st.integers(0, 40), min_size=1, max_size=14, unique=True).map(
    lambda found: Made("boolean", "b IN ({values})", (), tuple(f"X'{n:02x}'" for n in found))
)
_FROM_A_TABLE = "(n > (SELECT {}(id) FROM range({})))"
_SUBQUERY = st.builds(
    lambda kind, rows: Made("boolean", _FROM_A_TABLE.format(kind, rows)),
    st.sampled_from(["max", "min", "sum"]),
    st.integers(1, 6),
)


@lru_cache
def expressions(kind: str, depth: int = 3) -> st.SearchStrategy[Made]:
    """Expressions of a kind of value."""
    columns = st.sampled_from([Made(kind, each) for each in _COLUMNS[kind]])
    leaves = columns | columns | _literals(kind)
    if not depth:
        return leaves
    made = [leaves]
    for template, kinds in _TEMPLATES[kind]:
        parts = st.tuples(*(expressions(each, depth - 1) for each in kinds))
        made.append(st.builds(Made, st.just(kind), st.just(template), parts))
    if kind == "long":
        made.append(_parsed())
    if kind == "boolean":
        made += [_one_of_many(each, expressions(each, depth - 1)) for each in ("long", "string")]
        made += [_BYTES, _SUBQUERY]
    return st.one_of(made)


@st.composite
def changes(draw: Any) -> tuple[Made, Made]:
    """An expression, and one that differs from it in one part."""
    kind = draw(st.sampled_from(["long", "string", "boolean"]))
    old = draw(expressions(kind))
    part = draw(st.sampled_from(old.every))
    return old, old.with_part(part, draw(expressions(part.kind, 1)))


def sample_rows(count: int = 300) -> list[tuple[Any, ...]]:
    """Rows in which most expressions have several values, and some are null."""
    chosen = random.Random(1)
    first = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def value(made: Any) -> Any:
        return None if chosen.random() < 0.1 else made

    return [
        (
            value(chosen.randrange(-3, 12)),
            value(chosen.randrange(-3, 40)),
            value(chosen.choice(_WORDS)),
            value(f'{{"p": {row % 7}, "q": {row % 5}, "z": {row % 3}, "r": 1, "text": "x"}}'),
            value(bytes([chosen.randrange(40)])),
            value(chosen.random()),
            value([chosen.randrange(-3, 12) for _ in range(chosen.randrange(4))]),
            value(first + dt.timedelta(minutes=37 * row)),
            value((chosen.randrange(4), chosen.choice(_WORDS))),
        )
        for row in range(count)
    ]
