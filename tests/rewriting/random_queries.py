"""Queries at random, and others that differ from them in one step: what goes into an operator.

A query is built twice: over streams, for its plan, and over rows, for its result.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

DDL = "k STRING, r STRING, v BIGINT, w BIGINT, at TIMESTAMP, a ARRAY<BIGINT>, b ARRAY<BIGINT>"
COLUMNS = ("k", "r", "v", "w", "at", "a", "b")
Step = tuple[Any, ...]
"""A step by its name, and what it is given."""


@dataclass(frozen=True)
class Query:
    """Steps one after the other, and the operator that has state."""

    steps: tuple[Step, ...]
    operator: Step


class Sources:
    """Streams, or rows in their place, by numbers."""

    def __init__(self, session: SparkSession, folder: str | None = None) -> None:
        """Streams of a ``folder``; rows without one."""
        self.session, self._folder = session, folder
        self._made: dict[int, DataFrame] = {}

    def __getitem__(self, number: int) -> DataFrame:
        """The same frame for the same number."""
        if number not in self._made:
            made = self._rows(number) if self._folder is None else self._stream(self._folder)
            self._made[number] = made
        return self._made[number]

    def timed(self, rows: DataFrame) -> DataFrame:
        """Rows with a watermark, which means nothing for rows that are there."""
        return rows if self._folder is None else rows.withWatermark("at", "1 hour")

    def _rows(self, number: int) -> DataFrame:
        return self.session.createDataFrame(_sample(number), DDL).coalesce(1)

    def _stream(self, folder: str) -> DataFrame:
        return self.session.readStream.schema(DDL).json(folder)


def _sample(number: int) -> list[tuple[Any, ...]]:
    chance = random.Random(number)
    return [
        (
            chance.choice("abc"),
            chance.choice(["a", "b", "x", None]),
            chance.choice([None, -2, 1, 2, 3, 5]),
            chance.randrange(-3, 7),
            dt.datetime(2026, 1, 1, chance.randrange(4), chance.randrange(60)),
            [chance.randrange(5) for _ in range(chance.randrange(4))],
            chance.choice([None, [1, 2], [3], [], [4, 1]]),
        )
        for _ in range(24)
    ]


# Tables.


def _table(session: SparkSession, table: Step) -> DataFrame:
    """A table of the columns ``tv``, ``tx`` and ``tk``."""
    base = session.range(9).selectExpr("id % 4 AS tv", "id * 7 % 5 AS tx", "concat('c', id % 3) tk")
    name, *given = table
    return _TABLES[name](base, *given)


def _ranked(base: DataFrame, by: str, order: str, descending: bool) -> DataFrame:
    first = F.desc(order) if descending else F.asc(order)
    ranks = F.row_number().over(Window.partitionBy(by).orderBy(first, "tk", "tv", "tx"))
    return base.withColumn("tx", ranks.cast("bigint"))


def _neighbours(base: DataFrame, function: str) -> DataFrame:
    window = Window.partitionBy("tv").orderBy("tx", "tk")
    return base.withColumn("tx", getattr(F, function)("tx").over(window))


def _with_itself(base: DataFrame, on: str, side: str) -> DataFrame:
    joined = base.alias("x").join(base.alias("y"), F.expr(on))
    return joined.select("x.tv", F.col(f"{side}.tx").alias("tx"), "x.tk")


_TABLES: dict[str, Callable[..., DataFrame]] = {
    "plain": lambda base: base,
    "where": lambda base, condition: base.where(condition),
    "first": lambda base, order, rows: base.orderBy(*map(F.expr, order)).limit(rows),
    "ranked": _ranked,
    "neighbours": _neighbours,
    "with itself": _with_itself,
    "grouped": lambda base, function: base.groupBy("tv").agg(
        F.expr(f"{function}(tx)").alias("tx"), F.min("tk").alias("tk")
    ),
    "exploded": lambda base, value: base.withColumn("tx", F.explode(F.array("tx", F.expr(value)))),
    "united": lambda base, one, other: base.where(one).union(base.where(other)),
}


def _random_table(chance: random.Random) -> Step:
    pick = chance.choice
    orders = [("tx", "tv", "tk"), ("-tx", "tv", "tk"), ("tv", "tx", "tk"), ("tk", "-tv", "tx")]
    joins = ["x.tv = y.tx", "x.tx = y.tv", "x.tv = y.tv AND x.tx < y.tx"]
    return pick(
        [
            ("plain",),
            ("where", pick(["tx > 1", "tv > 1", "tk = 'c1'"])),
            ("first", pick(orders), pick([2, 4])),
            ("ranked", pick(["tv", "tk"]), pick(["tx", "tv"]), pick([True, False])),
            ("neighbours", pick(["lead", "lag"])),
            ("with itself", pick(joins), pick("xy")),
            ("grouped", pick(["min", "max", "sum"])),
            ("exploded", pick(["tv", "tx + 1"])),
            ("united", pick(["tx > 1", "tv > 1"]), pick(["tx > 1", "tv > 1", "true"])),
        ]
    )


# Steps.


def _after(rows: DataFrame, steps: Sequence[Step], sources: Sources) -> DataFrame:
    for name, *given in steps:
        rows = _STEPS[name](rows, sources, *given).select(*COLUMNS)
    return rows


def _joined_table(
    rows: DataFrame, sources: Sources, table: Step, on: str, how: str, column: str, value: str
) -> DataFrame:
    joined = rows.join(_table(sources.session, table), F.expr(on), how)
    return joined.withColumn(column, F.col(value)) if how in ("inner", "left") else joined


def _unpivoted(rows: DataFrame, _: Sources, columns: Sequence[str], value: str) -> DataFrame:
    kept = [each for each in COLUMNS if each not in ("v", "w")]
    long = rows.unpivot(kept, list(columns), "name", "value")
    return long.withColumn("v", F.col("value")).withColumn("w", F.expr(value))


def _exchanged(rows: DataFrame, _: Sources, one: str, other: str) -> DataFrame:
    names = {one: other, other: one}
    return rows.select(*(F.col(names.get(each, each)).alias(each) for each in COLUMNS))


def _in_table(
    rows: DataFrame, sources: Sources, column: str, word: str, table: Step, value: str
) -> DataFrame:
    _table(sources.session, table).createOrReplaceTempView("listed")
    return rows.where(f"{column} {word} (SELECT {value} FROM listed)")  # noqa: S608


def _by_view(rows: DataFrame) -> DataFrame:
    rows.createOrReplaceTempView("as_they_are")
    return rows.sparkSession.sql("WITH same AS (SELECT * FROM as_they_are) SELECT * FROM same")


_WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "an unused column": lambda rows: rows.withColumn("unused", F.lit(1)).where("true"),
    "other names for a while": lambda rows: rows.toDF(*(f"{each}_" for each in COLUMNS)).toDF(
        *COLUMNS
    ),
    "a view": _by_view,
    "spread again": lambda rows: rows.repartition(3),
    "spread by a column": lambda rows: rows.repartition(2, "k"),
    "columns in another order": lambda rows: rows.select(*reversed(COLUMNS)),
    "another name of the table": lambda rows: rows.alias("other").select("other.*"),
    "a hint": lambda rows: rows.hint("rebalance"),
}
"""Steps that change nothing."""
_STEPS: dict[str, Callable[..., DataFrame]] = {
    "where": lambda rows, _, condition: rows.where(condition),
    "column": lambda rows, _, name, value: rows.withColumn(name, F.expr(value)),
    "exploded": lambda rows, _, array, name, function: rows.withColumn(
        name, F.expr(f"{function}({array})")
    ),
    "positions": lambda rows, _, array, name, part: rows.select(
        "*", F.posexplode(array).alias("pos", "col")
    ).withColumn(name, F.col(part).cast("bigint")),
    "table": _joined_table,
    "unpivoted": _unpivoted,
    "exchanged": _exchanged,
    "in table": _in_table,
    "with itself": lambda rows, sources, one, other: _after(rows, one, sources).union(
        _after(rows, other, sources)
    ),
    "with another": lambda rows, sources, one, other: _after(rows, one, sources).union(
        _after(sources[2], other, sources)
    ),
    "in other words": lambda rows, _, way: _WAYS[way](rows),
}
_CONDITIONS = ["v > 1", "w > 1", "k = 'a'", "r <> k", "v IS NOT NULL", "r IS NOT NULL", "v > w"]
_VALUES = [("v", "v + w"), ("v", "w"), ("w", "v"), ("k", "r"), ("k", "upper(k)"), ("r", "k || r")]
_VALUES += [
    ("v", "coalesce(v, 0)"),
    ("w", "CAST(size(a) AS BIGINT)"),
    ("a", "b"),
    ("a", "reverse(a)"),
]
_ON = ["v = tv", "w = tv", "w = tx", "v = tx AND w > tv", "w = tv AND v > tx"]


def _random_step(chance: random.Random, *, inner: bool = False) -> Step:
    pick, table = chance.choice, _random_table(chance)
    hows = ["inner", "left", "left_anti", "left_semi"]
    steps: list[Step] = [
        ("where", pick(_CONDITIONS)),
        ("where", pick(_CONDITIONS)),
        ("column", *pick(_VALUES)),
        ("exploded", pick("ab"), pick("vw"), pick(["explode", "explode_outer"])),
        ("exploded", pick("ab"), pick("vw"), "explode"),
        ("positions", pick("ab"), pick("vw"), pick(["pos", "col"])),
        ("table", table, pick(_ON), pick(hows), pick("vw"), pick(["tx", "tv", "w"])),
        (
            "unpivoted",
            pick([("v", "w"), ("w", "v")]),
            pick(["value", "CAST(ascii(name) AS BIGINT)"]),
        ),
        ("exchanged", *pick([("v", "w"), ("k", "r"), ("a", "b")])),
        ("in table", pick("vw"), "IN", table, pick(["tx", "tv"])),
        ("in table", pick("vw"), pick("<>"), table, pick(["min(tx)", "max(tx)"])),
    ]
    if not inner:
        one, other = ((_random_step(chance, inner=True),) for _ in range(2))
        steps += [("with itself", one, other), ("with itself", (), other)]
        steps += [("with another", one, other)]
    return pick(steps)


# Operators.


def _self_join(rows: DataFrame, sources: Sources, on: str) -> DataFrame:
    timed = sources.timed(rows)
    return timed.join(
        timed.select(*(F.col(each).alias(f"{each}2") for each in COLUMNS)), F.expr(on)
    )


PROCESSOR = ("processor",)
"""Code of the user's that gets the rows by their keys ``k``, in the embedded engine."""
_OPERATORS: dict[str, Callable[..., DataFrame]] = {
    "processor": lambda rows, _: rows,
    "grouped": lambda rows, _, keys, functions: rows.groupBy(*map(F.expr, keys)).agg(
        *map(F.expr, functions)
    ),
    "distinct": lambda rows, _, columns: rows.dropDuplicates(list(columns)).select(*columns),
    "joined": lambda rows, sources, on: _self_join(rows, sources, on).select("v", "w2", "k", "at2"),
    "joined and grouped": lambda rows, sources, on, keys, functions: (
        _self_join(rows, sources, on).groupBy(*keys).agg(*map(F.expr, functions))
    ),
}
_KEYS = [("k",), ("r",), ("k", "r"), ("r", "k"), ("v",), ("w",), ("upper(k)",)]
_FUNCTIONS = [
    "sum(v)",
    "sum(w)",
    "min(v)",
    "max(w)",
    "count(*)",
    "count(v)",
    "sum(v + w)",
    "min(k)",
]
_FUNCTIONS += ["max(r)", "sum(v) FILTER (WHERE w > 1)", "sum(DISTINCT v)"]
_JOINS = ["k = k2 AND at = at2", "k = k2 AND at <= at2", "k = k2 AND at >= at2"]
_JOINS += ["k = r2 AND at = at2", "r = k2 AND at = at2", "k = k2 AND v < v2", "k = k2 AND v > v2"]


