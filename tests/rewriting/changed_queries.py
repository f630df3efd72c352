"""A catalogue of changes of a query's code: Spark's reaction to each, and what `plan` says of it.

`docs/changes.md` is its table, which `scripts/changes_page.py` writes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

Rows = Annotated[DataFrame, "k STRING, region STRING, v BIGINT, at TIMESTAMP"]


@dataclass(frozen=True)
class Change:
    """A change by its ``name``: the ``old`` and the ``new`` code, and an output ``mode``.

    ``starts`` says whether Spark starts the new code on the old checkpoint; ``verdict`` is the
    gravest that `plan` gives. ``new_mode`` is set where the output mode changes too.
    """

    group: str
    name: str
    old: Callable[..., DataFrame]
    new: Callable[..., DataFrame]
    starts: bool
    verdict: str
    mode: str = "update"
    new_mode: str = ""

    @property
    def sources(self) -> int:
        """How many streams the old code reads."""
        return self.old.__code__.co_argcount


CHANGES: dict[str, Change] = {}
TABLES = os.environ.get("STATEMIGRATE_TABLES", f"{tempfile.gettempdir()}/tables-{os.getpid()}")
"""The folder of tables that queries are joined with."""


def _add(group: str, old: Any, mode: str, *changes: tuple[Any, ...]) -> None:
    for name, new, starts, verdict, *new_mode in changes:
        made = Change(group, name, old, new, starts, verdict, mode, *new_mode)
        assert f"{group}: {name}" not in CHANGES, name
        CHANGES[f"{group}: {name}"] = made


YES, NO = True, False
SAME, GOES_ON, LIVE = "same", "goes on", "live"
UNNOTICED, REWRITE = "unnoticed", "rewrite"


def _typed(make: Callable[[DataFrame], DataFrame]) -> Callable[..., DataFrame]:
    def query(rows: Rows) -> DataFrame:
        return make(rows)

    return query


def _two(make: Callable[[DataFrame, DataFrame], DataFrame]) -> Callable[..., DataFrame]:
    def query(rows: Rows, others: Rows) -> DataFrame:
        return make(rows, others)

    return query


# Keys.


def _keyed(*keys: str) -> Callable[..., DataFrame]:
    return _typed(
        lambda r: (
            r.where("v > 0").groupBy(*map(F.expr, keys)).agg(F.expr("min(v)"), F.expr("count(*)"))
        )
    )


_add(
    "Keys of an aggregation",
    _keyed("k"),
    "update",
    ("the key has another name", _keyed("k AS customer"), YES, SAME),
    ("the key is another expression", _keyed("upper(k) AS k"), YES, UNNOTICED),
    ("the key is another column", _keyed("region"), YES, UNNOTICED),
    ("the key has another type", _keyed("CAST(k AS BIGINT) AS k"), NO, REWRITE),
    ("a key is added", _keyed("k", "region"), NO, REWRITE),
    ("the key is removed", _keyed(), NO, REWRITE),
)
_add(
    "Keys of an aggregation",
    _keyed("k", "region"),
    "update",
    ("two keys are exchanged", _keyed("region", "k"), YES, UNNOTICED),
    ("one of two keys is removed", _keyed("k"), NO, REWRITE),
)

_add(
    "Keys of an aggregation",
    _typed(lambda r: r.groupBy(F.udf(_doubled, "bigint")("v").alias("d")).count()),
    "update",
    (
        "the key's Python function has another name",
        _typed(lambda r: r.groupBy(F.udf(_twice, "bigint")("v").alias("d")).count()),
        YES,
        SAME,
    ),
    (
        "the key's Python function has other code",
        _typed(lambda r: r.groupBy(F.udf(_tripled, "bigint")("v").alias("d")).count()),
        YES,
        UNNOTICED,
    ),
)

# Aggregate functions.


def _doubled(v):
    return v * 2


def _tripled(v):
    return v * 3


def _twice(v):
    return v * 2


def _each_once(parts):
    for part in parts:
        yield part.rename(columns={"v": "x"})


def _every_once(parts):
    for part in parts:
        yield part.rename(columns={"v": "x"})


def _each_twice(parts):
    for part in parts:
        yield part.assign(v=part["v"] * 2).rename(columns={"v": "x"})


def _of(*functions: str) -> Callable[..., DataFrame]:
    return _typed(lambda r: r.groupBy("k").agg(*map(F.expr, functions)))


def _by_python(function: Any) -> Callable[..., DataFrame]:
    return _typed(lambda r: r.groupBy("k").agg(F.sum(F.udf(function, "bigint")("v"))))


_add(
    "Aggregate functions",
    _of("min(v)", "count(*)"),
    "update",
    ("count(*) becomes count(1)", _of("min(v)", "count(1)"), YES, SAME),
    ("a result has another name", _of("min(v) AS low", "count(*) AS n"), YES, SAME),
    ("a result is computed further", _of("min(v) + 1", "count(*) * 2"), YES, SAME),
    ("max in place of min", _of("max(v)", "count(*)"), YES, UNNOTICED),
    ("a function has another argument", _of("min(-v)", "count(*)"), YES, UNNOTICED),
    ("count(*) becomes count(v)", _of("min(v)", "count(v)"), YES, UNNOTICED),
    ("two functions are exchanged", _of("count(*)", "min(v)"), YES, UNNOTICED),
    ("a function gets a filter", _of("min(v) FILTER (WHERE v > 5)", "count(*)"), YES, UNNOTICED),
    ("a function is added", _of("min(v)", "count(*)", "max(v)"), NO, REWRITE),
    ("a function is removed", _of("min(v)"), NO, REWRITE),
    (
        "rows are filtered after it",
        _typed(lambda r: r.groupBy("k").agg(F.min("v"), F.expr("count(*)")).where("`min(v)` > 1")),
        YES,
        SAME,
    ),
)
_add(
    "Aggregate functions",
    _of("sum(v)", "sum(length(k))"),
    "update",
    ("two sums are exchanged", _of("sum(length(k))", "sum(v)"), YES, UNNOTICED),
    ("a sum of another expression", _of("sum(v * 2)", "sum(length(k))"), YES, UNNOTICED),
    ("a sum has another type", _of("sum(CAST(v AS DOUBLE))", "sum(length(k))"), NO, REWRITE),
)
_add(
    "Aggregate functions",
    _of("first(v)", "last(v)"),
    "update",
    ("first and last are exchanged", _of("last(v)", "first(v)"), YES, UNNOTICED),
    ("first ignores nulls", _of("first(v, true)", "last(v)"), YES, UNNOTICED),
)
_add(
    "Aggregate functions",
    _of("collect_list(v)"),
    "update",
    ("collect_set in place of collect_list", _of("collect_set(v)"), YES, UNNOTICED),
)
_add(
    "Aggregate functions",
    _of("stddev(v)"),
    "update",
    ("variance in place of stddev", _of("variance(v)"), YES, SAME),
    ("skewness in place of stddev", _of("skewness(v)"), NO, REWRITE),
)
_add(
    "Aggregate functions",
    _by_python(_doubled),
    "update",
    ("a Python function has other code", _by_python(_tripled), YES, UNNOTICED),
    ("a Python function has another name", _by_python(_twice), YES, SAME),
    ("a lambda with the same code in its place", _by_python(lambda v: v * 2), YES, SAME),
    ("a lambda with other code", _by_python(lambda v: v * 3), YES, UNNOTICED),
)


class _Rate:
    """An object of the user's, which a Python function calls."""

    def __init__(self, rate: int) -> None:
        self.rate = rate

    def times(self, value: int) -> int:
        return value * self.rate


