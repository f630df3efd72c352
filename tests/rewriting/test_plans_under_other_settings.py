"""The same code under other settings of the session, or with larger tables, means the same."""

from itertools import combinations

import pytest
from pyspark.sql import functions as F  # noqa: N812
from rewritten_queries import session_with

from statemigrate.meaning import code_meaning, compare_code
from statemigrate.rewrite import embedded_meaning

pytestmark = [pytest.mark.spark, pytest.mark.long]
TABLE = ["CASE WHEN id < 8 THEN id % 4 END AS tv", "id * 7 % 5 AS tx", "concat('c', id % 3) AS tk"]
SETTINGS = {
    "planned while it runs": {"adaptive.enabled": "true"},
    # As if the table had grown.
    "no table is sent to all": {"autoBroadcastJoinThreshold": "-1"},
    "one partition": {"shuffle.partitions": "1", "adaptive.enabled": "false"},
    "nothing is used twice": {"exchange.reuse": "false", "codegen.wholeStage": "false"},
}


def table(rows):
    return rows.sparkSession.range(9).selectExpr(*TABLE)


def joined(make, on="v = tv", how="inner"):
    return lambda rows: rows.join(make(table(rows)), F.expr(on), how)


def listed(condition):
    def make(rows):
        table(rows).createOrReplaceTempView("t")
        return rows.where(condition)

    return make


def with_itself(base):
    pairs = base.alias("a").join(base.alias("b"), F.expr("a.tv = b.tv AND a.tx < b.tx"))
    return pairs.selectExpr("a.tv", "b.tx")


def sums(base):
    return base.groupBy("tv").agg(F.sum("tx").alias("tx"))


def united(made):
    return made.union(made)


def counted(**columns):
    """How many values of several columns there are; Spark numbers the columns at random."""

    def make(base):
        counts = [F.countDistinct(F.expr(each)).alias(name) for name, each in columns.items()]
        return base.groupBy("tv").agg(*counts, F.sum("tx").alias("total"))

    return make


CASES = {
    "joined": joined(lambda base: base),
    "a left join by another condition": joined(lambda base: base, "v < tv", "left"),
    "all pairs": lambda rows: rows.crossJoin(table(rows).limit(2)),
    "sums": joined(sums),
    "sums of a few": joined(lambda base: sums(base).where("tx > 3"), "v = tv AND w > tx"),
    "how many": joined(lambda base: base.groupBy("tv").agg(F.countDistinct("tk").alias("n"))),
    "how many of each": joined(counted(a="tk", b="tx", c="tx * tx")),
    "how many of each under other names": joined(counted(a="tx", b="tk", c="tx * tx")),
    "how many of each of other columns": joined(counted(a="tk", b="tx", c="-tx")),
    "each once": joined(lambda base: base.select("tv", "tk").distinct()),
    "texts": joined(lambda base: base.groupBy("tv").agg(F.min("tk"), F.collect_set("tx"))),
    "sums by several": joined(lambda base: base.rollup("tv", "tk").agg(F.sum("tx"))),
    "with itself": joined(with_itself),
    "cached": joined(lambda base: base.cache()),
    "cached and with itself": joined(lambda base: with_itself(base.cache())),
    "twice": joined(lambda base: sums(base).union(sums(base))),
    "the same sums twice": joined(lambda base: united(sums(base))),
    "the first": joined(lambda base: base.orderBy("tx", "tv").limit(3)),
    "in both": joined(lambda base: base.select("tv").intersect(base.select("tx"))),
    "in the other": listed("v IN (SELECT max(tv) FROM t GROUP BY tk)"),
    "in none": listed("v NOT IN (SELECT tv FROM t)"),
    "nowhere": listed("NOT EXISTS (SELECT 1 FROM t WHERE tv = v)"),
    "more than all": listed("v > (SELECT max(tv) FROM t WHERE tx > 1)"),
    "more than there are": listed("v > (SELECT count(DISTINCT tx) FROM t WHERE tv > 1)"),
}
SAME = [
    ("joined", "cached"),
    ("with itself", "cached and with itself"),
    ("twice", "the same sums twice"),
]
"""Tables of the same rows."""


@pytest.fixture(scope="module")
def meaning(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("input"))

    def of(case, settings):
        given = {f"spark.sql.{name}": value for name, value in settings.items()}
        session = session_with(spark, "rocksdb", **given)
        rows = CASES[case](session.readStream.schema("k STRING, v BIGINT, w BIGINT").json(folder))
        return code_meaning("a processor", embedded_meaning(rows, ["k"]))

    return of


@pytest.mark.parametrize("case", CASES)
def test_the_same_code_means_the_same(case, meaning):
    before = meaning(case, {})
    for name, settings in SETTINGS.items():
        assert [*compare_code(before, meaning(case, settings))] == [], name


def test_what_spark_numbers_at_random_means_the_same_each_time(meaning):
    before = meaning("how many of each", {})
    for _ in range(8):
        assert [*compare_code(before, meaning("how many of each", {}))] == []


def test_other_tables_mean_something_else(meaning):
    found = {case: meaning(case, {}) for case in CASES}
    for case, other in combinations(CASES, 2):
        if (case, other) not in SAME:
            changes = compare_code(found[case], found[other])
            assert any(each.asks for each in changes), (case, other)
