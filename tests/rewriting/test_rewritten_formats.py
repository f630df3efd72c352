"""Operators that keep something else afterwards, and what they then give."""

import pytest
import rewritten_code as code
from rewritten_queries import accepting, rewritten, rows_of, run, scripts_in, session_with

from statemigrate.commands.rewrite import verify

pytestmark = [pytest.mark.spark, pytest.mark.long]

AGGREGATION = "spark.sql.streaming.aggregation.stateFormatVersion"


def test_duplicates_are_then_known_by_fewer_columns(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(*[(f"k{n % 5}", n) for n in range(30)]))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.distinct, old, "append")
    answers = accepting("deduplicate-0.region", "deduplicate-0.merge")
    made = rewritten(spark, old, new, code.distinct_by_one, answers=answers, partitions=5)
    family = made.report.families[0]
    assert (family.read.count, family.total.count, family.merged) == (15, 5, 10)
    assert verify(old, new, spark=spark).problems == ()
    feed.add(rows_of(("k1", 100), ("k4", 101), ("k7", 102), ("k7", 103)))
    given = run(session, feed, code.distinct_by_one, new, "append")
    assert [row for rows in given.values() for row in rows] == [
        next(row for row in given[1] if "k7" in row)
    ]


def test_a_function_goes_on_with_another_struct_whose_fields_stand_elsewhere(spark, feed, tmp_path):
    session = session_with(spark, "hdfs")
    feed.add(rows_of(*[(f"k{n % 3}", n) for n in range(9)]))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.groups, old)
    answers = accepting("groups-0.groupState.mark")
    rewritten(spark, old, new, code.groups_with_mean, answers=answers, partitions=3)
    feed.add(rows_of(("k0", 100), ("new", 7)))
    assert set(run(session, feed, code.groups_with_mean, new)[1]) == {
        "Row(k='k0', n=4, mean=27.25, mark=None)",
        "Row(k='new', n=1, mean=7.0, mark=None)",
    }


def test_a_session_window_has_one_more_function(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(("a", 5, 100), ("b", 6, 101), ("a", 7, 110)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.sessions, old, "append")
    answers = accepting("session-window-0.max")
    largest, before = code.sessions_with_largest, code.sessions
    rewritten(spark, old, new, largest, before=before, answers=answers, partitions=3)
    feed.add(rows_of(("a", 1, 120), ("c", 9, 300)))
    feed.add(rows_of(("c", 9, 400)))
    given = run(session, feed, code.sessions_with_largest, new, "append")
    sums = sorted(str(row).split("k=")[1] for rows in given.values() for row in rows)
    assert sums == [
        "'a', n=3, total=13, largest=1)",
        "'b', n=1, total=6, largest=None)",
        "'c', n=1, total=9, largest=9)",
    ]


TENFOLD = """branch_labels = ("{0}",)
store = "{0}"
old = Struct("{1}")
new = old


def upgrade(value):
    return {{**value, "sum": value["sum"] * 10}}
"""
WHOLE = (
    "session_window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, k STRING, count BIGINT, sum BIGINT"
)


def test_a_script_changes_the_values_of_session_windows(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(("a", 5, 100), ("b", 6, 101), ("a", 7, 110)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.sessions, old, "append")
    script = TENFOLD.format("session-window-0", WHOLE)
    folder = scripts_in(tmp_path / "scripts", sums=script)
    rewritten(spark, old, new, code.sessions, migrations=folder, partitions=3)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    feed.add(rows_of(("a", 1, 120), ("c", 9, 300)))
    feed.add(rows_of(("c", 9, 400)))
    given = run(session, feed, code.sessions, new, "append")
    sums = sorted(str(row).split("k=")[1] for rows in given.values() for row in rows)
    assert sums == ["'a', n=3, total=121)", "'b', n=1, total=60)", "'c', n=1, total=9)"]


def test_a_script_changes_values_that_hold_their_keys(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb", **{AGGREGATION: "1"})
    feed.add(rows_of(("a", 5), ("b", 6), ("a", 7)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.totals, old)
    script = TENFOLD.format("aggregation-0", "count BIGINT, sum BIGINT")
    folder = scripts_in(tmp_path / "scripts", sums=script)
    rewritten(spark, old, new, code.totals, migrations=folder, partitions=3)
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    feed.add(rows_of(("a", 1), ("c", 9), ("b", 0)))
    assert set(run(session, feed, code.totals, new)[1]) == {
        "Row(k='a', n=3, total=121)",
        "Row(k='b', n=2, total=60)",
        "Row(k='c', n=1, total=9)",
    }


def test_an_operator_is_taken_out_and_the_other_one_goes_on(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(("a", 5, 100), ("a", 5, 100), ("b", 6, 101)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.distinct_then_windows, old, "update")
    said = {"before": code.distinct_then_windows, "answers": accepting("deduplicate-1")}
    made = rewritten(spark, old, new, code.windows_alone, **said)
    assert made.report.gone["deduplicate-1"].count == 2
    assert verify(old, new, spark=spark).problems == ()
    feed.add(rows_of(("a", 5, 100)))
    given = run(session, feed, code.windows_alone, new, "update")
    assert [str(row).split("total=")[1] for rows in given.values() for row in rows] == ["16)"]


def test_an_operator_is_put_in_and_begins_empty(spark, feed, tmp_path):
    session = session_with(spark, "hdfs")
    feed.add(rows_of(("a", 5, 100), ("b", 6, 101)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.windows_alone, old, "update")
    answers = accepting("aggregation-0:functions")
    made = rewritten(spark, old, new, code.distinct_then_windows, partitions=3, answers=answers)
    assert [each.change for each in made.plan.operators] == ["kept", "new"]
    feed.add(rows_of(("a", 7, 102), ("a", 7, 102)))
    given = run(session, feed, code.distinct_then_windows, new, "update")
    assert [str(row).split("total=")[1] for rows in given.values() for row in rows] == ["18)"]
    feed.add(rows_of(("a", 7, 102), ("a", 8, 103)))
    given = run(session, feed, code.distinct_then_windows, new, "update")
    assert [str(row).split("total=")[1] for rows in given.values() for row in rows] == ["26)"]