def _by_object(rate: int) -> Callable[..., DataFrame]:
    own = _Rate(rate)

    def rated(v):
        return own.times(v)

    return _by_python(rated)


_add(
    "Aggregate functions",
    _by_object(2),
    "update",
    ("a Python function takes an object that is the same", _by_object(2), YES, SAME),
    ("a Python function takes an object with another attribute", _by_object(3), YES, UNNOTICED),
)


def _parsed(ddl: str, total: str, **options: str) -> Callable[..., DataFrame]:
    """Fields of JSON, as code has it that reads Kafka."""

    def make(rows: DataFrame) -> DataFrame:
        text = F.to_json(F.struct("k", "v", F.lit(1).alias("w")))
        parsed = rows.select(F.from_json(text, ddl, options).alias("j")).select("j.*")
        return parsed.groupBy("k").agg(F.expr(total))

    return _typed(make)


_add(
    "Fields of JSON",
    _parsed("k STRING, v BIGINT, w BIGINT", "sum(v)"),
    "update",
    ("one more", _parsed("k STRING, v BIGINT, w BIGINT, z INT", "sum(v)"), YES, SAME),
    ("in another order", _parsed("w BIGINT, v BIGINT, k STRING", "sum(v)"), YES, SAME),
    ("one less", _parsed("k STRING, v BIGINT", "sum(v)"), YES, SAME),
    ("another one", _parsed("k STRING, v BIGINT, w BIGINT", "sum(w)"), YES, UNNOTICED),
    (
        "one of another type",
        _parsed("k STRING, v INT, w BIGINT", "sum(CAST(v AS BIGINT))"),
        YES,
        UNNOTICED,
    ),
    (
        "another way to read them",
        _parsed("k STRING, v BIGINT, w BIGINT", "sum(v)", allowSingleQuotes="false"),
        YES,
        UNNOTICED,
    ),
)

