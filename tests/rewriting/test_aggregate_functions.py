"""Aggregate functions that are put in, taken out and moved go on as their twins do.

The twin of a function that goes on is the new code on all rows from the first; that of a new one
is the new code on the rows since.
"""

import json
import os
import random
from collections.abc import Iterator

import aggregate_code as code
import pytest
from rewritten_queries import Feed, accepting, rewritten, run, session_with
from support.aggregate_functions import (
    ARGUMENTS,
    DDL,
    NOT_OF_STREAMS,
    OF_SKETCHES,
    TABLE,
    functions_by_spark,
    known_functions,
    pair_of,
    texts,
)

from statemigrate.commands.rewrite import verify
from statemigrate.rewrite.aggregates import divided
from statemigrate.rewrite.questions import RewriteAnswers

pytestmark = pytest.mark.spark
MANY = int(os.environ.get("STATEMIGRATE_REWRITES", "3"))
ALL = sorted(each for each in known_functions() if each.partition("(")[0] not in OF_SKETCHES)


def rows_of_all(seed, count=14):
    """Rows with a value, or none, in every column."""
    drawn = random.Random(seed)

    def row(n):
        values = {
            "k": f"k{n % 4}",
            "a": drawn.randint(0, 9),
            "b": drawn.randint(-9, 9),
            "x": drawn.randint(0, 40) / 4,
            "y": drawn.randint(0, 40) / 8,
            "i": drawn.randint(0, 99),
            "f": drawn.randint(0, 8) / 2,
            "d": f"{drawn.randint(0, 999) / 100:.2f}",
            "e": f"{drawn.randint(0, 99999) / 10000:.4f}",
            "s": drawn.choice("pqr"),
            "r": drawn.choice("uvw"),
            "t": f"2026-01-01T00:00:{drawn.randint(10, 59)}Z",
            "u": f"2026-01-{drawn.randint(10, 28)}",
            "o": drawn.random() < 0.5,
            "z": drawn.randint(0, 9),
            "h": drawn.randint(0, 9),
            "w": "AAEC",
            "l": [drawn.randint(0, 9)],
            "n": {"p": drawn.randint(0, 9), "q": drawn.choice("pq")},
        }
        nothing = drawn.random() < 0.15
        return {"k": values["k"]} if nothing else values

    return [row(n) for n in range(count)]


def columns_of(given) -> Iterator[tuple[str, int, str]]:
    """By key and place what each column of the last batch was, as text."""
    for text in given[max(given)]:
        key, *values = json.loads(text)
        yield from ((key["k"], place, json.dumps(value)) for place, value in enumerate(values))


def outputs(spark, feeds, function, checkpoint):
    """The rows of each batch as JSON, which has every type."""
    from pyspark.sql import functions as F  # noqa: N812

    given: dict[int, list[str]] = {}

    def collect(rows, batch):
        columns = [
            F.to_json(F.struct(name), {"ignoreNullFields": "false"}) for name in rows.columns
        ]
        found = rows.select(*columns).collect()
        given[batch] = [json.dumps([json.loads(each) for each in row]) for row in found]

    writer = function(feeds.stream(spark)).writeStream.outputMode("update").foreachBatch(collect)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(180)
    assert not query.isActive
    return given


def goes_on_as_twins_do(spark, folder, pair, seed):
    """Rewrite from the one list to the other, and go on."""
    session = session_with(spark, "rocksdb")
    code.LISTED.update(before=list(pair.old), after=list(pair.new))
    feed, late = Feed(folder / "input", DDL), Feed(folder / "late", DDL)
    feed.add(rows_of_all(seed), rows_of_all(seed + 1))
    old, new = folder / "old", folder / "new"
    run(session, feed, code.before, old)
    options = {"before": code.before, "inputs": {"events": DDL}, "partitions": 3}
    asked = rewritten(spark, old, new, code.after, **options, apply=False)
    answers = RewriteAnswers(
        frozenset(each.acceptance for each in asked.plan.questions if each.kind == "drop"),
        accept_new=True,
    )
    made = rewritten(spark, old, new, code.after, **options, answers=answers)
    assert verify(old, new, spark=spark).problems == (), pair
    added = rows_of_all(seed + 2)
    feed.add(added)
    late.add(added)
    found = set(columns_of(outputs(session, feed, code.after, new)))
    whole = set(columns_of(outputs(session, feed, code.after, folder / "whole")))
    since = set(columns_of(outputs(session, late, code.after, folder / "since")))
    wanted = {each for each in whole if pair.new[each[1]] in pair.old} | {
        each for each in since if pair.new[each[1]] not in pair.old
    }
    assert found == wanted, (pair, sorted(found ^ wanted))
    return made


