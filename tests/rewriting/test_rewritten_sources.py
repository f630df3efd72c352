"""Offsets and the watermark are kept, or set, and Spark goes on from there."""

import pytest
import rewritten_code as code
from rewritten_queries import accepting, rewritten, rows_of, run, session_with
from support.new_checkpoints import is_published

from statemigrate.checkpoint.shape import describe
from statemigrate.errors import RewriteError
from statemigrate.files import LocalFiles

pytestmark = pytest.mark.spark


@pytest.mark.long(weight=1 / 3)
def test_a_source_that_is_set_back_gives_its_files_again_with_the_state_kept(spark, feed, tmp_path):
    session = session_with(spark, "hdfs")
    feed.add(rows_of(("a", 1)), rows_of(("a", 10)), rows_of(("b", 100)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.totals, old)
    rewritten(spark, old, new, offsets={"0": {"logOffset": 0}})
    given = run(session, feed, code.totals, new)
    assert [list(rows) for rows in given.values()] == [
        ["Row(k='a', n=3, total=21)"],
        ["Row(k='b', n=2, total=200)"],
    ]


@pytest.mark.long
def test_a_watermark_that_is_set_back_takes_late_rows_again(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    feed.add(rows_of(("a", 1, 30)), rows_of(("a", 2, 400)))
    old, new = tmp_path / "old", tmp_path / "new"
    run(session, feed, code.windows_alone, old, "append")
    before = describe(LocalFiles(old))
    watermark = before.commits[before.batch].watermark - 360_000
    rewritten(spark, old, new, answers=accepting("watermark"), watermark=watermark)
    feed.add(rows_of(("a", 5, 35)), rows_of(("a", 7, 500)))
    again = run(session, feed, code.windows_alone, new, "append")
    kept = run(session, feed, code.windows_alone, old, "append")
    totals = [
        sorted(str(row).split("total=")[1] for rows in given.values() for row in rows)
        for given in (again, kept)
    ]
    assert totals == [["2)", "5)"], ["2)"]]


def test_a_query_of_this_very_spark_that_waits_for_rows_is_seen(spark, feed, tmp_path):
    session = session_with(spark, "hdfs")
    feed.add(rows_of(("a", 1)))
    old, new = tmp_path / "old", tmp_path / "new"
    writer = code.totals(feed.stream(session)).writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(old)).start()
    try:
        query.processAllAvailable()
        with pytest.raises(RewriteError, match="a query runs on") as caught:
            rewritten(spark, old, new)
        assert caught.value.data["query"] == query.id
    finally:
        query.stop()
    assert not new.exists()
    rewritten(spark, old, new)
    assert is_published(new)