# Filters.


def _filtered(*conditions: str) -> Callable[..., DataFrame]:
    def make(rows: DataFrame) -> DataFrame:
        for each in conditions:
            rows = rows.where(each)
        return rows.groupBy("k").count()

    return _typed(make)


_add(
    "Filters before an operator",
    _filtered("v > 0 AND region <> 'r1'"),
    "update",
    ("conditions in another order", _filtered("region <> 'r1' AND v > 0"), YES, SAME),
    ("conditions one after the other", _filtered("v > 0", "region <> 'r1'"), YES, SAME),
    ("a condition in other words", _filtered("NOT (v <= 0)", "region <> 'r1'"), YES, SAME),
    ("another condition", _filtered("v > 10 AND region <> 'r1'"), YES, UNNOTICED),
    ("one condition more", _filtered("v > 0", "region <> 'r1'", "v < 90"), YES, UNNOTICED),
    ("one condition less", _filtered("v > 0"), YES, UNNOTICED),
)

_MANY = ", ".join(f"'r{number}'" for number in range(12))

_add(
    "Filters before an operator",
    _filtered(f"region IN ({_MANY})"),
    "update",
    (
        "the values of a long list in another order",
        _filtered(f"region IN ('r11', {_MANY})"),
        YES,
        SAME,
    ),
    (
        "another value in a long list",
        _filtered(f"region IN ({_MANY.replace('r3', 'x3')})"),
        YES,
        UNNOTICED,
    ),
)
_add(
    "Filters before an operator",
    _filtered("v > (SELECT max(id) FROM range(3))"),
    "update",
    (
        "another number of rows in a subquery's table",
        _filtered("v > (SELECT max(id) FROM range(4))"),
        YES,
        UNNOTICED,
    ),
)

# That a value is there, which Spark also asks by itself.

_add(
    "Filters before an operator",
    _filtered("region IS NOT NULL"),
    "update",
    (
        "a condition that a value is there, in other words",
        _filtered("NOT isnull(region)"),
        YES,
        SAME,
    ),
    ("rows without a value stay", _filtered(), YES, UNNOTICED),
    ("another value must be there", _filtered("v IS NOT NULL"), YES, UNNOTICED),
)
_add(
    "Filters before an operator",
    _filtered("v > 0"),
    "update",
    ("a value that is compared must be there", _filtered("v > 0", "v IS NOT NULL"), YES, SAME),
)

# The clock and chance, which are others in each run of the same code.

_add(
    "Filters before an operator",
    _filtered("at > current_timestamp() - INTERVAL 1 DAY", "rand() < 0.5", "v > rand(7)"),
    "update",
    (
        "a condition on the clock or on chance stays",
        _filtered("at > now() - INTERVAL 1 DAY", "rand() < 0.5", "v > rand(7)"),
        YES,
        SAME,
    ),
    (
        "rows of another time before the clock's",
        _filtered("at > current_timestamp() - INTERVAL 2 DAYS", "rand() < 0.5", "v > rand(7)"),
        YES,
        UNNOTICED,
    ),
    (
        "another seed of chance, of which Spark takes a new one in each batch",
        _filtered("at > current_timestamp() - INTERVAL 1 DAY", "rand() < 0.5", "v > rand(8)"),
        YES,
        SAME,
    ),
)

# Tables that rows are joined with.