@pytest.mark.rewrites
def test_what_every_function_keeps_is_what_the_table_says(spark):
    """Spark itself is asked for each; every one of its aggregate functions is in the table."""
    assert functions_by_spark(spark, texts()) == json.loads(TABLE.read_text())
    for text, function in known_functions().items():
        fields = function.fields
        assert sum(len(each.fields) for each, _ in divided(fields)) == len(fields), text
        assert not any("\n" in each.text for each, _ in divided(fields))
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    known = {
        names.apply(at).funcName()
        for at in range(names.size())
        if registry.lookupFunction(names.apply(at)).get().getGroup() == "agg_funcs"
    }
    assert known - {*ARGUMENTS} == {*NOT_OF_STREAMS} & known


@pytest.mark.long
def test_functions_that_are_moved_put_in_and_taken_out(spark, tmp_path):
    class Both:
        old = (
            *("count(1)", "avg(x)", "sum(a)", "sum(b)", "first(a)", "last(a)", "max(s)"),
            *("sum(a) FILTER (WHERE b > 1)", "percentile_disc(0.5D) WITHIN GROUP (ORDER BY a)"),
        )
        new = (
            *("last(a)", "avg(x)", "collect_list(a)", "sum(b)", "approx_count_distinct(a)"),
            *("sum(a)", "mode(s)", "count(1)", "first(a)", "percentile_approx(a, 0.5D)"),
            *("sum(a) FILTER (WHERE b > 2)", "sum(a) FILTER (WHERE b > 1)"),
            *("listagg(s) WITHIN GROUP (ORDER BY s DESC)",),
            *("percentile_disc(0.5D) WITHIN GROUP (ORDER BY a)",),
        )

    goes_on_as_twins_do(spark, tmp_path, Both, 1)


@pytest.mark.rewrites
@pytest.mark.parametrize("seed", range(MANY))
def test_lists_at_random(spark, tmp_path, seed):
    drawn = random.Random(seed)
    goes_on_as_twins_do(spark, tmp_path, pair_of(drawn, ALL, 12), seed)


@pytest.mark.rewrites
def test_every_function_goes_on_and_is_put_in(spark, tmp_path):
    """Half of all are there, and the others are put in between."""

    class Halves:
        old = tuple(ALL[::2])
        new = tuple(reversed(ALL))

    goes_on_as_twins_do(spark, tmp_path, Halves, 7)


@pytest.mark.long
@pytest.mark.parametrize(
    "said",
    [True, pytest.param(False, marks=pytest.mark.rewrites)],
    ids=["by the old code", "by the author"],
)
def test_a_sum_becomes_one_of_decimals(spark, tmp_path, said):
    """Every old sum is there, of groups without a value too."""
    session = session_with(spark, "rocksdb")
    code.LISTED.update(before=["sum(a)"], after=["sum(CAST(a AS DECIMAL(20,0)))"])
    feed = Feed(tmp_path / "input", DDL)
    feed.add([{"k": "k0", "a": 5}, {"k": "k1"}, {"k": "k2", "a": 2}])
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.before, old)
    options = {"inputs": {"events": DDL}, "partitions": 3}
    how = (
        {"before": code.before}
        if said
        else {"answers": accepting(take={"aggregation-0.sum": "sum"})}
    )
    rewritten(spark, old, new, code.after, **options, **how)
    assert verify(old, new, spark=spark).problems == ()
    feed.add([{"k": "k0"}, {"k": "k1"}, {"k": "k2", "a": 1}, {"k": "k3"}])
    found = run(session, feed, code.after, new)[1]
    assert found == run(session, feed, code.after, tmp_path / "twin")[1]
    assert len(found) == 4
