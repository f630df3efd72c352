"""`doctor` at the checkpoint of a real query on Spark's own state, and of its session's workers."""

import os
import sys
import time

import pytest
from tally import CentsTally, batch

from statemigrate import doctor

pytestmark = [pytest.mark.spark, pytest.mark.long(weight=1 / 2)]

RETAINED = "spark.sql.streaming.minBatchesToRetain"


@pytest.fixture
def checkpoint(spark, pipeline):
    """Of a query that keeps two batches and has run nine."""
    spark.conf.set(RETAINED, "2")
    try:
        for number in range(9):
            pipeline.feed(batch(f"b{number}", range(4)))
        pipeline.deploy_natively(CentsTally())
    finally:
        spark.conf.unset(RETAINED)
    return pipeline.checkpoint


def committed_apart(checkpoint, seconds):
    """Let the batches that are kept be so many seconds apart, the last of them now."""
    names = (path for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    newest_first = sorted(names, key=lambda path: -int(path.name))
    for number, path in enumerate(newest_first):
        at = time.time() - number * seconds
        os.utime(path, (at, at))
    return len(newest_first)


def test_all_is_said_of_a_query_that_is_in_order(spark, checkpoint):
    kept = committed_apart(checkpoint, 300)
    found = doctor(checkpoint, spark=spark)
    assert [each.subject for each in found.examined] == [
        "spark", "packages", "java", "temporary directory", "workers", "file system", "checkpoint",
        "rights", "retention", "maintenance", "chunk files", "holder",
    ]  # fmt: skip
    assert {each.subject: each.verdict for each in found.examined if each.verdict != "ok"} == {}
    workers = found.of("workers").data
    assert workers["executors"] == 1
    assert workers["pythons"][0]["executable"] == sys.executable
    assert workers["pythons"][0]["packages"]["pandas"]
    retention = found.of("retention").data
    assert retention["kept"] == kept < 9
    assert retention["window"] == pytest.approx((kept - 1) * 300, rel=0.01)
    assert found.of("holder").data["committed"] == 8


def test_batches_that_go_faster_than_a_look_are_a_problem(spark, checkpoint):
    committed_apart(checkpoint, 0.01)
    found = doctor(checkpoint, spark=spark, write=False)
    retention = found.of("retention")
    assert retention.verdict == "problem"
    assert retention.data["look"] > retention.data["window"]
    wanted = int(retention.next_action.partition(f"{RETAINED}=")[2].partition(",")[0])
    assert wanted * 0.01 > 2 * retention.data["look"]
    assert found.verdict == "problem"