def _table(
    name: str = "regions",
    how: str = "inner",
    on: str = "r.region = t.region",
    of_table: str = "true",
    total: str = "sum(r.v * t.weight)",
) -> Callable[..., DataFrame]:
    """Rows joined with a table of files; the name of each table is that of its folder."""

    def make(rows: DataFrame) -> DataFrame:
        spark, folder = rows.sparkSession, Path(TABLES)
        made = folder / name
        if not made.exists():
            listed = spark.range(4).selectExpr("concat('r', id) AS region", "id + 1 AS weight")
            listed.write.parquet(str(made))
        table = spark.read.parquet(str(made)).where(of_table).alias("t")
        return rows.alias("r").join(table, F.expr(on), how).groupBy("r.k").agg(F.expr(total))

    return _typed(make)


_add(
    "Tables that rows are joined with",
    _table(),
    "update",
    ("the same table in other words", _table(on="t.region = r.region"), YES, SAME),
    ("another table", _table("countries"), YES, UNNOTICED),
    ("another type of the join", _table(how="left"), YES, UNNOTICED),
    ("another condition of the join", _table(on="r.k = t.region"), YES, UNNOTICED),
    ("rows of the table are filtered", _table(of_table="weight > 1"), YES, UNNOTICED),
    ("another column of the table", _table(total="sum(r.v * length(t.region))"), YES, UNNOTICED),
    (
        "the join is removed",
        _typed(lambda r: r.groupBy("k").agg(F.sum("v"))),
        YES,
        UNNOTICED,
    ),
)

# Steps that make other rows.


def _parts(make: Callable[[DataFrame], DataFrame], total: str = "sum(x)") -> Any:
    return _typed(lambda r: make(r).groupBy("k").agg(F.expr(total)))


def _exploded(of: str, word: str = "explode") -> Callable[[DataFrame], DataFrame]:
    return lambda r: r.select("k", F.expr(f"{word}({of})").alias("x"))


def _mapped(function: Any) -> Any:
    return _parts(lambda r: r.select("k", "v").mapInPandas(function, "k STRING, x BIGINT"))


_add(
    "Steps before an operator",
    _parts(_exploded("array(v, v + 1)")),
    "update",
    ("another array is exploded", _parts(_exploded("array(v, v + 2)")), YES, UNNOTICED),
    (
        "empty arrays give a row",
        _parts(_exploded("filter(array(v), e -> e > 3)", "explode_outer")),
        YES,
        UNNOTICED,
    ),
    (
        "another function of the exploded column",
        _parts(_exploded("array(v, v + 1)"), "sum(x * 2)"),
        YES,
        UNNOTICED,
    ),
    ("it is not exploded any more", _parts(lambda r: r.selectExpr("k", "v AS x")), YES, UNNOTICED),
)
_add(
    "Steps before an operator",
    _parts(lambda r: r.selectExpr("k", "v AS x")),
    "update",
    (
        "the stream is united with itself",
        _parts(lambda r: r.selectExpr("k", "v AS x").union(r.selectExpr("k", "v AS x"))),
        NO,
        REWRITE,
    ),
)
_add(
    "Steps before an operator",
    _mapped(_each_once),
    "update",
    ("a function of pandas has another name", _mapped(_every_once), YES, SAME),
    ("a function of pandas has other code", _mapped(_each_twice), YES, UNNOTICED),
)

_add(
    "Steps before an operator",
    _typed(lambda r: r.where("v > 5").union(r).groupBy("k").count()),
    "update",
    (
        "both parts of a union have a filter, in place of one",
        _typed(lambda r: r.where("v > 5").union(r.where("v > 5")).groupBy("k").count()),
        YES,
        UNNOTICED,
    ),
)

# Tables that the code itself makes.

_AREAS = "SELECT * FROM VALUES ('k1', 'north', 1), ('k2', 'south', 2) AS areas(k, area, low)"
_OTHER_AREAS = _AREAS.replace("k2", "k3")


def _counts(make: Callable[[DataFrame], DataFrame]) -> Callable[..., DataFrame]:
    return _typed(lambda r: make(r).groupBy("k").count())


def _with_areas(
    how: str = "inner",
    areas: str = _AREAS,
    on: str = "r.k = areas.k",
    hint: str = "broadcast",
) -> Callable[..., DataFrame]:
    def make(rows: DataFrame) -> DataFrame:
        table = rows.sparkSession.sql(areas).alias("areas").hint(hint)
        joined = rows.alias("r").join(table, F.expr(on), how)
        return joined.groupBy("r.k").agg(F.sum("v"))

    return _typed(make)