def _random_operator(chance: random.Random) -> Step:
    pick = chance.choice
    totals = (pick(["sum(v)", "sum(v2)", "sum(w)", "sum(w2)"]),)
    grouped = ("grouped", pick(_KEYS), tuple(chance.sample(_FUNCTIONS, 2)))
    return pick(
        [
            grouped,
            grouped,
            PROCESSOR,
            ("distinct", pick([("k",), ("r",), ("k", "v"), ("r", "w")])),
            ("joined", pick(_JOINS)),
            ("joined and grouped", pick(_JOINS), pick([("k",), ("k2",), ("r",), ("r2",)]), totals),
        ]
    )


def built(query: Query, sources: Sources) -> DataFrame:
    """The query over streams or over rows."""
    name, *given = query.operator
    return _OPERATORS[name](_after(sources[1], query.steps, sources), sources, *given)


def mode_of(query: Query) -> str:
    """The output mode that Spark has for its operators."""
    return "update" if query.operator[0] == "grouped" else "append"


def random_query(chance: random.Random) -> Query:
    """Up to four steps, and an operator."""
    steps = tuple(_random_step(chance) for _ in range(chance.randrange(5)))
    return Query(steps, _random_operator(chance))


def in_other_words(query: Query, chance: random.Random) -> Query:
    """The same query with a step that does nothing."""
    at, way = chance.randrange(len(query.steps) + 1), chance.choice(list(_WAYS))
    return replace(query, steps=(*query.steps[:at], ("in other words", way), *query.steps[at:]))


def changed(query: Query, chance: random.Random) -> Query:
    """The query with another step, one more or less, or two of them exchanged."""
    steps, at = list(query.steps), chance.randrange(max(1, len(query.steps)))
    way = chance.choice(["operator", "other", "other", "less", "more", "exchanged"])
    if way == "operator" or not steps:
        return replace(query, operator=_other(query.operator, lambda: _random_operator(chance)))
    if way == "other":
        steps[at] = _other(steps[at], lambda: _random_step(chance))
    elif way == "less":
        del steps[at]
    elif way == "more":
        steps.insert(at, _random_step(chance))
    else:
        steps[at - 1], steps[at] = steps[at], steps[at - 1]
    return replace(query, steps=tuple(steps))


def _other(step: Step, make: Callable[[], Step]) -> Step:
    """Another step of the same name that differs in one thing alone, where one is found soon."""
    for _ in range(300):
        made = make()
        if made[0] == step[0] and sum(one != two for one, two in zip(made, step, strict=True)) == 1:
            return made
    return step
