"""An aggregation and a join put in beside an operator that goes on, and taken out again."""

import pytest
import rewritten_code as code
from rewritten_queries import DDL, Feed, accepting, rewritten, rows_of, run, session_with

from statemigrate.commands.rewrite import verify

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]


def test_an_aggregation_is_put_in_and_taken_out(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    old, new, back = tmp_path / "old", tmp_path / "new", tmp_path / "back"
    feed.add(rows_of(("a", 5, 100), ("b", 6, 101)))
    run(session, feed, code.distinct_rows, old, "update")
    made = rewritten(spark, old, new, code.distinct_then_windows, partitions=3)
    changes = {each.name: each.change for each in made.plan.operators}
    assert changes == {"aggregation-0": "new", "deduplicate-1": "kept"}
    feed.add(rows_of(("a", 5, 100), ("a", 7, 102)))
    given = run(session, feed, code.distinct_then_windows, new, "update")
    assert [row.split("total=")[1] for rows in given.values() for row in rows] == ["7)"]
    rewritten(spark, new, back, code.distinct_rows, answers=accepting("aggregation-0"))
    assert verify(new, back, spark=spark).problems == ()
    feed.add(rows_of(("a", 7, 102), ("a", 8, 103)), rows_of(("b", 6, 101), ("b", 1, 104)))
    given = run(session, feed, code.distinct_rows, back, "update")
    assert [row.split(", at")[0] for rows in given.values() for row in rows] == [
        "Row(k='a', region='r2', v=8",
        "Row(k='b', region='r1', v=1",
    ]


def test_a_join_is_put_in_and_taken_out(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    others = Feed(tmp_path / "others")
    old, new, back = tmp_path / "old", tmp_path / "new", tmp_path / "back"
    feed.add(rows_of(("a", 5, 100), ("b", 6, 101)))
    run(session, feed, code.distinct_rows, old, "append")
    made = rewritten(
        spark,
        old,
        new,
        code.pairs_of_distinct,
        inputs={"events": DDL, "others": DDL},
        answers=accepting("source-0", "source-1"),
        partitions=3,
    )
    changes = {each.name: each.change for each in made.plan.operators}
    assert changes == {"join-0": "new", "deduplicate-1": "kept"}
    feed.add(rows_of(("a", 5, 100), ("a", 7, 110)))
    others.add(rows_of(("a", 1, 112), ("b", 2, 113)))
    given = run(session, [feed, others], code.pairs_of_distinct, new, "append")
    assert [row for rows in given.values() for row in rows] == ["Row(k='a', v=7, w=1)"]
    gone = accepting("join-0", "source-0", "source-1")
    rewritten(spark, new, back, code.distinct_rows, answers=gone)
    assert verify(new, back, spark=spark).problems == ()
    feed.add(rows_of(("a", 7, 110), ("b", 8, 111)))
    given = run(session, feed, code.distinct_rows, back, "append")
    assert [row.split(", at")[0] for rows in given.values() for row in rows] == [
        "Row(k='b', region='r2', v=8"
    ]