_add(
    "Tables that rows are joined with",
    _with_areas(),
    "update",
    ("the table is another", _with_areas(areas=_OTHER_AREAS), YES, UNNOTICED),
    ("a column that nothing reads", _with_areas(areas=_AREAS.replace("south", "")), YES, SAME),
    ("the table is filtered", _with_areas(areas=f"{_AREAS} WHERE low > 1"), YES, UNNOTICED),
    ("a left join", _with_areas("left"), YES, UNNOTICED),
    ("rows that are in the table alone", _with_areas("left_semi"), YES, UNNOTICED),
    ("another key", _with_areas(on="r.region = areas.k"), YES, UNNOTICED),
    ("a condition more", _with_areas(on="areas.k = r.k AND v > low"), YES, UNNOTICED),
    ("Spark joins it in another way", _with_areas(hint="merge"), YES, SAME),
    (
        "the table is not joined any more",
        _typed(lambda r: r.groupBy("k").agg(F.sum("v"))),
        YES,
        UNNOTICED,
    ),
)
_add(
    "Tables that rows are joined with",
    _counts(lambda r: r),
    "update",
    (
        "a table is joined",
        _counts(lambda r: r.join(r.sparkSession.sql(_AREAS), "k")),
        YES,
        UNNOTICED,
    ),
    (
        "a table is joined afterwards",
        _typed(lambda r: r.groupBy("k").count().join(r.sparkSession.sql(_AREAS), "k")),
        YES,
        SAME,
    ),
    (
        "rows that a table has, by a subquery",
        _counts(lambda r: r.where("v IN (SELECT id FROM range(30))")),
        YES,
        UNNOTICED,
    ),
    (
        "a bound that a subquery computes",
        _counts(lambda r: r.where("v > (SELECT count(*) FROM range(3))")),
        YES,
        UNNOTICED,
    ),
)

_add(
    "Tables that rows are joined with",
    _counts(lambda r: r.where("v NOT IN (SELECT id FROM range(30))")),
    "update",
    (
        "`NOT EXISTS` in place of `NOT IN`",
        _counts(lambda r: r.where("NOT EXISTS (SELECT 1 FROM range(30) WHERE id = v)")),
        YES,
        UNNOTICED,
    ),
)


def _with_cached(condition: str) -> Callable[..., DataFrame]:
    def make(rows: DataFrame) -> DataFrame:
        table = rows.sparkSession.range(30).where(condition).cache()
        return rows.join(table, F.expr("v = id"))

    return _counts(make)


_add(
    "Tables that rows are joined with",
    _with_cached("id > 3"),
    "update",
    ("a cached table has another filter", _with_cached("id > 4"), YES, UNNOTICED),
    ("a filter of a cached table is written otherwise", _with_cached("3 < id"), YES, SAME),
)


def _with_last(rows: DataFrame, order: str) -> DataFrame:
    """Rows joined with 9 numbers, those that come first in an order."""
    table = rows.sparkSession.range(30).orderBy(F.expr(order)).limit(9)
    return rows.join(table, F.expr("v = id"))


def _with_ranks(rows: DataFrame, order: Any) -> DataFrame:
    ranks = F.row_number().over(Window.partitionBy(F.col("id") % 3).orderBy(order))
    table = rows.sparkSession.range(30).withColumn("n", ranks)
    return rows.join(table, F.expr("v = id AND n < 3"))


_add(
    "Tables that rows are joined with",
    _counts(lambda r: _with_last(r, "-id")),
    "update",
    ("its first rows by another order", _counts(lambda r: _with_last(r, "id")), YES, UNNOTICED),
)
_add(
    "Tables that rows are joined with",
    _counts(lambda r: _with_ranks(r, "id")),
    "update",
    ("ranks by another order", _counts(lambda r: _with_ranks(r, F.desc("id"))), YES, UNNOTICED),
)


def _split_by(by: str = ",", outer: bool = False) -> Callable[..., DataFrame]:
    function = F.explode_outer if outer else F.explode
    return _counts(lambda r: r.withColumn("w", function(F.split("region", by))))


def _as_they_are(frames: Any) -> Any:
    yield from frames


def _first_alone(frames: Any) -> Any:
    for frame in frames:
        yield frame.head(1)


def _rows_by(function: Any) -> Callable[..., DataFrame]:
    return _counts(lambda r: r.mapInPandas(function, r.schema))


