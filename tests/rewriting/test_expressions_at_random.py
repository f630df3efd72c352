"""Whatever an operator is computed from: a change is noticed, and other words for it are none.

Two expressions whose results differ on any row must differ for `plan` too; one expression in other
words must not. `STATEMIGRATE_EXPRESSIONS` is how many are tried, of others each time.
"""

import os

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from random_expressions import DDL, Style, changes, sample_rows
from rewritten_queries import session_with

from statemigrate.meaning import compare_code
from statemigrate.meaning.guard import stream_meaning

pytestmark = [pytest.mark.spark, pytest.mark.long]
EXAMPLES = int(os.environ.get("STATEMIGRATE_EXPRESSIONS", "40"))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="STATEMIGRATE_EXPRESSIONS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def session(spark):
    return session_with(spark, "rocksdb", **{"spark.sql.ansi.enabled": "false"})


@pytest.fixture(scope="module")
def stream(session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    return lambda: session.readStream.schema(DDL).json(str(folder))


@pytest.fixture(scope="module")
def rows(session):
    return session.createDataFrame(sample_rows(), DDL).coalesce(1).cache()


def as_key(rows, sql):
    return rows.groupBy(F.expr(sql).alias("key")).count()


def as_named_column(rows, sql):
    """The expression is computed two steps before, under a name."""
    return as_key(rows.withColumn("c", F.expr(sql)).select("c", "n").where("true"), "c")


def in_filter(rows, sql):
    return rows.where(F.hash(F.expr(sql)) > 7).groupBy("n").count()


def as_value(rows, sql):
    return rows.groupBy("n").agg(F.max(F.hash(F.expr(sql))).alias("most"))


def as_named_value(rows, sql):
    """The expression is computed a step before, under a name."""
    return as_value(rows.withColumn("c", F.expr(sql)).select("n", "c"), "c")


def as_duplicate(rows, sql):
    return rows.withColumn("c", F.expr(sql)).dropDuplicates(["c"])


def in_join(rows, sql):
    table = rows.sparkSession.range(8)
    return rows.join(table, F.pmod(F.hash(F.expr(sql)), F.lit(11)) == table.id).groupBy("s").count()


def in_union(rows, sql):
    """The expression is one part's key."""
    parts = rows.select("s", F.expr(sql).alias("c")), rows.select("s", F.expr("hash(n)"))
    return parts[0].withColumn("c", F.hash("c")).union(parts[1]).groupBy("c").count()


PLACES = {
    as_key: (as_key, as_named_column),
    in_filter: (in_filter,),
    as_value: (as_value, as_named_value),
    as_duplicate: (as_duplicate,),
    in_join: (in_join,),
    in_union: (in_union,),
}


RESULTS = {in_filter: "hash({}) > 7", in_join: "pmod(hash({}), 11) < 8"}
"""What of an expression decides at a place, where it is not its value."""


def differing(rows, place, old, new):
    """Whether an expression has several values, and another one differs where it counts."""
    both = rows.select(F.expr(old).alias("old"), F.expr(new).alias("new"))
    if place in RESULTS:
        result = RESULTS[place]
        both = both.select(*(F.expr(result.format(each)).alias(each) for each in ("old", "new")))
    found = both.agg(
        F.expr("count(DISTINCT hash(old)) > 1"), F.expr("bool_or(NOT (old <=> new))")
    ).collect()
    return found[0]


def noticed(stream, first, second):
    """What differs between two codes, each a place and the SQL of an expression."""
    meanings = [stream_meaning(place(stream(), sql), "update") for place, sql in (first, second)]
    return [(each.name, each.verdict) for each in compare_code(*meanings)]


@many
@given(changes(), st.sampled_from(list(PLACES)), st.data())
def test_another_result_is_noticed_and_other_words_are_not(stream, rows, change, place, data):
    seeds = data.draw(st.tuples(st.integers(0, 99), st.integers(0, 99)))
    old, same, new = (
        made.sql(Style(seed))
        for made, seed in ((change[0], seeds[0]), (change[0], seeds[1]), (change[1], seeds[1]))
    )
    for text in (f"old: {old}", f"in other words: {same}", f"new: {new}"):
        note(text)
    several, differ = differing(rows, place, old, new)
    # Of a constant Spark keeps something else, or nothing at all.
    assume(several)
    written = data.draw(st.sampled_from(PLACES[place]))
    assert noticed(stream, (place, old), (written, same)) == []
    if differ:
        assert noticed(stream, (place, old), (written, new)) != []
