"""One variable becomes two, each with some of its fields, and the new code goes on with both."""

import pytest
from rewritten_queries import accepting, rewritten, rows_of, run, session_with
from split_code import apart, together

from statemigrate.commands.rewriting.verify import verify

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]


def test_the_fields_of_one_variable_go_into_two(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(*[(f"k{n % 5}", n) for n in range(12)]), rows_of(("k1", 100), ("k9", 1)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, together, old)
    take = {"count": "totals", "sum": "totals"}
    asked = rewritten(spark, old, new, apart, apply=False, answers=accepting(take=take))
    assert [each.name for each in asked.plan.questions] == ["count.total", "sum.n"]
    accepted = accepting("count.total", "sum.n", take=take)
    made = rewritten(spark, old, new, apart, answers=accepted, partitions=3)
    assert {each.name: (each.read.count, each.total.count) for each in made.report.families} == {
        "count": (6, 6),
        "sum": (6, 6),
    }
    assert made.report.gone == {}
    assert verify(old, new, spark=spark).problems == ()
    for rows in (rows_of(("k1", 7), ("new", 8)), rows_of(("k9", 9), ("new", 1))):
        feed.add(rows)
        assert run(session, feed, apart, new) == run(session, feed, together, old)