_add(
    "Steps before an operator",
    _counts(lambda r: r),
    "update",
    ("one row becomes several", _split_by(), YES, UNNOTICED),
    (
        "columns become rows",
        _counts(
            lambda r: r.unpivot("k", [F.col("v"), F.length("region").cast("bigint")], "n", "w")
        ),
        YES,
        UNNOTICED,
    ),
    ("a function makes rows", _rows_by(_as_they_are), YES, UNNOTICED),
    ("the stream is read twice", _counts(lambda r: r.union(r)), NO, REWRITE),
    ("rows are spread again", _counts(lambda r: r.repartition(3)), YES, SAME),
    ("a column is added before it", _counts(lambda r: r.withColumn("z", F.col("v"))), YES, SAME),
)
_add(
    "Steps before an operator",
    _split_by(),
    "update",
    ("split elsewhere", _split_by(";"), YES, UNNOTICED),
    ("rows without values stay", _split_by(outer=True), YES, UNNOTICED),
)
_add(
    "Steps before an operator",
    _rows_by(_as_they_are),
    "update",
    ("the function that makes them has other code", _rows_by(_first_alone), YES, UNNOTICED),
)

# Windows and watermarks.


def _windowed(
    window: str | None = None, delay: str | None = "10 minutes", by: str = "at"
) -> Callable[..., DataFrame]:
    def make(rows: DataFrame) -> DataFrame:
        timed = rows.withColumn("later", F.col("at") + F.expr("INTERVAL 1 DAY"))
        timed = timed if delay is None else timed.withWatermark(by, delay)
        made = F.expr(window or f"window({by}, '1 minute')")
        return timed.groupBy(made, "k").agg(F.sum("v"))

    return _typed(make)


_add(
    "Windows and watermarks",
    _windowed(),
    "update",
    ("windows of another length", _windowed("window(at, '1 hour')"), YES, UNNOTICED),
    ("windows that slide", _windowed("window(at, '1 minute', '30 seconds')"), YES, UNNOTICED),
    (
        "windows that begin elsewhere",
        _windowed("window(at, '1 minute', '1 minute', '10 seconds')"),
        YES,
        UNNOTICED,
    ),
    ("windows of another column", _windowed(by="later"), YES, UNNOTICED),
    ("a longer delay", _windowed(delay="1 hour"), YES, GOES_ON),
    ("a shorter delay", _windowed(delay="1 minute"), YES, GOES_ON),
    ("no watermark", _windowed(delay=None), YES, UNNOTICED),
    ("another output mode", _windowed(), YES, GOES_ON, "append"),
    ("all groups are given out each time", _windowed(), YES, UNNOTICED, "complete"),
    ("windows become sessions", _windowed("session_window(at, '1 minute')"), NO, REWRITE, "append"),
)
_add(
    "Windows and watermarks",
    _windowed("session_window(at, '1 minute')"),
    "append",
    ("another gap", _windowed("session_window(at, '5 minutes')"), YES, UNNOTICED),
    (
        "a gap of each row",
        _windowed("session_window(at, CASE WHEN v > 5 THEN '5 minutes' ELSE '1 minute' END)"),
        YES,
        UNNOTICED,
    ),
)


def _pivoted(*regions: str) -> Callable[..., DataFrame]:
    def make(rows: DataFrame) -> DataFrame:
        keyed = rows.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute"), "k")
        return keyed.pivot("region", list(regions)).agg(F.sum("v"))

    return _typed(make)


_add(
    "Windows and watermarks",
    _pivoted("r0", "r1"),
    "append",
    ("columns of a pivot in another order", _pivoted("r1", "r0"), YES, UNNOTICED),
)

# Deduplication.


def _distinct(
    *columns: str, within: bool = False, before: str = "true", after: str = "true"
) -> Callable[..., DataFrame]:
    def make(rows: DataFrame) -> DataFrame:
        timed = rows.where(before).withWatermark("at", "10 minutes")
        drop = timed.dropDuplicatesWithinWatermark if within else timed.dropDuplicates
        return drop([*columns]).where(after)

    return _typed(make)


_add(
    "Deduplication",
    _distinct("k", "at"),
    "append",
    ("by another column", _distinct("region", "at"), YES, UNNOTICED),
    ("by a column more", _distinct("k", "region", "at"), NO, REWRITE),
    ("by columns in another order", _distinct("at", "k"), NO, REWRITE),
    ("rows are filtered before", _distinct("k", "at", before="v > 0"), YES, UNNOTICED),
    ("rows are filtered afterwards", _distinct("k", "at", after="length(region) > 0"), YES, SAME),
    ("within the watermark", _distinct("k", "at", within=True), NO, REWRITE),
)

