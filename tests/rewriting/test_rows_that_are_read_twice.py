"""A stream, a column or a table that a query takes in twice: which of the two is meant counts."""

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import session_with

from statemigrate.meaning import compare_code
from statemigrate.meaning.guard import stream_meaning

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 20)]
DDL = "k STRING, r STRING, v BIGINT, w BIGINT, at TIMESTAMP, a ARRAY<BIGINT>"


@pytest.fixture(scope="module")
def session(spark):
    return session_with(spark, "rocksdb")


@pytest.fixture(scope="module")
def differences(session, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("input"))

    def compared(*codes, mode="append"):
        rows = [session.readStream.schema(DDL).json(folder) for _ in codes]
        meanings = [
            stream_meaning(code(each), mode) for code, each in zip(codes, rows, strict=True)
        ]
        return [(each.name, each.verdict) for each in compare_code(*meanings)]

    return compared


def united(first, second, key="k"):
    """The stream twice, with a step of its own in each part."""
    return lambda r: first(r).union(second(r)).groupBy(key).count()


def as_it_is(rows):
    return rows


def where(condition):
    return lambda rows: rows.where(condition)


def keyed_by(column):
    return lambda rows: rows.withColumn("k", F.col(column))


def joined(total, on="k = k2 AND at <= at2", key="k"):
    def make(rows):
        timed = rows.withWatermark("at", "1 hour")
        other = timed.select(*(F.col(each).alias(f"{each}2") for each in ("k", "r", "v", "at")))
        return timed.join(other, F.expr(on)).groupBy(key).agg(F.expr(total))

    return make


def exploded(key, total, condition="true"):
    def make(rows):
        twice = rows.withColumn("x", F.explode("a")).withColumn("y", F.explode("a"))
        return twice.where(condition).groupBy(key).agg(F.expr(total))

    return make


def unpivoted(*columns):
    """Two columns become rows, and an array gives rows of each."""

    def make(rows):
        rows = rows.withColumn("u", F.col("v") + 1)
        long = rows.unpivot(["k", "a"], list(columns), "name", "x")
        return long.withColumn("y", F.explode("a")).groupBy("k").agg(F.sum("x"))

    return make


def with_numbers(make):
    return lambda r: r.join(make(r.sparkSession.range(9)), F.expr("v = id")).groupBy("k").count()


def ranked(rows, *order):
    return rows.withColumn("n", F.row_number().over(Window.orderBy(*order)))


def with_list(*values, schema="k STRING"):
    return lambda r: (
        r.join(r.sparkSession.createDataFrame([(each,) for each in values], schema), "k")
        .groupBy("k")
        .count()
    )


def with_view(sql):
    def make(rows):
        rows.createOrReplaceTempView("rows")
        return rows.sparkSession.sql(sql)

    return make


