"""Spark's own formats of state, and the keys of joins: each goes on as its twin does."""

from collections import Counter

import pytest
import rewritten_code as code
from rewritten_queries import (
    DDL,
    Feed,
    accepting,
    rewritten,
    rows_of,
    run,
    scripts_in,
    session_with,
)

from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError, UnsupportedError

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

AGGREGATION = "spark.sql.streaming.aggregation.stateFormatVersion"
JOIN = "spark.sql.streaming.join.stateFormatVersion"
BOTH = {"events": DDL, "others": DDL}


def test_an_aggregation_goes_to_format_2_and_back(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb", **{AGGREGATION: "1"})
    feed.add(rows_of(*[(f"k{n % 5}", n) for n in range(20)]))
    old, new, back = tmp_path / "old", tmp_path / "new", tmp_path / "back"
    run(session, feed, code.totals, old)
    with pytest.raises(RewriteError, match="another format"):
        rewritten(spark, old, new, conf={AGGREGATION: "2"})
    same = {"before": code.totals}
    made = rewritten(spark, old, new, code.totals, conf={AGGREGATION: "2"}, partitions=3, **same)
    assert [each.change for each in made.plan.operators] == ["kept"]
    rewritten(spark, new, back, code.totals, conf={AGGREGATION: "1"}, **same)
    for place, before in ((new, old), (back, new)):
        assert verify(before, place, spark=spark).problems == ()
    for number in (1, 2):
        feed.add(rows_of(("k1", number), ("k4", 5), (f"new{number}", 7)))
        expected = run(session, feed, code.totals, old)
        assert run(session, feed, code.totals, new) == expected
        assert run(session, feed, code.totals, back) == expected


def batch(number):
    start = number * 30
    return rows_of(*[(f"k{n % 3}", n * number, start + n) for n in range(1, 7)], ("k1", 9, 0))


def test_a_join_goes_from_format_2_to_3_and_back(spark, feed, tmp_path):
    feeds = [feed, Feed(tmp_path / "others")]
    session = session_with(spark, "rocksdb")
    for each in feeds:
        each.add(batch(1), batch(2))
    old, new, back = tmp_path / "old", tmp_path / "new", tmp_path / "back"
    run(session, feeds, code.inner_pairs, old, "append")
    for before, place, version in ((old, new, "3"), (new, back, "2")):
        conf = {JOIN: version}
        rewritten(spark, before, place, code.inner_pairs, inputs=BOTH, conf=conf, partitions=3)
        assert verify(before, place, spark=spark).problems == ()
    for number in (3, 4):
        for each in feeds:
            each.add(batch(number))
        expected = run(session, feeds, code.inner_pairs, old, "append")
        assert sum(map(len, expected.values())) > 0
        assert run(session, feeds, code.inner_pairs, new, "append") == expected
        assert run(session, feeds, code.inner_pairs, back, "append") == expected


def test_rows_of_a_join_of_format_4_get_a_column_more(spark, feed, tmp_path):
    feeds = [feed, Feed(tmp_path / "others")]
    session = session_with(spark, "rocksdb", **{JOIN: "4"})
    for each in feeds:
        each.add(batch(1), batch(2))
    old, new, again = tmp_path / "old", tmp_path / "new", tmp_path / "again"
    run(session, feeds, code.pairs, old, "append")
    answers = accepting("join-0.left.region")
    function = code.pairs_with_regions
    made = rewritten(spark, old, new, function, inputs=BOTH, answers=answers, partitions=3)
    changes = {each.name: each.change for each in made.report.families}
    assert changes == {
        "join-0.left": "values",
        "join-0.left-tsWithKey": "kept",
        "join-0.right": "kept",
        "join-0.right-tsWithKey": "kept",
    }
    found = verify(old, new, spark=spark)
    assert found.problems == ()
    told = [each for each in found.fine if "rows are not those counted" in each]
    assert [each.split(": ")[1].split()[0] for each in told] == ["0", "0"]
    with pytest.raises(UnsupportedError, match="state format goes to 4, or from there"):
        rewritten(spark, old, again, code.pairs, inputs=BOTH, conf={JOIN: "3"})
    regions: set[str] = set()
    for number in (3, 4):
        for each in feeds:
            each.add(batch(number))
        expected = sum(run(session, feeds, code.pairs, old, "append").values(), Counter())
        given = sum(run(session, feeds, function, new, "append").values(), Counter())
        bare = Counter()
        for row, count in given.items():
            pair, of = row.removesuffix(")").split(", of=")
            bare[f"{pair})"] += count
            regions.add(of)
        assert bare == expected
        assert expected.total() > 0
    # Rows of before have none, those that came after have theirs.
    assert regions == {"None", "'r0'", "'r1'", "'r2'"}


SIDE = """branch_labels = ("{0}",)
store = "{0}"
old = Struct("k STRING, v BIGINT, at TIMESTAMP, matched BOOLEAN")
new = Struct("k STRING, region STRING, v BIGINT, at TIMESTAMP, matched BOOLEAN")
new_key = Struct("field0 STRING")


def upgrade(value):
    return {{**value, "region": f"r{{value['v'] % 3}}"}}


def rekey(key, value):
    return {{"field0": key["field0"][:1]}}
"""


def test_the_keys_of_a_join_change_on_both_sides(spark, feed, tmp_path):
    feeds = [feed, Feed(tmp_path / "others")]
    session = session_with(spark, "hdfs")
    for each in feeds:
        each.add(batch(1), batch(2))
    old, new, twin = tmp_path / "old", tmp_path / "new", tmp_path / "twin"
    run(session, feeds, code.inner_pairs, old, "append")
    run(session, feeds, code.inner_pairs_of_initials, twin, "append")
    folder = scripts_in(
        tmp_path / "scripts", left=SIDE.format("join-0.left"), right=SIDE.format("join-0.right")
    )
    made = rewritten(
        spark,
        old,
        new,
        code.inner_pairs_of_initials,
        inputs=BOTH,
        migrations=folder,
        partitions=3,
    )
    assert [each.change for each in made.plan.operators] == ["keys"]
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    for number in (3, 4):
        for each in feeds:
            each.add(batch(number))
        expected = run(session, feeds, code.inner_pairs_of_initials, twin, "append")
        assert run(session, feeds, code.inner_pairs_of_initials, new, "append") == expected
        assert sum(map(len, expected.values())) > 0


IN_TABLES = """branch_labels = ("{0}",)
store = "{0}"
old = Struct("k STRING, v BIGINT, at TIMESTAMP, matched BOOLEAN")
new = old


def upgrade_table(table):
    import pyarrow as pa

    assert len(table["value"].to_pylist()[0]) == 4
    return pa.table({{"value": table["value"], "key": table["key"]}})
"""


def test_tables_have_the_rows_of_a_join(spark, feed, tmp_path):
    feeds = [feed, Feed(tmp_path / "others")]
    session = session_with(spark, "rocksdb")
    for each in feeds:
        each.add(batch(1), batch(2))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feeds, code.inner_pairs, old, "append")
    folder = scripts_in(
        tmp_path / "scripts",
        left=IN_TABLES.format("join-0.left"),
        right=IN_TABLES.format("join-0.right"),
    )
    made = rewritten(
        spark, old, new, code.inner_pairs, inputs=BOTH, migrations=folder, partitions=3
    )
    assert [each.change for each in made.plan.operators] == ["values"]
    assert verify(old, new, spark=spark, migrations=folder).problems == ()
    for each in feeds:
        each.add(batch(3))
    expected = run(session, feeds, code.inner_pairs, old, "append")
    assert run(session, feeds, code.inner_pairs, new, "append") == expected
    assert sum(map(len, expected.values())) > 0