# Joins.


def _joined(
    how: str = "inner",
    on: str = "l.k = r.k",
    within: str = "1 hour",
    left: str = "true",
    value: str = "v",
    columns: tuple[str, ...] = ("l.k", "l.v", "r.v AS other"),
    swapped: bool = False,
) -> Callable[..., DataFrame]:
    def make(rows: DataFrame, others: DataFrame) -> DataFrame:
        one = rows.where(left).withColumn("v", F.expr(value))
        one = one.withWatermark("at", "1 hour").alias("l")
        two = others.withWatermark("at", "1 hour").alias("r")
        bound = f"{on} AND r.at BETWEEN l.at AND l.at + INTERVAL {within}"
        pair = two.join(one, F.expr(bound), how) if swapped else one.join(two, F.expr(bound), how)
        return pair.selectExpr(*columns)

    return _two(make)


_add(
    "Joins",
    _joined(),
    "append",
    ("an outer join", _joined("leftOuter"), YES, UNNOTICED),
    ("another bound of time", _joined(within="2 hours"), YES, UNNOTICED),
    ("another condition", _joined(on="l.k = r.k AND l.v < r.v"), YES, UNNOTICED),
    ("by another column", _joined(on="l.region = r.region"), NO, REWRITE),
    ("one side is filtered", _joined(left="v > 0"), YES, UNNOTICED),
    ("the sides are exchanged", _joined(swapped=True), YES, UNNOTICED),
    ("one column more is taken", _joined(columns=("l.k", "l.region", "r.v")), NO, REWRITE),
    ("a result has another expression", _joined(columns=("l.k", "l.v + r.v")), YES, SAME),
    ("a stored column is computed otherwise", _joined(value="v * 2"), YES, UNNOTICED),
)

# Variables of a processor.