CHANGED = {
    "one part of a union is filtered too": (
        united(where("v > 1"), as_it_is),
        united(where("v > 1"), where("v > 1")),
    ),
    "both filters of a union are in one part": (
        united(where("v > 1"), where("w > 1")),
        united(where("v > 1 AND w > 1"), as_it_is),
    ),
    "the parts of a union exchange their filters, and not their keys": (
        united(lambda r: keyed_by("r")(r.where("v > 1")), where("w > 1")),
        united(lambda r: keyed_by("r")(r.where("w > 1")), where("v > 1")),
    ),
    "one part of a union has another key": (
        united(as_it_is, keyed_by("r")),
        united(as_it_is, as_it_is),
    ),
    "a total of the other side": (joined("sum(v)"), joined("sum(v2)")),
    "a key of the other side": (joined("sum(v)", key="r"), joined("sum(v)", key="r2")),
    "rows before, not after": (joined("sum(v)"), joined("sum(v)", "k = k2 AND at >= at2")),
    "another pair of keys": (
        joined("sum(v)", "k = r2 AND at = at2"),
        joined("sum(v)", "r = k2 AND at = at2"),
    ),
    "the other of two equal arrays is counted": (
        exploded("x", "sum(x)"),
        exploded("x", "sum(y)"),
    ),
    "the other of two equal arrays is filtered": (
        exploded("k", "sum(y)", "x > 1"),
        exploded("k", "sum(y)", "y > 1"),
    ),
    "another column becomes rows": (unpivoted("v", "w"), unpivoted("v", "u")),
    "a column becomes rows twice": (unpivoted("v", "w"), unpivoted("v", "v")),
    "the first rows of a table by another order": (
        with_numbers(lambda t: t.orderBy("id").limit(3)),
        with_numbers(lambda t: t.orderBy(F.desc("id")).limit(3)),
    ),
    "all rows but the first, by another order": (
        with_numbers(lambda t: t.orderBy("id").offset(3)),
        with_numbers(lambda t: t.orderBy(F.desc("id")).offset(3)),
    ),
    "ranks by another order": (
        with_numbers(lambda t: ranked(t, "id").where("n < 3")),
        with_numbers(lambda t: ranked(t, F.desc("id")).where("n < 3")),
    ),
    "nulls come last": (
        with_numbers(lambda t: ranked(t, F.asc_nulls_first("id")).where("n < 3")),
        with_numbers(lambda t: ranked(t, F.asc_nulls_last("id")).where("n < 3")),
    ),
    "a value must be there": (
        lambda r: r.groupBy("k").count(),
        lambda r: r.where("v IS NOT NULL").groupBy("k").count(),
    ),
    "another value must be there": (
        lambda r: r.where("w IS NOT NULL").groupBy("k").count(),
        lambda r: r.where("v IS NOT NULL").groupBy("k").count(),
    ),
    "a value must be there that a condition takes a default for": (
        lambda r: r.where("coalesce(v, 9) > 1").groupBy("k").count(),
        lambda r: r.where("coalesce(v, 9) > 1 AND v IS NOT NULL").groupBy("k").count(),
    ),
    "a value must be there that an outer join has": (
        lambda r: r.join(r.sparkSession.range(9), F.expr("v = id"), "left").groupBy("k").count(),
        lambda r: (
            r.join(r.sparkSession.range(9), F.expr("v = id"), "left")
            .where("v IS NOT NULL")
            .groupBy("k")
            .count()
        ),
    ),
}
SAME = {
    "a union in other words": (
        united(where("v > 1"), where("w > 1")),
        united(lambda r: r.filter(F.col("v") > 1), lambda r: r.select("*").where("w > 1")),
    ),
    "a filter after a union, and in both parts": (
        lambda r: r.union(r).where("v > 1").groupBy("k").count(),
        united(where("v > 1"), where("v > 1")),
    ),
    "a filter before a union, by another name of the column": (
        united(where("v > 1"), as_it_is),
        united(lambda r: r.withColumnRenamed("v", "x").where("x > 1").toDF(*r.columns), as_it_is),
    ),
    "a common table expression": (
        lambda r: r.groupBy("k").agg(F.sum("v")),
        with_view("WITH same AS (SELECT * FROM rows) SELECT k, sum(v) FROM same GROUP BY k"),
    ),
    "a join in other words": (joined("sum(v)"), joined("sum(v)", "at <= at2 AND k = k2")),
    "two equal arrays": (exploded("x", "sum(y)"), exploded("x", "sum(y + 0 * 0)", "1 = 1")),
    "a table in an order that nothing depends on": (
        with_numbers(lambda t: t.orderBy("id")),
        with_numbers(lambda t: t.orderBy(F.desc("id"))),
    ),
    "a value that is compared must be there": (
        lambda r: r.where("v > 1").groupBy("k").count(),
        lambda r: r.where("v > 1 AND v IS NOT NULL").groupBy("k").count(),
    ),
    "a value that is joined must be there": (
        lambda r: r.join(r.sparkSession.range(9), F.expr("v = id")).groupBy("k").count(),
        lambda r: (
            r.where("v IS NOT NULL")
            .join(r.sparkSession.range(9), F.expr("v = id"))
            .groupBy("k")
            .count()
        ),
    ),
    "a time must be there that windows are made of": (
        lambda r: r.groupBy(F.window("at", "1 hour")).count(),
        lambda r: r.where("at IS NOT NULL").groupBy(F.window("at", "1 hour")).count(),
    ),
}


@pytest.mark.parametrize("codes", CHANGED.values(), ids=list(CHANGED))
def test_another_of_two_is_noticed(differences, codes):
    assert [each for each in differences(*codes) if each[1] == "unnoticed"]


@pytest.mark.parametrize("codes", SAME.values(), ids=list(SAME))
def test_other_words_are_no_change(differences, codes):
    assert differences(*codes) == []


@pytest.mark.parametrize("value", ["b", "c"])
def test_a_list_of_rows_is_not_called_the_same(differences, value):
    found = differences(with_list("a", "b"), with_list("a", value))
    assert found == [("aggregation-0 hidden code", "unknown")]