def _visits(
    variables: str = "total BIGINT",
    *,
    name: str = "sum",
    kind: str = "value",
    ttl: int | None = None,
    more: bool = False,
    key: str = "k",
    before: str = "true",
    by: str = "v",
    time: str = "processingTime",
    mode: str = "update",
    initial: bool = False,
    output: str = "k STRING",
) -> Callable[..., DataFrame]:
    """A query whose processor has a variable of these fields, and ``more`` of them."""

    class Visits(StatefulProcessor):
        def init(self, handle: Any) -> None:
            if kind == "value":
                handle.getValueState(name, variables, ttl)
            elif kind == "list":
                handle.getListState(name, variables, ttl)
            else:
                handle.getMapState(name, "region STRING", variables, ttl)
            if more:
                handle.getValueState("last", "v BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:
            yield Row(k=str(key[0]))

        def handleInitialState(self, key: Any, rows: Any, timers: Any) -> None:
            pass

        def close(self) -> None:
            pass

    def make(rows: DataFrame) -> DataFrame:
        given = rows.where(before).withColumn("v", F.expr(by)).withColumn("k", F.expr(key))
        if time == "eventTime":
            given = given.withWatermark("at", "1 hour")
        first = None
        if initial:
            first = rows.sparkSession.createDataFrame([("a", 1)], "k STRING, v BIGINT")
            first = first.groupBy("k")
        return given.groupBy("k").transformWithState(Visits(), output, mode, time, first)

    return _typed(make)


_add(
    "Variables of a processor",
    _visits(),
    "update",
    ("a variable is added", _visits(more=True), YES, GOES_ON),
    ("a variable has another name", _visits(name="total"), YES, UNNOTICED),
    ("a variable has a field more", _visits("total BIGINT, n BIGINT"), NO, LIVE),
    ("a field has another name", _visits("cents BIGINT"), YES, UNNOTICED),
    ("a field has another type", _visits("total DOUBLE"), NO, LIVE),
    ("a value becomes a list", _visits(kind="list"), NO, REWRITE),
    ("values expire", _visits(ttl=60_000), NO, LIVE),
    ("the key is another expression", _visits(key="upper(k)"), YES, UNNOTICED),
    ("rows are filtered before it", _visits(before="v > 0"), YES, UNNOTICED),
    ("a column that it gets is computed otherwise", _visits(by="v * 2"), YES, UNNOTICED),
    ("another time mode", _visits(time="none"), NO, REWRITE),
    ("the time of events", _visits(time="eventTime"), NO, REWRITE),
    ("another output mode", _visits(mode="append"), NO, REWRITE, "append"),
    ("an initial state is given", _visits(initial=True), YES, SAME),
    ("the processor gives other rows", _visits(output="k STRING, n BIGINT"), YES, SAME),
)
_add(
    "Variables of a processor",
    _visits(more=True, initial=True),
    "update",
    ("a variable is removed", _visits(initial=True), YES, UNNOTICED),
    ("the initial state is left out", _visits(more=True), YES, SAME),
)
_add(
    "Variables of a processor",
    _visits(ttl=60_000),
    "update",
    ("values expire later", _visits(ttl=600_000), YES, GOES_ON),
    ("values do not expire any more", _visits(), NO, LIVE),
)
_add(
    "Variables of a processor",
    _visits(kind="map"),
    "update",
    ("the type of a map's values is another", _visits("total DOUBLE", kind="map"), NO, LIVE),
    ("a map becomes a value", _visits(), NO, REWRITE),
)


# State of applyInPandasWithState.


def _state(
    state: str = "total BIGINT",
    *,
    key: str = "k",
    before: str = "true",
    by: str = "v",
    mode: str = "update",
    timeout: str = "NoTimeout",
    output: str = "k STRING",
) -> Callable[..., DataFrame]:
    def function(group: Any, frames: Any, stored: Any) -> Any:
        values = [sum(len(each) for each in frames)]
        stored.update((values * 2)[: len(state.split(","))])
        yield pandas.DataFrame({"k": [str(group[0])]})

    def make(rows: DataFrame) -> DataFrame:
        given = rows.where(before).withColumn("v", F.expr(by)).withColumn("k", F.expr(key))
        given = given.withWatermark("at", "1 hour")
        return given.groupBy("k").applyInPandasWithState(function, output, state, mode, timeout)

    return _typed(make)


_add(
    "State of a function",
    _state(),
    "update",
    ("a field has another name", _state("cents BIGINT"), YES, UNNOTICED),
    ("a field has another type", _state("total DOUBLE"), NO, REWRITE),
    ("a field is added", _state("total BIGINT, n BIGINT"), NO, REWRITE),
    ("the key is another expression", _state(key="upper(k)"), YES, UNNOTICED),
    ("rows are filtered before it", _state(before="v > 0"), YES, UNNOTICED),
    ("a column that it gets is computed otherwise", _state(by="v * 2"), YES, UNNOTICED),
    ("another output mode", _state(mode="append"), YES, GOES_ON, "append"),
    ("state may time out", _state(timeout="ProcessingTimeTimeout"), NO, REWRITE),
)
_add(
    "State of a function",
    _state("total BIGINT, n BIGINT"),
    "update",
    ("two fields are exchanged", _state("n BIGINT, total BIGINT"), YES, UNNOTICED),
)
_add(
    "State of a function",
    _state(timeout="ProcessingTimeTimeout"),
    "update",
    ("timeouts by another clock", _state(timeout="EventTimeTimeout"), YES, UNNOTICED),
)


# Operators and sources.


def _united(make: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    return _two(lambda a, b: make(a, b).groupBy("k").agg(F.sum("v")))


_add(
    "Operators and sources",
    _filtered("true"),
    "update",
    ("the operator is removed", _typed(lambda r: r.select("k", "v")), NO, REWRITE),
    (
        "another operator takes its place",
        _typed(lambda r: r.dropDuplicates(["k"])),
        NO,
        REWRITE,
    ),
    (
        "an operator is added before it",
        _typed(lambda r: r.dropDuplicates(["k", "v"]).groupBy("k").count()),
        NO,
        REWRITE,
    ),
    (
        "the result goes elsewhere too",
        _typed(lambda r: r.groupBy("k").count().withColumn("at", F.current_timestamp())),
        YES,
        SAME,
    ),
    (
        "a second source is added",
        _two(lambda a, b: a.select("k").union(b.select("k")).groupBy("k").count()),
        NO,
        REWRITE,
    ),
)
_add(
    "Operators and sources",
    _united(lambda a, b: a.select("k", "v").union(b.select("region", "v"))),
    "update",
    (
        "two sources are exchanged",
        _united(lambda a, b: b.selectExpr("region AS k", "v").union(a.select("k", "v"))),
        YES,
        UNNOTICED,
    ),
    (
        "one source gives other columns",
        _united(lambda a, b: a.select("k", "v").union(b.select("k", "v"))),
        YES,
        UNNOTICED,
    ),
)
